#include "analyse/job/lateness.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <unordered_map>

#include "analyse/report/quantity.h"
#include "base/saturated.h"
#include "base/statistics.h"

namespace profgpu {
namespace {

// So many of a meeting's ranks stand for all of them where a median over them is asked for.
constexpr size_t kMaxWitnesses = 64;

uint64_t pair_of(uint32_t a, uint32_t b) { return uint64_t{a} << 32 | b; }

// What a rank brings to a meeting.
struct Attendance {
  int64_t from_ns = INT64_MIN;    // waiting before was counted in another meeting
  int64_t communicated_ns = 0;    // with no compute beside, in other groups since the last meeting of this one
};

/// By rank's place and kind of call: the group met, and always on one host.
std::vector<std::vector<bool>> within_hosts(const JobView& job) {
  std::vector<std::vector<bool>> within;
  for (const RankDigest& rank : job.ranks) within.emplace_back(rank.calls.kinds.size());
  std::vector<std::vector<bool>> beyond = within;
  for (const Meeting& m : job.meetings) {
    const std::string& host = job.ranks[m.calls.front().rank].host;
    const bool same =
        !host.empty() && std::ranges::all_of(m.calls, [&](RankCall c) { return job.ranks[c.rank].host == host; });
    for (const RankCall& c : m.calls) (same ? within : beyond)[c.rank][job.call(c).kind] = true;
  }
  for (size_t r = 0; r < within.size(); ++r)
    for (size_t k = 0; k < within[r].size(); ++k) within[r][k] = within[r][k] && !beyond[r][k];
  return within;
}

class Court {
 public:
  /// `local`: by rank's place and kind of call, what stays within a host and counts for nothing; a host's ranks are
  /// then one, and bear no witness against each other. Empty: each rank stands for itself.
  Court(const JobView& job, double mean_step_ns, std::vector<std::vector<bool>> local = {})
      : job_(job), local_(std::move(local)), blame_(job.ranks.size()) {
    std::map<std::pair<std::string, std::string>, uint32_t> groups;
    std::vector<uint32_t> group_of_kind;
    for (const JobKind& k : job.met.kinds)
      group_of_kind.push_back(
          groups.try_emplace({k.group, k.members}, static_cast<uint32_t>(groups.size())).first->second);
    for (const Meeting& m : job.meetings)
      if (m.measured && !is_local(m.calls.front()))
        meetings_.push_back(&m), group_.push_back(group_of_kind[job.met.kind[m.collective]]);
    for (const RankDigest& r : job.ranks)
      threshold_.push_back(std::max(
          1.0, mean_step_ns * kStragglerPct / 100 * static_cast<double>(std::max<int64_t>(r.measured_steps(), 1))));
  }

  Waiting hear() {
    Waiting result;
    result.total_ns.resize(blame_.size());
    attend(result.total_ns);
    for (size_t i = 0; i < meetings_.size(); ++i) accuse(i);
    for (size_t r = 0; r < blame_.size(); ++r) {
      Blame& b = blame_[r];
      b.persistent = static_cast<double>(b.shared_ns) >= threshold_[r] &&
                     b.shared_ns >= saturated_sub(b.heard_ns, b.shared_ns) && b.heard_ns > 0;
      b.candidate = b.persistent || static_cast<double>(b.most_ns) >= threshold_[r];
    }
    for (size_t i = 0; i < meetings_.size(); ++i) witness(i);
    for (uint32_t r = 0; r < blame_.size(); ++r)
      if (blame_[r].candidate) judge(r, result.late);
    return result;
  }

 private:
  struct Blame {
    int64_t most_ns = 0;     // upper bound of what any rank waited for it
    int64_t shared_ns = 0;   // what the usual rank would have waited for it where it was late, alone or beside others
    int64_t heard_ns = 0;    // what the usual rank waited in meetings that it took part in
    bool persistent = false, candidate = false;
    std::unordered_map<uint64_t, int64_t> waits;   // by witness and step
  };

  [[nodiscard]] bool is_local(RankCall c) const { return !local_.empty() && local_[c.rank][job_.call(c).kind]; }
  [[nodiscard]] int64_t arrival(RankCall c) const { return job_.clocks[c.rank].aligned(job_.call(c).start_ns); }
  [[nodiscard]] int64_t stalled(size_t meeting, size_t i, int64_t to) const {
    return stalled_ns(job_, meetings_[meeting]->calls[i], seats_[first_[meeting] + i].from_ns, to);
  }
  // What of a rank's waiting for a later one is that one's own doing.
  [[nodiscard]] int64_t held_against(size_t meeting, size_t late, size_t waiting, int64_t ns) const {
    const int64_t passed_on =
        seats_[first_[meeting] + late].communicated_ns - seats_[first_[meeting] + waiting].communicated_ns;
    return std::max<int64_t>(0, ns - std::max<int64_t>(0, passed_on));
  }

  // Of each call of a rank: exposed time of those of other groups that began before, sent and received ones among them.
  [[nodiscard]] std::vector<int64_t> communicated_ns(uint32_t rank) const {
    const CollectiveCalls& own = job_.ranks[rank].calls;
    std::map<std::pair<std::string_view, std::string_view>, int64_t> groups;
    std::vector<int64_t*> of_kind;
    for (const CollectiveKind& k : own.kinds) of_kind.push_back(&groups[{k.group, k.members}]);
    std::vector<uint32_t> order(own.calls.size());
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::stable_sort(order, {}, [&](uint32_t c) { return own.calls[c].start_ns; });
    std::vector<int64_t> out(own.calls.size());
    int64_t all = 0;
    for (const uint32_t c : order) {
      int64_t& group = *of_kind[own.calls[c].kind];
      out[c] = all - group;
      if (is_local({rank, c})) continue;
      for (int64_t* sum : {&all, &group}) add_saturated(*sum, own.calls[c].exposed_ns);
    }
    return out;
  }

  // Collectives of several streams may wait at once; what one of them has counted, the next leaves out.
  void attend(std::vector<int64_t>& total_ns) {
    std::vector<int64_t> counted_to(blame_.size(), INT64_MIN);
    std::vector<std::vector<int64_t>> communicated;
    for (uint32_t r = 0; r < blame_.size(); ++r) communicated.push_back(communicated_ns(r));
    std::unordered_map<uint64_t, int64_t> then;   // communicated by the group's last meeting, by rank and group
    for (size_t i = 0; i < meetings_.size(); ++i) {
      const Meeting& m = *meetings_[i];
      first_.push_back(seats_.size());
      int64_t longest = 0;
      for (size_t k = 0; k < m.calls.size(); ++k) {
        const uint32_t r = m.calls[k].rank;
        int64_t& by_last_time = then[pair_of(r, group_[i])];
        seats_.push_back({counted_to[r], communicated[r][m.calls[k].call] - by_last_time});
        by_last_time = communicated[r][m.calls[k].call];
        if (r != m.latest) {
          const int64_t wait = stalled(i, k, m.last_ns);
          counted_to[r] = m.last_ns;
          total_ns[r] = saturated_add(total_ns[r], wait);
          longest = std::max(longest, wait);
        }
      }
      blame_[m.latest].most_ns = saturated_add(blame_[m.latest].most_ns, longest);
    }
  }

  // Ranks that the usual one, the one in the middle by arrival, waits for at least half as long as for the latest.
  // More late ranks than others put a late one in the middle: then nobody is late.
  template <class Each>
  int64_t each_late(size_t meeting, Each&& each) {
    const std::span<const RankCall> calls = meetings_[meeting]->calls;
    order_.clear();
    for (uint32_t k = 0; k < calls.size(); ++k) order_.emplace_back(arrival(calls[k]), k);
    const auto middle = order_.begin() + static_cast<int64_t>((order_.size() - 1) / 2);
    std::nth_element(order_.begin(), middle, order_.end());
    const auto [usual_ns, usual] = *middle;
    const auto waits = [&, against = usual](const std::pair<int64_t, uint32_t>& late) {
      return held_against(meeting, late.second, against, stalled(meeting, against, late.first));
    };
    const int64_t heard = waits(*std::max_element(middle, order_.end()));
    for (auto late = middle + 1; late != order_.end(); ++late) {
      if (saturated_sub(late->first, usual_ns) < heard / 2) continue;
      if (const int64_t ns = waits(*late); ns > 0 && ns >= heard - ns) each(late->second, ns);
    }
    return heard;
  }

  void accuse(size_t meeting) {
    const std::span<const RankCall> calls = meetings_[meeting]->calls;
    const int64_t heard =
        each_late(meeting, [&](uint32_t k, int64_t ns) { add_saturated(blame_[calls[k].rank].shared_ns, ns); });
    for (const RankCall& c : calls) add_saturated(blame_[c.rank].heard_ns, heard);
  }

  void witness(size_t meeting) {
    const Meeting& m = *meetings_[meeting];
    late_.clear();
    for (uint32_t k = 0; k < m.calls.size(); ++k)
      if (m.calls[k].rank == m.latest && blame_[m.latest].candidate) late_.push_back(k);
    const bool shared = std::ranges::any_of(
        m.calls, [&](RankCall c) { return c.rank != m.latest && blame_[c.rank].persistent; });
    if (shared)
      each_late(meeting, [&](uint32_t k, int64_t) {
        if (m.calls[k].rank != m.latest && blame_[m.calls[k].rank].persistent) late_.push_back(k);
      });
    is_late_.assign(m.calls.size(), false);
    for (const uint32_t late : late_) is_late_[late] = true;
    for (const uint32_t late : late_) hear_witnesses(meeting, late);
  }

  void hear_witnesses(size_t meeting, uint32_t late) {
    const std::span<const RankCall> calls = meetings_[meeting]->calls;
    const RankCall& accused = calls[late];
    const int64_t to = arrival(accused);
    const size_t stride = (calls.size() + kMaxWitnesses - 1) / kMaxWitnesses;
    for (size_t k = 0; k < calls.size(); k += stride) {
      if (is_late_[k] || (!local_.empty() && job_.ranks[calls[k].rank].host == job_.ranks[accused.rank].host)) continue;
      add_saturated(blame_[accused.rank].waits[pair_of(calls[k].rank, job_.call(accused).step_place)],
                    held_against(meeting, late, k, stalled(meeting, k, to)));
    }
  }

  void judge(uint32_t rank, std::vector<LateRank>& out) {
    LateRank late;
    late.rank = rank;
    std::map<uint32_t, int64_t> by_witness;
    std::map<uint32_t, std::vector<int64_t>> by_step;
    for (const auto& [key, ns] : blame_[rank].waits) {
      add_saturated(by_witness[static_cast<uint32_t>(key >> 32)], ns);
      by_step[static_cast<uint32_t>(key)].push_back(ns);
    }
    std::vector<int64_t> totals;
    for (const auto& [witness, ns] : by_witness) {
      totals.push_back(ns);
      late.met.push_back(witness);
    }
    late.excess_ns = totals.empty() ? 0 : upper_median(totals);
    if (static_cast<double>(late.excess_ns) < threshold_[rank]) return;
    for (auto& [place, waits] : by_step) late.steps.push_back({place, upper_median(waits)});
    out.push_back(std::move(late));
  }

  const JobView& job_;
  std::vector<std::vector<bool>> local_;
  std::vector<const Meeting*> meetings_;   // measured ones
  std::vector<uint32_t> group_;            // of each
  std::vector<size_t> first_;              // of each, in seats_
  std::vector<Attendance> seats_;
  std::vector<double> threshold_;          // by rank: what is too much over all its steps
  std::vector<Blame> blame_;
  std::vector<std::pair<int64_t, uint32_t>> order_;   // kept between meetings for their memory
  std::vector<uint32_t> late_;
  std::vector<bool> is_late_;
};

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

std::map<Likeness, std::map<Members, Meetings>> groups_alike(const JobView& job) {
  std::map<Likeness, std::map<Members, Meetings>> found;
  for (const Meeting& m : job.meetings) {
    if (!m.measured || !m.whole_group) continue;
    const CollectiveCall& call = job.call(m.calls.front());
    const std::vector<CollectiveRow>& rows = job.ranks[m.calls.front().rank].calls.rows;
    if (call.message_bytes <= 0 || m.transfer_ns() <= 0 || call.row >= rows.size()) continue;
    Members members;
    std::set<std::string_view> hosts;
    for (const RankCall& c : m.calls) members.push_back(c.rank), hosts.insert(job.ranks[c.rank].host);
    const auto size = static_cast<int64_t>(members.size());
    found[{job.kind(m).name, rows[call.row].dtype, size, hosts.size(), call.message_bytes}][std::move(members)]
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
  SlowLink most_expensive;
  [[nodiscard]] bool slow() const { return static_cast<double>(own_ns) >= kSlow * static_cast<double>(usual_ns); }
  [[nodiscard]] int64_t median_excess_ns() const {
    std::vector<int64_t> excess;
    for (const auto& [rank, ns] : excess_ns) excess.push_back(ns);
    return lower_median(std::move(excess));
  }
};

class LinkComparison {
 public:
  explicit LinkComparison(const JobView& job) : job_(job) {
    for (const auto& [likeness, groups] : groups_alike(job))
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
      group.transfers.push_back({static_cast<uint32_t>(m - job_.meetings.data()), beyond});
      for (const RankCall& c : m->calls)
        group.excess_ns[c.rank] += std::clamp<int64_t>(beyond, 0, stalled_ns(job_, c, m->last_ns, m->end_ns));
    }
    if ((own_ns - usual_ns) * count < group.dearest_ns) return;
    group.dearest_ns = (own_ns - usual_ns) * count;
    const auto& [name, dtype, size, hosts, bytes] = likeness;
    group.most_expensive.what =
        name + " of " + format_bytes(static_cast<double>(bytes)) + " among " + std::to_string(size) + " ranks";
    group.most_expensive.transfer_ns = own_ns;
    group.most_expensive.others_ns = usual_ns;
  }

  [[nodiscard]] size_t root(size_t sort) const {
    while (sorts_[sort] != sort) sort = sorts_[sort];
    return sort;
  }

  const JobView& job_;
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
  SlowLink link = (*std::ranges::max_element(groups, {}, &LinkGroup::dearest_ns))->most_expensive;
  link.ranks = ranks;
  for (const LinkGroup* g : groups) {
    link.excess_ns += g->median_excess_ns();
    link.transfers.insert(link.transfers.end(), g->transfers.begin(), g->transfers.end());
    for (const auto& [rank, ns] : g->excess_ns) link.exposed_ns[rank] += ns;
  }
  return link;
}

bool holds_any(const Members& members, const std::set<uint32_t>& ranks) {
  return std::ranges::any_of(members, [&](uint32_t r) { return ranks.contains(r); });
}

// Those in most of the groups that nobody stands for yet; of as many, in the dearer ones. Empty: no groups are left.
std::pair<Groups, Members> next_suspects(const Suspicion& s, const std::set<const LinkGroup*>& explained) {
  std::map<Groups, Members> of_groups;
  for (uint32_t r = 0; r < s.slow.size(); ++r) {
    Groups left;
    std::ranges::copy_if(s.slow[r], std::back_inserter(left), [&](auto* g) { return !explained.contains(g); });
    if (!left.empty()) of_groups[std::move(left)].push_back(r);
  }
  const auto weight = [](const std::pair<const Groups, Members>& suspects) {
    int64_t excess_ns = 0;
    for (const LinkGroup* g : suspects.first) excess_ns += g->median_excess_ns();
    return std::tuple(suspects.first.size(), excess_ns, -static_cast<int64_t>(suspects.second.front()));
  };
  const auto most = std::ranges::max_element(of_groups, {}, weight);
  return most == of_groups.end() ? std::pair<Groups, Members>() : std::pair<Groups, Members>(*most);
}

}  // namespace

int64_t stalled_ns(const JobView& job, RankCall of, int64_t from, int64_t to) {
  const CollectiveCall& call = job.call(of);
  const int64_t shift = saturated_sub(job.clocks[of.rank].aligned(call.start_ns), call.start_ns);
  const Interval wait{from == INT64_MIN ? call.start_ns : std::max(saturated_sub(from, shift), call.start_ns),
                      std::min(saturated_sub(to, shift), call.end_ns)};
  if (wait.end <= wait.start) return 0;
  int64_t ns = wait.length();
  for (const Interval& compute : job.ranks[of.rank].cover(call))
    ns -= std::max<int64_t>(0, std::min(compute.end, wait.end) - std::max(compute.start, wait.start));
  return ns;
}

Waiting waiting(const JobView& job, double mean_step_ns) { return Court(job, mean_step_ns).hear(); }

std::optional<Waiting> waiting_for_hosts(const JobView& job, double mean_step_ns) {
  std::vector<std::vector<bool>> within = within_hosts(job);
  size_t kinds = 0, local = 0;
  for (const std::vector<bool>& of_rank : within) {
    kinds += of_rank.size();
    local += static_cast<size_t>(std::ranges::count(of_rank, true));
  }
  if (local == 0 || local == kinds) return std::nullopt;
  return Court(job, mean_step_ns, std::move(within)).hear();
}

std::vector<SlowLink> slow_links(const JobView& job) {
  const LinkComparison compared(job);
  const Suspicion suspicion(job.ranks.size(), compared.groups());
  std::map<Groups, Members> suspects;
  std::set<uint32_t> named;
  for (uint32_t r = 0; r < job.ranks.size(); ++r)
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
  std::ranges::sort(out, {}, &SlowLink::ranks);
  return out;
}

}  // namespace profgpu
