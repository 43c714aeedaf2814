// Ranks whose files are of another run than the others'.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "job/rank_digest.h"

namespace profgpu {

struct OtherRun {
  int rank = 0;
  std::string why;   ///< a clause: "it states a world of 16 ranks, most others one of 4"

  template <class V>
  void fields(V&& v) const {
    v("rank", rank), v("why", why);
  }
};

/// By rank, only where it can be told: a rank that states another size of the world than most; or one recorded at least a
/// minute apart from most ranks, by the clocks in the files, whose collectives are not theirs on any clock, or are of
/// other steps. A clock that is wrong by hours puts nobody out: collectives then fit as if it were right. Of as many
/// ranks on both sides, the first one's side is the run. O(calls log calls), where anything looks strange.
std::vector<OtherRun> ranks_of_other_runs(std::span<const RankDigest> ranks);

/// Whether the trace has Unix time, not time from some moment of its own.
bool has_unix_time(const RankDigest& rank);

}  // namespace profgpu
