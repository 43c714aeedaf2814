#include <fmt/format.h>

#include <algorithm>

#include "analyse/report/quantity.h"
#include "analyse/rules/measure.h"

namespace profgpu {
namespace {

constexpr size_t kMaxListed = 8;

std::string listed(const std::vector<int64_t>& numbers, size_t most) {
  std::string text;
  for (size_t i = 0; i < std::min(most, numbers.size()); ++i)
    text += fmt::format("{}{}", i > 0 ? ", " : "", numbers[i]);
  return numbers.size() > most ? text + fmt::format(" and {} more", numbers.size() - most) : text;
}

// "rank 3", "ranks 4, 5, 6, 7"
std::string who(const Straggler& s) {
  return ranks_text(s.together.empty() ? std::vector{s.rank} : s.together);
}

std::string when(const Straggler& s) {
  if (s.late_steps.empty() || !s.worst_step) return "";
  std::string text = fmt::format("late in {} of {} steps", s.late_steps.size(), s.steps_measured);
  if (s.steps_measured > static_cast<int64_t>(s.late_steps.size()))
    text += fmt::format(" ({})", listed(s.late_steps, kMaxListed));
  return text + fmt::format(", most in step {}: {}", *s.worst_step,
                            duration_text(s.worst_step_excess_ns));
}

// Ranks of tensor parallel groups share each batch.
bool shares_batch(const std::vector<Parallelism>& ways, int rank) {
  return std::ranges::any_of(ways, [&](const Parallelism& way) {
    return way.kind == ParallelKind::kTensor && std::ranges::binary_search(way.ranks, rank);
  });
}

/// Why a rank is late, and what to do: where one is, or where ranks are by turns.
struct LateCause {
  std::string_view kind, words;                ///< Straggler::kind
  std::vector<std::string_view> fixes;         ///< {on}: "on HOST" or "of rank 3"; {rank}: its number
  std::vector<std::string_view> fixes_by_turns = {
      "the same work for every rank in every step: length-bucketed or packed batches, the same number of tokens",
      "experts: a balance loss or a capacity limit; graphs and images: batches by cost, not by count",
      "nvidia-smi -q -d CLOCK,PERFORMANCE,POWER: GPUs at their power limit slow down by turns; another process there"};
};

const std::vector<std::string_view> kPauseTogether = {
    "save, and empty caches, in the same step on all ranks: others wait once then, not once for each",
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; batches of equal shape"};

const std::vector<LateCause> kLateCauses = {
    {"slow_compute",
     "its GPU takes longer for the same kernels",
     {"look at that GPU's clocks while the job runs: profgpu log {on}, and give the samples to analyze",
      "nvidia-smi -q -d PERFORMANCE,POWER,TEMPERATURE,ECC there; another process on that GPU",
      "leave that GPU out, or swap ranks: if the same GPU stays late, it is the device"}},
    {"low_clocks",
     "its GPU runs at lower clocks",
     {"cooling and power of that GPU: nvidia-smi -q -d CLOCK,PERFORMANCE,POWER,TEMPERATURE",
      "same limits on every GPU: nvidia-smi -rac, -rgc, -pl", "until then leave that GPU out of the job"}},
    {"slow_input",
     "its data loading takes longer",
     {"the data loader {on}: num_workers, prefetch_factor, persistent_workers=True, pin_memory=True",
      "its storage and CPU: shards on local disk, no other job there",
      "batches of equal cost on every rank: length-bucketed sampling"},
     {"samples of unequal cost: more workers and a larger prefetch_factor even them out",
      "batches of equal cost on every rank: length-bucketed sampling",
      "shards on local disk: a shared file system answers each rank at another time"}},
    {"uneven_work",
     "it has more to compute",
     {"the same work for every rank: the same number of tokens, length-bucketed or packed batches, drop_last=True",
      "evaluation, logging of tensors and sampling on all ranks in turn, or not within the step",
      "experts, layers or tables spread by their cost"}},
    {"slow_host",
     "its host launches late",
     {"CPU load, frequency governor and cgroup limits {on}: pidstat, turbostat, cpu.max",
      "bind each rank to the cores and memory of its GPU's NUMA node: numactl, torchrun --numa-binding",
      "launch less: torch.compile, CUDA graphs, fused optimizer"},
     {"Python's garbage collector on all ranks at once: gc.disable(), gc.collect() every N steps; gc.freeze() after the "
      "start",
      "cores of its own for each rank, none shared with loaders: numactl, torchrun --numa-binding, OMP_NUM_THREADS",
      "logging, metrics and callbacks in the same steps on all ranks, or in a thread"}},
    {"slow_link",
     "transfers with it take longer",
     {"links {on}: nvidia-smi nvlink -s, nvidia-smi topo -m, PCIe width, ibstat, error counters",
      "nccl-tests between these hosts, one against one; NCCL_DEBUG=INFO shows the path taken",
      "the NIC next to each GPU: NCCL_IB_HCA, NCCL_NET_GDR_LEVEL"}},
    {"checkpoint",
     "it saves checkpoints meanwhile",
     {"save in the background: torch.distributed.checkpoint.async_save",
      "sharded checkpoints: each rank saves its part, instead of one for all", "save less often"},
     kPauseTogether},
    {"memory_allocation",
     "it waits for memory allocation",
     {"memory {on}: less per rank, or PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
      "batches of equal shape, so that the allocator's blocks fit again"},
     kPauseTogether},
    {"late",
     "why is not known",
     {"compare rank {rank} with another: profgpu analyze on each alone (input, clocks, kernels, host)",
      "same work for every rank: DistributedSampler(drop_last=True), length-bucketed batches",
      "check that rank's GPU clocks and throttling, its CPU binding and its host's load"},
     {"what only some steps do, such as logging, evaluation and garbage collection (gc.disable(), gc.collect()): on all "
      "ranks in the same step",
      "the same work for every rank in every step: length-bucketed or packed batches, the same number of tokens",
      "cores of its own for each rank: numactl, torchrun --numa-binding"}}};

const LateCause& cause_of(std::string_view kind) {
  const auto known = std::ranges::find(kLateCauses, kind, &LateCause::kind);
  return known == kLateCauses.end() ? kLateCauses.back() : *known;
}

std::vector<std::string> fixes_for(const Straggler& s, const std::vector<Parallelism>& ways) {
  const std::string on = s.host.empty() ? fmt::format("of rank {}", s.rank) : "on " + s.host;
  std::vector<std::string> fixes;
  for (const std::string_view fix : cause_of(s.kind).fixes)
    fixes.push_back(fmt::format(fmt::runtime(fix), fmt::arg("on", on), fmt::arg("rank", s.rank)));
  if (s.kind == "uneven_work" && shares_batch(ways, s.rank))
    fixes.front() =
        "tensor parallel ranks share one batch: heads, hidden sizes and the vocabulary that their number divides "
        "(pad them)";
  return fixes;
}

std::string why(const Straggler& s) {
  const std::string waiting = duration_text(s.excess_ns_per_step);
  std::string text = s.kind == "slow_link"
                         ? fmt::format("Transfers take {} a step more than in groups like theirs ({} of the step).",
                                       waiting, percent_text(s.excess_pct))
                         : fmt::format("The other ranks wait {} a step for {} ({} of the step).", waiting,
                                       s.together.empty() ? "it" : "them", percent_text(s.excess_pct));
  return s.evidence.empty() ? text : fmt::format("{} Rank {}: {}.", text, s.rank, s.evidence.front());
}

std::string what(const Straggler& s) {
  const bool one = s.together.empty();
  const std::string whose = who(s) + (s.host.empty() ? "" : " on " + s.host);
  std::string cause(cause_of(s.kind).words);
  if (!one && cause.starts_with("its ")) cause.replace(0, 3, "their");
  if (!one && cause.ends_with("with it take longer")) cause.replace(cause.size() - 14, 2, "them");
  if (s.kind == "slow_link") return whose + ": " + cause;
  return fmt::format("{} {} late at collectives: {}", whose, one ? "arrives" : "arrive", cause);
}

std::optional<Finding> by_turns(const Rule& rule, const LateByTurns& late, double threshold) {
  if (late.wait_pct <= threshold) return std::nullopt;
  Finding f = rule.finding(late.wait_pct, threshold);
  for (const LateByTurns::Turns& t : late.ranks) f.ranks.push_back(t.rank);
  std::sort(f.ranks.begin(), f.ranks.end());
  const LateCause& cause = cause_of(late.kind);
  f.what = fmt::format("the late rank changes from step to step: {}", cause.words);
  f.why = fmt::format("Every rank waits {} a step ({}) for another one: uneven work or jitter, not one slow device.",
                      duration_text(late.wait_ns_per_step), percent_text(late.wait_pct));
  f.fix.assign(cause.fixes_by_turns.begin(), cause.fixes_by_turns.end());
  std::string turns;
  for (size_t i = 0; i < std::min(kMaxListed, late.ranks.size()); ++i)
    turns += fmt::format("{}rank {} in {}", i > 0 ? ", " : "", late.ranks[i].rank, late.ranks[i].steps);
  f.evidence.push_back(fmt::format("latest of {} steps: {}{}", late.steps_measured, turns,
                                   late.ranks.size() > kMaxListed ? ", …" : ""));
  f.evidence.insert(f.evidence.end(), late.evidence.begin(), late.evidence.end());
  return f;
}

std::optional<Finding> check_straggler_rank(const Rule& rule, const Evidence& evidence) {
  if (evidence.job == nullptr) return std::nullopt;
  if (const auto& late = evidence.job->late_by_turns) return by_turns(rule, *late, evidence.thresholds.of(rule));
  if (evidence.job->stragglers.empty()) return std::nullopt;
  const Straggler& worst = evidence.job->stragglers.front();
  const double threshold = evidence.thresholds.of(rule);
  if (worst.excess_pct <= threshold) return std::nullopt;
  Finding f = rule.finding(worst.excess_pct, threshold);
  for (const Straggler& s : evidence.job->stragglers)
    if (s.excess_pct > threshold) f.ranks.push_back(s.rank);
  f.what = what(worst);
  f.names_ranks = true;
  f.why = why(worst);
  f.fix = fixes_for(worst, evidence.job->parallelism);
  if (const std::string steps = when(worst); !steps.empty()) f.evidence.push_back(steps);
  for (size_t i = 1; i < worst.evidence.size(); ++i) f.evidence.push_back(worst.evidence[i]);
  for (const Straggler& s : evidence.job->stragglers)
    f.evidence.push_back(fmt::format("waiting for rank {}: {} a step ({})", s.rank,
                                     duration_text(s.excess_ns_per_step),
                                     cause_of(s.kind).words));
  if (const RankMeasure* late = evidence.measure(worst.rank))
    set_cost(f, late->wall_ns, std::min(worst.excess_ns_per_step * late->steps, late->wall_ns));
  return f;
}

// "Rank 3 is", "Ranks 0–1, 5 are"
std::string late_ranks(const std::vector<int>& ranks) {
  std::string text = ranks_text(ranks);
  text.front() = 'R';
  return text + (ranks.size() > 1 ? " are" : " is");
}

std::string verdict_on_stragglers(const Finding& f, const Job* job) {
  if (job->late_by_turns)
    return fmt::format("In each step another rank is late and the others wait: {} of each step.", share_text(f));
  if (job->stragglers.front().kind == "slow_link")
    return fmt::format("Transfers with {} take longer than others: {} of each step.", ranks_text(f.ranks),
                       share_text(f));
  return fmt::format("{} late and the others wait: {} of each step.", late_ranks(f.ranks), share_text(f));
}

// All stragglers together, or the only one, or all ranks by turns.
const WhatIf* without_stragglers(const Job& job) {
  const WhatIf* found = find_what_if(job.what_if, "even_ranks");
  for (const WhatIf& w : job.what_if)
    if (w.change == "straggler_median" && (found == nullptr || w.ranks.size() > found->ranks.size())) found = &w;
  return found;
}

}  // namespace

extern const Rule kStragglerRank = {
    .id = "straggler-rank",
    .summary = "one rank makes the others wait",
    .unit = "%",
    .threshold = 5,
    .grave = 20,
    .meaning =
        "Collectives end together, so the rank that arrives last sets the pace. It is the one that spends least time "
        "in collectives: the others spend theirs waiting for it. Its steps beside those of ranks that do the same "
        "tell why: the same kernels slower, lower clocks, slow input, other work, a slow host, a slow link.",
    .computation =
        "Value: time in which the other ranks (the median of them) wait for the latest one in collectives matched "
        "across ranks with no compute running, as a share of the mean step; of a slow link, exposed transfer beyond "
        "that of groups like its own. Where the late rank changes from step to step, what each rank waits (the "
        "median), from 10 %. Cost: a replay of the job with the late ranks like the others, with transfers as in "
        "groups alike, or with all ranks even.",
    .advice = {
        "uneven input: DistributedSampler, drop_last, bucketing by length, the same number of tokens a rank",
        "a slow loader on one host: its disk, its CPU, its num_workers",
        "clocks: nvidia-smi -q -d CLOCK,PERFORMANCE on that GPU; power and thermal limits",
        "CPU binding: one rank on a remote NUMA node or sharing its cores",
        "rank 0 doing extra work: logging, checkpoints, evaluation, tokenizing",
        "hardware: PCIe link width, ECC retirements, a failing NIC",
    },
    .verdict_of = verdict_on_stragglers,
    .seen = {Locator::At::kLongestWait, {}},
    .job = check_straggler_rank,
    .job_cost = {.first = without_stragglers},
};

}  // namespace profgpu
