// How much of a kernel's duration reduced clocks explain, from samples of the device.
//
// A kernel that only computes takes time in proportion to one over the SM clock, so of a duration d at clock c it would have taken
// d · c/m at the highest clock m: the clock explains at most d · (1 − c/m). It is an upper bound: what waits for memory
// or for other devices hardly gets shorter. c is the mean over the kernel of the sampled clock, each sample holding until the
// next; m the device's stated maximum SM clock, else the highest that was sampled. Said only of compute kernels that run wholly
// within the time that is sampled, while the device gave a reason for holding its clocks back (power, temperature,
// brake: not idleness, and not clocks that somebody set).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "trace/sample.h"

namespace profgpu {

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

}  // namespace profgpu
