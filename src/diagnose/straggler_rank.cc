#include <fmt/format.h>

#include "diagnose/measure.h"

namespace profgpu {
namespace {

std::optional<Finding> check(const Rule& rule, const Evidence& evidence) {
  if (evidence.job == nullptr || evidence.job->stragglers.empty()) return std::nullopt;
  const Straggler& worst = evidence.job->stragglers.front();
  const double threshold = evidence.threshold(rule.id, rule.threshold);
  if (worst.excess_pct <= threshold) return std::nullopt;
  Finding f;
  f.rule = rule.id;
  f.unit = rule.unit;
  f.value = worst.excess_pct;
  f.threshold = threshold;
  f.severity = worst.excess_pct >= 20 ? Severity::kCritical : Severity::kWarning;
  for (const Straggler& s : evidence.job->stragglers)
    if (s.excess_pct > threshold) f.ranks.push_back(s.rank);
  f.what = fmt::format("rank {} arrives late at collectives; the others wait", worst.rank);
  f.why = fmt::format("The other ranks wait {} a step for it ({} of the step).",
                      duration_text(static_cast<double>(worst.excess_ns_per_step)), percent_text(worst.excess_pct));
  f.fix = {fmt::format("compare rank {} with another: profgpu analyze on each alone (input, clocks, kernels, host)", worst.rank),
           "same work for every rank: DistributedSampler(drop_last=True), length-bucketed batches",
           "check that rank's GPU clocks and throttling, its CPU binding and its host's load"};
  const RankFacts* late = &evidence.ranks.front();
  for (const RankFacts& r : evidence.ranks)
    if (r.rank == worst.rank) late = &r;
  const Measured m(late->rank, *late->facts);
  for (const Straggler& s : evidence.job->stragglers)
    f.evidence.push_back(fmt::format("waiting for rank {}: {} a step", s.rank,
                                     duration_text(static_cast<double>(s.excess_ns_per_step))));
  set_cost(f, m, std::min(worst.excess_ns_per_step * m.steps(), m.wall_ns()));
  return f;
}

}  // namespace

extern const Rule kStragglerRank;
const Rule kStragglerRank = {
    "straggler-rank",
    "one rank makes the others wait",
    "%",
    5,
    "Collectives end together, so the rank that arrives last sets the pace. It is the one that spends least time in "
    "collectives: the others spend theirs waiting for it.",
    "Value: time in which the other ranks (the median of them) wait for the latest one in collectives matched across "
    "ranks with no compute running, as a share of the mean step. Cost: that waiting over the measured steps.",
    {"uneven input: DistributedSampler, drop_last, bucketing by length, the same number of tokens a rank",
     "a slow loader on one host: its disk, its CPU, its num_workers",
     "clocks: nvidia-smi -q -d CLOCK,PERFORMANCE on that GPU; power and thermal limits",
     "CPU binding: one rank on a remote NUMA node or sharing its cores",
     "rank 0 doing extra work: logging, checkpoints, evaluation, tokenizing",
     "hardware: PCIe link width, ECC retirements, a failing NIC"},
    check};

}  // namespace profgpu
