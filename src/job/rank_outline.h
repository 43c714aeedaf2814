// What is known of a rank's events after its trace is gone: where they lie in time, and how many there are.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyse/facts.h"

namespace profgpu {

/// What is shown of a trace that is cut to a part of its time: host ranges up to the part's ends, and whole whatever a
/// device ran in it or was given in it.
class TracePart {
 public:
  static constexpr Interval kAllTime{INT64_MIN, INT64_MAX};
  explicit TracePart(const Trace& trace, Interval part = kAllTime) : trace_(trace), part_(part) {}

  /// What is shown of a range; none: nothing.
  [[nodiscard]] std::optional<Interval> shown(Interval range) const;
  [[nodiscard]] bool shows(int64_t time_ns) const { return part_.start <= time_ns && time_ns <= part_.end; }
  [[nodiscard]] bool shows(HostId h) const { return shown(trace_.host.interval(h)).has_value(); }
  [[nodiscard]] bool shows(ActivityId a) const;

 private:
  const Trace& trace_;
  Interval part_;
};

struct RankOutline {
  std::optional<Interval> part = TracePart::kAllTime;   ///< that is shown; none: the rank has nothing of what was asked for
  int64_t base_time_ns = 0;                 ///< as Trace has it
  std::string host;                         ///< empty: unknown
  /// From the first to the last time of any range or activity that is shown; none: the trace is empty.
  std::optional<Interval> extent;
  std::vector<int64_t> first_others_ns;     ///< first memory event, counter, wait, wait of a thread; of a rank that is not cut
  int64_t events = 0;                       ///< ranges and activities that are shown
  std::vector<ActivityId> calls;            ///< of a rank that is cut: kernels of collectives that are shown, ascending

  [[nodiscard]] bool is_cut() const { return part != TracePart::kAllTime; }
  /// O(events) if cut.
  static RankOutline of(const Facts& facts, std::optional<Interval> part = TracePart::kAllTime);
};

}  // namespace profgpu
