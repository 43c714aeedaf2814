#include "job/matched_calls.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "analyse/collectives.h"

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

}  // namespace profgpu
