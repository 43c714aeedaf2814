#include "job/slow_link.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/statistics.h"
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
struct LinkGroup {
  Members members;
  size_t sort = 0;
  int64_t own_ns = 0, usual_ns = 0;
  std::map<uint32_t, int64_t> excess_ns;   // by rank: time beyond the usual in which it computes nothing
  std::vector<SlowLink::Transfer> transfers;
  int64_t dearest_ns = 0;                  // of one likeness
  SlowLink dearest;
  [[nodiscard]] bool slow() const { return static_cast<double>(own_ns) >= kSlow * static_cast<double>(usual_ns); }
  [[nodiscard]] int64_t median_excess_ns() const {
    std::vector<int64_t> excess;
    for (const auto& [rank, ns] : excess_ns) excess.push_back(ns);
    return lower_median(std::move(excess));
  }
};

class LinkComparison {
 public:
  LinkComparison(std::span<const RankDigest> ranks, std::span<const RankClock> clocks, const MatchedCalls& met,
             std::span<const Meeting> all)
      : ranks_(ranks), clocks_(clocks), first_(all.data()) {
    for (const auto& [likeness, groups] : groups_alike(ranks, met, all))
      if (groups.size() > 1) compare(likeness, groups);
    for (auto& [members, group] : of_members_) {
      group.sort = root(group.sort);
      group.members = members;
    }
  }

  [[nodiscard]] const std::map<Members, LinkGroup>& groups() const { return of_members_; }

 private:
  void compare(const Likeness& likeness, const std::map<Members, Meetings>& groups) {
    std::vector<int64_t> transfers;
    for (const auto& [members, meetings] : groups) transfers.push_back(usual_transfer_ns(meetings));
    const int64_t usual_ns = lower_median(transfers);   // of two groups, the faster
    const size_t sort = sorts_.size();
    sorts_.push_back(sort);
    size_t i = 0;
    for (const auto& [members, meetings] : groups) {
      const auto [at, fresh] = of_members_.try_emplace(members);
      if (fresh) at->second.sort = sort;
      else sorts_[root(at->second.sort)] = root(sort);
      add(likeness, meetings, transfers[i++], usual_ns, at->second);
    }
  }

  void add(const Likeness& likeness, const Meetings& meetings, int64_t own_ns, int64_t usual_ns, LinkGroup& group) {
    const auto count = static_cast<int64_t>(meetings.size());
    group.own_ns += own_ns * count;
    group.usual_ns += usual_ns * count;
    for (const Meeting* m : meetings) {
      const int64_t beyond = std::max<int64_t>(m->transfer_ns() - usual_ns, 0);
      group.transfers.push_back({static_cast<uint32_t>(m - first_), beyond});
      for (const RankCall& c : m->calls) {
        const CollectiveCall& call = ranks_[c.rank].calls.calls[c.call];
        const int64_t exposed = stalled_ns(ranks_[c.rank], clocks_[c.rank], call, m->last_ns, m->end_ns);
        group.excess_ns[c.rank] += std::clamp<int64_t>(beyond, 0, exposed);
      }
    }
    if ((own_ns - usual_ns) * count < group.dearest_ns) return;
    group.dearest_ns = (own_ns - usual_ns) * count;
    const auto& [name, dtype, size, hosts, bytes] = likeness;
    group.dearest.what = name + " of " + format_bytes(static_cast<double>(bytes)) + " among " + std::to_string(size) + " ranks";
    group.dearest.transfer_ns = own_ns;
    group.dearest.others_ns = usual_ns;
  }

  [[nodiscard]] size_t root(size_t sort) const {
    while (sorts_[sort] != sort) sort = sorts_[sort];
    return sort;
  }

  std::span<const RankDigest> ranks_;
  std::span<const RankClock> clocks_;
  const Meeting* first_;
  std::map<Members, LinkGroup> of_members_;
  std::vector<size_t> sorts_;   // by likeness: one that it is of a sort with
};

using Groups = std::vector<const LinkGroup*>;

// Slow groups of each rank, but none of a sort of which it has a sound one too; and whether it has no sound one at all.
struct Suspicion {
  std::vector<Groups> slow;
  std::vector<bool> sound;

  Suspicion(size_t ranks, const std::map<Members, LinkGroup>& groups) : slow(ranks), sound(ranks) {
    std::vector<std::set<size_t>> sound_sorts(ranks);
    for (const auto& [members, group] : groups)
      for (const uint32_t r : members)
        if (!group.slow()) sound_sorts[r].insert(group.sort), sound[r] = true;
    for (const auto& [members, group] : groups)
      for (const uint32_t r : members)
        if (group.slow() && !sound_sorts[r].contains(group.sort)) slow[r].push_back(&group);
  }
};

SlowLink link_of(const Groups& groups, const Members& ranks) {
  SlowLink link = (*std::max_element(groups.begin(), groups.end(), [](const LinkGroup* a, const LinkGroup* b) {
                    return a->dearest_ns < b->dearest_ns;
                  }))->dearest;
  link.ranks = ranks;
  for (const LinkGroup* g : groups) {
    link.excess_ns += g->median_excess_ns();
    link.transfers.insert(link.transfers.end(), g->transfers.begin(), g->transfers.end());
    for (const auto& [rank, ns] : g->excess_ns) link.exposed_ns[rank] += ns;
  }
  return link;
}

bool holds_any(const Members& members, const std::set<uint32_t>& ranks) {
  return std::any_of(members.begin(), members.end(), [&](uint32_t r) { return ranks.contains(r); });
}

// Those in most of the groups that nobody stands for yet; of as many, in the dearer ones. Empty: no groups are left.
std::pair<Groups, Members> next_suspects(const Suspicion& s, const std::set<const LinkGroup*>& explained) {
  std::map<Groups, Members> of_groups;
  for (uint32_t r = 0; r < s.slow.size(); ++r) {
    Groups left;
    std::copy_if(s.slow[r].begin(), s.slow[r].end(), std::back_inserter(left),
                 [&](const LinkGroup* g) { return !explained.contains(g); });
    if (!left.empty()) of_groups[std::move(left)].push_back(r);
  }
  const auto weight = [](const std::pair<const Groups, Members>& suspects) {
    int64_t excess_ns = 0;
    for (const LinkGroup* g : suspects.first) excess_ns += g->median_excess_ns();
    return std::tuple(suspects.first.size(), excess_ns, -static_cast<int64_t>(suspects.second.front()));
  };
  const auto most = std::max_element(of_groups.begin(), of_groups.end(),
                                     [&](const auto& a, const auto& b) { return weight(a) < weight(b); });
  return most == of_groups.end() ? std::pair<Groups, Members>() : std::pair<Groups, Members>(*most);
}

}  // namespace

std::vector<SlowLink> slow_links(std::span<const RankDigest> ranks, std::span<const RankClock> clocks,
                                 const MatchedCalls& met, std::span<const Meeting> all) {
  const LinkComparison compared(ranks, clocks, met, all);
  const Suspicion suspicion(ranks.size(), compared.groups());
  std::map<Groups, Members> suspects;
  std::set<uint32_t> named;
  for (uint32_t r = 0; r < ranks.size(); ++r)
    if (!suspicion.slow[r].empty() && !suspicion.sound[r]) suspects[suspicion.slow[r]].push_back(r), named.insert(r);
  std::vector<SlowLink> out;
  for (const auto& [groups, members] : suspects) out.push_back(link_of(groups, members));
  std::set<const LinkGroup*> explained;
  for (const auto& [members, group] : compared.groups())
    if (holds_any(members, named)) explained.insert(&group);
  while (true) {
    const auto [groups, members] = next_suspects(suspicion, explained);
    if (groups.empty()) break;
    out.push_back(link_of(groups, members));
    explained.insert(groups.begin(), groups.end());
  }
  std::sort(out.begin(), out.end(), [](const SlowLink& a, const SlowLink& b) { return a.ranks < b.ranks; });
  return out;
}

}  // namespace profgpu
