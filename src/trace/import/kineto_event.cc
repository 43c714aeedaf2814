// Budget: 1 ns a byte of text on one core; two hash look-ups an event (name, thread), no allocation for known strings.
#include "trace/import/kineto_event.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/decimal.h"
#include "base/hash.h"
#include "base/text.h"
#include "trace/import/execution_trace.h"
#include "trace/import/kernel_symbol.h"

namespace profgpu {
namespace {

using std::string_view;

constexpr std::array<std::pair<string_view, EventClass>, 37> kCategories = {{
    {"cpu_op", EventClass::kOp}, {"Operator", EventClass::kOp}, {"operator", EventClass::kOp},
    {"user_annotation", EventClass::kAnnotation}, {"python_function", EventClass::kPython},
    {"cuda_runtime", EventClass::kRuntime}, {"Runtime", EventClass::kRuntime},
    {"cuda_driver", EventClass::kDriver}, {"Driver", EventClass::kDriver},
    {"overhead", EventClass::kOverhead}, {"Overhead", EventClass::kOverhead},
    {"library_call", EventClass::kLibrary}, {"system_call", EventClass::kSystem},   // of our own export
    {"kernel", EventClass::kKernel}, {"Kernel", EventClass::kKernel},
    {"mtia_ccp_events", EventClass::kKernel}, {"hpu_op", EventClass::kKernel}, {"concurrent_kernel", EventClass::kKernel},
    {"gpu_memcpy", EventClass::kMemcpy}, {"Memcpy", EventClass::kMemcpy},
    {"gpu_memset", EventClass::kMemset}, {"Memset", EventClass::kMemset},
    {"cuda_sync", EventClass::kSync}, {"cpu_instant_event", EventClass::kInstant},
    {"user_instant_event", EventClass::kIgnored}, {"gpu_user_annotation", EventClass::kDeviceRange},
    {"Trace", EventClass::kIgnored}, {"ac2g", EventClass::kIgnored}, {"async", EventClass::kIgnored},
    {"async_cpu_to_gpu", EventClass::kIgnored}, {"async_gpu", EventClass::kIgnored},
    {"cuda_profiler_range", EventClass::kCounters}, {"cuda_event", EventClass::kIgnored},
    {"fwdbwd", EventClass::kBackwardFlow}, {"forward_backward", EventClass::kBackwardFlow},
    {"collective_comm", EventClass::kIgnored}, {"gpu_pm_counter", EventClass::kCounters},
}};

bool is_activity(EventClass c) {
  return c == EventClass::kKernel || c == EventClass::kMemcpy || c == EventClass::kMemset;
}
bool is_host(EventClass c) { return c >= EventClass::kOp && c <= EventClass::kSystem; }

HostKind host_kind(EventClass c) {
  switch (c) {
    case EventClass::kAnnotation: return HostKind::kAnnotation;
    case EventClass::kPython: return HostKind::kPython;
    case EventClass::kRuntime: return HostKind::kRuntime;
    case EventClass::kDriver: return HostKind::kDriver;
    case EventClass::kOverhead: return HostKind::kOverhead;
    case EventClass::kLibrary: return HostKind::kLibrary;
    case EventClass::kSystem: return HostKind::kSystem;
    default: return HostKind::kOp;
  }
}

ActivityKind activity_kind(EventClass c) {
  return c == EventClass::kMemcpy ? ActivityKind::kMemcpy
                                  : c == EventClass::kMemset ? ActivityKind::kMemset : ActivityKind::kKernel;
}

string_view unquoted(string_view token) {
  return token.size() >= 2 && token.front() == '"' ? token.substr(1, token.size() - 2) : token;
}

// A number, bare or quoted, as text; empty for anything else.
bool number_text(JsonReader& reader, string_view& out) {
  const char c = reader.peek();
  if (c == '"') {
    JsonString token;
    if (!reader.string(token)) return false;
    out = token.raw;
    return true;
  }
  out = {};
  if (c == '{' || c == '[') return reader.skip_value();
  return reader.scalar(out);
}

// Values lie in a window, whose padding follows them.
uint32_t id32(string_view text) {
  const auto value = padded_whole_number(text);
  return value && *value > 0 ? static_cast<uint32_t>(*value) : 0;
}

// Of most operators all inputs are tensors: ["", ""].
bool has_values(string_view list) {
  return std::any_of(list.begin(), list.end(), [](char c) { return is_digit(c) || is_letter(c); });
}

template <class T>
T number_or(string_view text, T otherwise) {
  const auto value = padded_whole_number(text);
  if (!value || *value < static_cast<int64_t>(std::numeric_limits<T>::min())) return otherwise;
  if constexpr (sizeof(T) < 8)
    if (*value > static_cast<int64_t>(std::numeric_limits<T>::max())) return otherwise;
  return static_cast<T>(*value);
}

// Of a call and of what it launched. Some tools write none: then it is the operator's, in a range of its own.
uint32_t launch_id(const KinetoValues& v) {
  if (!v.correlation.empty() || v.external_id.empty()) return id32(v.correlation);
  const uint32_t id = id32(v.external_id);
  return id == 0 ? 0 : id | 1U << 31;
}

}  // namespace

EventClass event_class(string_view category) {
  for (const auto& [name, event_class] : kCategories)
    if (name == category) return event_class;
  // Back ends beside CUDA and HIP: xpu_runtime, mtia_runtime, privateuse1_driver, ...
  if (category.ends_with("_runtime")) return EventClass::kRuntime;
  if (category.ends_with("_driver")) return EventClass::kDriver;
  return EventClass::kUnknown;
}

bool read_triple(JsonReader& reader, int32_t (&out)[3]) {
  int i = 0;
  return read_array(reader, [&] {
    string_view token;
    if (!number_text(reader, token)) return false;
    if (i < 3) out[i++] = number_or<int32_t>(token, 0);
    return true;
  });
}

// Categories take turns: a launch, its kernel, the flow between them.
EventClass KinetoEvents::classify(string_view category) {
  if (category.empty()) return EventClass::kUnknown;
  KnownCategory& known =
      categories_[(category.size() + static_cast<unsigned char>(category.front()) * 5U) % categories_.size()];
  if (category != known.name) known = {std::string(category), event_class(category)};
  if (known.event_class == EventClass::kUnknown) category_ = category;
  return known.event_class;
}

string_view rank_label(string_view pid) {
  constexpr size_t kLongest = 64;
  const size_t end = pid.starts_with('[') ? pid.find("] ") : pid.npos;
  if (end == pid.npos || end < 2 || end > kLongest || end + 2 >= pid.size()) return {};
  const string_view label = pid.substr(1, end - 1);
  const bool plain = std::all_of(label.begin(), label.end(), [](char c) { return c >= ' ' && c < 0x7f && c != '\\'; });
  return plain ? label : string_view();
}

// Whether the event is of the rank that is read; its pid is then as that rank wrote it.
bool KinetoEvents::take_label() {
  const string_view label = rank_label(values_.pid);
  if (label.empty() && values_.phase == 'X') shard_.issues[TraceIssueKind::kOther] += merged_->first;
  if (label.empty() || label != merged_->label) return false;
  values_.pid.remove_prefix(label.size() + 3);
  return true;
}

bool KinetoEvents::read(JsonReader& reader) {
  values_.forget();
  if (!shapes_.read(reader, values_)) {
    values_.forget();
    shapes_.begin(reader.position());
    if (!read_by_key(reader)) return false;
    shapes_.learn(reader.position(), values_);
  }
  if (merged_ != nullptr && !take_label()) return true;
  ++shard_.events;
  if (const string_view arguments = values_.arguments.text; !arguments.empty() && values_.phase != 'C') {
    // The text was scanned already, so it ends where it should; what follows it is a delimiter.
    JsonReader again(arguments.data(), arguments.data() + arguments.size() + 1);
    const char phase = values_.phase;
    const EventClass c = phase == 'i' || phase == 'I' || phase == 'M' ? EventClass::kInstant : values_.event_class;
    if (!read_arguments(again, c)) values_.forget_arguments();
  }
  add();
  return true;
}

/// The keys that are wanted of a class of events, found by their length and first letter.
class KinetoEvents::SlotTable {
 public:
  template <size_t N>
  constexpr SlotTable(const KinetoSlot (&known)[N]) {
    static_assert(N < kSlots / 2);
    for (const KinetoSlot& a : known) {
      size_t i = slot(a.key);
      while (!slots_[i].key.empty()) i = (i + 1) % kSlots;
      slots_[i] = a;
    }
  }
  [[nodiscard]] const KinetoSlot* find(string_view key) const {
    if (key.empty()) return nullptr;
    for (size_t i = slot(key); !slots_[i].key.empty(); i = (i + 1) % kSlots)
      if (slots_[i].key == key) return &slots_[i];
    return nullptr;
  }

 private:
  static constexpr size_t kSlots = 64;
  static constexpr size_t slot(string_view key) {
    return (key.size() * 5 + static_cast<unsigned char>(key.front())) % kSlots;
  }
  std::array<KinetoSlot, kSlots> slots_{};
};

const KinetoEvents::SlotTable& KinetoEvents::slots_of(EventClass c) {
  using A = KinetoValues;
  static constexpr KinetoSlot kCall[] = {{"correlation", &A::correlation},
                                         {"External id", &A::external_id},
                                         {.key = "grid", .triple = &A::grid},
                                         {.key = "grid dim", .triple = &A::grid},
                                         {.key = "block", .triple = &A::block},
                                         {.key = "block dim", .triple = &A::block}};
  static constexpr KinetoSlot kActivity[] = {{"device", &A::device},
                                             {"stream", &A::stream},
                                             {"context", &A::context},
                                             {"correlation", &A::correlation},
                                             {"External id", &A::external_id},
                                             {"bytes", &A::bytes},
                                             {"registers per thread", &A::registers},
                                             {"shared memory", &A::shared},
                                             {"graph id", &A::graph},
                                             {"graph node id", &A::graph_node},
                                             {"In msg nelems", &A::in_elements},
                                             {"Out msg nelems", &A::out_elements},
                                             {"Group size", &A::group_size},
                                             {"Seq", &A::collective_sequence},
                                             {"Src Rank", &A::source},
                                             {"Dst Rank", &A::destination},
                                             {.key = "grid", .triple = &A::grid},
                                             {.key = "block", .triple = &A::block},
                                             {.key = "Collective name", .text = &A::collective},
                                             {.key = "dtype", .text = &A::dtype},
                                             {.key = "Process Group Name", .text = &A::group},
                                             {.key = "Process Group Description", .text = &A::group_description},
                                             {.key = "Process Group Ranks", .text = &A::ranks}};
  static constexpr KinetoSlot kOp[] = {{"External id", &A::external_id},
                                       {"external id", &A::external_id},
                                       {"Sequence number", &A::sequence},
                                       {"Fwd thread id", &A::forward_thread},
                                       {"Record function id", &A::function_number},
                                       {"flops", &A::flops},
                                       {"In msg nelems", &A::in_elements},
                                       {"Out msg nelems", &A::out_elements},
                                       {"Group size", &A::group_size},
                                       {"Seq", &A::collective_sequence},
                                       {"Src Rank", &A::source},
                                       {"Dst Rank", &A::destination},
                                       {.key = "Input Dims", .raw = &A::shapes},
                                       {.key = "Input dims", .raw = &A::shapes},
                                       {.key = "Input type", .raw = &A::types},
                                       {.key = "Input Types", .raw = &A::types},
                                       {.key = "Concrete Inputs", .raw = &A::concrete},
                                       {.key = "Input Strides", .raw = &A::strides},
                                       {.key = "Collective name", .text = &A::collective},
                                       {.key = "dtype", .text = &A::dtype},
                                       {.key = "Process Group Name", .text = &A::group},
                                       {.key = "Process Group Description", .text = &A::group_description},
                                       {.key = "Process Group Ranks", .text = &A::ranks}};
  static constexpr KinetoSlot kInstant[] = {
      {"Device Type", &A::device_type}, {"Device Id", &A::device_id}, {"Bytes", &A::bytes}, {"Addr", &A::address},
      {"Total Allocated", &A::total_allocated}, {"Total Reserved", &A::total_reserved},
      {.key = "name", .text = &A::label}};
  static constexpr SlotTable kOfCall(kCall), kOfActivity(kActivity), kOfOp(kOp), kOfInstant(kInstant);
  if (c == EventClass::kRuntime || c == EventClass::kDriver) return kOfCall;
  if (is_activity(c) || c == EventClass::kSync) return kOfActivity;
  return c == EventClass::kInstant ? kOfInstant : kOfOp;
}

bool KinetoEvents::read_by_key(JsonReader& reader) {
  using A = KinetoValues;
  static constexpr KinetoSlot kFields[] = {{"ts", &A::time},
                                           {"id", &A::id},
                                           {"dur", &A::duration},
                                           {"pid", &A::pid},
                                           {"tid", &A::tid},
                                           {.key = "name", .text = &A::name},
                                           {.key = "args", .raw = &A::arguments}};
  static constexpr SlotTable kOfEvent(kFields);
  return read_object(reader, [&](string_view key) {
    if (key == "ph" || key == "cat") {   // which every event of a shape has alike
      JsonString token;
      if (!reader.string(token)) return false;
      if (key == "ph") {
        values_.phase = token.raw.empty() ? 0 : token.raw.front();
      } else {
        values_.event_class = classify(token.raw);
        values_.has_category = true;
      }
      return true;
    }
    if (key == "args" && values_.has_category && (values_.phase == 'X' || values_.phase == 'i'))
      return read_arguments(reader, values_.event_class);
    return read_value(reader, kOfEvent.find(key), false);
  });
}

bool KinetoEvents::read_value(JsonReader& reader, const KinetoSlot* slot, bool argument) {
  using Written = KinetoShapes::Written;
  if (argument && slot != nullptr) values_.given.push_back(slot);
  const char c = reader.peek();
  const char* const from = reader.position();
  const auto whole = [&] { return string_view(from, static_cast<size_t>(reader.position() - from)); };
  if (c == '"') {
    JsonString token;
    if (!reader.string(token)) return false;
    if (slot != nullptr && slot->raw != nullptr) values_.*slot->raw = {whole()}, slot = nullptr, shapes_.forget_event();
    if (slot != nullptr && slot->number != nullptr) values_.*slot->number = token.raw;
    if (slot != nullptr && slot->text != nullptr) values_.*slot->text = token;
    shapes_.value(Written::kText, slot != nullptr && slot->triple == nullptr ? slot : nullptr, argument, token.raw);
    return true;
  }
  if (c == '[' && slot != nullptr && slot->triple != nullptr) {
    if (!read_triple(reader, values_.*slot->triple)) return false;
    shapes_.value(Written::kTriple, slot, argument, whole());
    return true;
  }
  const bool nested = c == '[' || c == '{';
  if (string_view token; !(nested ? reader.skip_value() : reader.scalar(token))) return false;
  if (slot != nullptr && slot->number != nullptr) values_.*slot->number = nested ? string_view() : whole();
  if (slot != nullptr && slot->raw != nullptr) values_.*slot->raw = {whole()};
  const bool kept = slot != nullptr && (nested ? slot->raw != nullptr : slot->number != nullptr);
  if (slot != nullptr && !kept && (slot->raw != nullptr || slot->number != nullptr)) shapes_.forget_event();
  shapes_.value(nested ? Written::kNested : Written::kBare, kept ? slot : nullptr, argument, whole());
  return true;
}

bool KinetoEvents::read_arguments(JsonReader& reader, EventClass c) {
  const bool wanted = is_activity(c) || c == EventClass::kOp || c == EventClass::kAnnotation ||
                      c == EventClass::kRuntime || c == EventClass::kDriver || c == EventClass::kSync ||
                      c == EventClass::kInstant || c == EventClass::kDeviceRange;
  if (!wanted || reader.peek() != '{') return read_value(reader, nullptr, true);
  const SlotTable& table = slots_of(c);
  // Only these describe a collective.
  const bool texts = c == EventClass::kOp || c == EventClass::kKernel || c == EventClass::kInstant;
  return read_object(reader, [&](string_view key) {
    const KinetoSlot* slot = table.find(key);
    return read_value(reader, slot != nullptr && slot->text != nullptr && !texts ? nullptr : slot, true);
  });
}

void KinetoEvents::count_unknown() {
  constexpr int64_t kLongestKnown = int64_t{1} << 50;
  constexpr size_t kMostKinds = 64, kLongestKind = 40;
  const KinetoValues& v = values_;
  ++shard_.issues[TraceIssueKind::kUnknownRows];
  const auto length = v.duration.empty() ? std::nullopt : padded_scaled_decimal(v.duration, 3);
  if (length && *length > 0 && *length < kLongestKnown && shard_.unknown_ns < INT64_MAX - kLongestKnown)
    shard_.unknown_ns += *length;
  std::string kind = v.has_category && v.event_class == EventClass::kUnknown ? category_.substr(0, kLongestKind) : "";
  if (v.has_category && v.event_class != EventClass::kUnknown) kind = std::string("ph ") + v.phase;
  replace_invalid_utf8(kind);
  if (shard_.unknown_kinds.size() < kMostKinds || shard_.unknown_kinds.contains(kind)) ++shard_.unknown_kinds[kind];
}

void KinetoEvents::add() {
  const KinetoValues& v = values_;
  if (v.phase == 'M') return add_metadata();
  if (v.has_category && v.event_class == EventClass::kIgnored) return;
  if (v.event_class == EventClass::kCounters) {
    ++shard_.issues[TraceIssueKind::kHardwareCounters];
    return;
  }
  if (v.phase == 'B' || v.phase == 'E' || (v.phase == 'X' && v.event_class == EventClass::kUnknown)) {
    count_unknown();
    return;
  }
  if (v.event_class == EventClass::kDeviceRange && v.phase != 'X') return;
  const auto start = padded_scaled_decimal(v.time, 3);
  const auto duration = v.duration.empty() ? std::optional<int64_t>(0) : padded_scaled_decimal(v.duration, 3);
  // Within these, differences of times and sums of durations cannot overflow: the year 2043 in Unix time, 13 days.
  constexpr int64_t kLatest = INT64_MAX / 4, kLongest = int64_t{1} << 50;
  const bool in_range = start && duration && *start < kLatest && *start > -kLatest && *duration < kLongest;
  switch (v.phase) {
    case 'X':
      if (v.event_class == EventClass::kDeviceRange) {
        if (in_range && *duration >= 0) add_device_range(*start, *duration);
      } else if (!in_range) {
        ++shard_.issues[TraceIssueKind::kOutOfRange];
      } else if (*duration < 0) {
        ++shard_.issues[TraceIssueKind::kNegativeDuration];
      } else if (is_host(v.event_class)) {
        add_host(*start, *duration);
      } else {
        add_activity(*start, *duration);
      }
      break;
    case 'i':
    case 'I':
      if (in_range && v.name.raw == "[memory]") add_instant(*start);
      break;
    case 's':
    case 'f':
    case 't':
      if (v.event_class == EventClass::kBackwardFlow && in_range)
        shard_.flows.push_back({*start, number_or<uint64_t>(v.id, 0), shard_.thread(v.pid, v.tid), v.phase == 's'});
      break;
    case 'C':
      if (in_range) add_counter(*start);
      break;
    default: break;
  }
}

void KinetoEvents::add_host(int64_t start, int64_t duration) {
  const KinetoValues& v = values_;
  HostRow row;
  row.start_ns = start;
  row.duration_ns = duration;
  row.name = text(v.name);
  row.thread = static_cast<uint16_t>(shard_.thread(v.pid, v.tid));
  row.kind = host_kind(v.event_class);
  const bool call = row.kind == HostKind::kRuntime || row.kind == HostKind::kDriver;
  row.link = call ? launch_id(v) : id32(v.external_id);
  if (call && v.grid[0] > 0 && v.block[0] > 0) add_launch_shape(row.link);
  if (!v.sequence.empty() || !v.shapes.empty() || !v.flops.empty()) {
    OpArgs args;
    args.sequence = number_or<int32_t>(v.sequence, -1);
    args.forward_thread = id32(v.forward_thread);
    args.flops = static_cast<uint64_t>(std::max<int64_t>(0, number_or<int64_t>(v.flops, 0)));
    if (!v.shapes.empty()) args.shapes = raw_text(v.shapes);
    if (!v.types.empty()) args.types = raw_text(v.types);
    if (!v.shapes.empty() && has_values(v.concrete.text)) args.values = raw_text(v.concrete);
    if (!v.shapes.empty() && tells_layout(v.strides.text)) args.strides = raw_text(v.strides);
    row.args = shard_.op_arguments(args);
  }
  if (const uint32_t number = id32(v.function_number); number != 0)
    shard_.host_arguments.emplace_back(shard_.host.size(), shard_.strings.intern(function_number_text(number)));
  if (!v.collective.raw.empty()) shard_.host_collectives.emplace_back(shard_.host.size(), add_collective());
  shard_.host.push_back(row);
}

// Names as long as these mark no steps.
void KinetoEvents::add_device_range(int64_t start, int64_t duration) {
  constexpr size_t kLongest = 512;
  const KinetoValues& v = values_;
  if (v.name.raw.size() >= kLongest) return;
  int64_t replaced = 0;
  const StringId name = shard_.device_range_names.intern(unescaped(v.name, replaced));
  const auto lane = static_cast<uint32_t>(fnv1a(v.tid, fnv1a(v.pid)));
  shard_.device_ranges.push_back({start, duration, name, lane, id32(v.external_id)});
}

// This one call of HIP takes work items, and the record of its kernel repeats them.
void KinetoEvents::add_launch_shape(uint32_t correlation) {
  const bool items = values_.name.raw == "hipExtModuleLaunchKernel";
  LaunchShape& shape = shard_.launch_shapes.emplace_back(correlation);
  for (int i = 0; i < 3; ++i) {
    shape.block[i] = std::max(values_.block[i], 1);
    const int64_t rounded_up = (int64_t{values_.grid[i]} + shape.block[i] - 1) / shape.block[i];
    shape.grid[i] = items ? static_cast<int32_t>(rounded_up) : values_.grid[i];
  }
}

void KinetoEvents::add_activity(int64_t start, int64_t duration) {
  const KinetoValues& v = values_;
  const auto device = padded_whole_number(v.device.empty() ? v.pid : v.device);
  if (!device || *device < INT32_MIN || *device > INT32_MAX) {
    ++shard_.issues[TraceIssueKind::kOutOfRange];
    return;
  }
  string_view lane = v.tid;
  if (lane.starts_with("stream ")) lane.remove_prefix(7);
  const int64_t stream = number_or<int64_t>(v.stream.empty() ? lane : v.stream, -1);
  // MTIA has waits among its kernels.
  if (v.event_class == EventClass::kSync || v.name.raw.starts_with("event_wait")) {
    shard_.syncs.push_back({start, duration, text(v.name), static_cast<int32_t>(*device), stream, id32(v.correlation)});
    return;
  }
  ActivityRow row;
  row.start_ns = start;
  row.duration_ns = duration;
  JsonString name = v.name;
  name.raw = without_kd(name.raw);
  row.name = text(name);
  row.correlation = launch_id(v);
  row.kind = activity_kind(v.event_class);
  row.queue = shard_.queue({static_cast<int32_t>(*device), stream, number_or<int64_t>(v.context, 0)});
  ActivityArgs args;
  std::copy(v.grid, v.grid + 3, args.grid);
  std::copy(v.block, v.block + 3, args.block);
  args.registers = number_or<int32_t>(v.registers, 0);
  args.shared_bytes = number_or<int32_t>(v.shared, 0);
  args.bytes = number_or<int64_t>(v.bytes, -1);
  args.graph = id32(v.graph);
  args.graph_node = id32(v.graph_node);
  row.args = shard_.activity_args(args);
  if (!v.collective.raw.empty()) row.collective = add_collective();
  shard_.activity.push_back(row);
}

uint32_t KinetoEvents::add_collective() {
  const KinetoValues& v = values_;
  Collective c;
  c.name = text(v.collective);
  if (!v.dtype.raw.empty()) c.dtype = text(v.dtype);
  if (!v.group.raw.empty()) c.group = text(v.group);
  if (!v.group_description.raw.empty()) c.group_description = text(v.group_description);
  if (!v.ranks.raw.empty()) c.ranks = text(v.ranks);
  c.in_elements = number_or<int64_t>(v.in_elements, -1);
  c.out_elements = number_or<int64_t>(v.out_elements, -1);
  c.group_size = number_or<int32_t>(v.group_size, 0);
  c.sequence = number_or<int64_t>(v.collective_sequence, -1);
  c.source = number_or<int32_t>(v.source, -1);
  c.destination = number_or<int32_t>(v.destination, -1);
  shard_.collectives.push_back(c);
  return static_cast<uint32_t>(shard_.collectives.size() - 1);
}

void KinetoEvents::add_instant(int64_t start) {
  const KinetoValues& v = values_;
  MemoryEvent m;
  m.time_ns = start;
  m.bytes = number_or<int64_t>(v.bytes, 0);
  m.total_allocated = number_or<int64_t>(v.total_allocated, -1);
  m.total_reserved = number_or<int64_t>(v.total_reserved, -1);
  m.address = number_or<uint64_t>(v.address, 0);
  m.device_type = number_or<int32_t>(v.device_type, -1);
  m.device = number_or<int32_t>(v.device_id, -1);
  m.thread = ThreadId(shard_.thread(v.pid, v.tid));
  shard_.memory.push_back(m);
}

void KinetoEvents::add_metadata() {
  const KinetoValues& v = values_;
  if (v.name.raw == "thread_name") shard_.name_thread(v.pid, v.tid, shard_.strings[text(v.label)]);
}

void KinetoEvents::add_counter(int64_t start) {
  const KinetoValues& v = values_;
  if (v.arguments.empty()) return;
  const string_view arguments = v.arguments.text;
  JsonReader reader(arguments.data(), arguments.data() + arguments.size() + 1);
  const StringId name = text(v.name);
  const auto device = number_or<int32_t>(v.pid, -1);
  if (reader.peek() != '{') return;
  read_object(reader, [&](string_view) {
    string_view token;
    if (!number_text(reader, token)) return false;
    if (const auto value = real_number(token)) shard_.counters.push_back({start, name, device, *value});
    return true;
  });
}

StringId KinetoEvents::text(const JsonString& token) {
  if (!token.escaped && !token.non_ascii) return shard_.strings.intern(token.raw);
  int64_t replaced = 0;
  const StringId id = shard_.strings.intern(unescaped(token, replaced));
  if (replaced > 0) ++shard_.issues[TraceIssueKind::kInvalidText];
  return id;
}

StringId KinetoEvents::raw_text(const RawValue& value) {
  if (value.known != nullptr && value.known->id.valid()) return value.known->id;
  const string_view raw = value.text;
  const bool ascii =
      find(raw.data(), raw.data() + raw.size(), [](const TextBlock& b) { return b.high(); }) == raw.data() + raw.size();
  if (!ascii) return text({raw, false, true});
  const StringId id = shard_.strings.intern(unquoted(raw));
  if (value.known != nullptr) value.known->id = id;
  return id;
}

}  // namespace profgpu
