#include "job/stragglers.h"

#include <algorithm>
#include <unordered_map>

#include "trace/intervals.h"

namespace profgpu {
namespace {

constexpr double kStragglerPct = 5;   // of the mean step, output.md

// Time in which a rank waits in a collective and computes nothing, for only that delays it: from its arrival, but not
// before `from`, up to `to`, on the first rank's clock.
int64_t stalled(const RankDigest& rank, const RankClock& clock, const CollectiveCall& call, int64_t from, int64_t to) {
  const int64_t shift = clock.aligned(call.start_ns) - call.start_ns;
  const Interval wait{from == INT64_MIN ? call.start_ns : std::max(from - shift, call.start_ns),
                      std::min(to - shift, call.end_ns)};
  if (wait.end <= wait.start) return 0;
  int64_t ns = wait.length();
  for (const Interval& compute : cover(rank, call))
    ns -= std::max<int64_t>(0, std::min(compute.end, wait.end) - std::max(compute.start, wait.start));
  return ns;
}

// Median over the ranks that it met and that came before it at least once.
int64_t usual_wait(const std::unordered_map<uint32_t, int64_t>& waited) {
  if (waited.empty()) return 0;
  std::vector<int64_t> values;
  for (const auto& [rank, ns] : waited) values.push_back(ns);
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

Waiting waiting(std::span<const RankDigest> ranks, std::span<const RankClock> clocks, std::span<const Meeting> all,
                double mean_step_ns) {
  Waiting result;
  result.total_ns.resize(ranks.size());
  std::vector<std::unordered_map<uint32_t, int64_t>> waited(ranks.size());   // by the latest, then the waiting one
  // Collectives of several streams may wait at once; what one of them has counted, the next leaves out.
  std::vector<int64_t> counted_to(ranks.size(), INT64_MIN);
  for (const Meeting& m : all) {
    if (!m.measured) continue;
    for (const RankCall& c : m.calls) {
      if (c.rank == m.latest) continue;
      const int64_t wait = stalled(ranks[c.rank], clocks[c.rank], ranks[c.rank].calls.calls[c.call],
                                   counted_to[c.rank], m.last_ns);
      counted_to[c.rank] = m.last_ns;
      result.total_ns[c.rank] += wait;
      waited[m.latest][c.rank] += wait;
    }
  }
  for (size_t r = 0; r < ranks.size(); ++r) {
    const int64_t excess = usual_wait(waited[r]) / std::max<int64_t>(ranks[r].measured_steps(), 1);
    const double pct = mean_step_ns > 0 ? 100.0 * static_cast<double>(excess) / mean_step_ns : 0;
    if (pct >= kStragglerPct) result.stragglers.push_back({ranks[r].rank, excess, pct, "late"});
  }
  std::sort(result.stragglers.begin(), result.stragglers.end(), [](const Straggler& a, const Straggler& b) {
    return a.excess_ns_per_step != b.excess_ns_per_step ? a.excess_ns_per_step > b.excess_ns_per_step : a.rank < b.rank;
  });
  return result;
}

}  // namespace profgpu
