// How far one clock is from another, from things that both saw end.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "trace/trace.h"

namespace profgpu {

/// One collective, or one message, as ranks with known clocks and one without have it.
struct Encounter {
  Interval known;               ///< on the first rank's clock
  Interval own;                 ///< on the clock that is looked for
  int64_t known_error_ns = 0;   ///< of `known`
  std::optional<bool> receives = std::nullopt;   ///< of a message: whether the own side received it
};

struct ClockFit {
  int64_t offset_ns = 0;        ///< to be added to the own clock at the instant asked for
  double drift_ppm = 0;         ///< change of that offset; 0 where the encounters do not show one
  int64_t error_ns = 0;
};

/// Quartz is within 100 ppm, so two clocks part by no more.
constexpr double kMostDrift = 200e-6;

/// nullopt if no encounter can be one collective on both clocks. Up to about half of the encounters may be wrong, more
/// if they disagree. `at_ns`: own time that the offset is stated for.
///
/// The error is what systematic differences of ends may hide (half the spread of the middle half) and four standard
/// errors of the fit; of fewer than eight encounters twice the whole spread; of fewer than four what follows from no
/// rank leaving before all have arrived; where ranks may leave early, the calls' length on top, unless messages in both
/// directions hold the offset closer: no receive ends before its send has. O(n log n).
std::optional<ClockFit> fit_clock(const std::vector<Encounter>& encounters, int64_t at_ns, bool ends_together);

}  // namespace profgpu
