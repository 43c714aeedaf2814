#include "job/communication_record.h"

namespace profgpu {
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
