#include "analyse/slow_down.h"

#include <algorithm>
#include <cmath>

namespace profgpu {
namespace {

// A sample says nothing of a time further from it than so many typical distances.
constexpr int64_t kMostDistances = 10;

double highest_clock(const SampleLog& log, uint32_t device, const SampleSeries& clock) {
  if (const SampleSeries* stated = log.find(device, Metric::kSmClockMax)) return stated->value.back();
  if (const auto stated = log.devices[device].constant(Metric::kSmClockMax)) return *stated;
  return *std::max_element(clock.value.begin(), clock.value.end());
}

}  // namespace

std::optional<ClockCourse> ClockCourse::of(const SampleLog& log, uint32_t device) {
  const SampleSeries* clock = log.find(device, Metric::kSmClock);
  const SampleSeries* reasons = log.find(device, Metric::kClockEventReasons);
  if (!clock || !reasons) return std::nullopt;
  ClockCourse course;
  course.highest_ = highest_clock(log, device, *clock);
  const int64_t typical_ns = median_distance(clock->time_ns);
  for (size_t i = 0; i < clock->time_ns.size(); ++i) {
    const int64_t start = clock->time_ns[i];
    const int64_t next = i + 1 < clock->time_ns.size() ? clock->time_ns[i + 1] : start + typical_ns;
    if (next - start > kMostDistances * typical_ns || next <= start) continue;
    course.held_.push_back({start, next, clock->value[i], (static_cast<uint32_t>(reasons->at(start).value_or(0)) & kHeldBackReasons) != 0});
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
