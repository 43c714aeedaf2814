// Logs of several nodes whose launchers label processes with their number on the node.
#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"
#include "trace/import/log/log_builder.h"

namespace profgpu {
namespace {

// Whether two processes print at the same time: else one is a restart of the other on another node.
bool overlap(const LogRank& a, const LogRank& b) {
  return !a.steps.empty() && !b.steps.empty() && a.steps.front().line < b.steps.back().line &&
         b.steps.front().line < a.steps.back().line;
}

bool repeats_ranks(const std::vector<LogRank>& ranks) {
  for (size_t i = 1; i < ranks.size(); ++i) {   // by rank
    const LogRank &a = ranks[i - 1], &b = ranks[i];
    const bool of_nodes = !a.node.empty() && !b.node.empty() && a.node != b.node;
    if (a.rank && a.rank == b.rank && of_nodes && overlap(a, b)) return true;
  }
  return false;
}

}  // namespace

void number_by_node(RunLog& log) {
  if (!repeats_ranks(log.ranks)) return;
  const auto by_name = [](const std::string& a, const std::string& b) { return natural_less(a, b); };
  std::set<std::string, decltype(by_name)> nodes(by_name);
  int on_each = 1;
  for (const LogRank& r : log.ranks)
    if (r.rank) nodes.insert(r.node), on_each = std::max(on_each, *r.rank + 1);
  const auto count = static_cast<int64_t>(nodes.size());
  if (const auto world = log.setting("world_size"); world && *world % count == 0 && *world / count >= on_each)
    on_each = static_cast<int>(std::min<int64_t>(*world / count, 1'000'000));
  std::map<std::pair<std::string, int>, int> number;
  for (const LogRank& r : log.ranks)
    if (r.rank) {
      const auto node = std::distance(nodes.begin(), nodes.find(r.node));
      number[{r.node, *r.rank}] = static_cast<int>(node) * on_each + *r.rank;
    }
  const auto renumber = [&](auto& of) {
    if (!of.rank) return;
    if (const auto at = number.find({of.node, *of.rank}); at != number.end()) of.rank = at->second;
  };
  std::ranges::for_each(log.ranks, renumber);
  std::ranges::for_each(log.events, renumber);
  std::ranges::for_each(log.memory, renumber);
  std::ranges::stable_sort(log.ranks, {}, [](const LogRank& r) { return r.rank.value_or(-1); });
}

}  // namespace profgpu
