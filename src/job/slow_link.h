// Ranks that arrive in time, but whose groups' transfers take longer than those of groups like them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "job/lateness.h"

namespace profgpu {

struct SlowLink {
  std::vector<uint32_t> ranks;   ///< places; several: it cannot be told whose link it is, they share their slow groups
  int64_t excess_ns = 0;         ///< exposed time beyond that of groups alike, over measured steps, median over the group
  std::string what;              ///< what costs most: "all_gather of 25.0 MiB among 4 ranks"
  int64_t transfer_ns = 0, others_ns = 0;   ///< of one such call, medians
};

/// Groups are alike if they call the same collective with as many ranks on as many hosts and as many bytes. A group is
/// slow if its transfers take at least 1.5 times as long as those of the groups in the middle of its like. A rank is named
/// if all its groups that can be compared are slow; with one group of a kind nothing is said.
std::vector<SlowLink> slow_links(std::span<const RankDigest> ranks, std::span<const RankClock> clocks,
                                 const MatchedCalls& met, std::span<const Meeting> all);

}  // namespace profgpu
