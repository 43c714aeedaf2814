#include "cli/page_ranks.h"

#include <algorithm>

namespace profgpu {
namespace {

std::vector<int> by_interest(const std::vector<int>& there, const Job& job) {
  std::vector<int> order;
  for (const Straggler& s : job.stragglers) order.push_back(s.rank);
  for (const MissingCalls& m : job.missing) order.push_back(m.rank);
  const auto by_mean = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto [shortest, longest] = std::minmax_element(job.step_mean_ns.begin(), job.step_mean_ns.end(), by_mean);
  order.push_back(longest->first);
  // A late rank is seen beside one that waits for it: half the places at most are for what is unusual.
  order.resize(std::min(order.size(), kPageRanks / 2));
  order.push_back(shortest->first);
  order.insert(order.end(), there.begin(), there.end());
  return order;
}

}  // namespace

Result<std::vector<int>> page_ranks(const std::vector<int>& there, const Job* job,
                                    const std::optional<RankRanges>& choice) {
  if (choice) return chosen_ranks(*choice, there);
  if (job == nullptr || there.size() <= kPageRanks) return there;
  std::vector<int> chosen;
  for (const int rank : by_interest(there, *job))
    if (chosen.size() < kPageRanks && std::find(chosen.begin(), chosen.end(), rank) == chosen.end())
      chosen.push_back(rank);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

}  // namespace profgpu
