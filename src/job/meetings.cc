#include "job/meetings.h"

#include <algorithm>

namespace profgpu {
namespace {

const CollectiveCall& call_of(std::span<const RankDigest> ranks, const RankCall& c) {
  return ranks[c.rank].calls.calls[c.call];
}

}  // namespace

std::optional<Meeting> meeting_of(std::span<const RankDigest> ranks, std::span<const RankCall> calls,
                                  bool ends_together, std::span<const RankClock> clocks) {
  Meeting m;
  m.calls = calls;
  int64_t first_end = INT64_MAX, surely_last = INT64_MIN;   // as late and as early as clocks may have it
  int64_t shortest = INT64_MAX, surely_ended = INT64_MIN;
  for (const RankCall& c : calls) {
    const CollectiveCall& call = call_of(ranks, c);
    const RankClock& clock = clocks[c.rank];
    if (!clock.known()) return std::nullopt;
    const int64_t start = clock.aligned(call.start_ns), end = clock.aligned(call.end_ns);
    const int64_t error = clock.error_ns.value_or(0);
    first_end = std::min(first_end, saturated_add(end, error));
    surely_last = std::max(surely_last, saturated_sub(start, error));
    shortest = std::min(shortest, saturated_sub(end, start));
    m.measured &= call.measured;
    m.end_ns = std::max(m.end_ns, end);
    surely_ended = std::max(surely_ended, saturated_sub(end, error));
    if (start > m.last_ns) m.last_ns = start, m.latest = c.rank;
  }
  const int64_t ends_apart = saturated_sub(surely_ended, first_end);
  const bool together = surely_last <= first_end && ends_apart <= std::max(kEndsApart_ns, shortest / 2);
  if (ends_together && !together) return std::nullopt;
  const CollectiveKind& kind = ranks[calls.front().rank].kind(call_of(ranks, calls.front()));
  m.whole_group = kind.described && kind.group_size == static_cast<int64_t>(calls.size());
  return m;
}

std::vector<Meeting> meetings(std::span<const RankDigest> ranks, const MatchedCalls& met,
                              std::span<const RankClock> clocks) {
  std::vector<Meeting> all;
  for (size_t i = 0; i < met.size(); ++i) {
    std::optional<Meeting> m = meeting_of(ranks, met[i], met.kinds[met.kind[i]].ends_together, clocks);
    if (!m) continue;
    m->collective = static_cast<uint32_t>(i);
    all.push_back(*m);
  }
  std::stable_sort(all.begin(), all.end(), [](const Meeting& a, const Meeting& b) { return a.last_ns < b.last_ns; });
  return all;
}

std::span<const Interval> cover(const RankDigest& rank, const CollectiveCall& call) {
  return {rank.calls.cover.data() + call.cover_begin, call.cover_end - call.cover_begin};
}

}  // namespace profgpu
