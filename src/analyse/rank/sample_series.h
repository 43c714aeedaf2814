// Samples of devices on a page's time axis, and the ranks that ran on them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "analyse/rank/kept_events.h"
#include "analyse/report/page.h"
#include "trace/sample.h"

namespace profgpu {

/// One device's SM clock over time, on the log's clock, and how much of a kernel's duration a reduced clock explains.
///
/// The duration of a kernel that only computes is inversely proportional to the SM clock: a duration d at clock c would
/// be d · c/m at the highest clock m, so the clock explains at most d · (1 − c/m). This is an upper bound: waits for
/// memory or other devices hardly get shorter. c is the mean of the sampled clock over the kernel, each sample holding
/// until the next; m is the device's stated maximum SM clock, else the highest sample. Only for compute kernels within
/// the sampled time, while the device reports a reason for reduced clocks (power, temperature, brake; not idleness or a
/// user's setting).
class ClockCourse {
 public:
  /// Nothing if the log lacks SM clocks, their maximum or reasons.
  static std::optional<ClockCourse> of(const SampleLog& log, uint32_t device);

  /// Permille of the duration that the clock explains at most; 0: clocks were not reduced; unknown outside the samples,
  /// or if they are more than ten of their median distances apart.
  [[nodiscard]] std::optional<uint16_t> slow_permille(int64_t start_ns, int64_t end_ns) const;

 private:
  struct Held {
    int64_t start_ns = 0, end_ns = 0;
    double clock = 0;       // MHz
    bool held_back = false;
  };
  std::vector<Held> held_;  // in time order, with gaps where the clock is unknown
  double highest_ = 0;
};

/// Of one rank's devices.
struct DeviceClocks {
  std::map<int32_t, ClockCourse> courses;   ///< by the device's id in the rank's trace
  int64_t shift_ns = 0;     ///< added to the page's times gives the log's
};

/// A log on the page's time axis.
struct PlacedSamples {
  const SampleLog* log = nullptr;
  int64_t shift_ns = 0;        ///< added to the page's times gives the log's Unix time
  int64_t span_ns = 0;         ///< the page's
};

/// The log's device that a rank's trace calls `device`: the one with that index, or if both have only one device, that
/// one (CUDA_VISIBLE_DEVICES changes a program's numbers, not the driver's). None if the names differ, or if the device
/// may be on another host: see trace/sample.h.
std::optional<uint32_t> sampled_device(const SampleLog& log, const std::vector<PlacedRank>& ranks,
                                       const PlacedRank& rank, int32_t device);

/// Every gauge within the page's time; at most about 4,000 points each: the least and the most of equal stretches (for
/// clock reasons, all bits that were set). `rank_of`: by the log's device.
std::vector<PageSeries> sample_series(const PlacedSamples& samples, const std::map<uint32_t, int>& rank_of);

}  // namespace profgpu
