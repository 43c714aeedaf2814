// Collectives of several ranks, matched: which calls are one and the same collective.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "job/rank_digest.h"

namespace profgpu {

/// One rank's part in a collective.
struct RankCall {
  uint32_t rank = 0;        ///< place in the list of ranks
  uint32_t call = 0;        ///< CollectiveCalls::calls of that rank
};

/// What ranks have in common of a collective.
struct JobKind {
  std::string group, members, name;
  bool ends_together = false;   ///< no rank can leave it before all have arrived
};

struct MatchedCalls {
  std::vector<JobKind> kinds;
  std::vector<RankCall> calls;        ///< of one collective side by side, by rank
  std::vector<uint32_t> first = {0};  ///< calls first[i]..first[i+1] are collective i, of at least two ranks
  std::vector<uint32_t> kind;         ///< of collective i, in kinds
  std::vector<RankCall> alone;        ///< calls that no other rank in hand has, or that cannot be told apart
  std::vector<uint32_t> alone_kind;
  [[nodiscard]] size_t size() const { return kind.size(); }
  [[nodiscard]] std::span<const RankCall> operator[](size_t i) const {
    return {calls.data() + first[i], first[i + 1] - first[i]};
  }
  /// One collective more, at most one call a rank.
  void add(uint32_t of_kind, std::span<const RankCall> parts);
};

/// By group, name, size, step, and recorded number or order. Calls that share a number (coalesced ones, or a number
/// that began again) are matched in their order if all ranks have as many. O(calls log calls). What
/// is or may be a send or a receive is of a pair, not a group, and left out.
MatchedCalls matched_calls(std::span<const RankDigest> ranks);

// Members of a process group as traces name them.

/// Ranks of the job in the group's order, of "[0, 1]"; empty if it is no such list (long ones are cut: "[0, 1, ...]").
std::vector<int> member_ranks(std::string_view members);

}  // namespace profgpu
