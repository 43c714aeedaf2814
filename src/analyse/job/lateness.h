// Who waits for whom: how long ranks stall in collectives, for which rank, in which step.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analyse/job/matched_collectives.h"

namespace profgpu {

constexpr double kStragglerPct = 5;   ///< of the mean step, output.md

/// A rank that others wait for in measured steps. A rank is late at a collective if it arrives last; one that is late
/// at most of its collectives is also late where it arrives shortly before the last: two slow ranks do not hide each
/// other.
struct LateRank {
  struct Step {
    uint32_t index = 0;          ///< in RankDigest::steps
    int64_t excess_ns = 0;
  };
  uint32_t rank = 0;             ///< index in the list of ranks
  int64_t excess_ns = 0;         ///< exposed waiting for it over all steps, median over the ranks that wait
  std::vector<Step> steps;       ///< by index; steps in which ranks wait
  std::vector<uint32_t> waiting; ///< indices of ranks that arrive before it, ascending; a sample of large groups
};

struct Waiting {
  std::vector<int64_t> total_ns;   ///< by rank: exposed waiting for later ranks, over measured steps
  std::vector<LateRank> late;      ///< with an excess of at least kStragglerPct of the step, by rank
};

/// Time in which a rank is in a call without computing: from its arrival, but not before `from`, up to `to`, on the
/// first rank's clock. INT64_MIN: from its arrival.
int64_t stalled_ns(const JobView& job, RankCall call, int64_t from, int64_t to);

/// `mean_step_ns`: over the ranks. If collectives of other groups, since the last one of this group, took the late rank
/// longer than the waiting one, that difference does not count as its lateness. O(calls log calls).
Waiting waiting(const JobView& job, double mean_step_ns);

/// The same with each host's ranks as one: waiting within the host does not excuse a rank from being late elsewhere. On
/// a host whose ranks are equally slow, they hold up each other in turn. Nothing unless some groups are within one host
/// and others are not: else it equals waiting().
std::optional<Waiting> waiting_for_hosts(const JobView& job, double mean_step_ns);

/// Ranks that arrive in time, but whose groups' transfers take longer than those of similar groups.
struct SlowLink {
  std::vector<uint32_t> ranks;   ///< indices; several: any of them may have the slow link
  int64_t excess_ns = 0;         ///< exposed time beyond similar groups', over measured steps, median over the group
  std::string what;              ///< the most expensive call: "all_gather of 25.0 MiB among 4 ranks"
  int64_t transfer_ns = 0, others_ns = 0;   ///< of one such call, medians
  struct Transfer {
    uint32_t collective = 0;     ///< index in the list of matched collectives
    int64_t beyond_ns = 0;       ///< longer than in similar groups; not negative
  };
  std::vector<Transfer> transfers;          ///< of the slow groups
  std::map<uint32_t, int64_t> exposed_ns;   ///< by index of the slow groups' ranks: exposed part of that
};

/// Groups are similar if they call the same collective with equally many ranks, hosts and bytes; groups that are
/// similar in any call are of one sort. A group is slow if its transfers take at least 1.5 times those of the median
/// similar group. Reported are ranks whose groups of all sorts are slow; then, for slow groups without such a rank, the
/// ranks in most of them, but none with a sound group of the same sort (a link within a host does not show the
/// network). A sort with a single group gives nothing.
std::vector<SlowLink> slow_links(const JobView& job);

}  // namespace profgpu
