// Ranks that arrive in time, but whose groups' transfers take longer than those of groups like them.
#pragma once

#include <map>
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
  struct Transfer {
    uint32_t meeting = 0;        ///< place in the list of meetings
    int64_t beyond_ns = 0;       ///< it takes longer than in groups alike; not negative
  };
  std::vector<Transfer> transfers;          ///< of the slow groups
  std::map<uint32_t, int64_t> exposed_ns;   ///< by rank's place, of the slow groups' ranks: what of that nothing hides
};

/// Groups are alike if they call the same collective with as many ranks on as many hosts and as many bytes; groups that
/// are alike in any call are of one sort. A group is slow if its transfers take at least 1.5 times as long as those of the
/// groups in the middle of its like. Named are ranks of which all groups of all sorts are slow; then, for slow groups
/// without such a rank, those in most of them, but none that has a sound group of the same sort: a link within a host
/// says nothing of the network. With one group of a sort nothing is said.
std::vector<SlowLink> slow_links(std::span<const RankDigest> ranks, std::span<const RankClock> clocks,
                                 const MatchedCalls& met, std::span<const Meeting> all);

}  // namespace profgpu
