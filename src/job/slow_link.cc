#include "job/slow_link.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "analyse/statistics.h"
#include "report/quantity.h"

namespace profgpu {
namespace {

constexpr double kSlow = 1.5;   // times the others' transfer: placement alone makes less of a difference

// name, type, ranks in the group, their hosts, bytes
using Likeness = std::tuple<std::string, std::string, int64_t, size_t, int64_t>;
using Members = std::vector<uint32_t>;
using Meetings = std::vector<const Meeting*>;

int64_t usual_transfer_ns(const Meetings& meetings) {
  std::vector<int64_t> ns;
  for (const Meeting* m : meetings) ns.push_back(m->transfer_ns());
  return lower_median(std::move(ns));
}

std::map<Likeness, std::map<Members, Meetings>> groups_alike(std::span<const RankDigest> ranks, const MatchedCalls& met,
                                                             std::span<const Meeting> all) {
  std::map<Likeness, std::map<Members, Meetings>> found;
  for (const Meeting& m : all) {
    if (!m.measured || !m.whole_group) continue;
    const RankCall& first = m.calls.front();
    const CollectiveCall& call = ranks[first.rank].calls.calls[first.call];
    if (call.message_bytes <= 0 || m.transfer_ns() <= 0 || call.row >= ranks[first.rank].calls.rows.size()) continue;
    Members members;
    std::set<std::string_view> hosts;
    for (const RankCall& c : m.calls) members.push_back(c.rank), hosts.insert(ranks[c.rank].host);
    found[{met.kinds[met.kind[m.collective]].name, ranks[first.rank].calls.rows[call.row].dtype,
           static_cast<int64_t>(m.calls.size()), hosts.size(), call.message_bytes}][std::move(members)]
        .push_back(&m);
  }
  return found;
}

// What a group's transfers take, and what those of groups like it do; over all sizes, as small messages hardly show a
// slow link.
struct Group {
  int64_t own_ns = 0, usual_ns = 0;
  std::map<uint32_t, int64_t> excess_ns;   // by rank: time beyond the usual in which it computes nothing
  int64_t dearest_ns = 0;                  // of one likeness
  SlowLink dearest;
  [[nodiscard]] bool slow() const { return static_cast<double>(own_ns) >= kSlow * static_cast<double>(usual_ns); }
};

void add(std::span<const RankDigest> ranks, std::span<const RankClock> clocks, const Likeness& likeness,
         const Meetings& meetings, int64_t own_ns, int64_t usual_ns, Group& group) {
  const auto count = static_cast<int64_t>(meetings.size());
  group.own_ns += own_ns * count;
  group.usual_ns += usual_ns * count;
  for (const Meeting* m : meetings)
    for (const RankCall& c : m->calls) {
      const CollectiveCall& call = ranks[c.rank].calls.calls[c.call];
      const int64_t exposed = stalled_ns(ranks[c.rank], clocks[c.rank], call, m->last_ns, m->end_ns);
      group.excess_ns[c.rank] += std::clamp<int64_t>(m->transfer_ns() - usual_ns, 0, exposed);
    }
  if ((own_ns - usual_ns) * count < group.dearest_ns) return;
  group.dearest_ns = (own_ns - usual_ns) * count;
  const auto& [name, dtype, size, hosts, bytes] = likeness;
  group.dearest.what = name + " of " + format_bytes(static_cast<double>(bytes)) + " among " + std::to_string(size) + " ranks";
  group.dearest.transfer_ns = own_ns;
  group.dearest.others_ns = usual_ns;
}

std::map<Members, Group> compared_groups(std::span<const RankDigest> ranks, std::span<const RankClock> clocks,
                                         const MatchedCalls& met, std::span<const Meeting> all) {
  std::map<Members, Group> out;
  for (const auto& [likeness, groups] : groups_alike(ranks, met, all)) {
    if (groups.size() < 2) continue;
    std::vector<int64_t> transfers;
    for (const auto& [members, meetings] : groups) transfers.push_back(usual_transfer_ns(meetings));
    const int64_t usual_ns = lower_median(transfers);   // of two groups, the faster
    size_t i = 0;
    for (const auto& [members, meetings] : groups)
      add(ranks, clocks, likeness, meetings, transfers[i++], usual_ns, out[members]);
  }
  return out;
}

}  // namespace

std::vector<SlowLink> slow_links(std::span<const RankDigest> ranks, std::span<const RankClock> clocks,
                                 const MatchedCalls& met, std::span<const Meeting> all) {
  const std::map<Members, Group> groups = compared_groups(ranks, clocks, met, all);
  std::vector<std::vector<const Group*>> slow(ranks.size());
  std::vector<bool> cleared(ranks.size());   // has a group that is not slow
  for (const auto& [members, group] : groups)
    for (const uint32_t r : members) {
      if (group.slow()) slow[r].push_back(&group);
      else cleared[r] = true;
    }
  std::map<std::vector<const Group*>, Members> suspects;
  for (uint32_t r = 0; r < ranks.size(); ++r)
    if (!slow[r].empty() && !cleared[r]) suspects[slow[r]].push_back(r);
  std::vector<SlowLink> out;
  for (const auto& [their_groups, members] : suspects) {
    SlowLink link = (*std::max_element(their_groups.begin(), their_groups.end(), [](const Group* a, const Group* b) {
                      return a->dearest_ns < b->dearest_ns;
                    }))->dearest;
    link.ranks = members;
    for (const Group* g : their_groups) {
      std::vector<int64_t> excess;
      for (const auto& [rank, ns] : g->excess_ns) excess.push_back(ns);
      link.excess_ns += lower_median(std::move(excess));
    }
    out.push_back(std::move(link));
  }
  std::sort(out.begin(), out.end(), [](const SlowLink& a, const SlowLink& b) { return a.ranks < b.ranks; });
  return out;
}

}  // namespace profgpu
