// Ranks on one clock, as far as what they did together tells.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analyse/job/rank_digest.h"
#include "base/saturated.h"
#include "trace/trace.h"

namespace profgpu {

struct MatchedCalls;

// How far one clock is from another, from things that both saw end.

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
constexpr double kMaxDrift = 200e-6;

/// nullopt if no encounter can be one collective on both clocks. Up to about half of the encounters may be wrong, more
/// if they disagree. `at_ns`: own time that the offset is stated for.
///
/// The error is what systematic differences of ends may hide (half the spread of the middle half) and four standard
/// errors of the fit; of fewer than eight encounters twice the whole spread; of fewer than four what follows from no
/// rank leaving before all have arrived; where ranks may leave early, the calls' length on top, unless messages in both
/// directions hold the offset closer: no receive ends before its send has. O(n log n).
std::optional<ClockFit> fit_clock(const std::vector<Encounter>& encounters, int64_t at_ns, bool ends_together);

struct RankClock {
  int rank = 0;
  int64_t offset_ns = 0;           ///< add to this rank's times to get the first rank's; at the middle of its extent
  std::optional<int64_t> error_ns; ///< the true offset is within it; see clock_fit.h
  /// "reference" (the first), "collectives", "same host", "none"; good enough for a picture, but not for who waits for
  /// whom: "stated" (Unix time, which both hosts say they have) and "steps" (equal steps begin together).
  std::string method;
  double drift_ppm = 0;            ///< change of the offset; 0 where it is too small to be seen
  int64_t at_ns = 0;               ///< own time for which the offset is stated
  bool loose = false;  ///< from calls that some ranks may leave before others: ends do not say more than error_ns
  bool apart = false;              ///< other ranks with the same host name show another clock
  std::optional<int64_t> stated_error_ns = {};  ///< what the host says that it is from Unix time at most
  std::optional<bool> agrees = {};   ///< whether that can be so, beside the others' statements; see apply_statements()

  [[nodiscard]] bool known() const { return method != "none" && method != "steps" && method != "stated"; }
  /// A time of this rank on the first rank's clock.
  [[nodiscard]] int64_t aligned(int64_t time_ns) const {
    if (drift_ppm == 0) return saturated_add(time_ns, offset_ns);
    const double drift_ns = drift_ppm * 1e-6 * static_cast<double>(saturated_sub(time_ns, at_ns));
    return saturated_add(time_ns, saturated_add(offset_ns, std::llround(drift_ns)));
  }
  [[nodiscard]] Interval aligned(Interval time) const { return {aligned(time.start), aligned(time.end)}; }
  [[nodiscard]] Interval aligned(const CollectiveCall& call) const {
    return aligned(Interval{call.start_ns, call.end_ns});
  }

  void fields(auto&& v) const {
    v("rank", rank), v("offset_ns", offset_ns), v("error_ns", error_ns), v("method", method), v("drift_ppm", drift_ppm);
    v("stated_error_ns", stated_error_ns), v("agrees", agrees);
  }
};

/// One a rank, in their order. Ranks join the first one's clock along the collectives that they share, those that share
/// most first; then ranks of one host are put on one clock where they agree. `trust_hosts`: whether they agree or not,
/// as long as calls may be matched wrongly.
std::vector<RankClock> align_clocks(std::span<const RankDigest> ranks, const MatchedCalls& met,
                                    bool trust_hosts = false);

// What hosts say of their clocks, beside what collectives show of them.

/// Fills in what ranks' hosts state, and checks it: each statement is a stretch of the first rank's clock in which Unix
/// time then lies, wider by the offset's own error, and those that hold where most hosts' do can be true. Ranks that
/// nothing ties to the first are put where Unix time has them, if their host states its error and so does one of
/// theirs.
///
/// What is wrong, or less sure than it looks, is said in one sentence each, without a full stop.
std::vector<std::string> apply_statements(std::span<const RankDigest> ranks, std::vector<RankClock>& clocks);

}  // namespace profgpu
