// Which time averages are over.
#pragma once

#include "analyse/rank/facts.h"
#include "trace/intervals.h"

namespace profgpu {

/// What averages over steps leave out: warm-up and incomplete steps, long pauses between steps, and all that is outside
/// of steps where a good part of the device's work was launched there, as in the recording of a whole program of which
/// some steps are marked, or where a good part of the device's window is there.
struct AveragedTime {
  bool work_outside = false;
  /// Between successive steps of one recording, in no step's time, such as an evaluation; sorted. Empty if that is a
  /// small part of the recording, if much of the work is there, and in an inference engine, which waits for requests.
  Intervals pauses;
  Intervals left_out;          ///< on the host
  /// By index in Devices: averages are over the measured steps alone, not over the device's whole window.
  std::vector<bool> of_steps;

  /// The part of a device's time that averages are over; all of `time` is within the device's window.
  [[nodiscard]] Intervals part(const Facts& facts, size_t device, const Intervals& time) const;
  static AveragedTime compute(const Facts& facts);
};

}  // namespace profgpu
