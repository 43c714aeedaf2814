#include "job/late_by_turns.h"

#include <algorithm>
#include <map>

#include "base/saturated.h"
#include "base/statistics.h"

namespace profgpu {
namespace {

constexpr double kTurnsPct = 10;
constexpr size_t kMostPeersByTurns = 64;   // a median over more says no more

struct Turn {
  uint32_t rank = 0;
  int64_t wait_ns = 0;
};

// Of each measured step, by number, who is waited for most: sums of what the usual one of the others waits.
std::map<int64_t, Turn> turns_of(std::span<const RankDigest> ranks, std::span<const RankClock> clocks,
                                 std::span<const Meeting> all) {
  std::map<int64_t, std::map<uint32_t, int64_t>> waited;
  std::vector<int64_t> others;
  for (const Meeting& m : all) {
    if (!m.measured || m.calls.size() < 2) continue;
    others.clear();
    int64_t step = -1;
    for (const RankCall& c : m.calls) {
      const CollectiveCall& call = ranks[c.rank].calls.calls[c.call];
      if (c.rank != m.latest) others.push_back(stalled_ns(ranks[c.rank], clocks[c.rank], call, INT64_MIN, m.last_ns));
      else if (call.step_place < ranks[c.rank].steps.size()) step = ranks[c.rank].steps[call.step_place].index;
    }
    int64_t& sum = waited[step][m.latest];
    if (step >= 0) sum = saturated_add(sum, lower_median(others));
  }
  waited.erase(-1);
  std::map<int64_t, Turn> turns;
  for (const auto& [step, by_rank] : waited) {
    const auto most = std::max_element(by_rank.begin(), by_rank.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most->second > 0) turns[step] = {most->first, most->second};
  }
  return turns;
}

std::vector<uint32_t> peers_of(uint32_t rank, size_t ranks) {
  const size_t stride = (ranks + kMostPeersByTurns - 1) / kMostPeersByTurns;
  std::vector<uint32_t> peers;
  for (size_t r = 0; r < ranks; r += stride)
    if (r != rank) peers.push_back(static_cast<uint32_t>(r));
  return peers;
}

// Why, by whose turn it is: the cause of most turns stands for all.
void explain(std::span<const RankDigest> ranks, const std::map<int64_t, Turn>& turns, const SampleLog& samples,
             LateByTurns& out) {
  std::map<uint32_t, LateSteps> late;
  for (const auto& [step, turn] : turns) {
    LateSteps& l = late[turn.rank];
    l.rank = turn.rank;
    l.numbers.push_back(step);
    l.excess_ns += static_cast<double>(turn.wait_ns);
  }
  const std::vector<std::optional<SampledClock>> clocks = sampled_clocks(ranks, samples);
  std::map<std::string, size_t> kinds;
  std::map<std::string, std::pair<size_t, std::vector<std::string>>> evidence;
  for (auto& [rank, l] : late) {
    out.ranks.push_back({ranks[rank].rank, static_cast<int64_t>(l.numbers.size())});
    l.excess_ns /= static_cast<double>(l.numbers.size());
    WorkComparison c = compare_work(ranks, l, peers_of(rank, ranks.size()), clocks);
    kinds[c.kind] += l.numbers.size();
    auto& [steps, texts] = evidence[c.kind];
    if (l.numbers.size() <= steps) continue;
    steps = l.numbers.size();
    texts.clear();   // what follows the first is of all steps
    if (!c.evidence.empty()) texts = {"rank " + std::to_string(ranks[rank].rank) + " when it is late: " + c.evidence.front()};
  }
  out.kind = std::max_element(kinds.begin(), kinds.end(), [](const auto& a, const auto& b) { return a.second < b.second; })->first;
  out.evidence = std::move(evidence[out.kind].second);
  std::stable_sort(out.ranks.begin(), out.ranks.end(),
                   [](const LateByTurns::Turns& a, const LateByTurns::Turns& b) { return a.steps > b.steps; });
}

}  // namespace

std::optional<LateByTurns> late_by_turns(std::span<const RankDigest> ranks, std::span<const RankClock> clocks,
                                         std::span<const Meeting> all, const Waiting& waits, double mean_step_ns,
                                         const SampleLog& samples) {
  std::vector<int64_t> per_step;
  for (size_t r = 0; r < ranks.size(); ++r)
    per_step.push_back(waits.total_ns[r] / std::max<int64_t>(ranks[r].measured_steps(), 1));
  LateByTurns out;
  out.wait_ns_per_step = lower_median(per_step);
  out.wait_pct = mean_step_ns > 0 ? 100 * static_cast<double>(out.wait_ns_per_step) / mean_step_ns : 0;
  const int64_t least = *std::min_element(per_step.begin(), per_step.end());
  if (out.wait_pct < kTurnsPct || least < out.wait_ns_per_step / 2) return std::nullopt;
  const std::map<int64_t, Turn> turns = turns_of(ranks, clocks, all);
  if (turns.empty()) return std::nullopt;
  out.steps_measured = static_cast<int64_t>(turns.size());
  explain(ranks, turns, samples, out);
  if (out.ranks.size() < 2) return std::nullopt;
  return out;
}

}  // namespace profgpu
