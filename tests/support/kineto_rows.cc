#include "tests/support/kineto_rows.h"

#include <algorithm>
#include <charconv>

namespace profgpu::sim {
namespace {

// PyTorch 2.x writes times since a quarter's start, 1.8 since the epoch; both traces below were taken in their year.
constexpr int64_t kOldEpochShiftNs = 1'623'142'623'460'016'000 - 4'458'676'388'068'751;

int64_t floor_us(int64_t ns) { return ns >= 0 ? ns / 1000 : -((-ns + 999) / 1000); }

// Of operators that launch nothing themselves.
ShapeText shape_of(const std::string& name) {
  if (name == "aten::addmm" || name == "aten::linear")
    return {
        "\"Concrete Inputs\": [\"\", \"\", \"\", \"1\", \"1\"], \"Input type\": [\"c10::BFloat16\", \"c10::BFloat16\", "
        "\"c10::BFloat16\", \"Scalar\", \"Scalar\"], \"Input Strides\": [[1], [1024, 1], [1, 1024], [], []], \"Input "
        "Dims\": [[3072], [16384, 1024], [1024, 3072], [], []]",
        "\"Input Dims\": [[3072], [16384, 1024], [1024, 3072], [], []]"};
  if (name == "aten::mm" || name == "aten::bmm")
    return {
        "\"Concrete Inputs\": [\"\", \"\"], \"Input type\": [\"c10::BFloat16\", \"c10::BFloat16\"], \"Input Strides\": "
        "[[3072, 1], [1024, 1]], \"Input Dims\": [[16384, 3072], [3072, 1024]]",
        "\"Input Dims\": [[16384, 3072], [3072, 1024]]"};
  if (name == "aten::transpose")
    return {
        "\"Concrete Inputs\": [\"\", \"0\", \"1\"], \"Input type\": [\"c10::BFloat16\", \"Scalar\", \"Scalar\"], "
        "\"Input Strides\": [[1024, 1], [], []], \"Input Dims\": [[3072, 1024], [], []]",
        "\"Input Dims\": [[3072, 1024], [], []]"};
  if (name == "aten::as_strided")
    return {
        "\"Concrete Inputs\": [\"\", \"[1024, 3072]\", \"[1, 1024]\", \"\"], \"Input type\": [\"c10::BFloat16\", "
        "\"ScalarList\", \"ScalarList\", \"\"], \"Input Strides\": [[1024, 1], [], [], []], \"Input Dims\": [[3072, "
        "1024], [], [], []]",
        "\"Input Dims\": [[3072, 1024], [], [], []]"};
  if (name == "aten::native_layer_norm" || name == "aten::layer_norm")
    return {
        "\"Concrete Inputs\": [\"\", \"[1024]\", \"\", \"\", \"1.0000000000000001e-05\"], \"Input type\": "
        "[\"c10::BFloat16\", \"ScalarList\", \"c10::BFloat16\", \"c10::BFloat16\", \"Scalar\"], \"Input Strides\": "
        "[[1048576, 1024, 1], [], [1], [1], []], \"Input Dims\": [[16, 1024, 1024], [], [1024], [1024], []]",
        "\"Input Dims\": [[16, 1024, 1024], [], [1024], [1024], []]"};
  if (name == "aten::empty" || name == "aten::empty_strided")
    return {
        "\"Concrete Inputs\": [\"[16, 1024, 1024]\", \"15\", \"\", \"\", \"False\", \"\"], \"Input type\": "
        "[\"ScalarList\", \"Scalar\", \"\", \"\", \"Scalar\", \"\"], \"Input Strides\": [[], [], [], [], [], []], "
        "\"Input Dims\": [[], [], [], [], [], []]",
        "\"Input Dims\": [[], [], [], [], [], []]"};
  if (name.compare(0, 6, "aten::") == 0)
    return {
        "\"Concrete Inputs\": [\"\", \"\"], \"Input type\": [\"c10::BFloat16\", \"c10::BFloat16\"], \"Input Strides\": "
        "[[1048576, 1024, 1], [1048576, 1024, 1]], \"Input Dims\": [[16, 1024, 1024], [16, 1024, 1024]]",
        "\"Input Dims\": [[16, 1024, 1024], [16, 1024, 1024]]"};
  return {};
}

}  // namespace

WrittenTime written(const RankTrace& trace, int64_t start_ns, int64_t duration_ns, const KinetoStyle& style) {
  const int64_t start = drifted(trace, start_ns), stop = drifted(trace, start_ns + duration_ns);
  if (style.generation == KinetoGeneration::v2) return {start, stop - start};
  const int64_t begin = floor_us(start), end = floor_us(stop);
  return {begin * 1000, (end - begin) * 1000};
}

void KinetoRows::number(int64_t value) {
  char buffer[24];
  out.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
}

void KinetoRows::time(int64_t ns) {
  // The shift is added after rounding, so that shifting a trace changes its times and nothing else.
  const int64_t shift = style_.time_shift_ns + t_.clock.offset_ns;
  ns = drifted(t_, ns);
  if (old_) return number(floor_us(ns) + (kOldEpochShiftNs + shift) / 1000);
  ns += shift;
  if (ns < 0) {
    out += '-';
    ns = -ns;
  }
  number(ns / 1000);
  const auto fraction = static_cast<int>(ns % 1000);
  const char digits[4] = {'.', static_cast<char>('0' + fraction / 100), static_cast<char>('0' + fraction / 10 % 10),
                          static_cast<char>('0' + fraction % 10)};
  out.append(digits, 4);
}

void KinetoRows::duration(int64_t start, int64_t ns) {
  ns = written(t_, start, ns, style_).duration_ns;
  if (old_) return number(ns / 1000);
  number(ns / 1000);
  const auto fraction = static_cast<int>(ns % 1000);
  const char digits[4] = {'.', static_cast<char>('0' + fraction / 100), static_cast<char>('0' + fraction / 10 % 10),
                          static_cast<char>('0' + fraction % 10)};
  out.append(digits, 4);
}

void KinetoRows::head(const char* category, const std::string& name, int64_t pid, int64_t tid, const char* tid_prefix,
                      int64_t start, int64_t ns) {
  out += "  {\n    \"ph\": \"X\", \"cat\": \"";
  out += category;
  out += old_ ? "\", \n    \"name\": \"" : "\", \"name\": \"";
  out += name;
  out += "\", \"pid\": ";
  number(pid);
  out += ", \"tid\": ";
  if (old_) out += '"', out += tid_prefix;
  number(tid);
  if (old_) out += '"';
  out += ",\n    \"ts\": ";
  time(start);
  out += ", \"dur\": ";
  duration(start, ns);
  out += ",\n    \"args\": {\n      ";
}

void KinetoRows::flow(char phase, uint32_t id, int64_t pid, int64_t tid, const char* tid_prefix, int64_t start,
                      const char* category) {
  out += "  {\n    \"ph\": \"";
  out += phase;
  out += "\", \"id\": ";
  number(id);
  out += ", \"pid\": ";
  number(pid);
  out += ", \"tid\": ";
  const bool quoted = old_ && *tid_prefix != '\0';
  if (quoted) out += '"', out += tid_prefix;
  number(tid);
  if (quoted) out += '"';
  out += ", \"ts\": ";
  time(start);
  out += ",\n    \"cat\": \"";
  out += old_ ? "async\", \"name\": \"launch\"" : category;
  if (!old_) out += "\", \"name\": \"", out += category, out += '"';
  if (phase == 'f') out += ", \"bp\": \"e\"";
  out += "\n  },\n";
}

const ShapeText& KinetoRows::shapes_of_row(const HostRow& row) {
  const auto [it, fresh] = shapes_.try_emplace({row.name, row.role, row.batch_permille});
  if (fresh && row.role != 0xFF)
    it->second = shapes_of_role(static_cast<Role>(row.role), t_.gpu, row.batch_permille, t_.full_precision,
                                t_.odd_sizes);
  if (fresh && it->second.v2.empty()) it->second = shape_of(t_.names[row.name]);
  return it->second;
}

void KinetoRows::shapes(const HostRow& row) {
  if (!style_.shapes) return;
  const ShapeText& text = shapes_of_row(row);
  if (old_) {
    if (!text.v1_8.empty()) out += text.v1_8, out += ", ";
    out +=
        "\"Call stack\": \"/opt/conda/lib/python3.8/site-packages/torch/nn/modules/module.py(889): "
        "_call_impl;train.py(112): train_step;train.py(161): train;train.py(184): <module>\"";
  } else if (!text.v2.empty()) {
    out += text.v2, out += ", ";
  }
}

void KinetoRows::host(ThreadSlot thread, size_t row, size_t event_index) {
  const HostRow& r = t_.host[thread][row];
  const std::string& name = t_.names[r.name];
  head(old_                     ? "Operator"
       : r.kind == HostKind::op ? "cpu_op"
                                : "user_annotation",
       name, t_.pid, t_.tids[thread], "", r.start_ns, r.duration_ns);
  if (old_) {
    out += "\"Device\": ", number(t_.pid), out += ", \"External id\": ", number(r.external_id);
    out += ",\n      \"Trace name\": \"PyTorch Profiler\", \"Trace iteration\": 0";
    if (r.sequence != kNone)
      out += ",\n      \"Fwd thread id\": ", number(r.backward ? 1 : 0),
          out += ", \"Sequence number\": ", number(r.sequence);
    if (style_.shapes) out += " ,\n      ", shapes(r);
    return tail();
  }
  out += "\"External id\": ", number(r.external_id), out += ",\"Record function id\": 0, ";
  if (r.sequence != kNone)
    out += "\"Sequence number\": ", number(r.sequence), out += ", \"Fwd thread id\": ", number(r.backward ? 1 : 0),
        out += ", ";
  if (r.collective != kNone && style_.collective_arguments) collective(r.collective), out += ", ";
  shapes(r);
  out += "\"Ev Idx\": ", number(static_cast<int64_t>(event_index));
  tail();
}

void KinetoRows::host_flow(ThreadSlot thread, size_t row) {
  const HostRow& r = t_.host[thread][row];
  flow(r.backward ? 'f' : 's', r.flow, t_.pid, t_.tids[thread], "", r.start_ns, "fwdbwd");
}

void KinetoRows::memory(size_t row, size_t event_index) {
  const MemoryRow& r = t_.memory[row];
  if (old_) {
    out += "  {\n    \"ph\": \"i\", \"s\": \"t\", \"name\": \"[memory]\",\n    \"pid\": ", number(t_.pid),
        out += ", \"tid\": ", number(t_.tids[r.thread]);
    out += ",\n    \"ts\": ", time(r.time_ns),
        out += ",\n    \"args\": {\n      \"Device Type\": 1, \"Device Id\": ", number(t_.device),
        out += ", \"Bytes\": ", number(r.bytes);
    return tail();
  }
  out += "  {\n    \"ph\": \"i\", \"cat\": \"cpu_instant_event\", \"s\": \"t\", \"name\": \"[memory]\",\n    \"pid\": ",
      number(t_.pid), out += ", \"tid\": ", number(t_.tids[r.thread]);
  out += ",\n    \"ts\": ", time(r.time_ns),
      out += ",\n    \"args\": {\n      \"Total Reserved\": ", number(t_.cpu_only ? 0 : r.reserved_bytes);
  out += ", \"Total Allocated\": ", number(r.allocated_bytes), out += ", \"Bytes\": ", number(r.bytes),
      out += ", \"Addr\": ", number(static_cast<int64_t>(r.address));
  out += ", \"Device Id\": ", number(t_.cpu_only ? -1 : t_.device - facts_.first_device), out += ", \"Device Type\": ",
      number(t_.cpu_only  ? 0
             : facts_.amd ? 6
                          : 1);
  out += ", \"Ev Idx\": ", number(static_cast<int64_t>(event_index));
  tail();
}

void KinetoRows::python(size_t row, size_t event_index) {
  const PythonRow& r = t_.python[row];
  head("python_function", t_.names[r.name], t_.pid, t_.tids[r.thread], "", r.start_ns, r.duration_ns);
  out += "\"Python parent id\": ";
  if (r.parent == 0) out += "null";
  else number(r.parent);
  out += ", \"Python id\": ", number(r.id);
  if (t_.names[r.name].compare(0, 11, "nn.Module: ") == 0) out += ", \"Python module id\": 0";
  out += ", \"Ev Idx\": ", number(static_cast<int64_t>(event_index));
  tail();
}

void KinetoRows::geometry(const Geometry& g) {
  out += "\"grid\": [", number(g.grid[0]), out += ", ", number(g.grid[1]), out += ", ", number(g.grid[2]);
  out += old_ ? "],\n      \"block\": [" : "],      \"block\": [", number(g.block[0]), out += ", ", number(g.block[1]),
      out += ", ", number(g.block[2]), out += "]";
}

void KinetoRows::ratio(int64_t numerator, int64_t denominator) {
  char buffer[40];
  const double value = static_cast<double>(numerator) / static_cast<double>(denominator < 1 ? 1 : denominator);
  out.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed, 6).ptr);
}

void KinetoRows::call(size_t row) {
  const CallRow& r = t_.calls[row];
  const ApiName& api = api_name(t_.gpu, static_cast<Api>(r.api));
  head(old_         ? "Runtime"
       : api.driver ? "cuda_driver"
                    : "cuda_runtime",
       api.name, t_.pid, t_.tids[r.thread], "", r.start_ns, r.duration_ns);
  if (old_) {
    out += "\"cbid\": ", number(api.id), out += ", \"correlation\": ", number(r.correlation);
    out += ",\n      \"external id\": ", number(r.external_id), out += ", \"external ts\": ", time(r.start_ns - 2000);
    return tail();
  }
  if (r.external_id != 0) out += "\"External id\": ", number(r.external_id), out += ",      ";
  if (facts_.amd) {
    const bool kernel_launch = r.detail != kNone && static_cast<Api>(r.api) <= Api::launch_driver;
    if (kernel_launch)
      out += "    \"kernel\": \"", out += kernel(t_.gpu, static_cast<Role>(r.detail), false, false).name, out += "\", ";
    out += "\"cid\": ", number(api.id), out += ", \"correlation\": ", number(r.correlation);
    if (kernel_launch) out += ",      ", geometry(geometry_of(r.detail)), out += ",      \"shared memory\": 0";
  } else {
    out += "\"cbid\": ", number(api.id), out += ", \"correlation\": ", number(r.correlation);
  }
  tail();
}

/// A call with activity starts a flow that ends there. Kineto since 2.0 also writes an end, at the call itself, for
/// calls of other kinds; it means nothing and readers have to cope.
void KinetoRows::call_flow(size_t row, bool has_activity) {
  const CallRow& r = t_.calls[row];
  if (old_ && !has_activity) return;
  flow(r.links ? 's' : 'f', r.correlation, t_.pid, t_.tids[r.thread], "", r.start_ns, "ac2g");
}

void KinetoRows::device(size_t row) {
  const DeviceRow& r = t_.device_rows[row];
  const int stream = facts_.stream_numbers[r.stream];
  static const char* const kCategories[2][3] = {{"kernel", "gpu_memcpy", "gpu_memset"}, {"Kernel", "Memcpy", "Memset"}};
  head(kCategories[old_][static_cast<int>(r.kind)], t_.names[r.name], t_.device, stream, "stream ", r.start_ns,
       r.duration_ns);
  const char* gap = old_ ? ",\n      " : ",      ";
  const bool is_kernel = r.kind == DeviceKind::kernel;
  if (!old_ && r.external_id != 0) out += "\"External id\": ", number(r.external_id), out += gap;
  if (is_kernel && !facts_.amd) out += "\"queued\": 0, ";
  out += "\"device\": ", number(t_.device);
  if (facts_.amd) out += ", \"stream\": ", number(stream), out += gap;
  else out += ", \"context\": 1", out += gap, out += "\"stream\": ", number(stream), out += ", ";
  out += "\"correlation\": ", number(r.correlation);
  if (old_) out += ", \"external id\": ", number(r.external_id);
  if (facts_.amd)
    out += is_kernel                      ? ", \"kind\": \"Dispatch Kernel\""
           : r.kind == DeviceKind::memset ? ", \"kind\": \"Device\""
           : t_.names[r.name][7] == 'H'   ? ", \"kind\": \"HtoD\""
                                          : ", \"kind\": \"DtoH\"";
  if (!is_kernel) {
    out += facts_.amd ? ", " : gap;
    out += "\"bytes\": ", number(static_cast<int64_t>(r.bytes)), out += ", \"memory bandwidth (GB/s)\": ";
    ratio(static_cast<int64_t>(r.bytes), written(t_, r.start_ns, r.duration_ns, style_).duration_ns);
  } else if (!facts_.amd) {
    Geometry g = geometry_of(r.geometry);
    // Blocks come in whole numbers: the longest side is the least wrong.
    int& longest = *std::max_element(std::begin(g.grid), std::end(g.grid));
    if (r.work_permille != 1000) longest = (longest * r.work_permille + 500) / 1000;
    const int64_t blocks = int64_t{g.grid[0]} * g.grid[1] * g.grid[2], warps = blocks * g.block[0] * g.block[1] / 32;
    const int64_t sms = t_.gpu == Gpu::a100 ? 108 : 132;
    out += gap, out += "\"registers per thread\": ", number(g.registers), out += gap,
        out += "\"shared memory\": ", number(g.shared_bytes);
    out += gap, out += "\"blocks per SM\": ", ratio(blocks, sms), out += gap,
        out += "\"warps per SM\": ", ratio(warps, sms);
    out += gap, geometry(g), out += gap,
        out += "\"est. achieved occupancy %\": ", number(warps / sms > 64 ? 100 : warps * 100 / sms / 64);
    if (!old_ && r.collective != kNone && style_.collective_arguments) out += ", ", collective(r.collective);
  }
  tail();
}

void KinetoRows::device_flow(size_t row) {
  const DeviceRow& r = t_.device_rows[row];
  flow('f', r.correlation, t_.device, facts_.stream_numbers[r.stream], "stream ", r.start_ns, "ac2g");
}

/// PyTorch writes the first thirty members of a larger group.
void KinetoRows::members(const Group& group) {
  constexpr size_t kMaxWritten = 30;
  for (size_t i = 0; i < std::min(group.ranks.size(), kMaxWritten); ++i)
    out += i > 0 ? ", " : "", number(group.ranks[i]);
  if (group.ranks.size() > kMaxWritten) out += ", ...";
}

void KinetoRows::collective(uint32_t row) {
  const Collective& c = t_.collectives[row];
  const Group& group = t_.groups[c.group];
  out += "\"Collective name\": \"", out += c.name, out += "\", \"In msg nelems\": ", number(c.in_elements),
      out += ", \"Out msg nelems\": ", number(c.out_elements);
  out += ", \"Group size\": ", number(static_cast<int64_t>(group.ranks.size()));
  out += ", \"dtype\": \"BFloat16\", \"In split size\": \"[]\", \"Out split size\": \"[]\", \"Process Group Name\": \"",
      out += group.name;
  out += "\", \"Process Group Description\": \"", out += group.description, out += '"';
  if (style_.group_ranks) out += ", \"Process Group Ranks\": \"[", members(group), out += "]\"";
  if (c.source >= 0) out += ", \"Src Rank\": ", number(c.source);
  if (c.destination >= 0) out += ", \"Dst Rank\": ", number(c.destination);
  if (style_.sequence_numbers) out += ", \"Seq\": ", number(c.sequence);
}

void KinetoRows::sync(size_t row) {
  const SyncRow& r = t_.syncs[row];
  const std::string& name = t_.names[r.name];
  head("cuda_sync", name, t_.device, r.stream, "stream ", r.start_ns, r.duration_ns);
  out += "\"External id\": ", number(r.external_id), out += ",      \"cuda_sync_kind\": \"", out += name,
      out += "\",      ";
  if (r.record_correlation != 0)
    out += "\"wait_on_stream\": ", number(r.waits_for),
        out += ",      \"wait_on_cuda_event_record_corr_id\": ", number(r.record_correlation),
        out += ",      \"wait_on_cuda_event_id\": 19,      ";
  out += "\"stream\": ", number(r.stream), out += ", \"correlation\": ", number(r.correlation),
      out += ",      \"device\": ", number(t_.device), out += ", \"context\": 1";
  tail();
}

void KinetoRows::overhead(size_t row) {
  const OverheadRow& r = t_.overhead[row];
  head("overhead", t_.names[r.name], -1, 0, "", r.start_ns, r.duration_ns);
  tail();
}

void KinetoRows::gpu_span(size_t row) {
  const GpuSpan& r = t_.gpu_spans[row];
  head("gpu_user_annotation", t_.names[r.name], t_.device, facts_.stream_numbers[r.stream], "stream ", r.start_ns,
       r.end_ns - r.start_ns);
  out += "\"External id\": ", number(r.external_id);
  tail();
}

}  // namespace profgpu::sim
