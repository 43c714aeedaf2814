// The frame of a Kineto file: top-level keys, order of events, metadata rows. Text leaves in pieces of about a
// megabyte.
#include "tests/support/kineto_text.h"

#include <algorithm>
#include <vector>

#include "tests/support/kineto_rows.h"
#include "tests/support/noise.h"

namespace profgpu::sim {
namespace {

constexpr size_t kPieceBytes = 1 << 20;

enum class RowKind : uint8_t {
  host_main,
  host_autograd,
  host_background,
  host_flow_main,
  host_flow_autograd,
  memory,
  python,
  device,
  device_flow,
  call,
  call_flow,
  sync,
  overhead,
  gpu_span
};

struct Ref {
  uint32_t row;
  RowKind kind;
  bool has_activity;
};

/// Every event of the file in the order of the file: operators thread by thread, memory, Python, then device activity
/// and calls by correlation, then what Kineto derives.
std::vector<Ref> file_order(const RankTrace& t, const KinetoStyle& style) {
  const bool old = style.generation == KinetoGeneration::v1_8;
  std::vector<Ref> order;
  order.reserve(event_rows(t) * 2);
  static constexpr ThreadSlot kThreads[] = {kAutogradThread, kMainThread, kBackgroundThread};
  static constexpr RowKind kHost[] = {RowKind::host_main, RowKind::host_autograd, RowKind::host_background};
  for (const ThreadSlot thread : kThreads) {
    const auto& rows = t.host[thread];
    std::vector<uint32_t> by(rows.size());
    for (uint32_t i = 0; i < by.size(); ++i) by[i] = i;
    // PyTorch 1.8 wrote operators as they ended, so children first.
    if (old) {
      const auto end_ns = [&](uint32_t i) { return rows[i].start_ns + rows[i].duration_ns; };
      std::sort(by.begin(), by.end(),
                [&](uint32_t a, uint32_t b) { return end_ns(a) != end_ns(b) ? end_ns(a) < end_ns(b) : a > b; });
    }
    for (const uint32_t i : by) {
      if (rows[i].step && !style.steps) continue;
      order.push_back({i, kHost[thread], false});
      if (!old && style.flows && rows[i].flow != 0)
        order.push_back({i, thread == kAutogradThread ? RowKind::host_flow_autograd : RowKind::host_flow_main, false});
    }
  }
  const auto all = [&](size_t count, RowKind kind) {
    for (uint32_t i = 0; i < count; ++i) order.push_back({i, kind, false});
  };
  if (style.memory) all(t.memory.size(), RowKind::memory);
  if (!old) all(t.python.size(), RowKind::python);
  size_t device = 0, sync = 0;
  for (uint32_t i = 0; i < t.calls.size(); ++i) {
    bool has_activity = false;
    for (; device < t.device_rows.size() && t.device_rows[device].correlation <= t.calls[i].correlation; ++device) {
      has_activity = t.device_rows[device].correlation == t.calls[i].correlation;
      order.push_back({static_cast<uint32_t>(device), RowKind::device, false});
      if (style.flows) order.push_back({static_cast<uint32_t>(device), RowKind::device_flow, false});
    }
    for (; !old && sync < t.syncs.size() && t.syncs[sync].correlation <= t.calls[i].correlation; ++sync)
      order.push_back({static_cast<uint32_t>(sync), RowKind::sync, false});
    order.push_back({i, RowKind::call, false});
    if (style.flows) order.push_back({i, RowKind::call_flow, has_activity});
  }
  if (!old) all(t.overhead.size(), RowKind::overhead);
  for (uint32_t i = 0; !old && i < t.gpu_spans.size(); ++i) {
    if (style.steps || !t.gpu_spans[i].step) order.push_back({i, RowKind::gpu_span, false});
  }
  return order;
}

void write_row(KinetoRows& rows, const RankTrace& t, const Ref& ref) {
  const size_t autograd = t.host[kAutogradThread].size(), main = t.host[kMainThread].size();
  const size_t operators = autograd + main + t.host[kBackgroundThread].size();
  switch (ref.kind) {
    case RowKind::host_autograd: return rows.host(kAutogradThread, ref.row, ref.row);
    case RowKind::host_main: return rows.host(kMainThread, ref.row, autograd + ref.row);
    case RowKind::host_background: return rows.host(kBackgroundThread, ref.row, autograd + main + ref.row);
    case RowKind::host_flow_main: return rows.host_flow(kMainThread, ref.row);
    case RowKind::host_flow_autograd: return rows.host_flow(kAutogradThread, ref.row);
    case RowKind::memory: return rows.memory(ref.row, operators + ref.row);
    case RowKind::python: return rows.python(ref.row, operators + t.memory.size() + ref.row);
    case RowKind::device: return rows.device(ref.row);
    case RowKind::device_flow: return rows.device_flow(ref.row);
    case RowKind::call: return rows.call(ref.row);
    case RowKind::call_flow: return rows.call_flow(ref.row, ref.has_activity);
    case RowKind::sync: return rows.sync(ref.row);
    case RowKind::overhead: return rows.overhead(ref.row);
    case RowKind::gpu_span: return rows.gpu_span(ref.row);
  }
}

int visible_devices(const RankTrace& t) { return t.cpu_only ? 0 : std::clamp(t.world_size, 1, 8); }

std::string group_list(const RankTrace& t) {
  std::string list;
  for (const Group& g : t.groups) {
    std::string ranks;
    for (const int r : g.ranks) ranks += (ranks.empty() ? "" : ", ") + std::to_string(r);
    list += (list.empty() ? "" : ", ") + std::string("{\"pg_name\": \"") + g.name + "\", \"pg_desc\": \"" +
            g.description + "\", \"backend_config\": \"cuda:nccl\", \"pg_size\": " + std::to_string(g.ranks.size()) +
            ", \"ranks\": [" + ranks + "]}";
  }
  return list;
}

void write_head(KinetoRows& rows, const RankTrace& t, const KinetoStyle& style) {
  std::string& out = rows.out;
  if (style.array) {
    out += "[\n";
    return;
  }
  out += rows.old() ? "\n{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [\n"
                    : "{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [\n";
  const int devices = visible_devices(t);
  for (int i = 0; i < devices; ++i) out += device_properties(t.gpu, i) + (i + 1 < devices ? ",\n" : "\n");
  out += "  ],\n";
  if (rows.old()) {
    out += "  \"traceEvents\": [\n";
    return;
  }
  if (!t.cpu_only)
    out += facts(t.gpu).amd ? "  \"roctracer_version\": 4.1,\n  \"hip_runtime_version\": 60443483,\n"
                            : "  \"cuda_runtime_version\": 12040,\n  \"cupti_version\": 22,\n";
  if (style.distributed_info && t.world_size > 1) {
    out += "  \"distributedInfo\": {\"backend\": \"nccl\", \"rank\": " + std::to_string(t.rank) +
           ", \"world_size\": " + std::to_string(t.world_size) + ", \"pg_count\": " + std::to_string(t.groups.size()) +
           ", \"pg_config\": [" + group_list(t) + "], \"nccl_version\": \"2.21.5\"},\n";
  }
  if (style.shapes) out += "  \"record_shapes\": 1,\n";
  if (style.memory) out += "  \"profile_memory\": 1,\n";
  if (!t.python.empty()) out += "  \"with_stack\": 1,\n";
  if (style.host_names && !t.host_name.empty()) out += "  \"host_name\": \"" + t.host_name + "\",\n";
  out += "  \"trace_id\": \"5EED" + std::string("0000000000000000000000000000").substr(0, 27) +
         std::to_string(t.rank % 10) + "\",\n  \"traceEvents\": [\n";
}

void metadata(KinetoRows& rows, const char* name, int64_t start, const std::string& pid, const std::string& tid,
              const std::string& value) {
  rows.out += std::string("  {\n    \"name\": \"") + name + "\", \"ph\": \"M\", \"ts\": ";
  rows.time(start);
  const std::string field = std::string(name).find("sort_index") != std::string::npos ? "sort_index"
                            : std::string(name).find("labels") != std::string::npos   ? "labels"
                                                                                      : "name";
  rows.out += ", \"pid\": " + pid + ", \"tid\": " + tid + ",\n    \"args\": {\n      \"" + field +
              "\": " + (field == "sort_index" ? value : "\"" + value + "\"") + "\n    }\n  },\n";
}

void write_metadata(KinetoRows& rows, const RankTrace& t) {
  const auto process = [&](int64_t pid, const std::string& label, int64_t sort) {
    metadata(rows, "process_name", t.start_ns, std::to_string(pid), "0", "python3");
    metadata(rows, "process_labels", t.start_ns, std::to_string(pid), "0", label);
    if (!rows.old()) metadata(rows, "process_sort_index", t.start_ns, std::to_string(pid), "0", std::to_string(sort));
  };
  process(t.pid, "CPU", t.pid);
  const int first = facts(t.gpu).first_device;
  for (int i = 0; i < 8 + first && !t.cpu_only; ++i) process(i, "GPU " + std::to_string(i), 5'000'000 + i);
  const auto thread = [&](int64_t pid, int64_t tid, const std::string& name, bool quoted) {
    const std::string id = quoted ? "\"" + std::to_string(tid) + "\"" : std::to_string(tid);
    metadata(rows, "thread_name", t.start_ns, std::to_string(pid), id, name);
    if (!rows.old()) metadata(rows, "thread_sort_index", t.start_ns, std::to_string(pid), id, std::to_string(tid));
  };
  bool used[kStreamSlots] = {};
  for (const DeviceRow& r : t.device_rows) used[r.stream] = true;
  for (int s = 0; s < kStreamSlots && !rows.old(); ++s) {
    const int number = facts(t.gpu).stream_numbers[s];
    if (used[s]) thread(t.device, number, "stream " + std::to_string(number) + " ", false);
  }
  for (int slot = 0; slot < kThreadSlots; ++slot) {
    if (!t.host[slot].empty())
      thread(t.pid, t.tids[slot], "thread " + std::to_string(t.tids[slot]) + " (python3)", rows.old());
  }
}

void write_tail(KinetoRows& rows, const RankTrace& t, const KinetoStyle& style) {
  std::string& out = rows.out;
  const int64_t start = t.start_ns - 21'000, duration = t.end_ns - start + 40'000;
  out += "  {\n    \"ph\": \"X\", \"cat\": \"Trace\", \"ts\": ";
  rows.time(start);
  out += ", \"dur\": ";
  rows.number(duration / 1000);
  if (!rows.old()) out += "." + std::to_string(1000 + duration % 1000).substr(1);
  out += std::string(",\n    \"pid\": \"") + (rows.old() ? "Traces" : "Spans") +
         "\", \"tid\": \"PyTorch Profiler\",\n    \"name\": \"PyTorch Profiler (0)\",\n    \"args\": {\n      \"Op "
         "count\": 0\n    }\n  },\n";
  if (!rows.old()) {
    out += "  {\n    \"name\": \"process_sort_index\", \"ph\": \"M\", \"ts\": ";
    rows.time(start);
    out += ",\n    \"pid\": \"Spans\", \"tid\": 0,\n    \"args\": {\n      \"sort_index\": 536870912\n    }\n  },\n";
  }
  out +=
      "  {\n    \"name\": \"Iteration Start: PyTorch Profiler\", \"ph\": \"i\", \"s\": \"g\",\n    \"pid\": "
      "\"Traces\", \"tid\": \"Trace PyTorch Profiler\", \"ts\": ";
  rows.time(start);
  out +=
      "\n  },\n  {\n    \"name\": \"Record Window End\", \"ph\": \"i\", \"s\": \"g\",\n    \"pid\": \"\", \"tid\": "
      "\"\", \"ts\": ";
  rows.time(t.end_ns + 38'000'000);
  out += "\n  }\n";
  if (style.array) out += "]\n";
  else if (rows.old()) out += "]}";
  else
    out += "  ],\n  \"traceName\": \"./traces/rank" + std::to_string(t.rank) +
           ".json\",\n  \"displayTimeUnit\": \"ms\",\n  \"baseTimeNanoseconds\": " + std::to_string(kBaseTimeNs) +
           "\n}";
}

}  // namespace

bool write_kineto(const RankTrace& trace, const KinetoStyle& style, const TextSink& sink) {
  KinetoRows rows(trace, style);
  rows.out.reserve(kPieceBytes + 16384);
  std::vector<Ref> order = file_order(trace, style);
  if (style.shuffle_seed != 0) {
    Noise noise;
    noise.reseed(style.shuffle_seed, 0, 0, 0);
    for (size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[static_cast<size_t>(noise.below(static_cast<int64_t>(i)))]);
  }
  write_head(rows, trace, style);
  for (const Ref& ref : order) {
    write_row(rows, trace, ref);
    if (rows.out.size() < kPieceBytes) continue;
    if (!sink(rows.out)) return false;
    rows.out.clear();
  }
  write_metadata(rows, trace);
  write_tail(rows, trace, style);
  return sink(rows.out);
}

std::string kineto_text(const RankTrace& trace, const KinetoStyle& style) {
  std::string text;
  write_kineto(trace, style, [&](std::string_view piece) {
    text += piece;
    return true;
  });
  return text;
}

}  // namespace profgpu::sim
