// Puts ranks on one clock, as far as their collectives allow.
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

// The offset between two clocks, from events that ended on both.

/// One collective or message, on ranks with known clocks and on one without.
struct Encounter {
  Interval known;               ///< on the first rank's clock
  Interval own;                 ///< on the unknown clock
  int64_t known_error_ns = 0;   ///< of `known`
  std::optional<bool> receives = std::nullopt;   ///< of a message: whether the own side received it
};

struct ClockFit {
  int64_t offset_ns = 0;        ///< to add to the own clock at the requested instant
  double drift_ppm = 0;         ///< change of that offset; 0: not visible
  int64_t error_ns = 0;
};

/// Quartz is within 100 ppm, so two clocks differ by at most twice that.
constexpr double kMaxDrift = 200e-6;

/// nullopt if no encounter can be one collective on both clocks. About half of the encounters may be wrong, more if
/// they disagree. `at_ns`: own time for which the offset is stated.
///
/// The error is half the spread of the middle half of the ends, which systematic differences may hide, plus four
/// standard errors of the fit. With fewer than eight encounters it is twice the whole spread; with fewer than four it
/// follows from no rank leaving before all have arrived. If ranks may leave early, the calls' length is added, unless
/// messages in both directions bound the offset more tightly: no receive ends before its send. O(n log n).
std::optional<ClockFit> fit_clock(const std::vector<Encounter>& encounters, int64_t at_ns, bool ends_together);

struct RankClock {
  int rank = 0;
  int64_t offset_ns = 0;           ///< add to this rank's times to get the first rank's; at the middle of its extent
  std::optional<int64_t> error_ns; ///< bound of the offset's error; see fit_clock()
  /// "reference" (the first rank), "collectives", "same host", "none"; for display only, not for who waits for whom:
  /// "stated" (Unix time, according to both hosts) and "steps" (equal steps begin together).
  std::string method;
  double drift_ppm = 0;            ///< change of the offset; 0: too small to be visible
  int64_t at_ns = 0;               ///< own time for which the offset is stated
  bool loose = false;              ///< from calls that some ranks may leave early: ends are only known to error_ns
  bool apart = false;              ///< other ranks with the same host name have another clock
  std::optional<int64_t> stated_error_ns = {};   ///< largest error of Unix time, according to the host
  std::optional<bool> agrees = {};   ///< whether that is consistent with the other hosts; see apply_statements()

  [[nodiscard]] bool known() const { return method != "none" && method != "steps" && method != "stated"; }
  /// A time of this rank on the first rank's clock.
  [[nodiscard]] int64_t aligned(int64_t time_ns) const {
    if (drift_ppm == 0) return saturated_add(time_ns, offset_ns);
    const double drift_ns = drift_ppm * 1e-6 * static_cast<double>(saturated_sub(time_ns, at_ns));
    return saturated_add(time_ns, saturated_add(offset_ns, std::llround(drift_ns)));
  }
  [[nodiscard]] Interval aligned(Interval time) const { return {aligned(time.start), aligned(time.end)}; }
  [[nodiscard]] Interval aligned(const CollectiveCall& call) const { return aligned(call.time()); }

  void fields(auto&& v) const {
    v("rank", rank), v("offset_ns", offset_ns), v("error_ns", error_ns), v("method", method), v("drift_ppm", drift_ppm);
    v("stated_error_ns", stated_error_ns), v("agrees", agrees);
  }
};

/// One per rank, in their order. Ranks join the first one's clock through shared collectives, those that share most
/// first; then ranks of one host get one clock if they agree. `trust_hosts`: even if they disagree, while calls may be
/// matched wrongly.
std::vector<RankClock> align_clocks(std::span<const RankDigest> ranks, const MatchedCalls& matches,
                                    bool trust_hosts = false);

/// Applies and checks the hosts' statements about their clocks. Each is an interval of the first rank's clock that
/// contains Unix time, widened by the offset's own error; those that contain the point on which most hosts agree can be
/// true. Ranks without a link to the first are placed by Unix time, if their host and one of the linked ones state an
/// error.
///
/// Returns one sentence, without a full stop, for each wrong or uncertain statement.
std::vector<std::string> apply_statements(std::span<const RankDigest> ranks, std::vector<RankClock>& clocks);

}  // namespace profgpu
