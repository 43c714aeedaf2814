#include <fmt/format.h>

#include <algorithm>

#include "analyse/job/parallelism.h"
#include "analyse/rank/captures.h"
#include "analyse/rank/collectives.h"
#include "analyse/rank/host_collectives.h"
#include "analyse/rank/places.h"
#include "analyse/rules/log_checks.h"
#include "analyse/rules/measure.h"

namespace profgpu {
namespace {

using enum Framework;
using Fixes = std::vector<std::string>;

Fixes ddp_fixes(const Parallelism& way, const Frameworks& with) {
  constexpr int64_t kLargeBucket = 90'000'000;
  Fixes fixes;
  const char* accumulate = "with model.no_sync(): for all micro-batches but the last (gradient accumulation)";
  const bool every = way.gradients && way.gradients->reduced_passes_per_step > 1.5;   // more than the last micro-batch
  if (every) fixes.push_back(accumulate);
  if (way.gradients && way.gradients->backward_per_step == 0)
    fixes.push_back("reduce gradients during the backward pass, not after it: DistributedDataParallel(model, …); "
                    "Megatron: --overlap-grad-reduce");
  const bool large = way.gradients && way.gradients->median_bytes.value_or(0) >= kLargeBucket;
  fixes.push_back(large ? "DDP(…, gradient_as_bucket_view=True, static_graph=True)"
                        : "DDP(…, bucket_cap_mb=100, gradient_as_bucket_view=True, static_graph=True)");
  if (!every) fixes.push_back(accumulate);
  if (!with.has(kHalfReductions))
    fixes.push_back("ddp_model.register_comm_hook(None, bf16_compress_hook)   # half the bytes");
  return fixes;
}

/// What FSDP's two versions call the same changes.
struct FsdpWords {
  std::string_view prefetch, keep, hybrid;
};
constexpr FsdpWords kFsdp1Words = {
    "FSDP: forward_prefetch=True, backward_prefetch=BackwardPrefetch.BACKWARD_PRE, limit_all_gathers=True",
    "FSDP: fully_shard(…, reshard_after_forward=False) or ShardingStrategy.SHARD_GRAD_OP, if memory allows",
    "FSDP: ShardingStrategy.HYBRID_SHARD or a 2-D mesh: shard within a node, replicate across nodes"};
constexpr FsdpWords kFsdp2Words = {
    "FSDP2: block.set_modules_to_forward_prefetch([next_block]), and set_modules_to_backward_prefetch([previous_block])",
    "FSDP2: fully_shard(…, reshard_after_forward=False), if memory allows",
    "FSDP2: fully_shard(…, mesh=init_device_mesh(\"cuda\", (nodes, gpus))): shard within a node, replicate across nodes"};

Fixes fsdp_fixes(const Parallelism& way, const Frameworks& with) {
  const FsdpWords& words = with.has(kFsdp2) && !with.has(kFsdp) ? kFsdp2Words : kFsdp1Words;
  const std::string prefetch(words.prefetch), keep(words.keep);
  const bool late = way.gathers && way.gathers->late_per_step > way.gathers->per_step / 4;
  Fixes fixes = late ? Fixes{prefetch, keep} : Fixes{keep, prefetch};
  if (way.gathers && way.gathers->backward_per_step == 0) std::erase(fixes, keep);
  if (way.kind != ParallelKind::kHsdp) fixes.emplace_back(words.hybrid);
  return fixes;
}

Fixes deepspeed_fixes(const Parallelism& way) {
  if (way.kind == ParallelKind::kZero3 || way.kind == ParallelKind::kFsdpOrZero3)
    return {"DeepSpeed: overlap_comm: true; larger stage3_prefetch_bucket_size and reduce_bucket_size",
            "DeepSpeed: ZeRO stage 2 instead of 3, if memory allows"};
  return {"DeepSpeed: overlap_comm: true; larger reduce_bucket_size and allgather_bucket_size",
          "DeepSpeed: with gradient accumulation, ZeRO stage 1 reduces once per step, stage 2 in every micro-batch",
          "Megatron's distributed optimizer: --overlap-grad-reduce --overlap-param-gather"};
}

Fixes tensor_fixes(const Parallelism& way) {
  Fixes fixes = {"add sequence parallelism (Megatron: --sequence-parallel; PyTorch: SequenceParallel())",
                 "overlap tensor parallelism with the GEMMs (Megatron: --tp-comm-overlap; PyTorch: async TP)"};
  if (way.counts.of(CollectiveOp::kReduceScatter).calls > 0) fixes.erase(fixes.begin());
  const bool across = way.hosts_per_group.value_or(1) > 1;
  fixes.insert(across ? fixes.begin() : fixes.end(),
               "keep tensor-parallel groups within a node; use data or pipeline parallelism across nodes");
  return fixes;
}

Fixes pipeline_fixes(const Parallelism& way) {
  Fixes fixes = {"pipeline: use more micro-batches per step: the bubble's share is (p - 1) / (m + p - 1)",
                 "pipeline: use an interleaved schedule (PyTorch: ScheduleInterleaved1F1B; "
                 "Megatron: --num-layers-per-virtual-pipeline-stage)",
                 "pipeline: use a zero-bubble schedule (PyTorch: ScheduleInterleavedZeroBubble)"};
  const bool unbalanced = way.pipeline && way.pipeline->ideal_bubble_pct &&
                          way.pipeline->bubble_pct > 1.5 * *way.pipeline->ideal_bubble_pct;
  fixes.insert(unbalanced ? fixes.begin() : fixes.end(),
               "pipeline: balance the stages; embeddings and the loss count as layers");
  return fixes;
}

// Of the kind of parallelism, else of the framework.
Fixes fixes(const Parallelism* way, const Frameworks& with) {
  if (way == nullptr && with.has(kDdp)) return ddp_fixes({}, with);
  switch (way != nullptr ? way->kind : ParallelKind::kUnknown) {
    case ParallelKind::kDdp: return ddp_fixes(*way, with);
    case ParallelKind::kFsdp:
    case ParallelKind::kHsdp:
    case ParallelKind::kFsdpOrZero2: return fsdp_fixes(*way, with);
    case ParallelKind::kFsdpOrZero3: {
      Fixes both = fsdp_fixes(*way, with);
      both.back() = deepspeed_fixes(*way).front();
      both.push_back(deepspeed_fixes(*way).back());
      return both;
    }
    case ParallelKind::kZero1:
    case ParallelKind::kZero1Or2:
    case ParallelKind::kZero2:
    case ParallelKind::kZero3: return deepspeed_fixes(*way);
    case ParallelKind::kTensor: return tensor_fixes(*way);
    case ParallelKind::kPipeline: return pipeline_fixes(*way);
    case ParallelKind::kExpert:
      return {"overlap the expert exchange with local work: split the batch in two and alternate; use DeepEP",
              "keep expert groups within a node if the experts fit; balance experts with an auxiliary loss",
              "exchange tokens in bf16 or fp8"};
    case ParallelKind::kContext:
      return {"overlap the ring with attention (Megatron: --cp-comm-type p2p; a2a within a node)",
              "with causal attention, split the sequence in a balanced (zigzag) order",
              "use smaller groups: no more ranks per sequence than memory requires"};
    case ParallelKind::kEmbedding:
      return {"overlap the embedding exchange with the dense part (TorchRec: TrainPipelineSparseDist)",
              "place embedding shards so that most traffic stays within a node",
              "exchange in bf16 or fp16 (TorchRec: qcomms_config)"};
    case ParallelKind::kUnknown: break;
  }
  return {"use a larger batch per GPU: more compute for the same bytes",
          "DDP: bucket_cap_mb, static_graph; FSDP: prefetching, reshard_after_forward; DeepSpeed: overlap_comm",
          "record all ranks with operators and ranges: the best change depends on the kind of parallelism"};
}

/// Ways are in order of exposed time: the first recognized one.
const Parallelism* most_exposed(const std::vector<Parallelism>& ways) {
  return first_where(ways, [](const Parallelism& w) { return w.kind != ParallelKind::kUnknown; });
}

// Where collectives of measured steps are launched, by the time that no compute hides.
std::vector<Place> exposed_places(const Measured& m) {
  const Trace& trace = m.trace();
  Places places(m.facts());
  for (ActivityId a = m.device().begin; a < m.device().end; ++a)
    if (m.facts().get<Devices>().kind[a.value] == WorkKind::kCommunication && m.in_measured_step(trace.launched_ns(a)))
      places.add(m.facts().get<Captures>().origin(trace, a),
                 overlap_length(m.device().exposed_communication, trace.activity.interval(a)));
  return places.most_expensive();
}

std::string verdict_on_host(const Finding& f) {
  return fmt::format("Communication is the bottleneck: for {} of the steps the program waits for collectives.",
                     format_percent(*f.value, 0));
}

// "all_reduce Float: 7 calls, 19.6 ms exposed", of the measured steps, of the first three rows that have any there.
void show_calls(const Measured& m, std::string_view how, Finding& f) {
  const std::vector<CollectiveRow>& rows = m.facts().get<Collectives>().rows;
  for (size_t i = 0; i < std::min<size_t>(rows.size(), 3); ++i) {
    const int64_t calls = m.counted(rows[i].calls, rows[i].measured_calls);
    const int64_t ns = m.counted(rows[i].exposed_ns, rows[i].measured_exposed_ns);
    if (calls > 0)
      f.evidence.push_back(fmt::format("{} {}: {} {}, {} {}", rows[i].name, rows[i].dtype, calls,
                                       calls == 1 ? "call" : "calls", format_duration(static_cast<double>(ns)), how));
  }
}

// Without a device: the host waits for gloo.
void describe_waits_of_host(const Measured& m, Finding& f) {
  f.what = "the program waits for collectives, and no operator runs meanwhile";
  f.why = fmt::format("For {} of the steps no operator runs until a collective ends.", format_percent(*f.value));
  f.verdict = verdict_on_host(f);
  f.fix = fixes(most_exposed(m.facts().get<RankParallelism>().ways), m.facts().get<Frameworks>());
  show_calls(m, "waited for", f);
  set_cost(f, m.wall_ns(), m.facts().get<Phases>().measured_wall_ns[static_cast<size_t>(Phase::kCommunication)]);
}

std::optional<double> exposed_communication_value(const Measured& m) {
  if (m.has_device()) return only_if(m.device().communication_ns != 0, m.exposed_communication_pct());
  return only_if(!m.facts().get<HostCollectives>().calls.empty(), m.phase_pct(Phase::kCommunication));
}

void describe_exposed_communication(const Measured& m, Finding& f) {
  if (!m.has_device()) return describe_waits_of_host(m, f);
  f.what = "communication not overlapped with compute";
  f.why = fmt::format("For {} of the time {} only communicates; {} of its communication overlaps with compute.",
                      format_percent(m.exposed_communication_pct()), m.device_label(),
                      format_percent(m.device().overlap_pct()));
  f.fix = fixes(most_exposed(m.facts().get<RankParallelism>().ways), m.facts().get<Frameworks>());
  show_calls(m, "exposed", f);
  f.where = exposed_places(m);
  set_saving(m, m.saved_by_communication(), f);
}

// Time in which the rank only sends to other stages and receives, percent of a step.
double bubble_pct(const std::vector<Parallelism>& ways, int rank) {
  for (const Parallelism& way : ways) {
    if (!way.pipeline) continue;
    for (const Stage& s : way.pipeline->by_stage)
      if (std::ranges::binary_search(s.ranks, rank)) return s.bubble_pct;
    return way.pipeline->bubble_pct;
  }
  return 0;
}

// Stages of a pipeline wait for each other, which faster transfers do not change.
void account_for_bubble(const Rule& rule, const Job& job, double bubble, Finding& f) {
  if (bubble <= 0) return;
  const WhatIf* free = find_what_if(job.what_if, "communication_free");
  const double gained = std::max(*f.value - bubble, free != nullptr ? free->saved_pct : 0);
  f.severity = std::min(f.severity, rule.severity_at(gained));
  if (!rule.beyond(gained, *f.threshold))
    f.what = "pipeline stages wait for each other, in communication not overlapped with compute";
}

// One rank's trace does not show for whom the others wait: whether a collective transfers or waits is not known. Time
// that its bytes can't take on a usual network is waiting or a bad link, which no communication setting changes.
void settle_one_rank(const RankMeasure& m, Finding& f) {
  f.fix.insert(f.fix.begin(), "pass the traces of all ranks: they show which rank the others wait for");
  f.evidence.push_back("one rank's trace can't tell waiting for late ranks from transfer");
  const SizedCollectives& c = m.collectives;
  if (!m.has_device) {
    f.verdict = fmt::format("For {} of the steps the program only waits for collectives: for other ranks or for the "
                            "transfer, which one rank's trace cannot tell.",
                            format_percent(*f.value, 0));
    f.cost_ns.reset(), f.cost_pct.reset();
    return;
  }
  const bool slow = 2 * c.min_wait_ns > c.exposed_ns, varies = 4 * c.beyond_shortest_ns > c.exposed_ns;
  f.verdict = fmt::format("For {} of the time the GPU is only in collectives: waiting for other ranks or transfer, which "
                          "one rank's trace cannot tell.",
                          format_percent(*f.value, 0));
  if (f.cost_ns)
    f.why += fmt::format(" Without it the steps would take at most {}{} less.",
                         format_duration(static_cast<double>(*f.cost_ns / std::max<int64_t>(m.steps, 1))),
                         m.annotated ? " each" : "");
  f.cost_ns.reset(), f.cost_pct.reset();
  if (varies) {
    f.what = "collectives take longer than others of their size: waiting for other ranks, or uneven transfers";
    f.why += fmt::format(" Calls of one size take {} to {}; {}{} is beyond the shortest.",
                         format_duration(static_cast<double>(c.shortest_ns)),
                         format_duration(static_cast<double>(c.longest_ns)),
                         format_duration(static_cast<double>(c.beyond_shortest_ns / std::max<int64_t>(m.steps, 1))),
                         m.annotated ? " per step" : "");
  }
  if (!slow) return;
  f.what = "collectives take far longer than their bytes need: late ranks or a slow link";
  f.why += fmt::format(" Over a 100 Gbit/s network their bytes would take {}{} less.",
                       format_duration(static_cast<double>(c.min_wait_ns / std::max<int64_t>(m.steps, 1))),
                       m.annotated ? " per step" : "");
}

// Waiting for a late rank is not transfer, and for a missing one not communication. All ranks together also show the
// kind of parallelism more reliably.
bool settle_exposed_communication(const Rule& rule, const Evidence& evidence, const RankMeasure& m, Finding& f) {
  if (evidence.job == nullptr) {
    settle_one_rank(m, f);
    return true;
  }
  if (evidence.hang() != nullptr) return false;
  std::vector<Parallelism> ways;
  std::ranges::copy_if(evidence.job->parallelism, std::back_inserter(ways),
                       [&](const Parallelism& way) { return std::ranges::binary_search(way.ranks, m.rank); });
  if (!ways.empty()) f.fix = fixes(most_exposed(ways), m.with);
  const auto wait = evidence.job->wait_ns.find(m.rank);
  if (const double waited = evidence.waited_pct(m); waited > 0) {
    f.value = *f.value - waited;
    f.severity = rule.severity_at(*f.value);
  }
  if (!m.has_device) {
    f.verdict = verdict_on_host(f);
    if (f.cost_ns && wait != evidence.job->wait_ns.end())
      set_cost(f, m.wall_ns, std::max<int64_t>(0, *f.cost_ns - wait->second));
    if (!evidence.job->missing_ranks.empty()) f.cost_ns.reset(), f.cost_pct.reset();
  }
  account_for_bubble(rule, *evidence.job, bubble_pct(ways, m.rank), f);
  if (const std::vector<int>& missing = evidence.job->missing_ranks; !missing.empty())
    f.fix.insert(f.fix.begin(), fmt::format("pass the traces of all ranks: waiting for {}, missing here, looks like "
                                            "transfer",
                                            ranks_text(missing)));
  if (!evidence.job->missing_ranks.empty())
    f.verdict = fmt::format("For {} of the time the {} is only in collectives: transfer, or waiting for ranks whose "
                            "traces are missing.",
                            format_percent(*f.value, 0), m.has_device ? "GPU" : "program");
  return rule.beyond(*f.value, *f.threshold);
}

constexpr double kMinExposedPct = 5;          // with less exposed communication faster transfers gain nothing
constexpr int64_t kLargeMessage = 16 << 20;   // output.md: latency is negligible from 16 MiB on

struct MeasuredLink {
  double gbps = 0;
  std::string path;   // of the benchmark's output
};

// The bus bandwidth that a benchmark on the same machines reached, of a group as large or larger.
std::optional<MeasuredLink> measured_link(const Evidence& evidence, const Traffic& t) {
  MeasuredLink most;
  for (const CollectiveRate& rate : evidence.machine.collectives)
    if (rate.op == t.name && rate.ranks >= t.group_size && rate.busbw_gbps > most.gbps)
      most = {rate.busbw_gbps, evidence.machine.path};
  const auto is_own = [](const LinkRate& r) { return r.calls > 0; };   // traffic of this job, not of a benchmark
  for (const LogReport& log : evidence.logs) {
    if (std::ranges::any_of(log.log->rates, is_own)) continue;
    for (const LinkSummary& s : log.links)
      if (s.op == t.name && s.peak_busbw_gbps.value_or(0) > most.gbps && (s.ranks == 0 || s.ranks >= t.group_size))
        most = {*s.peak_busbw_gbps, log.path};
  }
  return most.gbps > 0 ? std::optional(most) : std::nullopt;
}

// Of what a benchmark reached where one is beside the traces, else of the table's rate. Of groups beyond one node the
// table says nothing: the network sets the rate.
std::optional<double> share_of_link_pct(const Evidence& evidence, const Traffic& t) {
  const std::optional<MeasuredLink> measured = measured_link(evidence, t);
  if (!measured || !t.busbw_gbps) return t.link_pct();
  return 100 * *t.busbw_gbps / measured->gbps;
}

std::optional<Finding> check_low_bus_bandwidth(const Rule& rule, const Evidence& evidence) {
  if (evidence.job == nullptr) return std::nullopt;
  const double threshold = evidence.thresholds.of(rule);
  const Traffic* worst = nullptr;
  for (const Traffic& t : evidence.job->traffic) {
    const auto share = share_of_link_pct(evidence, t);
    if (t.message_bytes.value_or(0) < kLargeMessage || !share) continue;
    if (worst == nullptr || *share < *share_of_link_pct(evidence, *worst)) worst = &t;
  }
  if (worst == nullptr || !rule.beyond(*share_of_link_pct(evidence, *worst), threshold)) return std::nullopt;
  const double value = *share_of_link_pct(evidence, *worst);
  const std::optional<MeasuredLink> measured = measured_link(evidence, *worst);
  Finding f = rule.finding(value, threshold);
  f.ranks = evidence.job->ranks;
  f.what = fmt::format("{} reaches {:.0f} GB/s on a {:.0f} GB/s link", worst->name, *worst->busbw_gbps,
                       measured ? measured->gbps : *worst->link_gbps);
  const std::string of = measured ? "what a benchmark of the same link reached (" + measured->path + ")"
                                  : "the peak of " + evidence.ranks.front().measure.device.name;
  f.why = fmt::format("Bus bandwidth of large {} calls is {} of {}.", worst->name, format_percent(value), of);
  const auto exposed = [](const RankDiagnosis& r) { return r.measure.exposed_communication_pct; };
  const double most = exposed(*std::ranges::max_element(evidence.ranks, {}, exposed));
  if (most <= kMinExposedPct) f.severity = Severity::kInfo;
  if (is_amd_name(evidence.ranks.front().measure.device.name))
    f.fix = {"rocm-smi --showtopo and amd-smi xgmi: are all GPUs connected by xGMI, and all links up?",
             "unset NCCL_P2P_DISABLE, NCCL_SHM_DISABLE, NCCL_NET=Socket and NCCL_ALGO; NCCL_DEBUG=INFO shows the transports",
             "measure the link alone with rccl-tests (all_reduce_perf -b 16M -e 1G -f 2 -g 8)"};
  f.evidence = {fmt::format("{} calls of {} in a group of {}", worst->whole_calls,
                            format_bytes(static_cast<double>(*worst->message_bytes)), worst->group_size)};
  return f;
}

std::string call_text(const MissingCalls& hang) {
  const std::string which = hang.number >= 0 ? fmt::format(" {}", hang.number) : "";
  const std::string group = hang.process_group.empty() ? "" : " of group " + hang.process_group;
  return hang.name + which + group + (hang.step >= 0 ? fmt::format(", step {}", hang.step) : "");
}

std::optional<Finding> check_collective_hang(const Rule& rule, const Evidence& evidence) {
  if (evidence.flight && evidence.flight->hangs())
    return flight_hang(rule, evidence);
  const MissingCalls* hang = evidence.hang();
  const double threshold = evidence.thresholds.of(rule);
  if (hang == nullptr || !rule.beyond(static_cast<double>(hang->others), threshold)) return std::nullopt;
  Finding f = rule.finding(static_cast<double>(hang->others), threshold);
  for (const MissingCalls& m : evidence.job->missing) {
    if (!m.never_arrived()) continue;
    if (call_text(m) == call_text(*hang)) f.ranks.push_back(m.rank);
    else f.evidence.push_back(fmt::format("rank {} never arrives at {}", m.rank, call_text(m)));
  }
  std::ranges::sort(f.ranks);
  f.what = fmt::format("{} never {} at {}", ranks_text(f.ranks), f.ranks.size() == 1 ? "arrives" : "arrive",
                       call_text(*hang));
  f.names_ranks = true;
  f.why = hang->others == 1 ? "Another rank waits in it until its trace ends."
                            : fmt::format("{} other ranks wait in it until their traces end.", hang->others);
  f.fix = {fmt::format("py-spy dump --pid PID   # where is rank {} instead?", f.ranks.front()),
           "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1   # each rank's last call",
           "call collectives on all ranks, not in a branch that only some take; give every rank equally many batches: "
           "drop_last=True, torch.distributed.algorithms.Join"};
  return f;
}

}  // namespace

extern const Rule kExposedCommunication = {
    .id = "exposed-communication",
    .summary = "communication not overlapped with compute",
    .unit = "%",
    .threshold = 20,
    .severe = 40,
    .meaning =
        "The device runs collectives and nothing else. There is too little compute to overlap with, or the collectives "
        "start too late, or they are slow.",
    .computation =
        "Value: time in which communication kernels run and no compute does, as a share of the device's window; with "
        "all ranks' traces, without the time spent waiting for late ranks. Cost: replay of the trace with "
        "communication taking no time; at most the exposed time of the measured steps. Without a device, of calls of "
        "gloo: the steps' time in which no operator runs until a collective ends, which is also the cost. For a job: "
        "what its steps would save, without the pipeline stages' waits for each other; unknown of one rank alone, and "
        "if ranks or records are missing that others may have waited for.",
    .advice = {
        "DDP: bucket_cap_mb (default 25): larger for fast links, smaller to start earlier",
        "DDP: gradient_as_bucket_view=True, static_graph=True; find_unused_parameters=False",
        "gradient accumulation with model.no_sync(): one all-reduce for several micro-batches",
        "bf16 or fp16 compression hooks; PowerSGD on slow links",
        "FSDP: backward_prefetch, forward_prefetch, limit_all_gathers; wrap whole blocks; hybrid sharding across nodes",
        "DeepSpeed: overlap_comm: true; reduce_bucket_size, allgather_bucket_size; ZeRO stage 1 or 2 instead of 3",
        "tensor parallelism within a node only; sequence parallelism; overlap with the GEMMs",
        "pipeline parallelism: more micro-batches, interleaved or zero-bubble schedules, balanced stages",
        "expert and embedding parallelism: overlap the exchange with local work, within a node, in bf16 or fp8",
        "larger batch per GPU: more compute for the same bytes",
        "network: NCCL_DEBUG=INFO shows rings and transports; check GPUDirect RDMA, NCCL_IB_HCA, topology, NVLink",
    },
    .by_framework = {
        {kVllm, "keep the custom all-reduce (no --disable-custom-all-reduce); use fewer tensor-parallel ranks if the "
                "model fits"},
        {kSglang, "keep the custom all-reduce (no --disable-custom-all-reduce); use --dp-size instead of --tp-size if "
                  "the model fits"},
        {kDeepSpeed, "\"overlap_comm\": true, with larger reduce_bucket_size and allgather_bucket_size"},
        {kMegatron, "--overlap-grad-reduce --overlap-param-gather; --tp-comm-overlap with --sequence-parallel"},
        {kTrainer, "TrainingArguments(ddp_bucket_cap_mb=100, ddp_find_unused_parameters=False)", {}, true},
        {kLightning, "DDPStrategy(gradient_as_bucket_view=True, static_graph=True)", {}, true},
    },
    .verdict = "Communication is the bottleneck: for {} of the time the GPU only communicates.",
    .seen = {Locator::At::kLongestKernel, "communication"},
    .rank = {.value = exposed_communication_value, .describe = describe_exposed_communication, .host_alone = true},
    .log = {.value = reduction_pct, .describe = describe_reductions},
    .settle = settle_exposed_communication,
    .job_cost = {.change = "communication_free", .required = true},
    .checklist = {{.order = 4,
                   .id = "communication",
                   .question = "Is exposed communication under 20 % of the time?",
                   .label = "communication",
                   .value = [](const Evidence& evidence, const RankMeasure& m) -> std::optional<double> {
                     const double transfer = m.exposed_communication_pct - evidence.waited_pct(m);
                     return only_if(m.has_device || m.host.collectives, std::max(0.0, transfer));
                   },
                   .limit = 20,
                   .of_several = true,
                   .host_alone = true},
                  {.order = 8,
                   .id = "gradient-accumulation",
                   .question = "Are there more backward passes than optimizer steps?",
                   .label = "gradient accumulation",
                   .of_training = true,
                   .host_alone = true,
                   .judge = [](const RankMeasure& m,
                               bool) { return m.accumulates ? Verdict::kPass : Verdict::kUnknown; }}},
};

extern const Rule kLowBusBandwidth = {
    .id = "low-bus-bandwidth",
    .summary = "large collectives use a small part of the link's bandwidth",
    .unit = "%",
    .threshold = 50,
    .below = true,
    .meaning =
        "Large messages should come close to the bandwidth of the link between the devices. Far below it, traffic "
        "takes a slower path (PCIe or host memory instead of NVLink), or a link is down.",
    .computation =
        "Value: median bus bandwidth (nccl-tests' definition) of the slowest kind of collective from 16 MiB, as a "
        "share of the link's bandwidth per direction. The transfer time runs from the last rank's arrival to the end, "
        "so all ranks of the group must have traces; groups beyond one node are not evaluated. No cost: see exposed "
        "communication.",
    .advice = {
        "nvidia-smi topo -m and nvidia-smi nvlink -s: are all GPUs connected by NVLink, and all links up?",
        "unset NCCL_P2P_DISABLE, NCCL_SHM_DISABLE, NCCL_NET=Socket, NCCL_ALGO and NCCL_PROTO; check NCCL_P2P_LEVEL",
        "containers: --ipc=host or a larger --shm-size, all devices of the node visible, no ACS redirection on PCIe",
        "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH shows rings and transports",
        "across nodes: NCCL_IB_HCA, GPUDirect RDMA (nvidia-peermem), one NIC per GPU, NCCL_CROSS_NIC",
        "measure the link alone with nccl-tests (all_reduce_perf -b 16M -e 1G -f 2 -g 8)",
    },
    .seen = {Locator::At::kLongestKernel, "communication"},
    .job = check_low_bus_bandwidth,
};

extern const Rule kCollectiveHang = {
    .id = "collective-hang",
    .summary = "a rank never arrives at a collective in which others wait",
    .unit = "ranks",
    .threshold = 0,
    .severity = Severity::kCritical,
    .meaning =
        "A collective ends when all ranks of its group have arrived. If a rank leaves the loop, takes another branch, "
        "waits for something else or dies, the others wait in it until a timeout ends the job.",
    .computation =
        "Value: ranks that wait until their traces end in the first collective at which another rank of the group, "
        "with a trace here, never arrives. Needs traces of several ranks. From dumps of NCCL's flight recorder: ranks "
        "that wait, each in its first call that has not completed, for the suspects at which following the waits from "
        "rank to rank ends. The cost is not estimated.",
    .advice = {
        "py-spy dump --pid PID on the rank's host, or gdb -p PID: where is it instead?",
        "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1: PyTorch's flight recorder has each rank's "
        "last call",
        "no collective in a branch that only some ranks take: if rank == 0, an exception caught on one rank, early "
        "stopping",
        "equally many batches on every rank: drop_last=True, torch.distributed.algorithms.Join",
        "the end of the rank's log: out of memory, a dead data loader worker, Xid errors (profgpu doctor)",
    },
    .job = check_collective_hang,
};

}  // namespace profgpu
