#include "import/recording_clock.h"

#include <algorithm>
#include <cmath>

namespace profgpu {
namespace {

// Two readings differ by what the clocks drift (a disciplined clock: at most 500 ppm) and by what an interruption
// between them costs. More is a step.
constexpr int64_t kStepNs = 1'000'000;
constexpr double kDrift = 1e-3;
// Rows lie near the readings around them in the file; a splinter of a clock far away says nothing of them.
constexpr size_t kNearSegments = 4;

bool plausible(int64_t ns) { return ns > -RecordingClock::kLatest && ns < RecordingClock::kLatest; }

}  // namespace

RecordingClock::RecordingClock(const std::vector<wire::ClockSync>& syncs) {
  assumed_unix_ = std::none_of(syncs.begin(), syncs.end(), [](const auto& s) { return s.device_ns != 0; });
  bool first = true;
  for (size_t i = 0; i < syncs.size(); ++i) {
    const wire::ClockSync& s = syncs[i];
    if (!plausible(s.host_ns) || !plausible(s.unix_ns) || !plausible(s.device_ns)) continue;
    if (first) unix_less_host_ns_ = s.unix_ns - s.host_ns, first_host_ns_ = s.host_ns;
    first = false;
    const int64_t device = assumed_unix_ ? s.unix_ns : s.device_ns;
    if (device == 0) continue;
    const Point p{device, s.host_ns, i};
    if (!points_.empty()) {
      const Point& before = points_.back();
      if (p.device_ns == before.device_ns && p.host_ns == before.host_ns) continue;
      const int64_t host = p.host_ns - before.host_ns, passed = p.device_ns - before.device_ns;
      const bool steady = host >= 0 && passed > 0 &&
                          std::abs(static_cast<double>(host - passed)) <= kStepNs + kDrift * static_cast<double>(host);
      if (!steady) segments_.push_back({points_.size(), points_.size()});
    } else {
      segments_.push_back({0, 0});
    }
    points_.push_back(p);
    segments_.back().end = points_.size();
  }
}

int64_t RecordingClock::on(const Segment& segment, int64_t device_ns) const {
  const auto begin = points_.begin() + static_cast<int64_t>(segment.begin);
  const auto end = points_.begin() + static_cast<int64_t>(segment.end);
  const auto after = std::upper_bound(begin, end, device_ns, [](int64_t t, const Point& p) { return t < p.device_ns; });
  const Point& from = after == begin ? *begin : *std::prev(after);
  const int64_t passed = device_ns - from.device_ns;
  if (after == begin || after == end) return from.host_ns + passed;
  const int64_t host = after->host_ns - from.host_ns, device = after->device_ns - from.device_ns;
  const double rate_less_1 = static_cast<double>(host - device) / static_cast<double>(device);
  return from.host_ns + passed + std::llround(rate_less_1 * static_cast<double>(passed));
}

int64_t RecordingClock::host_ns(int64_t device_ns, size_t syncs_before) const {
  if (points_.empty()) return device_ns;
  if (segments_.size() == 1) return on(segments_.front(), device_ns);
  // A row is written before the reading that follows it, as a rule.
  const auto next = std::lower_bound(points_.begin(), points_.end(), syncs_before,
                                     [](const Point& p, size_t n) { return p.sync < n; });
  const size_t point = std::min(static_cast<size_t>(next - points_.begin()), points_.size() - 1);
  const auto holder = std::upper_bound(segments_.begin(), segments_.end(), point,
                                       [](size_t p, const Segment& s) { return p < s.begin; });
  const auto here = static_cast<size_t>(holder - segments_.begin()) - 1;
  const auto distance = [&](const Segment& s) {
    const int64_t low = points_[s.begin].device_ns, high = points_[s.end - 1].device_ns;
    return device_ns < low ? low - device_ns : device_ns > high ? device_ns - high : 0;
  };
  size_t best = here;
  for (size_t off = 1; off <= kNearSegments; ++off) {
    if (off <= here && distance(segments_[here - off]) < distance(segments_[best])) best = here - off;
    if (here + off < segments_.size() && distance(segments_[here + off]) < distance(segments_[best])) best = here + off;
  }
  return on(segments_[best], device_ns);
}

}  // namespace profgpu
