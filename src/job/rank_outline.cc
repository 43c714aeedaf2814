#include "job/rank_outline.h"

#include <algorithm>

#include "analyse/collective_calls.h"

namespace profgpu {
namespace {

void add(std::optional<Interval>& all, Interval range) {
  all = all ? Interval{std::min(all->start, range.start), std::max(all->end, range.end)} : range;
}

void outline_part(const Facts& facts, RankOutline& out) {
  const Trace& trace = facts.trace();
  const TracePart part(trace, *out.part);
  for (uint32_t h = 0; h < trace.host.size(); ++h) out.events += part.shows(HostId(h));
  for (uint32_t a = 0; a < trace.activity.size(); ++a) {
    if (!part.shows(ActivityId(a))) continue;
    ++out.events;
    add(out.extent, trace.activity.interval(ActivityId(a)));
  }
  for (const CollectiveCall& call : facts.get<CollectiveCalls>().calls)
    if (part.shows(call.activity)) out.calls.push_back(call.activity);
  std::sort(out.calls.begin(), out.calls.end());
}

}  // namespace

std::optional<Interval> TracePart::shown(Interval range) const {
  const Interval cut{std::max(range.start, part_.start), std::min(range.end, part_.end)};
  // What only touches the part is not in it; what has no length may lie at its ends.
  if (cut.start > cut.end || (cut.start == cut.end && range.start < range.end)) return std::nullopt;
  return cut;
}

bool TracePart::shows(ActivityId a) const {
  if (shown(trace_.activity.interval(a))) return true;
  const HostId launch = trace_.activity.launch[a.value];
  return launch.valid() && shows(launch);
}

RankOutline RankOutline::of(const Facts& facts, std::optional<Interval> part) {
  const Trace& trace = facts.trace();
  RankOutline out;
  out.part = part;
  out.base_time_ns = trace.base_time_ns;
  out.host = trace.host_name;
  if (!part) return out;
  for (const Interval& window : trace.windows)
    if (const auto cut = TracePart(trace, *part).shown(window)) add(out.extent, *cut);
  if (out.is_cut()) {
    outline_part(facts, out);
    return out;
  }
  out.events = static_cast<int64_t>(trace.host.size() + trace.activity.size());
  if (!trace.memory.empty()) out.first_others_ns.push_back(trace.memory.front().time_ns);
  if (!trace.counters.empty()) out.first_others_ns.push_back(trace.counters.front().time_ns);
  if (!trace.syncs.empty()) out.first_others_ns.push_back(trace.syncs.front().start_ns);
  if (!trace.thread_waits.empty())
    out.first_others_ns.push_back(std::ranges::min(trace.thread_waits, {}, &ThreadWait::start_ns).start_ns);
  return out;
}

}  // namespace profgpu
