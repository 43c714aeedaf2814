#include "analyse/job/parallelism.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "analyse/job/matched_collectives.h"
#include "base/statistics.h"

namespace profgpu {
namespace {

constexpr auto kForwardPart = static_cast<size_t>(StepPart::kForward);
constexpr auto kBackwardPart = static_cast<size_t>(StepPart::kBackward);

// In a group of two each rank is the other's only neighbor: a ring has equal traffic both ways in each phase.
bool both_ways(const PairUse& p) {
  return p.sent[kForwardPart] > 0 && p.sent[kForwardPart] == p.received[kForwardPart] &&
         p.sent[kBackwardPart] == p.received[kBackwardPart];
}

bool hands_on(const PairUse& p) {
  return p.sends.size() == 1 && p.receives.size() == 1 && !p.sends.contains(-1) && !p.receives.contains(-1) &&
         p.sends.begin()->first != p.receives.begin()->first;
}

/// Sets of a process group's ranks that send to each other, by number in the group.
class Neighbors {
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

struct Member {
  uint32_t rank;       // index in the list of ranks
  int32_t number;      // in the group
};

/// A rank's number in a group; -1: unknown.
int32_t number_in(const RankDigest& rank, const CollectiveCall& call, const GroupUse& group,
                  const std::vector<int>& members) {
  if (const int32_t recorded = rank.kind(call).group_rank; recorded >= 0) return recorded;
  if (const int32_t recorded = rank.site(call).own; recorded >= 0) return recorded;
  const auto it = std::ranges::find(members, rank.rank);
  if (it != members.end()) return static_cast<int32_t>(it - members.begin());
  const bool whole_world = members.empty() && (group.size == 0 || rank.world_size == group.size);
  return whole_world ? rank.rank : -1;
}

std::vector<Member> members_of(const PairUses& pairs, uint32_t g) {
  std::vector<Member> members;
  for (uint32_t r = 0; r < pairs.size(); ++r)
    if (const auto use = pairs[r].find(g); use != pairs[r].end() && use->second.own >= 0)
      members.push_back({r, use->second.own});
  return members;
}

/// Stages of one group's pipelines, by rank's index; and their number.
struct Staged {
  std::map<uint32_t, int64_t> stage_of;
  int64_t stages = 0;
};

// Ranks of a pipeline have ascending numbers, however the framework lays out its mesh.
std::optional<Staged> staged(const PairUses& pairs, uint32_t g, const GroupUse& group, bool one_pipeline,
                             bool whole_job) {
  const std::vector<Member> ranks = members_of(pairs, g);
  Staged out;
  if (one_pipeline && group.size > 0 && !ranks.empty()) {
    for (const Member& m : ranks) out.stage_of[m.rank] = m.number;
    out.stages = group.size;
    return out;
  }
  Neighbors joined;
  for (const Member& m : ranks) {
    const PairUse& use = pairs[m.rank].at(g);
    for (const auto* peers : {&use.sends, &use.receives})
      for (const auto& [peer, calls] : *peers)
        if (peer >= 0) joined.join(m.number, peer);
  }
  std::map<int32_t, std::pair<int64_t, int64_t>> found;   // by number in the group: stage, stages
  for (const auto& [root, members] : joined.sets())
    for (size_t i = 0; i < members.size(); ++i)
      found[members[i]] = {static_cast<int64_t>(i), static_cast<int64_t>(members.size())};
  for (const Member& m : ranks) {
    const auto it = found.find(m.number);
    if (it == found.end()) continue;
    out.stage_of[m.rank] = it->second.first;
    out.stages = std::max(out.stages, it->second.second);
  }
  // Without all ranks of the group, neighbors of neighbors may be missing.
  const bool all = group.size > 0 ? out.stages == group.size || static_cast<int64_t>(ranks.size()) == group.size
                                  : whole_job;
  if (out.stage_of.empty() || !all) return std::nullopt;
  return out;
}

// Pipelines whose neighbors have a group of their own each, as chains of ranks, by number.
std::optional<Staged> staged_by_pairs(std::span<const RankDigest> ranks, const GroupUses& uses,
                                      const std::map<uint32_t, bool>& groups) {
  std::map<int, std::set<std::vector<int>>> pairs_of;   // by rank
  Neighbors joined;
  for (const auto& [g, one_pipeline] : groups) {
    const std::vector<int> members = member_ranks(uses.groups[g].members);
    if (members.size() != 2) return std::nullopt;
    joined.join(members[0], members[1]);
    for (const int rank : members) pairs_of[rank].insert(members);
  }
  if (std::ranges::none_of(pairs_of, [](const auto& p) { return p.second.size() > 1; })) return std::nullopt;
  Staged out;
  for (const auto& [root, members] : joined.sets()) {
    out.stages = std::max(out.stages, static_cast<int64_t>(members.size()));
    for (uint32_t r = 0; r < ranks.size(); ++r)
      if (const auto at = std::ranges::find(members, ranks[r].rank); at != members.end())
        out.stage_of[r] = at - members.begin();
  }
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

// Of the device in measured steps, mean.
int64_t compute_ns_per_step(const RankDigest& rank) {
  int64_t ns = 0, steps = 0;
  for (size_t i = 0; i < std::min(rank.steps.size(), rank.work.steps.size()); ++i)
    if (rank.steps[i].measured) ns += rank.work.steps[i].compute_ns, ++steps;
  return ns / std::max<int64_t>(steps, 1);
}

constexpr double kEnoughPerStage = 4;   // micro-batches: the bubble is then at most a fifth of the passes

double mean_step_ns(std::span<const RankDigest> ranks, const std::map<uint32_t, int64_t>& of) {
  double ns = 0;
  for (const auto& [r, unused] : of) ns += static_cast<double>(ranks[r].mean_step_ns());
  return ns / static_cast<double>(std::max<size_t>(of.size(), 1));
}

// Percent of a step in forward and backward passes: without the bubble, data loading, the optimizer and the like.
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
      if (first) use.own = number_in(ranks[r], call, group, at->second);
      int32_t peer = ranks[r].kind(call).described ? call.peer : ranks[r].site(call).peer;
      if (peer < 0 && group.size == 2 && use.own >= 0) peer = 1 - std::min(use.own, 1);   // the only other rank
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
    // The middle of an inference pipeline looks the same, its ends do not.
    const bool sure = uses.trains || in_hand == uses.groups[g].size;
    if (sure && !broken.contains(g)) out.insert(g);
  }
  return out;
}

Pipeline pipeline_of(std::span<const RankDigest> ranks, const GroupUses& uses, const PairUses& pairs,
                     const std::map<uint32_t, bool>& groups, const std::map<uint32_t, int64_t>& alone_ns) {
  Pipeline out;
  const auto pct = [&](uint32_t r) { return percent_of(alone_ns.at(r), ranks[r].mean_step_ns()); };
  double passes = 0;
  for (const auto& [r, ns] : alone_ns) {
    out.bubble_pct += pct(r) / static_cast<double>(alone_ns.size());
    passes += passes_pct(ranks[r], pct(r)) / static_cast<double>(alone_ns.size());
  }
  std::map<int64_t, Stage> stages;
  const bool whole_job = !ranks.empty() && ranks.front().world_size == static_cast<int>(ranks.size());
  std::vector<Staged> all;
  if (auto chains = staged_by_pairs(ranks, uses, groups)) all.push_back(*std::move(chains));
  else
    for (const auto& [g, one_pipeline] : groups)
      if (auto found = staged(pairs, g, uses.groups[g], one_pipeline, whole_job)) all.push_back(*std::move(found));
  for (const Staged& found : all) {
    out.stages = std::max(out.stages.value_or(0), found.stages);
    for (const auto& [r, stage] : found.stage_of) {
      if (!alone_ns.contains(r)) continue;
      Stage& s = stages[stage];
      s.stage = stage;
      s.ranks.push_back(ranks[r].rank);
      s.bubble_ns_per_step += alone_ns.at(r);
      s.bubble_pct += pct(r);
      s.compute_ns_per_step += compute_ns_per_step(ranks[r]);
      const auto peak = ranks[r].memory.peak_allocated_bytes;
      if (peak) s.peak_allocated_bytes = std::max(s.peak_allocated_bytes.value_or(0), *peak);
    }
  }
  for (auto& [stage, s] : stages) {
    const auto n = static_cast<int64_t>(s.ranks.size());
    s.bubble_ns_per_step /= n;
    s.bubble_pct /= static_cast<double>(n);
    s.compute_ns_per_step /= n;
    std::ranges::sort(s.ranks);
    out.by_stage.push_back(std::move(s));
  }
  out.micro_batches = micro_batches(ranks, pairs, groups);
  if (out.stages && out.micro_batches && *out.micro_batches > 0) {
    const double ideal = passes * static_cast<double>(*out.stages - 1) / *out.micro_batches;   // of the recorded step
    if (const double step = 100 - out.bubble_pct + ideal; step > 0) out.ideal_bubble_pct = 100 * ideal / step;
    const double enough = kEnoughPerStage * static_cast<double>(*out.stages);
    const double avoidable = 1 - *out.micro_batches / enough;
    if (avoidable > 0)
      out.avoidable_ns_per_step = std::llround(ideal / 100 * avoidable * mean_step_ns(ranks, alone_ns));
  }
  return out;
}

}  // namespace profgpu
