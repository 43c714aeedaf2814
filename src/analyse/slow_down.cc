#include "analyse/slow_down.h"

#include <algorithm>
#include <cmath>

namespace profgpu {
namespace {

// A sample says nothing of a time further from it than so many typical distances.
constexpr int64_t kMostDistances = 10;

// Neither idleness nor clocks that somebody set.
constexpr uint32_t kHeldBack =
    static_cast<uint32_t>(ClockReason::kSwPowerCap) | static_cast<uint32_t>(ClockReason::kHwSlowdown) |
    static_cast<uint32_t>(ClockReason::kSyncBoost) | static_cast<uint32_t>(ClockReason::kSwThermal) |
    static_cast<uint32_t>(ClockReason::kHwThermal) | static_cast<uint32_t>(ClockReason::kHwPowerBrake);

const SampleSeries* find(const SampleLog& log, uint32_t device, Metric metric) {
  for (const SampleSeries& s : log.series)
    if (s.device == device && s.metric == metric && !s.time_ns.empty()) return &s;
  return nullptr;
}

double highest_clock(const SampleLog& log, uint32_t device, const SampleSeries& clock) {
  if (const SampleSeries* stated = find(log, device, Metric::kSmClockMax)) return stated->value.back();
  if (const auto stated = log.devices[device].constant(Metric::kSmClockMax)) return *stated;
  return *std::max_element(clock.value.begin(), clock.value.end());
}

int64_t typical_distance(const std::vector<int64_t>& times) {
  std::vector<int64_t> distances;
  for (size_t i = 1; i < times.size(); ++i) distances.push_back(times[i] - times[i - 1]);
  if (distances.empty()) return 0;
  const auto middle = distances.begin() + static_cast<ptrdiff_t>(distances.size() / 2);
  std::nth_element(distances.begin(), middle, distances.end());
  return *middle;
}

// The reasons that held at a time: those of the last sample before.
uint32_t reasons_at(const SampleSeries& reasons, int64_t time_ns) {
  const auto after = std::upper_bound(reasons.time_ns.begin(), reasons.time_ns.end(), time_ns);
  if (after == reasons.time_ns.begin()) return 0;
  return static_cast<uint32_t>(reasons.value[static_cast<size_t>(after - reasons.time_ns.begin()) - 1]);
}

}  // namespace

std::optional<ClockCourse> ClockCourse::of(const SampleLog& log, uint32_t device) {
  const SampleSeries* clock = find(log, device, Metric::kSmClock);
  const SampleSeries* reasons = find(log, device, Metric::kClockEventReasons);
  if (!clock || !reasons) return std::nullopt;
  ClockCourse course;
  course.highest_ = highest_clock(log, device, *clock);
  const int64_t typical_ns = typical_distance(clock->time_ns);
  for (size_t i = 0; i < clock->time_ns.size(); ++i) {
    const int64_t start = clock->time_ns[i];
    const int64_t next = i + 1 < clock->time_ns.size() ? clock->time_ns[i + 1] : start + typical_ns;
    if (next - start > kMostDistances * typical_ns || next <= start) continue;
    course.held_.push_back({start, next, clock->value[i], (reasons_at(*reasons, start) & kHeldBack) != 0});
  }
  if (course.held_.empty() || !(course.highest_ > 0)) return std::nullopt;
  return course;
}

std::optional<uint16_t> ClockCourse::slow_permille(int64_t start_ns, int64_t end_ns) const {
  auto at = std::upper_bound(held_.begin(), held_.end(), start_ns, [](int64_t t, const Held& h) { return t < h.end_ns; });
  int64_t reached = start_ns;
  double sum = 0;
  bool held_back = false;
  for (; at != held_.end() && at->start_ns <= reached && reached < end_ns; ++at) {
    const int64_t until = std::min(end_ns, at->end_ns);
    sum += at->clock * static_cast<double>(until - reached);
    held_back |= at->held_back;
    reached = until;
  }
  if (reached < end_ns || end_ns <= start_ns) return std::nullopt;
  if (!held_back) return uint16_t{0};
  const double clock = sum / static_cast<double>(end_ns - start_ns);
  return static_cast<uint16_t>(std::clamp(std::lround(1000 * (1 - clock / highest_)), 0L, 1000L));
}

}  // namespace profgpu
