#include "analyse/job/matched_collectives.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <tuple>

#include "analyse/rank/collectives.h"
#include "base/saturated.h"

namespace profgpu {
namespace {

bool can_leave_early(const std::string& name) {
  return name == "broadcast" || name == "reduce" || name == "gather" || name == "scatter" || name.empty();
}

/// A call, and what identifies its collective on all ranks.
struct Identified {
  uint32_t kind = 0;
  int64_t elements = -1, step = -1, number = 0;
  RankCall call;
  [[nodiscard]] auto identity() const { return std::tie(kind, elements, step, number); }
  [[nodiscard]] auto order() const { return std::tie(kind, elements, step, number, call.rank, call.call); }
};

using Kinds = std::map<std::tuple<std::string_view, std::string_view, std::string_view>, uint32_t>;

/// Indices of one rank's kinds among the job's. `known` refers to the ranks' strings.
std::vector<uint32_t> job_kinds(const RankDigest& rank, std::vector<JobKind>& kinds, Kinds& known) {
  std::vector<uint32_t> indices;
  for (const CollectiveKind& k : rank.calls.kinds) {
    const auto [at, fresh] = known.try_emplace({k.group, k.members, k.name}, static_cast<uint32_t>(kinds.size()));
    if (fresh)
      kinds.push_back({k.group, k.members, k.name, !can_leave_early(k.described ? k.name : collective_name(k.name))});
    indices.push_back(at->second);
  }
  return indices;
}

std::vector<Identified> identified(std::span<const RankDigest> ranks, std::vector<JobKind>& kinds) {
  std::vector<Identified> all;
  Kinds known;
  for (uint32_t r = 0; r < ranks.size(); ++r) {
    const std::vector<uint32_t> kind = job_kinds(ranks[r], kinds, known);
    const std::vector<CollectiveCall>& calls = ranks[r].calls.calls;
    for (uint32_t i = 0; i < calls.size(); ++i) {
      const CollectiveCall& c = calls[i];
      if (!ranks[r].may_be_pair(c)) all.push_back({kind[c.kind], c.elements, c.step, c.number, {r, i}});
    }
  }
  std::ranges::sort(all, {}, &Identified::order);
  return all;
}

/// Calls of one identity, by rank: the ranks' first calls are one collective, the second ones another. If ranks have
/// several calls, but not equally many, the match is ambiguous.
void add_like(std::span<const Identified> like, MatchedCalls& matches) {
  std::vector<std::pair<uint32_t, RankCall>> parts;   // position among its rank's calls
  for (size_t i = 0; i < like.size(); ++i)
    parts.emplace_back(i > 0 && like[i - 1].call.rank == like[i].call.rank ? parts.back().first + 1 : 0, like[i].call);
  std::ranges::stable_sort(parts, {}, &std::pair<uint32_t, RankCall>::first);
  std::vector<std::vector<RankCall>> by_position(parts.back().first + 1);
  for (const auto& [position, call] : parts) by_position[position].push_back(call);
  const bool certain = by_position.back().size() == by_position.front().size();
  for (const std::vector<RankCall>& one : by_position) {
    if (certain) matches.add(like.front().kind, one);
    else for (const RankCall& call : one) matches.add(like.front().kind, {&call, 1});
  }
}

constexpr int64_t kHang_ns = 1'000'000'000;   // a collective that lasts this long, or a step, and ends with the trace
constexpr int64_t kNeighbor_ns = 50'000;      // overlap with the calls before and after that clock errors may cause
constexpr int64_t kTraceEnd_ns = 1'000'000;   // counts as the trace's end

using GroupName = std::pair<std::string_view, std::string_view>;   // name, members
/// By index of a group's rank: its times in the group's collectives, sorted by start; ends ascend, too.
using Group = std::map<uint32_t, std::vector<Interval>>;

class MissingSearch {
 public:
  explicit MissingSearch(const JobView& job) : job_(job) {
    for (uint32_t r = 0; r < job.ranks.size(); ++r)
      if (job.clocks[r].known()) add_calls(r);
    for (auto& [name, group] : groups_) {
      for (const int rank : member_ranks(name.second)) add_member(rank, group);
      for (auto& [r, calls] : group) {
        std::ranges::sort(calls);
        // Calls may lie within a longer one: each is said to end with the last of those up to it, for goes_on().
        for (size_t i = 1; i < calls.size(); ++i) calls[i].end = std::max(calls[i].end, calls[i - 1].end);
      }
    }
  }

  std::vector<MissingCalls> run() {
    for (size_t i = 0; i < job_.matches.size(); ++i) look(job_.matches[i]);
    for (const RankCall& c : job_.matches.alone) look({&c, 1});
    std::vector<MissingCalls> out;
    for (auto& [key, missing] : found_) out.push_back(std::move(missing));
    std::ranges::stable_sort(out, {}, [](const MissingCalls& m) { return std::tie(m.first_ns, m.rank); });
    return out;
  }

 private:
  void add_calls(uint32_t rank) {
    for (const CollectiveCall& c : job_.ranks[rank].calls.calls) {
      const CollectiveKind& kind = job_.ranks[rank].kind(c);
      if (!kind.described || kind.is_pair()) continue;
      groups_[{kind.group, kind.members}][rank].push_back(job_.clocks[rank].aligned(c));
    }
  }

  void add_member(int rank, Group& group) {
    const auto at = std::ranges::lower_bound(job_.ranks, rank, {}, &RankDigest::rank);
    if (at == job_.ranks.end() || at->rank != rank) return;
    const auto index = static_cast<uint32_t>(at - job_.ranks.begin());
    if (job_.clocks[index].known()) group[index];
  }

  // Finds ranks of the group that lack this collective. `parts`: those that have it, by rank.
  void look(std::span<const RankCall> parts) {
    const CollectiveKind& kind = job_.kind(parts.front());
    if (!kind.described) return;
    const auto known = groups_.find({kind.group, kind.members});
    if (known == groups_.end() || known->second.size() <= parts.size()) return;
    // Without members, several groups may share one name.
    if (kind.members.empty() && static_cast<int64_t>(known->second.size()) > kind.group_size) return;
    Interval time{INT64_MAX, INT64_MIN};
    for (const RankCall& c : parts) {
      if (!job_.clocks[c.rank].known()) return;
      time = hull(time, job_.time(c));
    }
    const bool hang = waits_to_the_end(parts, known->second);
    auto part = parts.begin();
    for (const auto& [r, calls] : known->second) {
      while (part != parts.end() && part->rank < r) ++part;
      if (part != parts.end() && part->rank == r) continue;
      if (hang && never_arrives(r, calls, time)) add(r, parts, time.start, "never_arrived");
      else if (goes_on(calls, time)) add(r, parts, time.start, "missing");
    }
  }

  // Whether it is long, each rank's last call of the group, and lasts to the end of the trace.
  [[nodiscard]] bool waits_to_the_end(std::span<const RankCall> parts, const Group& group) const {
    return std::ranges::all_of(parts, [&](RankCall c) {
      const CollectiveCall& own = job_.call(c);
      const RankDigest& rank = job_.ranks[c.rank];
      const int64_t step = rank.mean_step_ns(), length = saturated_sub(own.end_ns, own.start_ns);
      const int64_t long_ns = step > 0 ? std::min(step, kHang_ns) : kHang_ns;
      return length >= long_ns && own.end_ns >= saturated_sub(rank.extent.end, std::max(kTraceEnd_ns, length / 20)) &&
             job_.time(c).start >= group.at(c.rank).back().start;
    });
  }

  // Whether the rank has no later call of the group, and its trace reaches the others' wait, or nearly: a hanging
  // process is killed, and may lose its last records.
  [[nodiscard]] bool never_arrives(uint32_t rank, const std::vector<Interval>& calls, Interval time) const {
    const int64_t lost = std::max(job_.ranks[rank].mean_step_ns(), kHang_ns);
    return job_.clocks[rank].aligned(job_.ranks[rank].extent.end) >= saturated_sub(time.start, lost) &&
           (calls.empty() || calls.back().start < time.start);
  }

  // Whether it has calls of the group before and after. One at the same time may be the same with another name or size.
  [[nodiscard]] static bool goes_on(const std::vector<Interval>& calls, Interval time) {
    if (calls.empty() || calls.front().end > time.start || calls.back().start < time.end) return false;
    const int64_t slack = std::min(kNeighbor_ns, saturated_sub(time.end, time.start) / 2);
    const auto next = std::ranges::upper_bound(calls, saturated_add(time.start, slack), {}, &Interval::end);
    return next == calls.end() || next->start >= saturated_sub(time.end, slack);
  }

  void add(uint32_t rank, std::span<const RankCall> parts, int64_t first_ns, std::string_view what) {
    const CollectiveCall& c = job_.call(parts.front());
    const CollectiveKind& kind = job_.kind(parts.front());
    MissingCalls& m = found_[{rank, kind.name, kind.group, kind.members, what}];
    if (m.calls == 0 || first_ns < m.first_ns) {
      m.rank = job_.ranks[rank].rank;
      m.name = kind.name;
      m.process_group = kind.group;
      m.number = c.number;
      m.step = job_.ranks[parts.front().rank].step_number(c).value_or(-1);
      m.first_ns = first_ns;
      m.others = static_cast<int64_t>(parts.size());
      m.kind = what;
    }
    ++m.calls;
  }

  const JobView& job_;
  std::map<GroupName, Group> groups_;
  std::map<std::tuple<uint32_t, std::string, std::string, std::string_view, std::string_view>, MissingCalls> found_;
};

/// Calls of one kind and size.
struct Family {
  std::vector<uint32_t> collectives;   // MatchedCalls
  std::vector<RankCall> calls;
  size_t fitting = 0;                  // calls of collectives that all their ranks were in at one time
  std::optional<uint32_t> alone_of;    // rank of the last unmatched call
  bool slipped = false;                // collectives do not fit, or several ranks have unmatched calls
};
using Families = std::map<std::pair<uint32_t, int64_t>, Family>;   // kind, elements

struct Timed {
  Interval time;
  int64_t error_ns = 0;
  RankCall call;
  bool taken = false;
  [[nodiscard]] auto order() const { return std::tie(time.end, time.start, call.rank, call.call); }
};

class TimeMatcher {
 public:
  explicit TimeMatcher(const JobView& job)
      : job_(job), matches_(job.matches), kept_(matches_.size(), true), grouped_(job.ranks.size(), 0) {}

  std::optional<MatchedCalls> match() {
    Families families = find();
    MatchedCalls out;
    out.kinds = matches_.kinds;
    bool changed = false;
    for (auto& [key, family] : families) changed |= family.slipped && rematch(key.first, family, out);
    if (!changed) return std::nullopt;
    for (uint32_t i = 0; i < matches_.size(); ++i)
      if (kept_[i]) out.add(matches_.kind[i], matches_[i]);
    for (size_t i = 0; i < matches_.alone.size(); ++i)
      if (const RankCall& c = matches_.alone[i];
          !job_.clocks[c.rank].known() || !rematched_.contains({matches_.alone_kind[i], job_.call(c).elements}))
        out.add(matches_.alone_kind[i], {&c, 1});
    return out;
  }

 private:
  Families find() const {
    Families families;
    const auto known = [&](RankCall c) { return job_.clocks[c.rank].known(); };
    for (uint32_t i = 0; i < matches_.size(); ++i) {
      if (!matches_.kind_of(i).ends_together || !std::ranges::all_of(matches_[i], known)) continue;
      Family& f = families[{matches_.kind[i], job_.call(matches_[i].front()).elements}];
      const bool fits = job_.collective_of(matches_[i], true).has_value();
      f.collectives.push_back(i);
      f.fitting += fits ? matches_[i].size() : 0;
      f.slipped |= !fits;
      f.calls.insert(f.calls.end(), matches_[i].begin(), matches_[i].end());
    }
    for (size_t i = 0; i < matches_.alone.size(); ++i) {
      const RankCall& alone = matches_.alone[i];
      if (!matches_.kinds[matches_.alone_kind[i]].ends_together || !known(alone)) continue;
      Family& f = families[{matches_.alone_kind[i], job_.call(alone).elements}];
      f.calls.push_back(alone);
      f.slipped |= f.alone_of.value_or(alone.rank) != alone.rank;
      f.alone_of = alone.rank;
    }
    return families;
  }

  bool rematch(uint32_t kind, const Family& family, MatchedCalls& out) {
    std::vector<Timed> calls;
    for (const RankCall& c : family.calls)
      calls.push_back({job_.time(c), job_.clocks[c.rank].error_ns.value_or(0), c});
    std::ranges::sort(calls, {}, &Timed::order);
    std::vector<std::vector<RankCall>> found;
    size_t fitting = 0;
    for (size_t i = 0; i < calls.size(); ++i) {
      if (calls[i].taken) continue;
      found.push_back(together_with(calls, i));
      if (found.back().size() > 1) fitting += found.back().size();
    }
    if (fitting <= family.fitting) return false;
    for (std::vector<RankCall>& parts : found) {
      std::ranges::sort(parts, {}, &RankCall::rank);
      out.add(kind, parts);
    }
    for (const uint32_t i : family.collectives) kept_[i] = false;
    rematched_.insert({kind, job_.call(family.calls.front()).elements});
    return true;
  }

  // Calls that end with the first, at most one per rank. Considers at most two calls per rank.
  std::vector<RankCall> together_with(std::vector<Timed>& calls, size_t first) {
    const Timed& a = calls[first];
    const int64_t length = saturated_sub(a.time.end, a.time.start);
    std::vector<RankCall> parts{a.call};
    ++round_;
    grouped_[a.call.rank] = round_;
    const size_t last = std::min(calls.size(), first + 2 * job_.ranks.size());
    for (size_t j = first + 1; j < last; ++j) {
      Timed& b = calls[j];
      const int64_t errors = saturated_add(a.error_ns, b.error_ns), later = saturated_sub(b.time.end, a.time.end);
      if (later > saturated_add(errors, std::max(kEndsApart_ns, length / 2))) break;
      const int64_t shorter = std::min(length, saturated_sub(b.time.end, b.time.start));
      if (b.taken || grouped_[b.call.rank] == round_ || b.time.start > saturated_add(a.time.end, errors) ||
          later > saturated_add(errors, std::max(kEndsApart_ns, shorter / 2)))
        continue;
      b.taken = true;
      grouped_[b.call.rank] = round_;
      parts.push_back(b.call);
    }
    return parts;
  }

  const JobView& job_;
  const MatchedCalls& matches_;
  std::vector<bool> kept_;
  std::set<std::pair<uint32_t, int64_t>> rematched_;
  std::vector<uint64_t> grouped_;   // by rank: the last round that took a call of it
  uint64_t round_ = 0;
};

}  // namespace

void MatchedCalls::add(uint32_t of_kind, std::span<const RankCall> parts) {
  if (parts.size() == 1) {
    alone.push_back(parts.front());
    alone_kind.push_back(of_kind);
  }
  if (parts.size() < 2) return;
  calls.insert(calls.end(), parts.begin(), parts.end());
  first.push_back(static_cast<uint32_t>(calls.size()));
  kind.push_back(of_kind);
}

MatchedCalls matched_calls(std::span<const RankDigest> ranks) {
  MatchedCalls matches;
  const std::vector<Identified> all = identified(ranks, matches.kinds);
  for (size_t i = 0; i < all.size();) {
    size_t j = i;
    while (j < all.size() && all[j].identity() == all[i].identity()) ++j;
    add_like({all.data() + i, j - i}, matches);
    i = j;
  }
  return matches;
}

std::vector<int> member_ranks(std::string_view members) {
  std::vector<int> ranks;
  const auto skip = [&](std::string_view characters) {
    members.remove_prefix(std::min(members.find_first_not_of(characters), members.size()));
  };
  skip(" ");
  if (!members.starts_with('[')) return {};
  members.remove_prefix(1);
  for (skip(" "); !members.empty() && members.front() != ']'; skip(", ")) {
    int rank = 0;
    const auto [end, error] = std::from_chars(members.data(), members.data() + members.size(), rank);
    if (error != std::errc() || rank < 0) return {};
    members.remove_prefix(static_cast<size_t>(end - members.data()));
    ranks.push_back(rank);
  }
  return members.empty() ? std::vector<int>{} : ranks;
}

std::optional<MatchedCollective> JobView::collective_of(std::span<const RankCall> calls, bool ends_together) const {
  MatchedCollective m;
  m.calls = calls;
  int64_t first_end = INT64_MAX, surely_last = INT64_MIN;   // as late, and as early, as clock errors allow
  int64_t shortest = INT64_MAX, surely_ended = INT64_MIN;
  for (const RankCall& c : calls) {
    if (!clocks[c.rank].known()) return std::nullopt;
    const auto [start, end] = time(c);
    const int64_t error = clocks[c.rank].error_ns.value_or(0);
    first_end = std::min(first_end, saturated_add(end, error));
    surely_last = std::max(surely_last, saturated_sub(start, error));
    shortest = std::min(shortest, saturated_sub(end, start));
    m.measured &= call(c).measured;
    m.end_ns = std::max(m.end_ns, end);
    surely_ended = std::max(surely_ended, saturated_sub(end, error));
    if (start > m.last_ns) m.last_ns = start, m.latest = c.rank;
  }
  const int64_t ends_apart = saturated_sub(surely_ended, first_end);
  const bool together = surely_last <= first_end && ends_apart <= std::max(kEndsApart_ns, shortest / 2);
  if (ends_together && !together) return std::nullopt;
  const CollectiveKind& of = kind(calls.front());
  m.whole_group = of.described && of.group_size == static_cast<int64_t>(calls.size());
  return m;
}

std::vector<MatchedCollective> matched_collectives(const JobView& job) {
  std::vector<MatchedCollective> all;
  for (size_t i = 0; i < job.matches.size(); ++i) {
    std::optional<MatchedCollective> m = job.collective_of(job.matches[i], job.matches.kind_of(i).ends_together);
    if (!m) continue;
    m->collective = static_cast<uint32_t>(i);
    all.push_back(*m);
  }
  std::ranges::stable_sort(all, {}, &MatchedCollective::last_ns);
  return all;
}

std::vector<MissingCalls> missing_calls(const JobView& job) { return MissingSearch(job).run(); }

const MissingCalls* first_hang(std::span<const MissingCalls> missing) {
  return first_where(missing, &MissingCalls::never_arrived);
}

std::optional<MatchedCalls> matched_by_time(const JobView& job) { return TimeMatcher(job).match(); }

}  // namespace profgpu
