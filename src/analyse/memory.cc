#include "analyse/memory.h"

#include <algorithm>
#include <map>

#include "analyse/names.h"
#include "analyse/steps.h"
#include "base/statistics.h"

namespace profgpu {
namespace {

constexpr size_t kTimelinePoints = 500;
constexpr size_t kMostSlopeSteps = 1000;

// DeviceType CUDA and HIP; every other type but the CPU's is an accelerator too, but has no allocator events of this
// kind that are device memory for certain.
bool is_device_memory(const MemoryEvent& m) { return m.device_type == 1 || m.device_type == 6; }

using StepLevel = std::pair<double, double>;   // a step's number, bytes

// The lowest allocation within each measured step; a step without events has the level before it, unless that is from
// before its window: what happened between windows is not known.
std::vector<StepLevel> lowest_by_step(const Facts& facts, const std::vector<MemoryEvent>& events) {
  const std::vector<Interval>& windows = facts.trace().windows;
  std::vector<StepLevel> lowest;
  for (const Step* step : facts.get<Steps>().measured()) {
    auto it = std::lower_bound(events.begin(), events.end(), step->start_ns,
                               [](const MemoryEvent& m, int64_t t) { return m.time_ns < t; });
    const auto window = std::upper_bound(windows.begin(), windows.end(), step->start_ns,
                                         [](int64_t t, const Interval& w) { return t < w.start; });
    const int64_t known_from = window - windows.begin() < 2 ? INT64_MIN : std::prev(window)->start;
    const bool is_before_known = it != events.begin() && std::prev(it)->time_ns >= known_from;
    const int64_t before = is_before_known ? std::prev(it)->total_allocated : INT64_MAX;
    int64_t low = INT64_MAX;
    for (; it != events.end() && it->time_ns < step->interval().end; ++it) low = std::min(low, it->total_allocated);
    if (low == INT64_MAX) low = before;
    if (low != INT64_MAX) lowest.emplace_back(step->index, low);
  }
  return lowest;
}

// Pairs grow with the square of the steps; a thousand steps say as much as all.
std::vector<StepLevel> thinned(const std::vector<StepLevel>& levels) {
  std::vector<StepLevel> out;
  for (size_t i = 0; i < levels.size(); i += levels.size() / kMostSlopeSteps + 1) out.push_back(levels[i]);
  return out;
}

// Events of old traces carry no totals: sums of what was allocated and freed stand in for them. They are
// the totals less an unknown constant, so growth can be had from them, levels cannot.
std::vector<MemoryEvent> with_relative_totals(std::vector<MemoryEvent> events) {
  int64_t sum = 0;
  for (MemoryEvent& m : events) {
    if (__builtin_add_overflow(sum, m.bytes, &sum)) return {};
    m.total_allocated = sum;
  }
  return events;
}

// Every peak of a stretch of events stays: of each, the event with the highest allocation.
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

// cudaMalloc and kin wait for the device; what asks a pool on a stream, or for memory of the host, does not.
bool waits_for_device(std::string_view allocation) {
  return allocation.find("Async") == allocation.npos && allocation.find("Host") == allocation.npos;
}

void count_allocator_calls(const Facts& facts, Memory& memory) {
  const Trace& trace = facts.trace();
  const Names& names = facts.get<Names>();
  std::vector<int64_t> times;   // of those that wait
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
  const MemoryEvent* peak = nullptr;
  for (const MemoryEvent& m : known) {
    memory.peak_allocated_bytes = std::max(memory.peak_allocated_bytes.value_or(0), m.total_allocated);
    if (m.total_reserved < 0) continue;
    memory.peak_reserved_bytes = std::max(memory.peak_reserved_bytes.value_or(0), m.total_reserved);
    // At the reserved peak; where that lasts, at its fullest.
    const bool higher = peak == nullptr || m.total_reserved > peak->total_reserved ||
                        (m.total_reserved == peak->total_reserved && m.total_allocated > peak->total_allocated);
    if (higher) peak = &m;
  }
  if (peak != nullptr && peak->total_reserved > 0)
    memory.fragmentation_pct = 100.0 * static_cast<double>(peak->total_reserved - peak->total_allocated) /
                               static_cast<double>(peak->total_reserved);
  memory.timeline = thinned(known);
}

void summarise(const Facts& facts, const std::vector<MemoryEvent>& events, Memory& memory) {
  std::vector<MemoryEvent> known;
  for (const MemoryEvent& m : events)
    if (m.total_allocated >= 0) known.push_back(m);
  if (!known.empty()) {
    add_levels(known, memory);
  } else if (facts.trace().windows.size() == 1) {   // sums do not reach across what was not recorded
    known = with_relative_totals(events);
  }
  if (facts.get<Steps>().annotated) memory.growth_bytes_per_step = theil_sen_slope(thinned(lowest_by_step(facts, known)));
}

}  // namespace

Memory Memory::compute(const Facts& facts) {
  const Trace& trace = facts.trace();
  Memory memory;
  count_allocator_calls(facts, memory);
  std::map<int32_t, std::vector<MemoryEvent>> by_device;
  for (const MemoryEvent& m : trace.memory)
    if (is_device_memory(m)) by_device[m.device].push_back(m);
  // By share of its capacity, or by bytes where that is not known of all.
  const bool shares = std::all_of(by_device.begin(), by_device.end(),
                                  [&](const auto& d) { return trace.properties(std::max(d.first, 0)).memory_bytes > 0; });
  double most = -1;
  const std::vector<MemoryEvent>* chosen = nullptr;
  for (const auto& [device, events] : by_device) {
    int64_t peak = 0;
    for (const MemoryEvent& m : events) peak = std::max({peak, m.total_allocated, m.total_reserved});
    double fullness = static_cast<double>(peak);
    if (shares) fullness /= static_cast<double>(trace.properties(std::max(device, 0)).memory_bytes);
    if (fullness > most) most = fullness, chosen = &events, memory.device = device;
  }
  int32_t device = memory.device;
  if (device < 0 && !trace.device_rows.empty()) device = trace.device_rows.front().device;
  if (const int64_t capacity = trace.properties(std::max(device, 0)).memory_bytes; capacity > 0)
    memory.capacity_bytes = capacity;
  if (chosen != nullptr) summarise(facts, *chosen, memory);
  return memory;
}

}  // namespace profgpu
