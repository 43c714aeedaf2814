#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "analyse/rules/host_work.h"
#include "analyse/rules/measure.h"

namespace profgpu {
namespace {

constexpr size_t kMaxListed = 8;

std::string duration_of(int64_t ns) { return format_duration(static_cast<double>(ns)); }

// "rank 3", "ranks 4–7"
std::string who(const Straggler& s) { return ranks_text(s.together.empty() ? std::vector{s.rank} : s.together); }

// "late in 3 of 20 steps (4, 9, 12), most in step 9: 40 ms"
std::string when(const Straggler& s) {
  if (s.late_steps.empty() || !s.worst_step) return "";
  std::string text = fmt::format("late in {} of {} steps", s.late_steps.size(), s.steps_measured);
  if (s.steps_measured > static_cast<int64_t>(s.late_steps.size())) {
    const std::span shown = std::span(s.late_steps).first(std::min(kMaxListed, s.late_steps.size()));
    const size_t more = s.late_steps.size() - shown.size();
    text += fmt::format(" ({}{})", fmt::join(shown, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
  }
  return text + fmt::format(", most in step {}: {}", *s.worst_step, duration_of(s.worst_step_excess_ns));
}

// Ranks of tensor parallel groups share each batch.
bool shares_batch(const std::vector<Parallelism>& ways, int rank) {
  return std::ranges::any_of(ways, [&](const Parallelism& way) {
    return way.kind == ParallelKind::kTensor && std::ranges::binary_search(way.ranks, rank);
  });
}

/// Why ranks are late, and what to do.
struct LateCause {
  std::string_view kind, words;                ///< Straggler::kind
  std::vector<std::string_view> fixes;         ///< {on}: "on HOST" or "of rank 3"; {rank}: its number
  std::vector<std::string_view> fixes_rotating = {
      "give every rank the same work in every step: length-bucketed or packed batches, the same number of tokens",
      "experts: a balance loss or a capacity limit; graphs and images: batches by cost, not by count",
      "nvidia-smi -q -d CLOCK,PERFORMANCE,POWER: GPUs at their power limit slow down in turn; look for other "
      "processes"};
};

const std::vector<std::string_view> kPauseTogether = {
    "save checkpoints and empty caches in the same step on all ranks: the others then wait once, not once per rank",
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; batches of equal shape"};

const std::vector<LateCause> kLateCauses = {
    {"slow_compute",
     "the same kernels take longer on the GPU",
     {"watch that GPU's clocks during the job: profgpu log {on}, and pass the samples to analyze",
      "nvidia-smi -q -d PERFORMANCE,POWER,TEMPERATURE,ECC there; look for another process on that GPU",
      "leave that GPU out, or swap ranks: if the same GPU stays late, the device is at fault"}},
    {"low_clocks",
     "lower GPU clocks",
     {"check that GPU's cooling and power: nvidia-smi -q -d CLOCK,PERFORMANCE,POWER,TEMPERATURE",
      "set the same limits on every GPU: nvidia-smi -rac, -rgc, -pl",
      "until that is fixed, leave that GPU out of the job"}},
    {"slow_input",
     "slow data loading",
     {"tune the data loader {on}: num_workers, prefetch_factor, persistent_workers=True, pin_memory=True",
      "check its storage and CPU: shards on local disk, no other job there",
      "make batches equally expensive on every rank: length-bucketed sampling"},
     {"samples differ in cost: more workers and a larger prefetch_factor even them out",
      "make batches equally expensive on every rank: length-bucketed sampling",
      "put shards on local disk: a shared file system's latency varies from rank to rank"}},
    {"uneven_work",
     "load imbalance, more work to compute",
     {"give every rank the same work: the same number of tokens, length-bucketed or packed batches, drop_last=True",
      "spread evaluation, tensor logging and sampling over all ranks, or move them out of the step",
      "distribute experts, layers or tables by their cost"}},
    {"slow_host",
     "the host launches late",
     {"check CPU load, frequency governor and cgroup limits {on}: pidstat, turbostat, cpu.max",
      "bind each rank to the cores and memory of its GPU's NUMA node: numactl, torchrun --numa-binding",
      "launch less: torch.compile, CUDA graphs, fused optimizer"},
     {"collect Python's garbage on all ranks at once: gc.disable(), gc.collect() every N steps; gc.freeze() at startup",
      "give each rank its own cores, not shared with loaders: numactl, torchrun --numa-binding, OMP_NUM_THREADS",
      "run logging, metrics and callbacks in the same steps on all ranks, or in a thread"}},
    {"longer_between_calls",
     "it computes longer between calls of MPI",
     {"divide the work by what it costs, not by count, or hand it out as ranks get free: the others wait for rank {rank}",
      "if its share is the same, check CPU load, frequency governor and cgroup limits {on}, and that ranks do not share "
      "cores: mpirun --bind-to core --report-bindings",
      "find the code: NVTX ranges around the program's parts, or perf record on rank {rank} and on another"},
     {"divide the work by what it costs in every step, or hand it out as ranks get free",
      "give each rank its own cores: mpirun --bind-to core --report-bindings"}},
    {"more_host_work",
     "it works longer before collectives",
     {"give every rank the same work: DistributedSampler(drop_last=True), batches of equal size, evaluation and logging "
      "shared among ranks",
      "if its work is the same, check CPU load, frequency governor and cgroup limits {on}, and that ranks do not share "
      "cores: torchrun --numa-binding, OMP_NUM_THREADS",
      "find the code: profgpu analyze on rank {rank} and on another alone, and compare their phases and operators"},
     {"give every rank the same work in every step: length-bucketed or packed batches, the same number of tokens",
      "give each rank its own cores: numactl, torchrun --numa-binding, OMP_NUM_THREADS",
      "run logging, metrics and callbacks in the same steps on all ranks, or in a thread"}},
    {"slow_link",
     "slow transfers",
     {"check links {on}: nvidia-smi nvlink -s, nvidia-smi topo -m, PCIe width, ibstat, error counters",
      "run nccl-tests between pairs of these hosts; NCCL_DEBUG=INFO shows the path taken",
      "use the NIC next to each GPU: NCCL_IB_HCA, NCCL_NET_GDR_LEVEL"}},
    {"checkpoint",
     "saving checkpoints",
     {"save in the background: torch.distributed.checkpoint.async_save",
      "use sharded checkpoints: each rank saves its part, instead of one rank saving all", "save less often"},
     kPauseTogether},
    {"memory_allocation",
     "waiting for memory allocation",
     {"reduce the memory use {on}, or set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
      "use batches of equal shape, so that the allocator's blocks fit again"},
     kPauseTogether},
    {"late",
     "cause unknown",
     {"compare rank {rank} with another: profgpu analyze on each alone (input, clocks, kernels, host)",
      "give every rank the same work: DistributedSampler(drop_last=True), length-bucketed batches",
      "check that rank's GPU clocks, its CPU binding and its host's load"},
     {"do occasional work in the same step on all ranks: logging, evaluation, garbage collection (gc.disable(), "
      "gc.collect())",
      "give every rank the same work in every step: length-bucketed or packed batches, the same number of tokens",
      "give each rank its own cores: numactl, torchrun --numa-binding"}}};

const LateCause& cause_of(std::string_view kind) {
  const auto* known = first_where(kLateCauses, [&](const LateCause& c) { return c.kind == kind; });
  return known != nullptr ? *known : kLateCauses.back();
}

std::vector<std::string> fixes_for(const Straggler& s, const std::vector<Parallelism>& ways) {
  const std::string on = s.host.empty() ? fmt::format("of rank {}", s.rank) : "on " + s.host;
  std::vector<std::string> fixes;
  for (const std::string_view fix : cause_of(s.kind).fixes)
    fixes.push_back(fmt::format(fmt::runtime(fix), fmt::arg("on", on), fmt::arg("rank", s.rank)));
  if (s.kind == "uneven_work" && shares_batch(ways, s.rank))
    fixes.front() = "tensor-parallel ranks share a batch: make the number of heads, the hidden size and the vocabulary "
                    "divisible by the number of ranks (pad them)";
  return fixes;
}

// A late rank's own findings; null: it has no trace here.
const RankDiagnosis* diagnosis_of(const Evidence& evidence, int rank) {
  return first_where(evidence.ranks, [&](const RankDiagnosis& r) { return r.measure.rank == rank; });
}

// Where the rank's host is while its device waits: of the rank's own finding that costs most.
std::vector<Place> places_of(const Evidence& evidence, int rank) {
  const RankDiagnosis* own = diagnosis_of(evidence, rank);
  const Finding* most = nullptr;
  for (size_t i = 0; own != nullptr && i < own->findings.size(); ++i) {
    const std::optional<Finding>& f = own->findings[i];
    if (f && rules()[i]->cause && !f->where.empty() && (most == nullptr || f->cost_ns > most->cost_ns)) most = &*f;
  }
  return most != nullptr ? most->where : std::vector<Place>();
}

/// What a late rank's host does, where that explains at least half of its lateness.
struct HostReason {
  std::string words;
  std::vector<std::string> fixes;
};

std::optional<HostReason> host_reason(const Evidence& evidence, const Straggler& s) {
  const RankDiagnosis* own = diagnosis_of(evidence, s.rank);
  if (s.kind != "slow_host" || own == nullptr) return std::nullopt;
  const int64_t late_ns = s.excess_ns_per_step * own->measure.steps;
  for (const std::optional<Finding>& f : own->findings)
    if (f && f->rule == "python-gc" && 2 * f->cost_ns.value_or(0) >= late_ns)
      return HostReason{"Python's garbage collection", f->fix};
  const std::vector<Place> places = places_of(evidence, s.rank);
  const Place* place = main_place(places, late_ns);
  if (place == nullptr || 2 * place->ns < late_ns) return std::nullopt;
  const std::string text = place_text(*place);
  return HostReason{text, {fmt::format("move the work of {} out of the step, to another thread or process, or share it "
                                       "among the ranks: the others wait for rank {}",
                                       text, s.rank)}};
}

std::string reason_words(const Evidence& evidence, const Straggler& s) {
  const std::optional<HostReason> host = host_reason(evidence, s);
  return host ? host->words : std::string(cause_of(s.kind).words);
}

std::vector<std::string> best_fixes(const Evidence& evidence, const Straggler& s) {
  const std::optional<HostReason> host = host_reason(evidence, s);
  return host ? host->fixes : fixes_for(s, evidence.job->parallelism);
}

std::string why(const Straggler& s) {
  const std::string time = duration_of(s.excess_ns_per_step), pct = format_percent(s.excess_pct);
  std::string text =
      s.kind == "slow_link"
          ? fmt::format("Transfers take {} per step longer than in similar groups ({} of the step).", time, pct)
          : fmt::format("The other ranks wait {} per step for {} ({} of the step).", time,
                        s.together.empty() ? "it" : "them", pct);
  return s.evidence.empty() ? text : fmt::format("{} Rank {}: {}.", text, s.rank, s.evidence.front());
}

std::string what(const Evidence& evidence, const Straggler& s) {
  const std::string whose = who(s) + (s.host.empty() ? "" : " on " + s.host);
  if (s.kind == "slow_link") return "slow transfers with " + whose;
  return fmt::format("{} {} late at collectives: {}", whose, s.together.empty() ? "arrives" : "arrive",
                     reason_words(evidence, s));
}

// Late ranks, the latest of each cause.
std::vector<const Straggler*> by_cause(const Evidence& evidence, double threshold) {
  std::vector<const Straggler*> latest;
  for (const Straggler& s : evidence.job->stragglers)
    if (s.excess_pct > threshold && std::ranges::count(latest, s.kind, &Straggler::kind) == 0) latest.push_back(&s);
  return latest;
}

// Ranks that are late for different reasons: each with its own change.
void tell_apart(const Evidence& evidence, const std::vector<const Straggler*>& late, Finding& f) {
  constexpr size_t kFixesEach = 2;
  f.fix.clear(), f.why.clear();
  std::string reasons;
  for (const Straggler* s : late) {
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", who(*s), reason_words(evidence, *s));
    append_listed(f.why, fmt::format("The others wait {} per step for rank {} ({} of the step){}.",
                                     duration_of(s->excess_ns_per_step), s->rank, format_percent(s->excess_pct),
                                     s->evidence.empty() ? "" : ": " + s->evidence.front()),
                  " ");
    const std::vector<std::string> fixes = best_fixes(evidence, *s);
    for (size_t i = 0; i < std::min(kFixesEach, fixes.size()); ++i)
      f.fix.push_back(fmt::format("{}: {}", who(*s), fixes[i]));
  }
  f.what = fmt::format("{} arrive late at collectives, for different reasons: {}", ranks_text(f.ranks), reasons);
}

// Not what its device does.
bool is_of_host(std::string_view kind) {
  return kind == "slow_input" || kind == "slow_host" || kind == "checkpoint" || kind == "memory_allocation" ||
         kind == "more_host_work";
}

std::optional<Finding> rotating(const Rule& rule, const LateByTurns& late, double threshold) {
  if (late.wait_pct <= threshold) return std::nullopt;
  Finding f = rule.finding(late.wait_pct, threshold);
  for (const LateByTurns::Turns& t : late.ranks) f.ranks.push_back(t.rank);
  f.steps = late.steps_measured;
  std::ranges::sort(f.ranks);
  const LateCause& cause = cause_of(late.kind);
  f.what = fmt::format("the late rank changes from step to step: {}", cause.words);
  f.why = fmt::format("Every rank waits {} per step ({}) for another one: load imbalance or jitter, not a slow device.",
                      duration_of(late.wait_ns_per_step), format_percent(late.wait_pct));
  f.fix.assign(cause.fixes_rotating.begin(), cause.fixes_rotating.end());
  std::string turns;
  for (size_t i = 0; i < std::min(kMaxListed, late.ranks.size()); ++i)
    turns += fmt::format("{}rank {} in {}", i > 0 ? ", " : "", late.ranks[i].rank, late.ranks[i].steps);
  f.evidence.push_back(fmt::format("latest of {} steps: {}{}", late.steps_measured, turns,
                                   late.ranks.size() > kMaxListed ? ", …" : ""));
  f.evidence.insert(f.evidence.end(), late.evidence.begin(), late.evidence.end());
  return f;
}

// "rank 2, stage 2 of the pipeline,"
std::string stage_text(const UnevenStage& s) {
  return fmt::format("{}, stage {} of the pipeline,", ranks_text(s.ranks), s.stage);
}

std::optional<Finding> slow_stage(const Rule& rule, const Evidence& evidence, const UnevenStage& s, double threshold) {
  if (s.excess_pct <= threshold) return std::nullopt;
  Finding f = rule.finding(s.excess_pct, threshold);
  f.ranks = s.ranks;
  f.names_ranks = true;
  f.seen.rank = s.ranks.front();
  f.what = fmt::format("{} {} longer than the other stages: {}", stage_text(s),
                       s.ranks.size() == 1 ? "computes" : "compute", s.more_work ? "more work" : "slower kernels");
  f.why = fmt::format("It computes {} per step, the other stages {} (their median): they wait for it in each "
                      "micro-batch.",
                      duration_of(s.compute_ns_per_step), duration_of(s.others_ns_per_step));
  if (s.more_work)
    f.fix = {fmt::format("move layers from stage {} to the others, so that all compute equally long; embeddings and the "
                         "loss count as layers",
                         s.stage),
             "Megatron: --decoder-first-pipeline-num-layers, --decoder-last-pipeline-num-layers; DeepSpeed: "
             "PipelineModule(partition_method=…); PyTorch: other split points"};
  else
    for (const std::string_view fix : cause_of("slow_compute").fixes)
      f.fix.push_back(fmt::format(fmt::runtime(fix), fmt::arg("on", "of " + ranks_text(s.ranks)),
                                  fmt::arg("rank", s.ranks.front())));
  if (const RankMeasure* m = evidence.measure(s.ranks.front())) {
    f.steps = m->steps;
    set_cost(f, m->wall_ns, (s.compute_ns_per_step - s.others_ns_per_step) * m->steps);
  }
  return f;
}

/// Of ranks under DDP whose collectives were not recorded: the one that works longest outside the backward pass, in
/// which the others wait for it.
struct UnevenHost {
  const RankMeasure* late = nullptr;
  int64_t outside_ns = 0, others_outside_ns = 0, backward_ns = 0, others_backward_ns = 0;   ///< per step
  bool loads = false;   ///< most of what it works longer is data loading
  [[nodiscard]] int64_t excess_ns() const {
    return std::min(outside_ns - others_outside_ns, others_backward_ns - backward_ns);
  }
};

int64_t per_step(const RankMeasure& m, int64_t ns) { return ns / std::max<int64_t>(m.steps, 1); }

int64_t loading_ns(const RankMeasure& m) {
  return static_cast<int64_t>(m.loading_pct.value_or(0) / 100 * static_cast<double>(per_step(m, m.wall_ns)));
}

std::optional<UnevenHost> find_uneven_host(const Evidence& evidence) {
  const auto tells = [](const RankDiagnosis& r) {
    const RankMeasure& m = r.measure;
    const bool sharded = m.with.has(Framework::kFsdp) || m.with.has(Framework::kFsdp2);
    if (m.has_device || m.host.mpi || m.host.collectives || !m.with.has(Framework::kDdp) || sharded) return false;
    return m.annotated && m.steps >= 3 && m.host.backward_ns > 0;
  };
  if (evidence.ranks.size() < 2 || !std::ranges::all_of(evidence.ranks, tells)) return std::nullopt;
  UnevenHost out;
  const auto outside = [](const RankMeasure& m) { return per_step(m, m.wall_ns - m.host.backward_ns); };
  for (const RankDiagnosis& r : evidence.ranks)
    if (out.late == nullptr || outside(r.measure) > out.outside_ns)
      out.late = &r.measure, out.outside_ns = outside(r.measure);
  std::vector<int64_t> others_outside, others_backward, others_loading;
  for (const RankDiagnosis& r : evidence.ranks) {
    if (&r.measure == out.late) continue;
    others_outside.push_back(outside(r.measure));
    others_backward.push_back(per_step(r.measure, r.measure.host.backward_ns));
    others_loading.push_back(loading_ns(r.measure));
  }
  out.backward_ns = per_step(*out.late, out.late->host.backward_ns);
  out.others_outside_ns = upper_median(others_outside);
  out.others_backward_ns = lower_median(others_backward);
  out.loads = 2 * (loading_ns(*out.late) - upper_median(others_loading)) > out.outside_ns - out.others_outside_ns;
  return only_if(out.excess_ns() > 0, out);
}

std::optional<Finding> uneven_host(const Rule& rule, const UnevenHost& u, double threshold) {
  const double value = percent_of(u.excess_ns(), per_step(*u.late, u.late->wall_ns));
  if (!rule.beyond(value, threshold)) return std::nullopt;
  Finding f = rule.finding(value, threshold);
  f.ranks = {u.late->rank};
  f.names_ranks = true;
  f.seen.rank = u.late->rank;
  f.steps = u.late->steps;
  f.what = fmt::format("rank {} {} longer than the others, which wait for it in the backward pass", u.late->rank,
                       u.loads ? "loads data" : "works");
  f.verdict = fmt::format("Rank {} is late and the others wait in the backward pass: at least {} of each step.",
                          u.late->rank, format_percent(value, 0));
  f.why = fmt::format("Outside the backward pass rank {} takes {} per step, the others {}; in it, where DDP's all-reduce "
                      "ends on all ranks together, {}, the others {}.",
                      u.late->rank, duration_of(u.outside_ns), duration_of(u.others_outside_ns),
                      duration_of(u.backward_ns), duration_of(u.others_backward_ns));
  f.evidence.emplace_back("collectives were not recorded: torch.profiler shows them, and how long each rank waits");
  Straggler s;
  s.kind = u.loads ? "slow_input" : "more_host_work", s.rank = u.late->rank;
  f.fix = fixes_for(s, {});
  set_cost(f, u.late->wall_ns, u.excess_ns() * u.late->steps);
  return f;
}

std::optional<Finding> check_straggler_rank(const Rule& rule, const Evidence& evidence) {
  if (evidence.job == nullptr) return std::nullopt;
  const double threshold = evidence.thresholds.of(rule);
  if (const auto uneven = find_uneven_host(evidence)) return uneven_host(rule, *uneven, threshold);
  if (const auto& late = evidence.job->late_by_turns) return rotating(rule, *late, threshold);
  if (const auto& stage = evidence.job->uneven_stage) return slow_stage(rule, evidence, *stage, threshold);
  const std::vector<Straggler>& all = evidence.job->stragglers;
  if (all.empty() || all.front().excess_pct <= threshold) return std::nullopt;
  const Straggler& worst = all.front();
  Finding f = rule.finding(worst.excess_pct, threshold);
  f.what = what(evidence, worst);
  f.names_ranks = true;
  f.why = why(worst);
  f.fix = best_fixes(evidence, worst);
  if (std::string steps = when(worst); !steps.empty()) f.evidence.push_back(std::move(steps));
  if (is_of_host(worst.kind)) f.where = places_of(evidence, worst.rank);
  f.seen.rank = worst.rank;
  f.seen.step = worst.worst_step;
  if (worst.evidence.size() > 1)
    f.evidence.insert(f.evidence.end(), worst.evidence.begin() + 1, worst.evidence.end());
  for (const Straggler& s : all) {
    if (s.excess_pct > threshold) f.ranks.push_back(s.rank);
    f.evidence.push_back(fmt::format("waiting for rank {}: {} per step ({})", s.rank, duration_of(s.excess_ns_per_step),
                                     reason_words(evidence, s)));
  }
  if (const std::vector<const Straggler*> causes = by_cause(evidence, threshold); causes.size() > 1)
    tell_apart(evidence, causes, f);
  if (const RankMeasure* late = evidence.measure(worst.rank)) {
    f.steps = late->steps;
    set_cost(f, late->wall_ns, std::min(worst.excess_ns_per_step * late->steps, late->wall_ns));
  }
  return f;
}

std::string verdict_on_stragglers(const Finding& f, const Job* job) {
  const std::string pct = format_percent(*f.value, 0);
  if (job->late_by_turns)
    return fmt::format("A different rank is late in each step and the others wait: {} of each step.", pct);
  std::string ranks = ranks_text(f.ranks);
  if (const auto& stage = job->uneven_stage)
    return fmt::format("Stage {} of the pipeline ({}) computes {:.1f} times as long as the others, which wait for it.",
                       stage->stage, ranks,
                       static_cast<double>(stage->compute_ns_per_step) / static_cast<double>(stage->others_ns_per_step));
  if (job->stragglers.front().kind == "slow_link")
    return fmt::format("Transfers with {} are slow: they cost {} of each step.", ranks, pct);
  ranks.front() = 'R';
  return fmt::format("{} {} late and the others wait: {} of each step.", ranks, f.ranks.size() > 1 ? "are" : "is", pct);
}

// All stragglers together, or the only one, or all ranks if they are late in turn, or a pipeline's stages.
const WhatIf* without_stragglers(const Job& job) {
  const WhatIf* found = find_what_if(job.what_if, job.uneven_stage ? "even_stages" : "even_ranks");
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
    .severe = 20,
    .meaning =
        "Collectives end together, so the rank that arrives last sets the pace. It spends the least time in "
        "collectives; the others spend theirs waiting for it. Compared with ranks that do the same, its steps show "
        "why: slower kernels, lower clocks, slow input, more work, a slow host, or a slow link.",
    .computation =
        "Value: time that the other ranks (their median) wait for the latest one in matched collectives while no "
        "compute runs, as a share of the mean step; for a slow link, exposed transfer beyond that of similar groups. "
        "Without a device, of ranks under DDP whose collectives were not recorded: what the rank with the most time "
        "outside the backward pass spends there beyond the others' median, at most what it is in that pass shorter. "
        "If the late rank changes from step to step: what the median rank waits, from 10 %. Cost: replay of the job "
        "with the late ranks like the others, with transfers as in similar groups, or with all ranks even. Of a "
        "pipeline's stage that computes over a tenth longer than the others: the difference, as a share of the mean "
        "step; cost: replay with even stages.",
    .advice = {
        "uneven input: DistributedSampler, drop_last, bucketing by length, the same number of tokens per rank",
        "a slow loader on one host: its disk, its CPU, its num_workers",
        "clocks: nvidia-smi -q -d CLOCK,PERFORMANCE on that GPU; power and thermal limits",
        "CPU binding: a rank on a remote NUMA node, or sharing its cores",
        "extra work on rank 0: logging, checkpoints, evaluation, tokenizing",
        "hardware: PCIe link width, ECC retirements, a failing NIC",
    },
    .verdict_of = verdict_on_stragglers,
    .seen = {Locator::At::kLongestWait, {}},
    .job = check_straggler_rank,
    .job_cost = {.first = without_stragglers},
};

}  // namespace profgpu
