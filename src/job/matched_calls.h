// Collectives of several ranks, matched: which calls are one and the same collective.
#pragma once

#include <cstdint>
#include <span>
#include <string>
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
  bool operator==(const JobKind& o) const { return std::tie(group, members, name) == std::tie(o.group, o.members, o.name); }
};

struct MatchedCalls {
  std::vector<JobKind> kinds;
  std::vector<RankCall> calls;        ///< of one collective side by side, by rank
  std::vector<uint32_t> first;        ///< calls first[i]..first[i+1] are collective i, of at least two ranks
  std::vector<uint32_t> kind;         ///< of collective i, in kinds
  [[nodiscard]] size_t size() const { return kind.size(); }
  [[nodiscard]] std::span<const RankCall> operator[](size_t i) const {
    return {calls.data() + first[i], first[i + 1] - first[i]};
  }
};

/// O(calls log calls). Send and receive are pairs, not groups, and left out.
MatchedCalls matched_calls(std::span<const RankDigest> ranks);

}  // namespace profgpu
