// Samples of devices on a page's time axis, and which rank ran on which of them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "analyse/rank/kept_events.h"
#include "analyse/report/page.h"
#include "trace/sample.h"

namespace profgpu {

// How much of a kernel's duration reduced clocks explain, from samples of the device.
//
// A kernel that only computes takes time in proportion to one over the SM clock, so of a duration d at clock c it would
// have taken d · c/m at the highest clock m: the clock explains at most d · (1 − c/m). It is an upper bound: what waits
// for memory or for other devices hardly gets shorter. c is the mean over the kernel of the sampled clock, each sample
// holding until the next; m the device's stated maximum SM clock, else the highest that was sampled. Said only of
// compute kernels that run wholly within the time that is sampled, while the device gave a reason for holding its
// clocks back (power, temperature, brake: not idleness, and not clocks that somebody set).

/// What one device ran at. Times are those of the log.
class ClockCourse {
 public:
  /// Nothing where the log lacks SM clocks, their maximum or reasons.
  static std::optional<ClockCourse> of(const SampleLog& log, uint32_t device);

  /// Permille of the duration that the clock explains at most, 0 where clocks were not held back; unknown outside the
  /// samples, or where they lie too far apart (ten of their median distances).
  [[nodiscard]] std::optional<uint16_t> slow_permille(int64_t start_ns, int64_t end_ns) const;

 private:
  struct Held {
    int64_t start_ns = 0, end_ns = 0;
    double clock = 0;       // MHz
    bool held_back = false;
  };
  std::vector<Held> held_;  // in order of time; gaps where nothing is known
  double highest_ = 0;
};

/// Of the devices of one rank, by the id that its trace gives them, with times on the page's axis.
struct DeviceClocks {
  std::map<int32_t, ClockCourse> courses;
  int64_t shift_ns = 0;     ///< added to the page's times gives the log's
};

/// A log on the page's time axis.
struct PlacedSamples {
  const SampleLog* log = nullptr;
  int64_t shift_ns = 0;        ///< added to the page's times gives Unix time, which the log has
  int64_t span_ns = 0;         ///< the page's
};

/// The device of the log that a rank's trace calls `device`: the one with that index; or the only one, if both have one
/// only, whatever their numbers (CUDA_VISIBLE_DEVICES changes a program's, not the driver's). None where their names
/// differ, or where it is not known to be of the rank's host: see trace/sample.h.
std::optional<uint32_t> sampled_device(const SampleLog& log, const std::vector<PlacedRank>& ranks,
                                       const PlacedRank& rank, int32_t device);

/// Every gauge within the page's time; at most about 4,000 points each, means of equal stretches (of reasons, all that
/// were set). `rank_of`: of the log's devices.
std::vector<PageSeries> sample_series(const PlacedSamples& samples, const std::map<uint32_t, int>& rank_of);

}  // namespace profgpu
