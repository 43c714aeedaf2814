// Budget: 1 ns a byte of text on one core; two hash look-ups an event (name, thread), no allocation for known strings.
#include "import/kineto_event.h"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "base/decimal.h"

namespace profgpu {
namespace {

using std::string_view;

constexpr std::array<std::pair<string_view, EventClass>, 34> kCategories = {{
    {"cpu_op", EventClass::kOp}, {"Operator", EventClass::kOp}, {"operator", EventClass::kOp},
    {"user_annotation", EventClass::kAnnotation}, {"python_function", EventClass::kPython},
    {"cuda_runtime", EventClass::kRuntime}, {"Runtime", EventClass::kRuntime},
    {"cuda_driver", EventClass::kDriver}, {"Driver", EventClass::kDriver},
    {"overhead", EventClass::kOverhead}, {"Overhead", EventClass::kOverhead},
    {"kernel", EventClass::kKernel}, {"Kernel", EventClass::kKernel},
    {"mtia_ccp_events", EventClass::kKernel}, {"concurrent_kernel", EventClass::kKernel},
    {"gpu_memcpy", EventClass::kMemcpy}, {"Memcpy", EventClass::kMemcpy},
    {"gpu_memset", EventClass::kMemset}, {"Memset", EventClass::kMemset},
    {"cuda_sync", EventClass::kSync}, {"cpu_instant_event", EventClass::kInstant},
    {"user_instant_event", EventClass::kIgnored}, {"gpu_user_annotation", EventClass::kIgnored},
    {"Trace", EventClass::kIgnored}, {"ac2g", EventClass::kIgnored}, {"async", EventClass::kIgnored},
    {"async_cpu_to_gpu", EventClass::kIgnored}, {"async_gpu", EventClass::kIgnored},
    {"cuda_profiler_range", EventClass::kCounters}, {"cuda_event", EventClass::kIgnored},
    {"fwdbwd", EventClass::kBackwardFlow}, {"forward_backward", EventClass::kBackwardFlow},
    {"collective_comm", EventClass::kIgnored}, {"gpu_pm_counter", EventClass::kCounters},
}};

bool is_activity(EventClass c) {
  return c == EventClass::kKernel || c == EventClass::kMemcpy || c == EventClass::kMemset;
}
bool is_host(EventClass c) { return c >= EventClass::kOp && c <= EventClass::kOverhead; }

HostKind host_kind(EventClass c) {
  switch (c) {
    case EventClass::kAnnotation: return HostKind::kAnnotation;
    case EventClass::kPython: return HostKind::kPython;
    case EventClass::kRuntime: return HostKind::kRuntime;
    case EventClass::kDriver: return HostKind::kDriver;
    case EventClass::kOverhead: return HostKind::kOverhead;
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
std::optional<int64_t> padded_number(string_view text) {
  return text.empty() ? std::nullopt : padded_scaled_decimal(text, 0);
}

uint32_t id32(string_view text) {
  const auto value = padded_number(text);
  return value && *value > 0 ? static_cast<uint32_t>(*value) : 0;
}

template <class T>
T number_or(string_view text, T otherwise) {
  const auto value = padded_number(text);
  if (!value || *value < static_cast<int64_t>(std::numeric_limits<T>::min())) return otherwise;
  if constexpr (sizeof(T) < 8)
    if (*value > static_cast<int64_t>(std::numeric_limits<T>::max())) return otherwise;
  return static_cast<T>(*value);
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

struct KinetoEvents::Fields {
  Fields() {}   // stores member by member: as a constant of zeros it would be a `rep stos`, which starts slowly
  char phase = 0;
  EventClass event_class = EventClass::kUnknown;
  bool has_category = false;
  JsonString name;
  string_view pid, tid, time, duration, id;
  string_view arguments;   // seen before the category was
};

struct KinetoEvents::Arguments {
  string_view device, stream, context, correlation, external_id, bytes, registers, shared, graph, graph_node;
  string_view sequence, forward_thread, flops, shapes, types, wait_stream;
  string_view device_type, device_id, address, total_allocated, total_reserved;
  string_view in_elements, out_elements, group_size, collective_sequence, source, destination;
  JsonString collective, dtype, group, group_description, ranks, name;
  int32_t grid[3] = {0, 0, 0}, block[3] = {0, 0, 0};
  std::vector<const Argument*> given;   // since forget(): most of what is here is of other classes of events

  void forget();
};

// Categories take turns: a launch, its kernel, the flow between them.
EventClass KinetoEvents::classify(string_view category) {
  if (category.empty()) return EventClass::kUnknown;
  KnownCategory& known = categories_[(category.size() + static_cast<unsigned char>(category.front()) * 5U) % categories_.size()];
  if (category != known.name) known = {std::string(category), event_class(category)};
  return known.event_class;
}

bool KinetoEvents::read(JsonReader& reader) {
  Fields f;
  Arguments& a = *arguments_;
  a.forget();
  bool read_now = false;
  const bool ok = read_object(reader, [&](string_view key) {
    switch (key.size()) {
      case 2:
        if (key == "ts") return number_text(reader, f.time);
        if (key == "id") return number_text(reader, f.id);
        if (key == "ph") {
          JsonString phase;
          if (!reader.string(phase)) return false;
          f.phase = phase.raw.empty() ? 0 : phase.raw.front();
          return true;
        }
        break;
      case 3:
        if (key == "dur") return number_text(reader, f.duration);
        if (key == "pid") return number_text(reader, f.pid);
        if (key == "tid") return number_text(reader, f.tid);
        if (key == "cat") {
          JsonString category;
          if (!reader.string(category)) return false;
          f.event_class = classify(category.raw);
          f.has_category = true;
          return true;
        }
        break;
      case 4:
        if (key == "name" && reader.peek() == '"') return reader.string(f.name);
        if (key == "args") {
          if (f.has_category && (f.phase == 'X' || f.phase == 'i')) {
            read_now = true;
            return read_arguments(reader, f.event_class, a);
          }
          return reader.raw_value(f.arguments);
        }
        break;
      default: break;
    }
    return reader.skip_value();
  });
  if (!ok) return false;
  ++shard_.events;
  if (!read_now && !f.arguments.empty() && f.phase != 'C') {
    // The text was scanned already, so it ends where it should; what follows it is a delimiter.
    JsonReader again(f.arguments.data(), f.arguments.data() + f.arguments.size() + 1);
    const EventClass c = f.phase == 'i' || f.phase == 'I' || f.phase == 'M' ? EventClass::kInstant : f.event_class;
    if (!read_arguments(again, c, a)) a.forget();
  }
  add(f, a);
  return true;
}

/// A key of "args" and where its value goes: one of the four.
struct KinetoEvents::Argument {
  string_view key;
  string_view Arguments::*number = nullptr;
  string_view Arguments::*raw = nullptr;
  JsonString Arguments::*text = nullptr;
  int32_t (Arguments::*triple)[3] = nullptr;
};

KinetoEvents::KinetoEvents(Shard& shard) : shard_(shard), arguments_(std::make_unique<Arguments>()) {}

KinetoEvents::~KinetoEvents() = default;

void KinetoEvents::Arguments::forget() {
  for (const Argument* a : given) {
    if (a->number != nullptr) this->*a->number = {};
    if (a->raw != nullptr) this->*a->raw = {};
    if (a->text != nullptr) this->*a->text = {};
    if (a->triple != nullptr) std::fill_n(this->*a->triple, 3, 0);
  }
  given.clear();
}

/// The keys that are wanted of a class of events, found by their length and first letter.
class KinetoEvents::ArgumentTable {
 public:
  template <size_t N>
  constexpr ArgumentTable(const Argument (&known)[N]) {
    static_assert(N < kSlots / 2);
    for (const Argument& a : known) {
      size_t i = slot(a.key);
      while (!slots_[i].key.empty()) i = (i + 1) % kSlots;
      slots_[i] = a;
    }
  }
  [[nodiscard]] const Argument* find(string_view key) const {
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
  std::array<Argument, kSlots> slots_{};
};

const KinetoEvents::ArgumentTable& KinetoEvents::arguments_of(EventClass c) {
  using A = Arguments;
  static constexpr Argument kCall[] = {{"correlation", &A::correlation}};
  static constexpr Argument kActivity[] = {
      {"device", &A::device}, {"stream", &A::stream}, {"context", &A::context}, {"correlation", &A::correlation},
      {"bytes", &A::bytes}, {"registers per thread", &A::registers}, {"shared memory", &A::shared},
      {"graph id", &A::graph}, {"graph node id", &A::graph_node}, {"In msg nelems", &A::in_elements}, {"Out msg nelems", &A::out_elements},
      {"Group size", &A::group_size}, {"Seq", &A::collective_sequence}, {"Src Rank", &A::source},
      {"Dst Rank", &A::destination}, {.key = "grid", .triple = &A::grid},
      {.key = "block", .triple = &A::block}, {.key = "Collective name", .text = &A::collective},
      {.key = "dtype", .text = &A::dtype}, {.key = "Process Group Name", .text = &A::group},
      {.key = "Process Group Description", .text = &A::group_description},
      {.key = "Process Group Ranks", .text = &A::ranks}};
  static constexpr Argument kOp[] = {
      {"External id", &A::external_id}, {"external id", &A::external_id}, {"Sequence number", &A::sequence},
      {"Fwd thread id", &A::forward_thread}, {"flops", &A::flops}, {"In msg nelems", &A::in_elements},
      {"Out msg nelems", &A::out_elements}, {"Group size", &A::group_size}, {"Seq", &A::collective_sequence},
      {"Src Rank", &A::source}, {"Dst Rank", &A::destination}, {.key = "Input Dims", .raw = &A::shapes}, {.key = "Input dims", .raw = &A::shapes},
      {.key = "Input type", .raw = &A::types}, {.key = "Input Types", .raw = &A::types},
      {.key = "Collective name", .text = &A::collective}, {.key = "dtype", .text = &A::dtype},
      {.key = "Process Group Name", .text = &A::group},
      {.key = "Process Group Description", .text = &A::group_description},
      {.key = "Process Group Ranks", .text = &A::ranks}};
  static constexpr Argument kInstant[] = {
      {"Device Type", &A::device_type}, {"Device Id", &A::device_id}, {"Bytes", &A::bytes}, {"Addr", &A::address},
      {"Total Allocated", &A::total_allocated}, {"Total Reserved", &A::total_reserved},
      {.key = "name", .text = &A::name}};
  static constexpr ArgumentTable kOfCall(kCall), kOfActivity(kActivity), kOfOp(kOp), kOfInstant(kInstant);
  if (c == EventClass::kRuntime || c == EventClass::kDriver) return kOfCall;
  if (is_activity(c) || c == EventClass::kSync) return kOfActivity;
  return c == EventClass::kInstant ? kOfInstant : kOfOp;
}

bool KinetoEvents::read_argument(JsonReader& reader, const Argument& known, EventClass c, Arguments& a) {
  a.given.push_back(&known);
  if (known.number != nullptr) return number_text(reader, a.*known.number);
  if (known.raw != nullptr) return reader.raw_value(a.*known.raw);
  if (known.text != nullptr) {
    // Only these describe a collective.
    const bool wanted = c == EventClass::kOp || c == EventClass::kKernel || c == EventClass::kInstant;
    return wanted && reader.peek() == '"' ? reader.string(a.*known.text) : reader.skip_value();
  }
  if (reader.peek() != '[') return reader.skip_value();
  int i = 0;
  return read_array(reader, [&] {
    string_view token;
    if (!number_text(reader, token)) return false;
    if (i < 3) (a.*known.triple)[i++] = number_or<int32_t>(token, 0);
    return true;
  });
}

bool KinetoEvents::read_arguments(JsonReader& reader, EventClass c, Arguments& a) {
  const bool wanted = is_activity(c) || c == EventClass::kOp || c == EventClass::kAnnotation ||
                      c == EventClass::kRuntime || c == EventClass::kDriver || c == EventClass::kSync ||
                      c == EventClass::kInstant;
  if (!wanted || reader.peek() != '{') return reader.skip_value();
  const ArgumentTable& table = arguments_of(c);
  return read_object(reader, [&](string_view key) {
    const Argument* known = table.find(key);
    return known != nullptr ? read_argument(reader, *known, c, a) : reader.skip_value();
  });
}

void KinetoEvents::add(const Fields& f, Arguments& a) {
  if (f.phase == 'M') return add_metadata(f, a);
  if (f.has_category && f.event_class == EventClass::kIgnored) return;
  if (f.event_class == EventClass::kCounters) {
    ++shard_.issues[TraceIssueKind::kNote];
    return;
  }
  if (f.phase == 'B' || f.phase == 'E' || (f.phase == 'X' && f.event_class == EventClass::kUnknown)) {
    ++shard_.issues[TraceIssueKind::kUnknownRows];
    return;
  }
  const auto start = padded_scaled_decimal(f.time, 3);
  const auto duration = f.duration.empty() ? std::optional<int64_t>(0) : padded_scaled_decimal(f.duration, 3);
  // Within these, differences of times and sums of durations cannot overflow: the year 2043 in Unix time, 13 days.
  constexpr int64_t kLatest = INT64_MAX / 4, kLongest = int64_t{1} << 50;
  const bool in_range = start && duration && *start < kLatest && *start > -kLatest && *duration < kLongest;
  switch (f.phase) {
    case 'X':
      if (!in_range) {
        ++shard_.issues[TraceIssueKind::kOutOfRange];
      } else if (*duration < 0) {
        ++shard_.issues[TraceIssueKind::kNegativeDuration];
      } else if (is_host(f.event_class)) {
        add_host(f, a, *start, *duration);
      } else {
        add_activity(f, a, *start, *duration);
      }
      break;
    case 'i':
    case 'I':
      if (in_range && f.name.raw == "[memory]") add_instant(f, a, *start);
      break;
    case 's':
    case 'f':
    case 't':
      if (f.event_class == EventClass::kBackwardFlow && in_range)
        shard_.flows.push_back({*start, number_or<uint64_t>(f.id, 0), shard_.thread(f.pid, f.tid), f.phase == 's'});
      break;
    case 'C':
      if (in_range) add_counter(f, *start);
      break;
    default: break;
  }
}

void KinetoEvents::add_host(const Fields& f, const Arguments& a, int64_t start, int64_t duration) {
  HostRow row;
  row.start_ns = start;
  row.duration_ns = duration;
  row.name = text(f.name);
  row.thread = static_cast<uint16_t>(shard_.thread(f.pid, f.tid));
  row.kind = host_kind(f.event_class);
  const bool call = row.kind == HostKind::kRuntime || row.kind == HostKind::kDriver;
  row.link = id32(call ? a.correlation : a.external_id);
  if (!a.sequence.empty() || !a.shapes.empty() || !a.flops.empty()) {
    OpArgs args;
    args.sequence = number_or<int32_t>(a.sequence, -1);
    args.forward_thread = id32(a.forward_thread);
    args.flops = static_cast<uint64_t>(std::max<int64_t>(0, number_or<int64_t>(a.flops, 0)));
    if (!a.shapes.empty()) args.shapes = raw_text(a.shapes);
    if (!a.types.empty()) args.types = raw_text(a.types);
    row.args = static_cast<uint32_t>(shard_.op_args.size());
    shard_.op_args.push_back(args);
  }
  if (!a.collective.raw.empty()) shard_.host_collectives.emplace_back(shard_.host.size(), add_collective(a));
  shard_.host.push_back(row);
}

void KinetoEvents::add_activity(const Fields& f, const Arguments& a, int64_t start, int64_t duration) {
  const auto device = padded_number(a.device.empty() ? f.pid : a.device);
  if (!device || *device < INT32_MIN || *device > INT32_MAX) {
    ++shard_.issues[TraceIssueKind::kOutOfRange];
    return;
  }
  string_view lane = f.tid;
  if (lane.starts_with("stream ")) lane.remove_prefix(7);
  const int64_t stream = number_or<int64_t>(a.stream.empty() ? lane : a.stream, -1);
  if (f.event_class == EventClass::kSync) {
    shard_.syncs.push_back({start, duration, text(f.name), static_cast<int32_t>(*device), stream, id32(a.correlation)});
    return;
  }
  ActivityRow row;
  row.start_ns = start;
  row.duration_ns = duration;
  row.name = text(f.name);
  row.correlation = id32(a.correlation);
  row.kind = activity_kind(f.event_class);
  row.queue = shard_.queue({static_cast<int32_t>(*device), stream, number_or<int64_t>(a.context, 0)});
  ActivityArgs args;
  std::copy(a.grid, a.grid + 3, args.grid);
  std::copy(a.block, a.block + 3, args.block);
  args.registers = number_or<int32_t>(a.registers, 0);
  args.shared_bytes = number_or<int32_t>(a.shared, 0);
  args.bytes = number_or<int64_t>(a.bytes, -1);
  args.graph = id32(a.graph);
  args.graph_node = id32(a.graph_node);
  row.args = shard_.activity_args(args);
  if (!a.collective.raw.empty()) row.collective = add_collective(a);
  shard_.activity.push_back(row);
}

uint32_t KinetoEvents::add_collective(const Arguments& a) {
  Collective c;
  c.name = text(a.collective);
  if (!a.dtype.raw.empty()) c.dtype = text(a.dtype);
  if (!a.group.raw.empty()) c.group = text(a.group);
  if (!a.group_description.raw.empty()) c.group_description = text(a.group_description);
  if (!a.ranks.raw.empty()) c.ranks = text(a.ranks);
  c.in_elements = number_or<int64_t>(a.in_elements, -1);
  c.out_elements = number_or<int64_t>(a.out_elements, -1);
  c.group_size = number_or<int32_t>(a.group_size, 0);
  c.sequence = number_or<int64_t>(a.collective_sequence, -1);
  c.source = number_or<int32_t>(a.source, -1);
  c.destination = number_or<int32_t>(a.destination, -1);
  shard_.collectives.push_back(c);
  return static_cast<uint32_t>(shard_.collectives.size() - 1);
}

void KinetoEvents::add_instant(const Fields& f, const Arguments& a, int64_t start) {
  MemoryEvent m;
  m.time_ns = start;
  m.bytes = number_or<int64_t>(a.bytes, 0);
  m.total_allocated = number_or<int64_t>(a.total_allocated, -1);
  m.total_reserved = number_or<int64_t>(a.total_reserved, -1);
  m.address = number_or<uint64_t>(a.address, 0);
  m.device_type = number_or<int32_t>(a.device_type, -1);
  m.device = number_or<int32_t>(a.device_id, -1);
  m.thread = ThreadId(shard_.thread(f.pid, f.tid));
  shard_.memory.push_back(m);
}

void KinetoEvents::add_metadata(const Fields& f, const Arguments& a) {
  if (f.name.raw == "thread_name") shard_.name_thread(f.pid, f.tid, shard_.strings[text(a.name)]);
}

void KinetoEvents::add_counter(const Fields& f, int64_t start) {
  if (f.arguments.empty()) return;
  JsonReader reader(f.arguments.data(), f.arguments.data() + f.arguments.size() + 1);
  const StringId name = text(f.name);
  const auto device = number_or<int32_t>(f.pid, -1);
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

StringId KinetoEvents::raw_text(string_view raw) {
  const bool ascii = find(raw.data(), raw.data() + raw.size(), [](const TextBlock& b) { return b.high(); }) == raw.data() + raw.size();
  if (ascii) return shard_.strings.intern(unquoted(raw));
  return text({raw, false, true});
}

}  // namespace profgpu
