#include "trace/import/xla_rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/decimal.h"
#include "base/text.h"
#include "trace/import/recording_rows.h"
#include "trace/import/said_issues.h"

namespace profgpu {
namespace {

using std::string_view;

constexpr int64_t kLatestXla_ns = INT64_MAX / 4;   // as for other formats: sums and differences cannot overflow

/// The number behind a word of "regs:32 static_shared:0 grid:4,1,1 size:1024".
int64_t detail(string_view details, string_view word) {
  for (const string_view part : pieces_of(details, ' '))
    if (part.starts_with(word) && part.size() > word.size() && part[word.size()] == ':')
      return whole_number(part.substr(word.size() + 1)).value_or(0);
  return 0;
}

void detail_triple(string_view details, string_view word, int32_t (&to)[3]) {
  for (const string_view part : pieces_of(details, ' ')) {
    if (!part.starts_with(word) || part.size() <= word.size() || part[word.size()] != ':') continue;
    const std::vector<string_view> numbers = pieces_of(part.substr(word.size() + 1), ',');
    for (size_t i = 0; i < std::min<size_t>(numbers.size(), 3); ++i)
      to[i] = static_cast<int32_t>(std::clamp<int64_t>(whole_number(numbers[i]).value_or(0), 0, INT32_MAX));
  }
}

// CUpti_ActivityMemoryKind, which copy_name() takes.
int memory_kind(string_view details, string_view word) {
  constexpr string_view kNames[] = {"", "pageable", "pinned", "device", "array", "managed"};
  for (const string_view part : pieces_of(details, ' '))
    if (part.starts_with(word) && part.size() > word.size() && part[word.size()] == ':')
      for (size_t i = 1; i < std::size(kNames); ++i)
        if (part.substr(word.size() + 1) == kNames[i]) return static_cast<int>(i);
  return 0;
}

// CUpti_ActivityMemcpyKind; 0: unknown; -1: no copy.
int copy_kind(string_view name) {
  constexpr std::pair<string_view, int> kKinds[] = {
      {"MemcpyH2D", 1}, {"MemcpyD2H", 2}, {"MemcpyD2D", 8}, {"MemcpyP2P", 10}, {"MemcpyOther", 0}};
  for (const auto& [text, kind] : kKinds)
    if (name == text) return kind;
  return -1;
}

/// "core.py(803): bind" for "$core.py:803 bind", "<built-in function len>" for "$builtins len".
std::string python_frame(string_view name) {
  name.remove_prefix(1);
  const size_t blank = name.find(' ');
  const string_view place = name.substr(0, blank), function = blank == name.npos ? "" : name.substr(blank + 1);
  const size_t colon = place.rfind(':');
  if (colon != place.npos && all_digits(place.substr(colon + 1)))
    return fmt::format("{}({}): {}", place.substr(0, colon), place.substr(colon + 1), function);
  if (place == "builtins") return fmt::format("<built-in function {}>", function);
  return fmt::format("<built-in function {}{}{}>", place, function.empty() ? "" : ".", function);
}

bool is_driver_call(string_view name) {
  return name.size() > 2 && name.starts_with("cu") && is_upper(name[2]);
}
bool is_runtime_call(string_view name) {
  return (name.starts_with("cuda") && name.size() > 4 && is_upper(name[4])) ||
         (name.starts_with("hip") && name.size() > 3 && is_upper(name[3]));
}

uint32_t correlation_of(const std::string& text) {
  const auto value = whole_number(text);
  return value && *value > 0 && *value <= UINT32_MAX ? static_cast<uint32_t>(*value) : 0;
}

std::string stat_of(const XlaEvent& event, string_view name) {
  return event.stat != nullptr ? (*event.stat)(name) : std::string();
}

// "fusion.12" that is a collective: "all-reduce: fusion.12"; likewise of matrix products, which XLA calls convolutions,
// of transfers and of changes of layout.
std::string operation_name(const XlaEvent& event) {
  constexpr string_view kCategories[] = {"all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute",
                                         "convolution", "infeed", "outfeed", "copy", "data formatting"};
  const std::string category = stat_of(event, "hlo_category");
  for (const string_view known : kCategories)
    if (category.starts_with(known) && !contains(event.name, known)) return fmt::format("{}: {}", known, event.name);
  return std::string(event.name);
}

// "copy.3", "copy-start.1", "copy: fusion.2"
bool is_operation(string_view name, string_view operation) {
  if (!name.starts_with(operation)) return false;
  const string_view rest = name.substr(operation.size());
  return rest.empty() || rest.front() == '.' || rest.front() == '-' || rest.front() == ':';
}

// Moves data, and computes nothing.
bool moves_data(string_view name) {
  constexpr string_view kOperations[] = {"copy", "data formatting", "outfeed"};
  return std::ranges::any_of(kOperations, [&](string_view operation) { return is_operation(name, operation); });
}

}  // namespace

XlaLine xla_line(string_view plane, string_view line, string_view process, string_view thread) {
  XlaLine found;
  found.process = process, found.thread = thread, found.name = line;
  constexpr string_view kDevice = "/device:", kStream = "Stream #";
  const size_t at = plane.find(kDevice);
  if (at == plane.npos) {
    if (contains(plane, "/host:") && !contains(plane, "/host:metadata")) found.kind = XlaLine::Kind::kHost;
    return found;
  }
  const std::vector<string_view> parts = pieces_of(plane.substr(at + kDevice.size()), ':');   // GPU, 0
  if (parts.size() > 1)
    if (const auto number = leading_number(parts[1]); number && number->value >= 0 && number->value < 1024)
      found.device = static_cast<int32_t>(number->value);
  found.device_type = parts.empty() ? "" : parts[0].substr(0, 16);
  if (line.starts_with(kStream)) {
    found.kind = XlaLine::Kind::kStream;
    if (const auto number = leading_number(line.substr(kStream.size())); number && number->value < 1e9)
      found.stream = static_cast<int64_t>(number->value);
  } else if (line == "XLA Ops") {
    found.kind = XlaLine::Kind::kOps;
  } else if (line == "Async XLA Ops") {
    found.kind = XlaLine::Kind::kAsyncOps, found.stream = 1;
  } else if (line == "Steps") {
    found.kind = XlaLine::Kind::kSteps;
  } else {
    found.kind = XlaLine::Kind::kDerived;
  }
  return found;
}

bool XlaRows::in_time(const XlaEvent& event) {
  ++shard_.events;
  if (event.start_ns < 0 || event.start_ns >= kLatestXla_ns || event.duration_ns >= kLongestNs)
    return ++shard_.issues[TraceIssueKind::kOutOfRange], false;
  if (event.duration_ns < 0) return ++shard_.issues[TraceIssueKind::kNegativeDuration], false;
  return true;
}

void XlaRows::add(const XlaLine& line, const XlaEvent& event) {
  using Kind = XlaLine::Kind;
  if (line.kind == Kind::kUnknown) return void(++unknown_);
  if (line.kind == Kind::kDerived) return void(++derived_);
  if (!in_time(event)) return;
  switch (line.kind) {
    case Kind::kHost: return add_host(line, event);
    case Kind::kStream: has_streams_[line.device] = true; return add_activity(line, event);
    default: later_.push_back({line, operation_name(event), event.start_ns, event.duration_ns});
  }
  if (line.kind != Kind::kSteps) device_types_.try_emplace(line.device, line.device_type);
}

void XlaRows::name_devices(std::vector<DeviceProperties>& devices) const {
  for (const auto& [id, type] : device_types_) {
    const auto known = std::ranges::find(devices, id, &DeviceProperties::id);
    if (known != devices.end() && known->name.empty() && type == "TPU") known->name = type;
    if (known != devices.end() || type != "TPU") continue;
    DeviceProperties device;
    device.id = id, device.name = type;
    devices.push_back(device);
  }
}

void XlaRows::add_range(const XlaLine& line, string_view name, int64_t start_ns, int64_t duration_ns, HostKind kind,
                        uint32_t link) {
  HostRow row;
  row.start_ns = start_ns;
  row.duration_ns = duration_ns;
  row.name = shard_.strings.intern(name.empty() ? "(no name)" : name);
  row.kind = kind;
  row.thread = static_cast<uint16_t>(shard_.thread(line.process, line.thread));
  row.link = link;
  shard_.host.push_back(row);
  if (line.name.empty() || (line.thread == named_.second && line.process == named_.first)) return;
  shard_.name_thread(line.process, line.thread, line.name);
  named_ = {line.process, line.thread};
}

void XlaRows::add_host(const XlaLine& line, const XlaEvent& event) {
  const auto range = [&](string_view name, HostKind kind, uint32_t link = 0) {
    add_range(line, name, event.start_ns, event.duration_ns, kind, link);
  };
  if (event.name.starts_with('$')) return range(python_frame(event.name), HostKind::kPython);
  if (is_driver_call(event.name) || is_runtime_call(event.name))
    return range(event.name, is_driver_call(event.name) ? HostKind::kDriver : HostKind::kRuntime,
                 correlation_of(stat_of(event, "correlation_id")));
  // The range that a program opens for each step has one name, and the step's number beside it.
  if (const std::string step = stat_of(event, "step_num"); all_digits(step)) {
    has_steps_ = true;
    range("step " + step, HostKind::kAnnotation);
    if (event.name == "step") return;
    std::string text = R"({"name": ")";
    for (const char c : event.name)
      if (c != '"' && c != '\\' && static_cast<unsigned char>(c) >= ' ') text += c;
    shard_.host_arguments.emplace_back(shard_.host.size() - 1, shard_.strings.intern(text + "\"}"));
    return;
  }
  const bool op = event.stat != nullptr && (!stat_of(event, "hlo_op").empty() || !stat_of(event, "tf_op").empty() ||
                                            !stat_of(event, "long_name").empty());
  range(event.name, op ? HostKind::kOp : HostKind::kAnnotation);
}

void XlaRows::add_activity(const XlaLine& line, const XlaEvent& event) {
  ActivityArgs args;
  ActivityRow row;
  row.start_ns = event.start_ns;
  row.duration_ns = event.duration_ns;
  row.correlation = correlation_of(stat_of(event, "correlation_id"));
  std::string name(event.name);
  if (const int kind = copy_kind(event.name); kind >= 0) {
    const std::string details = stat_of(event, "memcpy_details");
    row.kind = ActivityKind::kMemcpy;
    name = copy_name(kind, memory_kind(details, "kind_src"), memory_kind(details, "kind_dst"));
    if (!details.empty()) args.bytes = std::max<int64_t>(detail(details, "size"), -1);
  } else if (event.name == "Memset") {
    const std::string details = stat_of(event, "memset_details");
    row.kind = ActivityKind::kMemset;
    name = set_name(memory_kind(details, "kind"));
    if (!details.empty()) args.bytes = std::max<int64_t>(detail(details, "num_bytes"), -1);
  } else if (line.kind != XlaLine::Kind::kStream && moves_data(event.name)) {
    row.kind = ActivityKind::kMemcpy;
  } else {
    const std::string details = stat_of(event, "kernel_details");
    const auto size = [&](string_view word) {
      return static_cast<int32_t>(std::clamp<int64_t>(detail(details, word), 0, INT32_MAX / 2));
    };
    args.registers = size("regs");
    args.shared_bytes = size("static_shared") + size("dynamic_shared");
    detail_triple(details, "grid", args.grid);
    detail_triple(details, "block", args.block);
  }
  row.name = shard_.strings.intern(name.empty() ? "(no name)" : name);
  row.queue = shard_.queue({line.device, line.stream, 0});
  row.args = shard_.activity_args(args);
  shard_.activity.push_back(row);
}

// Of a line, an operation that begins before another one ends and lasts as long contains it.
void XlaRows::mark_containers() {
  std::map<std::pair<int32_t, std::string>, std::vector<Later*>> lines;
  for (Later& l : later_)
    if (l.line.kind == XlaLine::Kind::kOps) lines[{l.line.device, l.line.thread}].push_back(&l);
  for (auto& [line, operations] : lines) {
    std::ranges::stable_sort(operations, [](const Later* a, const Later* b) {
      return std::pair(a->start_ns, -a->duration_ns) < std::pair(b->start_ns, -b->duration_ns);
    });
    std::vector<Later*> open;
    for (Later* l : operations) {
      while (!open.empty() && open.back()->start_ns + open.back()->duration_ns <= l->start_ns) open.pop_back();
      const bool within = !open.empty() && l->duration_ns > 0 &&
                          l->start_ns + l->duration_ns <= open.back()->start_ns + open.back()->duration_ns;
      if (within) open.back()->contains = true;
      open.push_back(l);
    }
  }
}

void XlaRows::finish() {
  mark_containers();
  for (const Later& l : later_) {
    const bool step = l.line.kind == XlaLine::Kind::kSteps;
    if (step ? has_steps_ || !all_digits(l.name) : has_streams_[l.line.device]) {
      ++derived_;
      continue;
    }
    if (step) {
      add_range(l.line, "step " + l.name, l.start_ns, l.duration_ns, HostKind::kAnnotation);
      continue;
    }
    if (l.contains) {
      ++containers_;
      continue;
    }
    if (is_operation(l.name, "infeed")) {   // the device waits for the host's data
      add_range(l.line, l.name, l.start_ns, l.duration_ns, HostKind::kAnnotation);
      continue;
    }
    add_activity(l.line, {l.name, l.start_ns, l.duration_ns, nullptr});
  }
  later_.clear();
}

void add_xla_issues(const XlaRows& rows, const IssueCounts& counts, Trace& trace) {
  add_counts(trace, counts,
             {{TraceIssueKind::kNegativeDuration, "events left out because their duration is negative: {}"},
              {TraceIssueKind::kOutOfRange, "events left out because a time is missing or out of range: {}"}});
  add_count(trace, TraceIssueKind::kNote, rows.derived(),
            "events of lines that show the same time once more, such as XLA Modules: {}");
  if (rows.containers() > 0)
    trace.issues.push_back({TraceIssueKind::kNote, rows.containers(),
                            fmt::format("operations that contain others, such as loops, whose time counts as that of those "
                                        "within: {}",
                                        format_count(rows.containers()))});
  add_count(trace, TraceIssueKind::kUnknownRows, rows.unknown(),
            "events of neither a host nor a device, which are not read: {}");
}

}  // namespace profgpu
