#include "job/job_record.h"

#include <algorithm>
#include <string>

#include "job/communication_record.h"

namespace profgpu {
namespace {

constexpr size_t kMostMissing = 1024;   // of a world of many thousands somebody has but a few ranks

template <class T>
List list_of(const std::vector<T>& values) {
  return {values.begin(), values.end()};
}

std::vector<Value> straggler_row(const Straggler& s) {
  Table side_by_side;
  side_by_side.columns = {"metric", "late", "others_median"};
  for (const SideBySide& m : s.side_by_side) side_by_side.rows.push_back({m.metric, m.late, m.others_median});
  return {s.rank, s.excess_ns_per_step, s.excess_pct, s.kind, s.host.empty() ? Value() : Value(s.host),
          list_of(s.together), s.steps_measured, s.late_steps.size(), list_of(s.late_steps), s.worst_step,
          s.worst_step ? Value(s.worst_step_excess_ns) : Value(), list_of(s.evidence), side_by_side};
}

}  // namespace

Value cluster_value(const Job& job) {
  Record mean;
  for (const auto& [rank, ns] : job.step_mean_ns) mean.add(std::to_string(rank), ns);
  Table stragglers;
  stragglers.columns = {"rank",           "excess_ns_per_step", "excess_pct", "kind",       "host",
                        "together",       "steps_measured",     "steps_late", "late_steps", "worst_step",
                        "worst_step_excess_ns", "evidence",     "side_by_side"};
  for (const Straggler& s : job.stragglers) stragglers.rows.push_back(straggler_row(s));
  Table clocks;
  clocks.columns = {"rank", "offset_ns", "error_ns", "method", "drift_ppm", "stated_error_ns", "agrees"};
  for (const RankClock& c : job.clocks)
    clocks.rows.push_back({c.rank, c.offset_ns, c.error_ns, c.method, c.drift_ppm, c.stated_error_ns,
                           c.agrees ? Value(*c.agrees) : Value()});
  Table other_runs;
  other_runs.columns = {"rank", "why"};
  for (const OtherRun& o : job.other_runs) other_runs.rows.push_back({o.rank, o.why});
  Record cluster;
  const auto listed = static_cast<int64_t>(std::min(job.missing_ranks.size(), kMostMissing));
  cluster.add("ranks", job.ranks.size())
      .add("world_size", job.world_size)
      .add("missing_ranks", job.world_size ? Value(List(job.missing_ranks.begin(), job.missing_ranks.begin() + listed)) : Value())
      .add("other_runs", other_runs)
      .add("step_mean_ns_by_rank", mean)
      .add("step_spread_pct", job.step_spread_pct)
      .add("stragglers", stragglers)
      .add("late_by_turns", late_by_turns_value(job.late_by_turns))
      .add("clocks", clocks)
      .add("critical_path", critical_path_value(job.critical_path))
      .add("what_if", what_if_table(job.what_if))
      .add("parallelism", parallelism_table(job.parallelism));
  add_communication(job, cluster);
  return cluster;
}

}  // namespace profgpu
