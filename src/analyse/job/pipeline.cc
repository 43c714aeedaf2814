#include "analyse/job/parallelism.h"

#include <algorithm>
#include <numeric>

#include "analyse/job/matched_collectives.h"
#include "base/statistics.h"

namespace profgpu {
namespace {

constexpr auto kForwardPart = static_cast<size_t>(StepPart::kForward);
constexpr auto kBackwardPart = static_cast<size_t>(StepPart::kBackward);

// Of two ranks each is the other's only neighbour; then only equal traffic both ways in each phase tells.
bool both_ways(const PairUse& p) {
  return p.sent[kForwardPart] > 0 && p.sent[kForwardPart] == p.received[kForwardPart] &&
         p.sent[kBackwardPart] == p.received[kBackwardPart];
}

bool hands_on(const PairUse& p) {
  return p.sends.size() == 1 && p.receives.size() == 1 && !p.sends.contains(-1) && !p.receives.contains(-1) &&
         p.sends.begin()->first != p.receives.begin()->first;
}

/// Ranks that send to each other, in one process group: by place in the group.
class Neighbours {
 public:
  void join(int32_t a, int32_t b) { parent_[root(a)] = root(b); }
  int32_t root(int32_t x) {
    parent_.try_emplace(x, x);
    while (parent_[x] != x) x = parent_[x] = parent_[parent_[x]];
    return x;
  }
  /// Each set of joined ranks, ascending.
  std::map<int32_t, std::vector<int32_t>> sets() {
    std::map<int32_t, std::vector<int32_t>> out;
    for (const auto& [x, unused] : std::map(parent_)) out[root(x)].push_back(x);
    return out;
  }

 private:
  std::map<int32_t, int32_t> parent_;
};

struct Place {
  uint32_t rank;       // place in the list of ranks
  int32_t in_group;
};

/// Place of a rank in a group; -1: unknown.
int32_t place_in(const RankDigest& rank, const CollectiveCall& call, const GroupUse& group,
                 const std::vector<int>& members) {
  if (const int32_t said = rank.kind(call).group_rank; said >= 0) return said;
  if (const int32_t said = rank.site(call).own; said >= 0) return said;
  const auto it = std::find(members.begin(), members.end(), rank.rank);
  if (it != members.end()) return static_cast<int32_t>(it - members.begin());
  const bool everybody = members.empty() && (group.size == 0 || rank.world_size == group.size);
  return everybody ? rank.rank : -1;
}

std::vector<Place> places_of(const PairUses& pairs, uint32_t g) {
  std::vector<Place> places;
  for (uint32_t r = 0; r < pairs.size(); ++r)
    if (const auto use = pairs[r].find(g); use != pairs[r].end() && use->second.own >= 0)
      places.push_back({r, use->second.own});
  return places;
}

/// Stages of one group's pipelines: by rank's place; and how many there are.
struct Staged {
  std::map<uint32_t, int64_t> stage_of;
  int64_t stages = 0;
};

// Ranks of a pipeline have ascending numbers, whichever way the framework lays out its mesh.
std::optional<Staged> staged(const PairUses& pairs, uint32_t g, const GroupUse& group, bool one_pipeline,
                             bool whole_job) {
  const std::vector<Place> places = places_of(pairs, g);
  Staged out;
  if (one_pipeline && group.size > 0 && !places.empty()) {
    for (const Place& p : places) out.stage_of[p.rank] = p.in_group;
    out.stages = group.size;
    return out;
  }
  Neighbours joined;
  for (const Place& p : places) {
    const PairUse& use = pairs[p.rank].at(g);
    for (const auto* peers : {&use.sends, &use.receives})
      for (const auto& [peer, calls] : *peers)
        if (peer >= 0) joined.join(p.in_group, peer);
  }
  std::map<int32_t, std::pair<int64_t, int64_t>> found;   // place in the group: stage, stages
  for (const auto& [root, members] : joined.sets())
    for (size_t i = 0; i < members.size(); ++i)
      found[members[i]] = {static_cast<int64_t>(i), static_cast<int64_t>(members.size())};
  for (const Place& p : places) {
    const auto it = found.find(p.in_group);
    if (it == found.end()) continue;
    out.stage_of[p.rank] = it->second.first;
    out.stages = std::max(out.stages, it->second.second);
  }
  // Without all the ranks of the group, neighbours of neighbours may be missing.
  const bool all = group.size > 0 ? out.stages == group.size || static_cast<int64_t>(places.size()) == group.size
                                  : whole_job;
  if (out.stage_of.empty() || !all) return std::nullopt;
  return out;
}

std::optional<double> micro_batches(std::span<const RankDigest> ranks, const PairUses& pairs,
                                    const std::map<uint32_t, bool>& groups) {
  std::vector<int64_t> thousandths;
  for (size_t r = 0; r < ranks.size(); ++r)
    for (const auto& [g, use] : pairs[r]) {
      if (!groups.contains(g) || use.sends.empty() || use.sends.contains(-1)) continue;
      int64_t most = 0;
      for (const auto& [peer, calls] : use.sends) most = std::max(most, calls);
      thousandths.push_back(1000 * most / std::max<int64_t>(ranks[r].measured_steps(), 1));
    }
  const auto median = percentile(std::move(thousandths), 50);
  return median ? std::optional(*median / 1000) : std::nullopt;
}

// Percent of a step that is forward and backward passes: neither the bubble nor data loading, optimizer and the like.
double passes_pct(const RankDigest& rank, double bubble_pct) {
  double outside = 0, compute = 0, steps = 0;
  for (size_t i = 0; i < std::min(rank.steps.size(), rank.work.steps.size()); ++i) {
    if (!rank.steps[i].measured) continue;
    for (const Phase p : {Phase::kDataLoading, Phase::kOptimizer, Phase::kCheckpoint, Phase::kOther})
      outside += static_cast<double>(rank.work.steps[i].phase_ns[static_cast<size_t>(p)]);
    compute += static_cast<double>(rank.work.steps[i].compute_ns);
    ++steps;
  }
  const double step = static_cast<double>(rank.mean_step_ns());
  const double rest = std::max(0.0, 100 - bubble_pct - (steps > 0 && step > 0 ? 100 * outside / steps / step : 0));
  return compute > 0 && step > 0 ? std::min(rest, 100 * compute / steps / step) : rest;
}

}  // namespace

PairUses pair_uses(std::span<const RankDigest> ranks, const GroupUses& uses) {
  PairUses out(ranks.size());
  std::map<uint32_t, std::vector<int>> members;
  for (size_t r = 0; r < ranks.size(); ++r)
    for (size_t i = 0; i < ranks[r].calls.calls.size(); ++i) {
      const CollectiveCall& call = ranks[r].calls.calls[i];
      const CollectiveOp op = op_of(ranks[r], i);
      if (!call.measured || (op != CollectiveOp::kSend && op != CollectiveOp::kRecv)) continue;
      const uint32_t g = uses.group_of_call[r][i];
      const GroupUse& group = uses.groups[g];
      const auto [at, fresh] = members.try_emplace(g);
      if (fresh) at->second = member_ranks(group.members);
      const auto [used, first] = out[r].try_emplace(g);
      PairUse& use = used->second;
      if (first) use.own = place_in(ranks[r], call, group, at->second);
      int32_t peer = ranks[r].kind(call).described ? call.peer : ranks[r].site(call).peer;
      if (peer < 0 && group.size == 2 && use.own >= 0) peer = 1 - std::min(use.own, 1);   // there is only one other
      const auto part = static_cast<size_t>(step_part(ranks[r], i));
      if (op == CollectiveOp::kSend) ++use.sends[peer], ++use.sent[part];
      else ++use.receives[peer], ++use.received[part];
    }
  return out;
}

std::set<uint32_t> rings(const GroupUses& uses, const PairUses& pairs) {
  std::map<uint32_t, int64_t> ranks;
  std::set<uint32_t> broken;
  for (const auto& rank : pairs)
    for (const auto& [g, use] : rank) {
      ++ranks[g];
      if (uses.groups[g].size == 2 ? !both_ways(use) : !hands_on(use)) broken.insert(g);
    }
  std::set<uint32_t> out;
  for (const auto& [g, in_hand] : ranks) {
    // The middle of a pipeline that only serves looks alike; its ends do not.
    const bool sure = uses.trains || in_hand == uses.groups[g].size;
    if (sure && !broken.contains(g)) out.insert(g);
  }
  return out;
}

Pipeline pipeline_of(std::span<const RankDigest> ranks, const GroupUses& uses, const PairUses& pairs,
                     const std::map<uint32_t, bool>& groups, const std::map<uint32_t, int64_t>& alone_ns) {
  Pipeline out;
  const auto pct = [&](uint32_t r) {
    const int64_t step = ranks[r].mean_step_ns();
    return percent_of(alone_ns.at(r), step);
  };
  double passes = 0;
  for (const auto& [r, ns] : alone_ns) {
    out.bubble_pct += pct(r) / static_cast<double>(alone_ns.size());
    passes += passes_pct(ranks[r], pct(r)) / static_cast<double>(alone_ns.size());
  }
  std::map<int64_t, Stage> stages;
  const bool whole_job = !ranks.empty() && ranks.front().world_size == static_cast<int>(ranks.size());
  for (const auto& [g, one_pipeline] : groups) {
    const auto found = staged(pairs, g, uses.groups[g], one_pipeline, whole_job);
    if (!found) continue;
    out.stages = std::max(out.stages.value_or(0), found->stages);
    for (const auto& [r, stage] : found->stage_of) {
      if (!alone_ns.contains(r)) continue;
      Stage& s = stages[stage];
      s.stage = stage;
      s.ranks.push_back(ranks[r].rank);
      s.bubble_ns_per_step += alone_ns.at(r);
      s.bubble_pct += pct(r);
      const auto peak = ranks[r].memory.peak_allocated_bytes;
      if (peak) s.peak_allocated_bytes = std::max(s.peak_allocated_bytes.value_or(0), *peak);
    }
  }
  for (auto& [stage, s] : stages) {
    const auto n = static_cast<int64_t>(s.ranks.size());
    s.bubble_ns_per_step /= n;
    s.bubble_pct /= static_cast<double>(n);
    std::sort(s.ranks.begin(), s.ranks.end());
    out.by_stage.push_back(std::move(s));
  }
  out.micro_batches = micro_batches(ranks, pairs, groups);
  if (out.stages && out.micro_batches && *out.micro_batches > 0) {
    const double ideal = passes * static_cast<double>(*out.stages - 1) / *out.micro_batches;   // of the step as it is
    if (const double step = 100 - out.bubble_pct + ideal; step > 0) out.ideal_bubble_pct = 100 * ideal / step;
  }
  return out;
}

}  // namespace profgpu
