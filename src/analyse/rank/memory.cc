#include "analyse/rank/memory.h"

#include <algorithm>
#include <functional>
#include <map>
#include <unordered_map>

#include "analyse/rank/names.h"
#include "analyse/rank/steps.h"
#include "base/statistics.h"
#include "base/text.h"

namespace profgpu {
namespace {

constexpr size_t kTimelinePoints = 500;
constexpr size_t kMaxSlopeSteps = 1000;

// DeviceType CUDA and HIP. Events of other accelerators are not certain to be device memory.
bool is_device_memory(const MemoryEvent& m) { return m.device_type == 1 || m.device_type == 6; }

using StepLevel = std::pair<double, double>;   // a step's number, bytes

/// Numbers steps as they follow each other: by the numbers in their names, so that those that were not recorded count,
/// and onwards where names count from the start again, as in each epoch.
class StepNumbers {
 public:
  int64_t next(int64_t named) {
    number_ += !before_ ? 0 : named > *before_ ? named - *before_ : 1;
    before_ = named;
    return number_;
  }

 private:
  std::optional<int64_t> before_;
  int64_t number_ = 0;
};

// The lowest allocation within each measured step. A step without events has the level before it, unless that is from
// another window: the time between windows was not recorded.
std::vector<StepLevel> lowest_by_step(const Facts& facts, const std::vector<MemoryEvent>& events) {
  const std::vector<Interval>& windows = facts.trace().windows;
  std::vector<StepLevel> lowest;
  StepNumbers numbers;
  for (const Step& step : facts.get<Steps>().steps) {
    const int64_t number = numbers.next(step.index);
    if (!step.measured) continue;
    auto it = std::ranges::lower_bound(events, step.start_ns, {}, &MemoryEvent::time_ns);
    const auto window = std::ranges::upper_bound(windows, step.start_ns, {}, &Interval::start);
    const int64_t known_from = window - windows.begin() < 2 ? INT64_MIN : std::prev(window)->start;
    const bool is_before_known = it != events.begin() && std::prev(it)->time_ns >= known_from;
    const int64_t before = is_before_known ? std::prev(it)->total_allocated : INT64_MAX;
    int64_t low = INT64_MAX;
    for (; it != events.end() && it->time_ns < step.interval().end; ++it) low = std::min(low, it->total_allocated);
    if (low == INT64_MAX) low = before;
    if (low != INT64_MAX) lowest.emplace_back(number, low);
  }
  return lowest;
}

// The number of pairs grows with the square of the steps; a thousand steps are enough.
std::vector<StepLevel> thinned(const std::vector<StepLevel>& levels) {
  std::vector<StepLevel> out;
  for (size_t i = 0; i < levels.size(); i += levels.size() / kMaxSlopeSteps + 1) out.push_back(levels[i]);
  return out;
}

// Events of old traces have no totals. Running sums of what was allocated and freed are totals less an unknown
// constant: they show growth, but not levels.
std::vector<MemoryEvent> with_relative_totals(std::vector<MemoryEvent> events) {
  int64_t sum = 0;
  for (MemoryEvent& m : events) {
    if (__builtin_add_overflow(sum, m.bytes, &sum)) return {};
    m.total_allocated = sum;
  }
  return events;
}

// Of each stretch of events the one with the highest allocation, so that peaks remain.
std::vector<MemoryPoint> thinned(const std::vector<MemoryEvent>& events) {
  std::vector<MemoryPoint> points;
  const size_t stretch = (events.size() + kTimelinePoints - 1) / kTimelinePoints;
  for (size_t i = 0; i < events.size(); i += stretch) {
    const MemoryEvent* top = &events[i];
    for (size_t j = i; j < std::min(i + stretch, events.size()); ++j)
      if (events[j].total_allocated > top->total_allocated) top = &events[j];
    MemoryPoint p{top->time_ns, top->total_allocated, std::nullopt};
    if (top->total_reserved >= 0) p.reserved_bytes = top->total_reserved;
    points.push_back(p);
  }
  return points;
}

// cudaMalloc and the like wait for the device; stream-ordered pools and host memory do not.
bool waits_for_device(std::string_view allocation) {
  return !contains(allocation, "Async") && !contains(allocation, "Host");
}

void count_allocator_calls(const Facts& facts, Memory& memory) {
  const Trace& trace = facts.trace();
  const Names& names = facts.get<Names>();
  std::vector<int64_t> times;   // of calls that wait
  for (uint32_t i = 0; i < trace.host.size(); ++i) {
    if (!trace.host.is_call(HostId(i)) || names.call[trace.host.name[i].value] != CallKind::kMemory) continue;
    ++memory.allocator_calls;
    if (waits_for_device(trace.name(HostId(i)))) times.push_back(trace.host.start_ns[i]);
  }
  std::sort(times.begin(), times.end());
  for (const Step* step : facts.get<Steps>().measured()) {
    const auto it = std::lower_bound(times.begin(), times.end(), step->start_ns);
    memory.steps_with_allocator_calls += it != times.end() && *it < step->interval().end;
  }
}

void add_levels(const std::vector<MemoryEvent>& known, Memory& memory) {
  const MemoryEvent *peak = nullptr, *before = nullptr;
  for (const MemoryEvent& m : known) {
    memory.peak_allocated_bytes = std::max(memory.peak_allocated_bytes.value_or(0), m.total_allocated);
    if (m.total_reserved < 0) continue;
    if (before != nullptr) {
      const int64_t more = m.total_reserved - before->total_reserved;
      const int64_t unused = before->total_reserved - before->total_allocated;
      memory.reserved_beside_unused |= more > 0 && unused >= more;
    }
    before = &m;
    memory.peak_reserved_bytes = std::max(memory.peak_reserved_bytes.value_or(0), m.total_reserved);
    // At the reserved peak, with the most allocated.
    const bool higher = peak == nullptr || m.total_reserved > peak->total_reserved ||
                        (m.total_reserved == peak->total_reserved && m.total_allocated > peak->total_allocated);
    if (higher) peak = &m;
  }
  if (peak != nullptr && peak->total_reserved > 0)
    memory.fragmentation_pct = percent_of(peak->total_reserved - peak->total_allocated, peak->total_reserved);
  memory.timeline = thinned(known);
}

void summarise(const Facts& facts, const std::vector<MemoryEvent>& events, Memory& memory) {
  std::vector<MemoryEvent> known;
  for (const MemoryEvent& m : events)
    if (m.total_allocated >= 0) known.push_back(m);
  if (!known.empty()) {
    add_levels(known, memory);
  } else if (facts.trace().windows.size() == 1) {   // sums do not span unrecorded time
    known = with_relative_totals(events);
  }
  if (facts.get<Steps>().annotated)
    memory.growth_bytes_per_step = theil_sen_slope(thinned(lowest_by_step(facts, known)));
}

}  // namespace

namespace {

// Of the rank that the steps are of where the lines say whose memory they tell of, else of all: the peak is the
// fullest device's.
Memory memory_of_log(const Facts& facts) {
  const Trace& trace = facts.trace();
  Memory memory;
  const auto raise = [](std::optional<int64_t>& peak, const std::optional<int64_t>& value) {
    if (value && *value > peak.value_or(-1)) peak = value;
  };
  const std::optional<int> rank = trace.distributed.rank;
  for (const LogMemory& m : trace.log->memory) {
    if (rank && m.rank && *rank != *m.rank) continue;
    raise(memory.peak_allocated_bytes, m.allocated_bytes), raise(memory.peak_allocated_bytes, m.max_allocated_bytes);
    raise(memory.peak_reserved_bytes, m.reserved_bytes), raise(memory.peak_reserved_bytes, m.max_reserved_bytes);
    raise(memory.capacity_bytes, m.capacity_bytes);
  }
  return memory;
}

}  // namespace

Memory Memory::compute(const Facts& facts) {
  const Trace& trace = facts.trace();
  if (trace.log != nullptr && trace.memory.empty()) return memory_of_log(facts);
  Memory memory;
  count_allocator_calls(facts, memory);
  std::map<int32_t, std::vector<MemoryEvent>> by_device;
  for (const MemoryEvent& m : trace.memory)
    if (is_device_memory(m)) by_device[m.device].push_back(m);
  // By share of capacity; by bytes if any capacity is unknown.
  const auto capacity_of = [&](int32_t device) { return trace.properties(std::max(device, 0)).memory_bytes; };
  const bool shares = std::ranges::all_of(by_device, [&](const auto& d) { return capacity_of(d.first) > 0; });
  double most = -1;
  const std::vector<MemoryEvent>* chosen = nullptr;
  for (const auto& [device, events] : by_device) {
    int64_t peak = 0, reserved = -1;
    for (const MemoryEvent& m : events) {
      peak = std::max({peak, m.total_allocated, m.total_reserved});
      reserved = std::max(reserved, m.total_reserved);
    }
    if (reserved >= 0) memory.reserved_by_device[device] = reserved;
    double fullness = static_cast<double>(peak);
    if (shares) fullness /= static_cast<double>(capacity_of(device));
    if (fullness > most) most = fullness, chosen = &events, memory.device = device;
  }
  int32_t device = memory.device;
  if (device < 0 && !trace.device_rows.empty()) device = trace.device_rows.front().device;
  if (const int64_t capacity = capacity_of(device); capacity > 0) memory.capacity_bytes = capacity;
  if (chosen != nullptr) summarise(facts, *chosen, memory);
  return memory;
}

namespace {

constexpr size_t kPoints = 2000;
constexpr size_t kMaxHolders = 100;
constexpr size_t kMaxFrames = 64;   // the innermost

std::vector<MemoryEvent> events_of(const Trace& trace, int32_t device) {
  std::vector<MemoryEvent> events;
  std::ranges::copy_if(trace.memory, std::back_inserter(events),
                       [&](const MemoryEvent& m) { return m.device == device && is_device_memory(m); });
  return events;
}

void add_point(const MemoryEvent& m, int64_t shift_ns, bool reserved, PageMemory& memory) {
  memory.time_ns.push_back(std::max<int64_t>(m.time_ns + shift_ns, 0));
  memory.allocated.push_back(m.total_allocated);
  if (reserved) memory.reserved.push_back(std::max<int64_t>(m.total_reserved, 0));
}

// Of each stretch of events the first, the lowest and the highest, in order of time.
void add_course(const std::vector<MemoryEvent>& events, int64_t shift_ns, PageMemory& memory) {
  std::vector<const MemoryEvent*> known;
  bool reserved = false;
  for (const MemoryEvent& m : events)
    if (m.total_allocated >= 0) known.push_back(&m), reserved |= m.total_reserved >= 0;
  const auto lower = [](const MemoryEvent* a, const MemoryEvent* b) { return a->total_allocated < b->total_allocated; };
  const size_t stretch = std::max<size_t>((3 * known.size() + kPoints - 1) / kPoints, 1);
  for (size_t i = 0; i < known.size(); i += stretch) {
    const auto begin = known.begin() + static_cast<ptrdiff_t>(i);
    const auto end = known.begin() + static_cast<ptrdiff_t>(std::min(i + stretch, known.size()));
    std::vector<const MemoryEvent*> shown = {*begin, *std::min_element(begin, end, lower),
                                             *std::max_element(begin, end, lower)};
    std::ranges::sort(shown);   // pointers into one vector in time order
    shown.erase(std::unique(shown.begin(), shown.end()), shown.end());
    for (const MemoryEvent* m : shown) add_point(*m, shift_ns, reserved, memory);
  }
}

// The innermost range of a thread that encloses a time. Invalid: none does.
HostId range_at(const Trace& trace, ThreadId thread, int64_t time_ns) {
  if (!thread.valid()) return {};
  const HostId after = trace.first_from(trace.threads[thread.value], time_ns + 1);
  if (after == trace.threads[thread.value].begin) return {};
  return trace.enclosing(HostId(size_t{after.value} - 1), [&](HostId at) { return trace.host.end_ns(at) >= time_ns; });
}

std::string stack_of(const Trace& trace, HostId at) {
  std::vector<std::string_view> frames;
  for (; at.valid() && frames.size() < kMaxFrames; at = trace.host.parent[at.value])
    if (trace.host.kind[at.value] != HostKind::kRuntime && trace.host.kind[at.value] != HostKind::kDriver)
      frames.push_back(trace.name(at));
  std::ranges::reverse(frames);
  return joined(frames, "\n");
}

struct Block {
  int64_t bytes = 0;
  HostId where;
};

// Blocks allocated within the trace that are live after the first `count` events.
std::unordered_map<uint64_t, Block> blocks_after(const Trace& trace, const std::vector<MemoryEvent>& events,
                                                 size_t count) {
  std::unordered_map<uint64_t, size_t> live;   // address to the event that allocated it
  for (size_t i = 0; i < count; ++i) {
    if (events[i].bytes > 0) live[events[i].address] = i;
    else live.erase(events[i].address);
  }
  std::unordered_map<uint64_t, Block> blocks;
  for (const auto& [address, i] : live)
    blocks[address] = {events[i].bytes, range_at(trace, events[i].thread, events[i].time_ns)};
  return blocks;
}

std::vector<PageHolder> holders(const Trace& trace, const std::unordered_map<uint64_t, Block>& blocks,
                                int64_t allocated) {
  std::map<std::pair<std::string_view, std::string>, PageHolder> by_place;
  int64_t known = 0;
  for (const auto& [address, block] : blocks) {
    const HostId op = trace.enclosing(block.where, [&](HostId at) {
      const HostKind kind = trace.host.kind[at.value];
      return kind == HostKind::kOp || kind == HostKind::kAnnotation;
    });
    const std::string_view name = op.valid() ? trace.name(op) : std::string_view();
    PageHolder& h = by_place[{name, stack_of(trace, block.where)}];
    h.bytes += block.bytes;
    ++h.blocks;
    known += block.bytes;
  }
  std::vector<PageHolder> all;
  for (auto& [place, holder] : by_place) {
    holder.op = place.first.empty() ? "(outside of any op)" : std::string(place.first);
    holder.stack = place.second;
    all.push_back(std::move(holder));
  }
  std::ranges::stable_sort(all, std::greater(), &PageHolder::bytes);
  if (all.size() > kMaxHolders) {
    PageHolder rest{"(other places)", "", 0, 0};
    for (size_t i = kMaxHolders; i < all.size(); ++i) rest.bytes += all[i].bytes, rest.blocks += all[i].blocks;
    all.resize(kMaxHolders);
    all.push_back(std::move(rest));
  }
  if (allocated > known) {
    PageHolder before{"(before the trace)", "", allocated - known, 0};
    all.insert(std::ranges::find_if(all, [&](int64_t bytes) { return bytes < before.bytes; }, &PageHolder::bytes),
               before);
  }
  return all;
}

}  // namespace

std::optional<PageMemory> memory_over_time(const Facts& facts, int64_t shift_ns) {
  const Trace& trace = facts.trace();
  const Memory& summary = facts.get<Memory>();
  if (!summary.peak_allocated_bytes) return std::nullopt;
  const std::vector<MemoryEvent> events = events_of(trace, summary.device);
  if (events.empty()) return std::nullopt;   // a log has peaks and no course
  PageMemory memory;
  memory.device = summary.device;
  add_course(events, shift_ns, memory);
  const auto peak = std::ranges::max_element(events, {}, &MemoryEvent::total_allocated);
  memory.peak_ns = std::max<int64_t>(peak->time_ns + shift_ns, 0);
  const auto blocks = blocks_after(trace, events, static_cast<size_t>(peak - events.begin()) + 1);
  memory.held = holders(trace, blocks, peak->total_allocated);
  return memory;
}

}  // namespace profgpu
