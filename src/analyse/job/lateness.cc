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

// A median is taken over a sample of at most this many of a collective's ranks.
constexpr size_t kMaxSampled = 64;

uint64_t pair_of(uint32_t a, uint32_t b) { return uint64_t{a} << 32 | b; }

using Flags = std::vector<std::vector<bool>>;   // by rank's index and kind of call

/// Kinds of calls whose group is always on one host.
Flags within_hosts(const JobView& job) {
  Flags within;
  for (const RankDigest& rank : job.ranks) within.emplace_back(rank.calls.kinds.size());
  Flags beyond = within;
  for (const MatchedCollective& m : job.collectives) {
    const std::string& host = job.ranks[m.calls.front().rank].host;
    const bool same =
        !host.empty() && std::ranges::all_of(m.calls, [&](RankCall c) { return job.ranks[c.rank].host == host; });
    for (const RankCall& c : m.calls) (same ? within : beyond)[c.rank][job.call(c).kind] = true;
  }
  for (size_t r = 0; r < within.size(); ++r)
    for (size_t k = 0; k < within[r].size(); ++k) within[r][k] = within[r][k] && !beyond[r][k];
  return within;
}

class LatenessSearch {
 public:
  /// `local`: calls that stay within a host and do not count; a host's ranks then do not wait for each other. Empty:
  /// each rank counts by itself.
  LatenessSearch(const JobView& job, double mean_step_ns, Flags local = {})
      : job_(job), local_(std::move(local)), ranks_(job.ranks.size()) {
    std::map<std::pair<std::string, std::string>, uint32_t> groups;
    std::vector<uint32_t> group_of_kind;
    for (const JobKind& k : job.matches.kinds)
      group_of_kind.push_back(
          groups.try_emplace({k.group, k.members}, static_cast<uint32_t>(groups.size())).first->second);
    for (const MatchedCollective& m : job.collectives)
      if (m.measured && !is_local(m.calls.front()))
        collectives_.push_back({&m, group_of_kind[job.matches.kind[m.collective]], {}});
    for (size_t r = 0; r < ranks_.size(); ++r)
      ranks_[r].threshold_ns =
          std::max(1.0, mean_step_ns * kStragglerPct / 100 *
                            static_cast<double>(std::max<int64_t>(job.ranks[r].measured_steps(), 1)));
  }

  Waiting run() {
    Waiting result;
    result.total_ns.resize(ranks_.size());
    add_waits(result.total_ns);
    for (const OneCollective& m : collectives_) find_late(m);
    for (Rank& r : ranks_) {
      r.persistent = static_cast<double>(r.caused_ns) >= r.threshold_ns &&
                     r.caused_ns >= saturated_sub(r.usual_ns, r.caused_ns) && r.usual_ns > 0;
      r.candidate = r.persistent || static_cast<double>(r.most_ns) >= r.threshold_ns;
    }
    for (const OneCollective& m : collectives_) add_excess(m);
    for (uint32_t r = 0; r < ranks_.size(); ++r)
      if (ranks_[r].candidate) add_result(r, result.late);
    return result;
  }

 private:
  /// One call of a collective.
  struct CallState {
    int64_t from_ns = INT64_MIN;    // earlier waiting was counted in another collective
    int64_t communicated_ns = 0;    // exposed, in other groups since the last collective of this one
  };
  struct OneCollective {
    const MatchedCollective* matched = nullptr;
    uint32_t group = 0;
    std::vector<CallState> calls;   // of matched->calls, one for one
  };
  struct Rank {
    double threshold_ns = 0; // lateness over all its steps that is too much
    int64_t most_ns = 0;     // upper bound of what any rank waited for it
    int64_t caused_ns = 0;   // what the usual rank would have waited for it where it was late, alone or with others
    int64_t usual_ns = 0;    // what the usual rank waited in its collectives
    bool persistent = false, candidate = false;
    std::unordered_map<uint64_t, int64_t> waits;   // by waiting rank and step
  };

  [[nodiscard]] bool is_local(RankCall c) const { return !local_.empty() && local_[c.rank][job_.call(c).kind]; }
  [[nodiscard]] int64_t arrival(RankCall c) const { return job_.clocks[c.rank].aligned(job_.call(c).start_ns); }
  [[nodiscard]] int64_t stalled(const OneCollective& m, size_t i, int64_t to) const {
    return stalled_ns(job_, m.matched->calls[i], m.calls[i].from_ns, to);
  }
  // What of a rank's wait for a late one is that one's own doing.
  [[nodiscard]] static int64_t caused(const OneCollective& m, size_t late, size_t waiting, int64_t ns) {
    const int64_t passed_on = m.calls[late].communicated_ns - m.calls[waiting].communicated_ns;
    return std::max<int64_t>(0, ns - std::max<int64_t>(0, passed_on));
  }

  // Per call of a rank: exposed time of other groups' calls that began before, including sends and receives.
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

  // Collectives of several streams may wait at once: each nanosecond counts for one of them.
  void add_waits(std::vector<int64_t>& total_ns) {
    std::vector<int64_t> counted_to(ranks_.size(), INT64_MIN);
    std::vector<std::vector<int64_t>> communicated;
    for (uint32_t r = 0; r < ranks_.size(); ++r) communicated.push_back(communicated_ns(r));
    std::unordered_map<uint64_t, int64_t> last_time;   // communicated by the group's last collective, by rank and group
    for (OneCollective& m : collectives_) {
      const uint32_t latest = m.matched->latest;
      int64_t longest = 0;
      for (size_t k = 0; k < m.matched->calls.size(); ++k) {
        const uint32_t r = m.matched->calls[k].rank;
        int64_t& by_last_time = last_time[pair_of(r, m.group)];
        const int64_t by_now = communicated[r][m.matched->calls[k].call];
        m.calls.push_back({counted_to[r], by_now - by_last_time});
        by_last_time = by_now;
        if (r == latest) continue;
        const int64_t wait = stalled(m, k, m.matched->last_ns);
        counted_to[r] = m.matched->last_ns;
        add_saturated(total_ns[r], wait);
        longest = std::max(longest, wait);
      }
      add_saturated(ranks_[latest].most_ns, longest);
    }
  }

  // Calls each(call, waiting) for the ranks that the usual rank, the median by arrival, waits for at least half as long
  // as for the latest. If most ranks are late, the usual rank is too, and no rank is late. Returns the wait for the
  // latest.
  template <class Each>
  int64_t each_late(const OneCollective& m, Each&& each) {
    const std::span<const RankCall> calls = m.matched->calls;
    order_.clear();
    for (uint32_t k = 0; k < calls.size(); ++k) order_.emplace_back(arrival(calls[k]), k);
    const auto middle = order_.begin() + static_cast<int64_t>((order_.size() - 1) / 2);
    std::nth_element(order_.begin(), middle, order_.end());
    const auto [usual_ns, usual] = *middle;
    const auto waits = [&, waiting = usual](const std::pair<int64_t, uint32_t>& late) {
      return caused(m, late.second, waiting, stalled(m, waiting, late.first));
    };
    const int64_t for_latest = waits(*std::max_element(middle, order_.end()));
    for (auto late = middle + 1; late != order_.end(); ++late) {
      if (saturated_sub(late->first, usual_ns) < for_latest / 2) continue;
      if (const int64_t ns = waits(*late); ns > 0 && ns >= for_latest - ns) each(late->second, ns);
    }
    return for_latest;
  }

  void find_late(const OneCollective& m) {
    const std::span<const RankCall> calls = m.matched->calls;
    const int64_t usual =
        each_late(m, [&](uint32_t k, int64_t ns) { add_saturated(ranks_[calls[k].rank].caused_ns, ns); });
    for (const RankCall& c : calls) add_saturated(ranks_[c.rank].usual_ns, usual);
  }

  void add_excess(const OneCollective& m) {
    const std::span<const RankCall> calls = m.matched->calls;
    const uint32_t latest = m.matched->latest;
    const auto persistent = [&](RankCall c) { return c.rank != latest && ranks_[c.rank].persistent; };
    late_.clear();
    for (uint32_t k = 0; k < calls.size(); ++k)
      if (calls[k].rank == latest && ranks_[latest].candidate) late_.push_back(k);
    if (std::ranges::any_of(calls, persistent))
      each_late(m, [&](uint32_t k, int64_t) {
        if (persistent(calls[k])) late_.push_back(k);
      });
    is_late_.assign(calls.size(), false);
    for (const uint32_t late : late_) is_late_[late] = true;
    for (const uint32_t late : late_) add_waits_for(m, late);
  }

  void add_waits_for(const OneCollective& m, uint32_t late) {
    const std::span<const RankCall> calls = m.matched->calls;
    const RankCall& late_call = calls[late];
    const int64_t to = arrival(late_call);
    const size_t stride = (calls.size() + kMaxSampled - 1) / kMaxSampled;
    for (size_t k = 0; k < calls.size(); k += stride) {
      if (is_late_[k] || (!local_.empty() && job_.ranks[calls[k].rank].host == job_.ranks[late_call.rank].host))
        continue;
      add_saturated(ranks_[late_call.rank].waits[pair_of(calls[k].rank, job_.call(late_call).step_index)],
                    caused(m, late, k, stalled(m, k, to)));
    }
  }

  void add_result(uint32_t rank, std::vector<LateRank>& out) {
    LateRank late;
    late.rank = rank;
    std::map<uint32_t, int64_t> by_waiting;
    std::map<uint32_t, std::vector<int64_t>> by_step;
    for (const auto& [key, ns] : ranks_[rank].waits) {
      add_saturated(by_waiting[static_cast<uint32_t>(key >> 32)], ns);
      by_step[static_cast<uint32_t>(key)].push_back(ns);
    }
    std::vector<int64_t> totals;
    for (const auto& [waiting, ns] : by_waiting) {
      totals.push_back(ns);
      late.waiting.push_back(waiting);
    }
    late.excess_ns = totals.empty() ? 0 : upper_median(totals);
    if (static_cast<double>(late.excess_ns) < ranks_[rank].threshold_ns) return;
    for (auto& [index, waits] : by_step) late.steps.push_back({index, upper_median(waits)});
    out.push_back(std::move(late));
  }

  const JobView& job_;
  Flags local_;
  std::vector<OneCollective> collectives_;   // measured ones
  std::vector<Rank> ranks_;
  std::vector<std::pair<int64_t, uint32_t>> order_;   // these are reused for their memory
  std::vector<uint32_t> late_;
  std::vector<bool> is_late_;
};

constexpr double kSlow = 1.5;   // times the others' transfer: more than placement alone explains

// name, type, ranks in the group, their hosts, bytes
using Likeness = std::tuple<std::string, std::string, int64_t, size_t, int64_t>;
using Members = std::vector<uint32_t>;
using GroupCalls = std::vector<const MatchedCollective*>;

int64_t usual_transfer_ns(const GroupCalls& calls) {
  std::vector<int64_t> ns;
  for (const MatchedCollective* m : calls) ns.push_back(m->transfer_ns());
  return lower_median(std::move(ns));
}

std::map<Likeness, std::map<Members, GroupCalls>> groups_alike(const JobView& job) {
  std::map<Likeness, std::map<Members, GroupCalls>> found;
  for (const MatchedCollective& m : job.collectives) {
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

// A group's transfers beside those of similar groups, over all sizes: small messages hardly show a slow link.
struct LinkGroup {
  Members members;
  size_t sort = 0;
  int64_t own_ns = 0, usual_ns = 0;
  std::map<uint32_t, int64_t> excess_ns;   // by rank: time beyond the usual in which it computes nothing
  std::vector<SlowLink::Transfer> transfers;
  int64_t most_expensive_ns = 0;           // excess of one likeness
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
  void compare(const Likeness& likeness, const std::map<Members, GroupCalls>& groups) {
    std::vector<int64_t> transfers;
    for (const auto& [members, calls] : groups) transfers.push_back(usual_transfer_ns(calls));
    const int64_t usual_ns = lower_median(transfers);   // of two groups, the faster
    const size_t sort = sorts_.size();
    sorts_.push_back(sort);
    size_t i = 0;
    for (const auto& [members, calls] : groups) {
      const auto [at, fresh] = of_members_.try_emplace(members);
      if (fresh) at->second.sort = sort;
      else sorts_[root(at->second.sort)] = root(sort);
      add(likeness, calls, transfers[i++], usual_ns, at->second);
    }
  }

  void add(const Likeness& likeness, const GroupCalls& calls, int64_t own_ns, int64_t usual_ns, LinkGroup& group) {
    const auto count = static_cast<int64_t>(calls.size());
    const auto of_all_ns = [&](int64_t ns) {
      return ns < 0 ? -saturated_product(-ns, count) : saturated_product(ns, count);
    };
    const int64_t more_ns = of_all_ns(saturated_sub(own_ns, usual_ns));
    add_saturated(group.own_ns, of_all_ns(own_ns));
    add_saturated(group.usual_ns, of_all_ns(usual_ns));
    for (const MatchedCollective* m : calls) {
      const int64_t beyond = std::max<int64_t>(m->transfer_ns() - usual_ns, 0);
      group.transfers.push_back({static_cast<uint32_t>(m - job_.collectives.data()), beyond});
      for (const RankCall& c : m->calls)
        group.excess_ns[c.rank] += std::clamp<int64_t>(beyond, 0, stalled_ns(job_, c, m->last_ns, m->end_ns));
    }
    if (more_ns < group.most_expensive_ns) return;
    group.most_expensive_ns = more_ns;
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
  std::vector<size_t> sorts_;   // union-find over likenesses: those of one sort have one root
};

using Groups = std::vector<const LinkGroup*>;

// By rank: its slow groups, except of sorts of which it also has a sound one; and whether it has any sound group.
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
  SlowLink link = (*std::ranges::max_element(groups, {}, &LinkGroup::most_expensive_ns))->most_expensive;
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

// The ranks in most of the unexplained groups; if several have equally many, those in the more expensive ones. Empty:
// no groups are left.
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
  return wait.length() - sum_of(job.ranks[of.rank].cover(call),
                                [&](const Interval& compute) { return overlap_length(compute, wait); });
}

Waiting waiting(const JobView& job, double mean_step_ns) { return LatenessSearch(job, mean_step_ns).run(); }

std::optional<Waiting> waiting_for_hosts(const JobView& job, double mean_step_ns) {
  Flags within = within_hosts(job);
  size_t kinds = 0, local = 0;
  for (const std::vector<bool>& of_rank : within) {
    kinds += of_rank.size();
    local += static_cast<size_t>(std::ranges::count(of_rank, true));
  }
  if (local == 0 || local == kinds) return std::nullopt;
  return LatenessSearch(job, mean_step_ns, std::move(within)).run();
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
