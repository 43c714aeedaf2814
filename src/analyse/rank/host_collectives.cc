#include "analyse/rank/host_collectives.h"

#include <algorithm>

#include "analyse/rank/collectives.h"
#include "analyse/rank/names.h"

namespace profgpu {
namespace {

// A thread that waits is woken that soon, or within the time that it waited.
constexpr int64_t kWoken_ns = 200'000;

bool is_host_collective(std::string_view name) { return name.starts_with("gloo:") && !collective_name(name).empty(); }

std::vector<bool> names_of_host_collectives(const Trace& trace) {
  std::vector<bool> named(trace.strings.size());
  for (size_t i = 0; i < named.size(); ++i) named[i] = is_host_collective(trace.strings[StringId(i)]);
  return named;
}

// Operators that start a collective or wait for one compute nothing.
bool is_operator_of_collective(std::string_view name) {
  return name.starts_with("c10d::") || name.starts_with("_c10d_functional::") || name == "record_param_comms";
}

Intervals operators_of(const Trace& trace, const std::vector<bool>& collectives) {
  Intervals computing, communicating;
  for (uint32_t h = 0; h < trace.host.size(); ++h) {
    if (trace.host.kind[h] != HostKind::kOp || collectives[trace.host.name[h].value]) continue;
    Intervals& kind = is_operator_of_collective(trace.name(HostId(h))) ? communicating : computing;
    kind.push_back(trace.host.interval(HostId(h)));
  }
  return subtract(merged(std::move(computing)), merged(std::move(communicating)));
}

// The part of a gap between operators in which collectives run, up to the last that ends in it.
void add_wait(const Trace& trace, const std::vector<HostId>& by_end, const Intervals& running, Interval gap,
              Intervals& waits) {
  const auto ends_after = [&](HostId call, int64_t time) { return trace.host.end_ns(call) <= time; };
  const auto later = std::ranges::partition_point(by_end, [&](HostId call) { return ends_after(call, gap.end); });
  if (later == by_end.begin() || trace.host.end_ns(*std::prev(later)) <= gap.start) return;
  const int64_t end = trace.host.end_ns(*std::prev(later));
  const Intervals parts = clipped(running, {gap.start, end});
  if (gap.end - end > std::max(kWoken_ns, total_length(parts))) return;
  waits.insert(waits.end(), parts.begin(), parts.end());
}

Intervals waits_of(const Trace& trace, const std::vector<HostId>& calls, const Intervals& operators) {
  std::vector<HostId> by_end = calls;
  std::ranges::stable_sort(by_end, {}, [&](HostId call) { return trace.host.end_ns(call); });
  Intervals running, waits;
  for (const HostId call : calls) running.push_back(trace.host.interval(call));
  running = merged(std::move(running));
  int64_t from = running.front().start;
  for (const Interval& op : operators) {
    if (op.start > from) add_wait(trace, by_end, running, {from, op.start}, waits);
    from = std::max(from, op.end);
  }
  return merged(std::move(waits));   // after the last operator nothing tells what the program waits for
}

}  // namespace

HostCollectives HostCollectives::compute(const Facts& facts) {
  const Trace& trace = facts.trace();
  HostCollectives out;
  if (trace.activity.size() > 0) return out;
  const std::vector<bool> collectives = names_of_host_collectives(trace);
  for (uint32_t h = 0; h < trace.host.size(); ++h)
    if (collectives[trace.host.name[h].value]) out.calls.emplace_back(h);
  if (out.calls.empty()) return out;
  std::ranges::stable_sort(out.calls, {}, [&](HostId call) { return trace.host.start_ns[call.value]; });
  out.operators = operators_of(trace, collectives);
  out.waits = waits_of(trace, out.calls, out.operators);
  return out;
}

}  // namespace profgpu
