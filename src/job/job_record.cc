#include "job/job_record.h"

#include <algorithm>
#include <string>

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

namespace {

Value known(int64_t n, int64_t unknown) { return n == unknown ? Value() : Value(n); }

Table traffic_table(const std::vector<Traffic>& all) {
  Table t;
  t.columns = {"name", "group_size", "spans_hosts", "size_from_bytes", "calls", "whole_calls", "message_bytes",
               "wait_ns", "median_wait_ns", "wait_is_lower_bound", "transfer_ns", "algbw_gbps", "busbw_gbps",
               "link_gbps", "link_pct"};
  for (const Traffic& c : all)
    t.rows.push_back({c.name, known(c.group_size, 0), c.spans_hosts, known(c.size_from_bytes, -1), c.calls,
                      c.whole_calls, c.message_bytes, c.wait_ns, c.median_wait_ns, c.wait_is_lower_bound(),
                      c.transfer_ns, c.algbw_gbps, c.busbw_gbps, c.link_gbps, c.link_pct()});
  return t;
}

Table pair_table(const std::vector<Pair>& all) {
  Table t;
  t.columns = {"from", "to", "process_group", "spans_hosts", "calls", "total_bytes", "message_bytes",
               "receiver_wait_ns", "sender_wait_ns", "transfer_ns", "bandwidth_gbps"};
  for (const Pair& p : all)
    t.rows.push_back({p.from, p.to, p.process_group, p.spans_hosts, p.calls, p.message_bytes ? Value(p.bytes) : Value(),
                      p.message_bytes, p.receiver_wait_ns, p.sender_wait_ns, p.transfer_ns, p.bandwidth_gbps});
  return t;
}

Table missing_table(const std::vector<MissingCalls>& all) {
  Table t;
  t.columns = {"rank", "kind", "name", "process_group", "number", "step", "calls", "first_ns", "others"};
  for (const MissingCalls& m : all)
    t.rows.push_back({m.rank, m.kind, m.name, m.process_group, m.number, known(m.step, -1), m.calls, m.first_ns,
                      m.others});
  return t;
}

}  // namespace

void add_communication(const Job& job, Record& cluster) {
  cluster.add("collectives", traffic_table(job.traffic))
      .add("pairs", pair_table(job.pairs))
      .add("missing", missing_table(job.missing))
      .add("notes", List(job.notes.begin(), job.notes.end()));
}

}  // namespace profgpu
