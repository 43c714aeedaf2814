#include "export/collective_arrows.h"

#include <algorithm>
#include <tuple>

namespace profgpu {

CollectiveArrows::CollectiveArrows(const RunRows& run) {
  std::vector<CollectiveEnd*> all;
  for (const RankRows& rank : run.ranks) {
    std::vector<CollectiveEnd>& ends = ends_[rank.rank()];
    for (const MetCall& call : rank.met().calls)
      if (rank.shows_call(call.activity)) ends.push_back({.call = &call});
  }
  // Of those that arrived at once the last rank counts as the latest: readers that sort by time and leave the order of
  // equal times alone then find the arrow's begin first.
  for (auto& [rank, ends] : ends_)
    for (CollectiveEnd& end : ends)
      if (end.call->collective >= 0) all.push_back(&end);
  std::stable_sort(all.begin(), all.end(), [](const CollectiveEnd* a, const CollectiveEnd* b) {
    return std::tie(a->call->collective, b->call->wait_ns) < std::tie(b->call->collective, a->call->wait_ns);
  });
  uint64_t next = 1;
  for (size_t i = 0, j = 0; i < all.size(); i = j) {
    while (j < all.size() && all[j]->call->collective == all[i]->call->collective) ++j;
    if (j - i < 2) continue;
    *all[j - 1] = {all[j - 1]->call, next, j - i - 1, true};
    for (; i + 1 < j; ++i) *all[i] = {all[i]->call, next++, 1, false};
  }
}

const CollectiveEnd* CollectiveArrows::find(const RankRows& rank, ActivityId activity) const {
  const auto ends = ends_.find(rank.rank());
  if (ends == ends_.end()) return nullptr;
  const auto at = std::lower_bound(ends->second.begin(), ends->second.end(), activity,
                                   [](const CollectiveEnd& e, ActivityId a) { return e.call->activity < a; });
  return at != ends->second.end() && at->call->activity == activity ? &*at : nullptr;
}

}  // namespace profgpu
