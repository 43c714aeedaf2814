#include "job/job_record.h"

#include <string>

namespace profgpu {

Value cluster_value(const Job& job) {
  Record mean;
  for (const auto& [rank, ns] : job.step_mean_ns) mean.add(std::to_string(rank), ns);
  Table stragglers;
  stragglers.columns = {"rank", "excess_ns_per_step", "excess_pct", "kind"};
  for (const Straggler& s : job.stragglers)
    stragglers.rows.push_back({s.rank, s.excess_ns_per_step, s.excess_pct, s.kind});
  Table clocks;
  clocks.columns = {"rank", "offset_ns", "error_ns", "method"};
  for (const RankClock& c : job.clocks) clocks.rows.push_back({c.rank, c.offset_ns, c.error_ns, c.method});
  Record cluster;
  cluster.add("ranks", job.ranks.size())
      .add("step_mean_ns_by_rank", mean)
      .add("step_spread_pct", job.step_spread_pct)
      .add("stragglers", stragglers)
      .add("clocks", clocks);
  return cluster;
}

}  // namespace profgpu
