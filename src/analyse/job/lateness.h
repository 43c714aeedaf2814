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

/// A rank that others wait for in their measured steps. A rank is late at a meeting if it comes last; one that is late
/// at most of its meetings also is where it comes shortly before the last: two slow ranks do not hide each other.
struct LateRank {
  struct Step {
    uint32_t place = 0;          ///< of RankDigest::steps
    int64_t excess_ns = 0;
  };
  uint32_t rank = 0;             ///< place in the list of ranks
  int64_t excess_ns = 0;         ///< exposed waiting for it over all steps, median over the ranks that it met
  std::vector<Step> steps;       ///< by place; steps in which anybody waited
  std::vector<uint32_t> met;     ///< places of ranks that came before it, ascending; of large groups a sample
};

struct Waiting {
  std::vector<int64_t> total_ns;  ///< exposed waiting for ranks that arrive later, by rank's place, over measured steps
  std::vector<LateRank> late;      ///< those with excess from kStragglerPct of the step, by rank
};

/// Time in which a rank is in a call and computes nothing: from its arrival, but not before `from`, up to `to`, on the
/// first rank's clock. INT64_MIN: from its arrival.
int64_t stalled_ns(const JobView& job, RankCall call, int64_t from, int64_t to);

/// `mean_step_ns`: over the ranks. What a rank is late because collectives of other groups took it longer than the
/// waiting one, since the last collective of this group, is not held against it. O(calls log calls).
Waiting waiting(const JobView& job, double mean_step_ns);

/// The same with the ranks of a host as one: what they wait for each other within it excuses none of them from being
/// late elsewhere. A host whose ranks are slow alike holds each of them up, now by one and now by another. Nothing
/// where no groups are within one host, and others beyond: there it is as waiting().
std::optional<Waiting> waiting_for_hosts(const JobView& job, double mean_step_ns);

// Ranks that arrive in time, but whose groups' transfers take longer than those of groups like them.

struct SlowLink {
  std::vector<uint32_t> ranks;   ///< places; several: it cannot be told whose link it is, they share their slow groups
  int64_t excess_ns = 0;  ///< exposed time beyond that of groups alike, over measured steps, median over the group
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
/// are alike in any call are of one sort. A group is slow if its transfers take at least 1.5 times as long as those of
/// the groups in the middle of its like. Named are ranks of which all groups of all sorts are slow; then, for slow
/// groups without such a rank, those in most of them, but none that has a sound group of the same sort: a link within a
/// host says nothing of the network. With one group of a sort nothing is said.
std::vector<SlowLink> slow_links(const JobView& job);

}  // namespace profgpu
