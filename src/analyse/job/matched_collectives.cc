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

/// A call and what makes calls of different ranks the same collective.
struct Identified {
  uint32_t kind = 0;
  int64_t elements = -1, step = -1, number = 0;
  RankCall call;
  [[nodiscard]] auto identity() const { return std::tie(kind, elements, step, number); }
  [[nodiscard]] auto order() const { return std::tie(kind, elements, step, number, call.rank, call.call); }
};

using Kinds = std::map<std::tuple<std::string_view, std::string_view, std::string_view>, uint32_t>;

/// Kinds of one rank as places in the job's. `known` refers to the ranks' strings.
std::vector<uint32_t> job_kinds(const RankDigest& rank, std::vector<JobKind>& kinds, Kinds& known) {
  std::vector<uint32_t> places;
  for (const CollectiveKind& k : rank.calls.kinds) {
    const auto [at, fresh] = known.try_emplace({k.group, k.members, k.name}, static_cast<uint32_t>(kinds.size()));
    if (fresh)
      kinds.push_back({k.group, k.members, k.name, !can_leave_early(k.described ? k.name : collective_name(k.name))});
    places.push_back(at->second);
  }
  return places;
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
  std::sort(all.begin(), all.end(), [](const Identified& a, const Identified& b) { return a.order() < b.order(); });
  return all;
}

/// Calls of one identity, by rank: each rank's first are one collective, its second another. If ranks have more than
/// one but not as many as each other, nobody knows which are the same.
void add_like(std::span<const Identified> like, MatchedCalls& met) {
  std::vector<std::pair<uint32_t, RankCall>> parts;   // place among its rank's calls
  for (size_t i = 0; i < like.size(); ++i)
    parts.emplace_back(i > 0 && like[i - 1].call.rank == like[i].call.rank ? parts.back().first + 1 : 0, like[i].call);
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::vector<RankCall>> by_place(parts.back().first + 1);
  for (const auto& [place, call] : parts) by_place[place].push_back(call);
  const bool certain = by_place.back().size() == by_place.front().size();
  for (const std::vector<RankCall>& one : by_place) {
    if (certain) met.add(like.front().kind, one);
    else for (const RankCall& call : one) met.add(like.front().kind, {&call, 1});
  }
}

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
  MatchedCalls met;
  const std::vector<Identified> all = identified(ranks, met.kinds);
  for (size_t i = 0; i < all.size();) {
    size_t j = i;
    while (j < all.size() && all[j].identity() == all[i].identity()) ++j;
    add_like({all.data() + i, j - i}, met);
    i = j;
  }
  return met;
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

namespace {

constexpr int64_t kHang_ns = 1'000'000'000;   // a collective that lasts so long, or a step, and ends with the trace
constexpr int64_t kNeighbour_ns = 50'000;   // by which the calls before and after may reach into it, as clocks are
constexpr int64_t kTraceEnd_ns = 1'000'000;   // what counts as the trace's end

using GroupName = std::pair<std::string_view, std::string_view>;   // name, members

/// Ranks of a group in hand, and when each of them was in collectives of it, on the first rank's clock.
struct Group {
  std::map<uint32_t, std::vector<Interval>> calls;   // by rank's place; sorted by start
};

class Search {
 public:
  Search(std::span<const RankDigest> ranks, const MatchedCalls& met, std::span<const RankClock> clocks)
      : ranks_(ranks), met_(met), clocks_(clocks) {
    for (uint32_t r = 0; r < ranks.size(); ++r)
      if (clocks[r].known()) add_calls(r);
    for (auto& [name, group] : groups_) {
      for (const int rank : member_ranks(name.second)) add_member(rank, group);
      for (auto& [r, calls] : group.calls) std::sort(calls.begin(), calls.end());
    }
  }

  std::vector<MissingCalls> run() {
    for (size_t i = 0; i < met_.size(); ++i) look(met_[i]);
    for (const RankCall& c : met_.alone) look({&c, 1});
    std::vector<MissingCalls> out;
    for (auto& [key, missing] : found_) out.push_back(std::move(missing));
    std::stable_sort(out.begin(), out.end(), [](const MissingCalls& a, const MissingCalls& b) {
      return std::tie(a.first_ns, a.rank) < std::tie(b.first_ns, b.rank);
    });
    return out;
  }

 private:
  void add_calls(uint32_t rank) {
    for (const CollectiveCall& c : ranks_[rank].calls.calls) {
      const CollectiveKind& kind = ranks_[rank].kind(c);
      if (!kind.described || kind.is_pair()) continue;
      groups_[{kind.group, kind.members}].calls[rank].push_back(aligned(rank, c));
    }
  }

  void add_member(int rank, Group& group) {
    const auto at = std::lower_bound(ranks_.begin(), ranks_.end(), rank,
                                     [](const RankDigest& d, int number) { return d.rank < number; });
    if (at == ranks_.end() || at->rank != rank) return;
    const auto place = static_cast<uint32_t>(at - ranks_.begin());
    if (clocks_[place].known()) group.calls[place];
  }

  [[nodiscard]] Interval aligned(uint32_t rank, const CollectiveCall& c) const {
    return {clocks_[rank].aligned(c.start_ns), clocks_[rank].aligned(c.end_ns)};
  }
  [[nodiscard]] const CollectiveCall& call(const RankCall& c) const { return ranks_[c.rank].calls.calls[c.call]; }

  // Whether ranks of the group lack this collective. `parts`: those that have it, by rank.
  void look(std::span<const RankCall> parts) {
    const CollectiveKind& kind = ranks_[parts.front().rank].kind(call(parts.front()));
    if (!kind.described) return;
    const auto known = groups_.find({kind.group, kind.members});
    if (known == groups_.end() || known->second.calls.size() <= parts.size()) return;
    // Without members one name may be several groups'.
    if (kind.members.empty() && static_cast<int64_t>(known->second.calls.size()) > kind.group_size) return;
    Interval time{INT64_MAX, INT64_MIN};
    for (const RankCall& c : parts) {
      if (!clocks_[c.rank].known()) return;
      const Interval own = aligned(c.rank, call(c));
      time = {std::min(time.start, own.start), std::max(time.end, own.end)};
    }
    const bool hang = waits_to_the_end(parts, known->second);
    auto part = parts.begin();
    for (const auto& [r, calls] : known->second.calls) {
      while (part != parts.end() && part->rank < r) ++part;
      if (part != parts.end() && part->rank == r) continue;
      if (hang && never_arrives(r, calls, time)) add(r, parts, time.start, "never_arrived");
      else if (goes_on(calls, time)) add(r, parts, time.start, "missing");
    }
  }

  // Long, the last call of the group on each rank, and no end within the trace.
  [[nodiscard]] bool waits_to_the_end(std::span<const RankCall> parts, const Group& group) const {
    return std::all_of(parts.begin(), parts.end(), [&](const RankCall& c) {
      const CollectiveCall& own = call(c);
      const RankDigest& rank = ranks_[c.rank];
      const int64_t step = rank.mean_step_ns(), length = saturated_sub(own.end_ns, own.start_ns);
      const int64_t long_ns = step > 0 ? std::min(step, kHang_ns) : kHang_ns;
      return length >= long_ns && own.end_ns >= saturated_sub(rank.extent.end, std::max(kTraceEnd_ns, length / 20)) &&
             aligned(c.rank, own).start >= group.calls.at(c.rank).back().start;
    });
  }

  // No later call of the group, and its trace reaches the others' waiting, or nearly: what hangs is killed, and the
  // last of its records may be lost.
  [[nodiscard]] bool never_arrives(uint32_t rank, const std::vector<Interval>& calls, Interval time) const {
    const int64_t lost = std::max(ranks_[rank].mean_step_ns(), kHang_ns);
    return clocks_[rank].aligned(ranks_[rank].extent.end) >= saturated_sub(time.start, lost) &&
           (calls.empty() || calls.back().start < time.start);
  }

  // It has calls of the group before and after. One at the same time may be the same one by another name or size.
  [[nodiscard]] static bool goes_on(const std::vector<Interval>& calls, Interval time) {
    if (calls.empty() || calls.front().end > time.start || calls.back().start < time.end) return false;
    const int64_t slack = std::min(kNeighbour_ns, saturated_sub(time.end, time.start) / 2);
    const auto next = std::lower_bound(calls.begin(), calls.end(), saturated_add(time.start, slack),
                                       [](const Interval& c, int64_t t) { return c.end <= t; });
    return next == calls.end() || next->start >= saturated_sub(time.end, slack);
  }

  void add(uint32_t rank, std::span<const RankCall> parts, int64_t first_ns, std::string_view what) {
    const RankDigest& other = ranks_[parts.front().rank];
    const CollectiveCall& c = call(parts.front());
    const CollectiveKind& kind = other.kind(c);
    MissingCalls& m = found_[{rank, kind.name, kind.group, kind.members, what}];
    if (m.calls == 0 || first_ns < m.first_ns) {
      m.rank = ranks_[rank].rank;
      m.name = kind.name;
      m.process_group = kind.group;
      m.number = c.number;
      m.step = other.annotated && c.step_place < other.steps.size() ? other.steps[c.step_place].index : -1;
      m.first_ns = first_ns;
      m.others = static_cast<int64_t>(parts.size());
      m.kind = what;
    }
    ++m.calls;
  }

  std::span<const RankDigest> ranks_;
  const MatchedCalls& met_;
  std::span<const RankClock> clocks_;
  std::map<GroupName, Group> groups_;
  std::map<std::tuple<uint32_t, std::string, std::string, std::string_view, std::string_view>, MissingCalls> found_;
};

}  // namespace

std::vector<MissingCalls> missing_calls(std::span<const RankDigest> ranks, const MatchedCalls& met,
                                        std::span<const RankClock> clocks) {
  return Search(ranks, met, clocks).run();
}

const MissingCalls* first_hang(std::span<const MissingCalls> missing) {
  const auto first =
      std::find_if(missing.begin(), missing.end(), [](const MissingCalls& m) { return m.never_arrived(); });
  return first == missing.end() ? nullptr : &*first;
}

namespace {

/// Calls of one kind and size.
struct Family {
  std::vector<uint32_t> collectives;   // MatchedCalls
  std::vector<RankCall> calls;
  size_t fitting = 0;                  // calls in collectives whose ranks were in it at one time
  std::optional<uint32_t> alone_of;    // rank of the last call that is in no collective
  bool slipped = false;                // collectives do not fit, or several ranks have calls in none
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
  TimeMatcher(std::span<const RankDigest> ranks, const MatchedCalls& met, std::span<const RankClock> clocks)
      : ranks_(ranks), met_(met), clocks_(clocks), kept_(met.size(), true), grouped_(ranks.size(), 0) {}

  std::optional<MatchedCalls> match() {
    Families families = find();
    MatchedCalls out;
    out.kinds = met_.kinds;
    bool changed = false;
    for (auto& [key, family] : families) changed |= family.slipped && rematch(key.first, family, out);
    if (!changed) return std::nullopt;
    for (uint32_t i = 0; i < met_.size(); ++i)
      if (kept_[i]) out.add(met_.kind[i], met_[i]);
    for (size_t i = 0; i < met_.alone.size(); ++i)
      if (const RankCall& c = met_.alone[i];
          !clocks_[c.rank].known() || !rematched_.contains({met_.alone_kind[i], call(c).elements}))
        out.add(met_.alone_kind[i], {&c, 1});
    return out;
  }

 private:
  [[nodiscard]] const CollectiveCall& call(const RankCall& c) const { return ranks_[c.rank].calls.calls[c.call]; }

  Families find() const {
    Families families;
    for (uint32_t i = 0; i < met_.size(); ++i) {
      if (!met_.kinds[met_.kind[i]].ends_together || !known(met_[i])) continue;
      Family& f = families[{met_.kind[i], call(met_[i].front()).elements}];
      const bool fits = meeting_of(ranks_, met_[i], true, clocks_).has_value();
      f.collectives.push_back(i);
      f.fitting += fits ? met_[i].size() : 0;
      f.slipped |= !fits;
      f.calls.insert(f.calls.end(), met_[i].begin(), met_[i].end());
    }
    for (size_t i = 0; i < met_.alone.size(); ++i) {
      const RankCall& alone = met_.alone[i];
      if (!met_.kinds[met_.alone_kind[i]].ends_together || !clocks_[alone.rank].known()) continue;
      Family& f = families[{met_.alone_kind[i], call(alone).elements}];
      f.calls.push_back(alone);
      f.slipped |= f.alone_of.value_or(alone.rank) != alone.rank;
      f.alone_of = alone.rank;
    }
    return families;
  }

  [[nodiscard]] bool known(std::span<const RankCall> calls) const {
    return std::all_of(calls.begin(), calls.end(), [&](const RankCall& c) { return clocks_[c.rank].known(); });
  }

  bool rematch(uint32_t kind, const Family& family, MatchedCalls& out) {
    std::vector<Timed> calls;
    for (const RankCall& c : family.calls) {
      const RankClock& clock = clocks_[c.rank];
      const Interval time{clock.aligned(call(c).start_ns), clock.aligned(call(c).end_ns)};
      calls.push_back({time, clock.error_ns.value_or(0), c});
    }
    std::sort(calls.begin(), calls.end(), [](const Timed& a, const Timed& b) { return a.order() < b.order(); });
    std::vector<std::vector<RankCall>> found;
    size_t fitting = 0;
    for (size_t i = 0; i < calls.size(); ++i) {
      if (calls[i].taken) continue;
      found.push_back(together_with(calls, i));
      if (found.back().size() > 1) fitting += found.back().size();
    }
    if (fitting <= family.fitting) return false;
    for (std::vector<RankCall>& parts : found) {
      std::sort(parts.begin(), parts.end(), [](const RankCall& a, const RankCall& b) { return a.rank < b.rank; });
      out.add(kind, parts);
    }
    for (const uint32_t i : family.collectives) kept_[i] = false;
    rematched_.insert({kind, call(family.calls.front()).elements});
    return true;
  }

  // Calls that end with the first, at most one a rank. Looks at no more than two calls for each rank.
  std::vector<RankCall> together_with(std::vector<Timed>& calls, size_t first) {
    const Timed& a = calls[first];
    const int64_t length = saturated_sub(a.time.end, a.time.start);
    std::vector<RankCall> parts{a.call};
    ++round_;
    grouped_[a.call.rank] = round_;
    const size_t last = std::min(calls.size(), first + 2 * ranks_.size());
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

  std::span<const RankDigest> ranks_;
  const MatchedCalls& met_;
  std::span<const RankClock> clocks_;
  std::vector<bool> kept_;
  std::set<std::pair<uint32_t, int64_t>> rematched_;
  std::vector<uint64_t> grouped_;   // by rank: the last round that took a call of it
  uint64_t round_ = 0;
};

}  // namespace

std::optional<MatchedCalls> matched_by_time(std::span<const RankDigest> ranks, const MatchedCalls& met,
                                            std::span<const RankClock> clocks) {
  return TimeMatcher(ranks, met, clocks).match();
}

}  // namespace profgpu
