// Collectives on one clock: who came when, who waited for whom, how long the transfer took.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "job/clocks.h"
#include "job/matched_calls.h"

namespace profgpu {

/// One collective on the first rank's clock.
struct Meeting {
  uint32_t collective = 0;       ///< place in MatchedCalls
  std::span<const RankCall> calls;
  int64_t last_ns = INT64_MIN;   ///< last arrival
  int64_t end_ns = INT64_MIN;
  uint32_t latest = 0;           ///< rank's place
  bool measured = true;          ///< all its calls are in steps that averages are over
  bool whole_group = false;      ///< all ranks of the group are in hand
  [[nodiscard]] int64_t transfer_ns() const { return saturated_sub(end_ns, last_ns); }
};

/// Ranks leave a collective within this, or within half of the shortest call of it.
constexpr int64_t kEndsApart_ns = 50'000;

/// Calls as one meeting; nullopt unless all clocks are known and, if it `ends_together`, all were in it at one time and
/// left it together.
std::optional<Meeting> meeting_of(std::span<const RankDigest> ranks, std::span<const RankCall> calls,
                                  bool ends_together, std::span<const RankClock> clocks);

/// Meetings of ranks whose clocks are known, by last arrival. Calls that should end together but were not in it at the
/// same time were matched wrongly, for want of sequence numbers, and say nothing.
std::vector<Meeting> meetings(std::span<const RankDigest> ranks, const MatchedCalls& met,
                              std::span<const RankClock> clocks);

/// Compute of a rank beside one of its calls, on the call's clock.
std::span<const Interval> cover(const RankDigest& rank, const CollectiveCall& call);

}  // namespace profgpu
