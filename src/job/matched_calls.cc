#include "job/matched_calls.h"

#include <algorithm>
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
  ActivityId activity;
  [[nodiscard]] auto identity() const { return std::tie(kind, elements, step, number); }
  [[nodiscard]] auto order() const { return std::tie(kind, elements, step, number, call.rank, activity); }
};

/// Kinds of one rank as places in the job's.
std::vector<uint32_t> job_kinds(const RankDigest& rank, std::vector<JobKind>& kinds) {
  std::vector<uint32_t> places;
  for (const CollectiveKind& k : rank.calls.kinds) {
    const JobKind kind{k.group, k.members, k.name, !can_leave_early(k.described ? k.name : collective_name(k.name))};
    const auto known = std::find(kinds.begin(), kinds.end(), kind);
    places.push_back(static_cast<uint32_t>(known - kinds.begin()));
    if (known == kinds.end()) kinds.push_back(kind);
  }
  return places;
}

std::vector<Identified> identified(std::span<const RankDigest> ranks, std::vector<JobKind>& kinds) {
  std::vector<Identified> all;
  for (uint32_t r = 0; r < ranks.size(); ++r) {
    const std::vector<uint32_t> kind = job_kinds(ranks[r], kinds);
    const std::vector<CollectiveCall>& calls = ranks[r].calls.calls;
    for (uint32_t i = 0; i < calls.size(); ++i) {
      const CollectiveCall& c = calls[i];
      if (!ranks[r].kind(c).is_pair())
        all.push_back({kind[c.kind], c.elements, c.step, c.number, {r, i}, c.activity});
    }
  }
  std::sort(all.begin(), all.end(), [](const Identified& a, const Identified& b) { return a.order() < b.order(); });
  return all;
}

}  // namespace

MatchedCalls matched_calls(std::span<const RankDigest> ranks) {
  MatchedCalls met;
  const std::vector<Identified> all = identified(ranks, met.kinds);
  // One call of each rank; coalesced calls share a number, and the first of them stands for all.
  for (size_t i = 0; i < all.size();) {
    const size_t begin = met.calls.size();
    size_t j = i;
    for (; j < all.size() && all[j].identity() == all[i].identity(); ++j)
      if (met.calls.size() == begin || met.calls.back().rank != all[j].call.rank) met.calls.push_back(all[j].call);
    if (met.calls.size() - begin < 2) {
      met.calls.resize(begin);
    } else {
      met.first.push_back(static_cast<uint32_t>(begin));
      met.kind.push_back(all[i].kind);
    }
    i = j;
  }
  met.first.push_back(static_cast<uint32_t>(met.calls.size()));
  return met;
}

}  // namespace profgpu
