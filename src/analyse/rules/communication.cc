#include <fmt/format.h>

#include <algorithm>

#include "analyse/job/parallelism.h"
#include "analyse/rank/collectives.h"
#include "analyse/report/quantity.h"
#include "analyse/rules/measure.h"

namespace profgpu {
namespace {

using Fixes = std::vector<std::string>;

Fixes ddp_fixes(const Parallelism& way) {
  Fixes fixes;
  const char* accumulate = "with model.no_sync(): for all micro-batches but the last (gradient accumulation)";
  const bool every = way.gradients && way.gradients->reduced_passes_per_step > 1.5;   // more than the last micro-batch
  if (every) fixes.push_back(accumulate);
  if (way.gradients && way.gradients->backward_per_step == 0)
    fixes.push_back("reduce gradients during backward, not after it: DistributedDataParallel(model, …) does; "
                    "Megatron: --overlap-grad-reduce");
  fixes.push_back("DDP(…, bucket_cap_mb=100, gradient_as_bucket_view=True, static_graph=True)");
  if (!every) fixes.push_back(accumulate);
  fixes.push_back("ddp_model.register_comm_hook(None, bf16_compress_hook)   # half the bytes");
  return fixes;
}

Fixes fsdp_fixes(const Parallelism& way) {
  const std::string prefetch =
      "FSDP: forward_prefetch=True, backward_prefetch=BackwardPrefetch.BACKWARD_PRE, limit_all_gathers=True";
  const std::string keep =
      "FSDP: fully_shard(…, reshard_after_forward=False) or ShardingStrategy.SHARD_GRAD_OP where memory allows";
  const std::string hybrid =
      "FSDP: ShardingStrategy.HYBRID_SHARD, or a mesh of two dimensions: shard within a node, replicate across nodes";
  const bool late = way.gathers && way.gathers->late_per_step > way.gathers->per_step / 4;
  Fixes fixes = late ? Fixes{prefetch, keep} : Fixes{keep, prefetch};
  if (way.gathers && way.gathers->backward_per_step == 0) std::erase(fixes, keep);
  if (way.kind != ParallelKind::kHsdp) fixes.push_back(hybrid);
  return fixes;
}

Fixes deepspeed_fixes(const Parallelism& way) {
  const bool all = way.kind == ParallelKind::kZero3 || way.kind == ParallelKind::kFsdpOrZero3;
  if (all)
    return {"DeepSpeed: overlap_comm: true; larger stage3_prefetch_bucket_size and reduce_bucket_size",
            "DeepSpeed: ZeRO stage 2 instead of 3 where memory allows"};
  return {"DeepSpeed: overlap_comm: true; larger reduce_bucket_size and allgather_bucket_size",
          "DeepSpeed: ZeRO stage 1 with gradient accumulation reduces once a step; stage 2 in every micro-batch",
          "Megatron's distributed optimizer: --overlap-grad-reduce --overlap-param-gather"};
}

Fixes tensor_fixes(const Parallelism& way) {
  Fixes fixes = {"sequence parallelism as well (Megatron: --sequence-parallel; PyTorch: SequenceParallel())",
                 "tensor parallelism: overlap with the products (Megatron: --tp-comm-overlap; PyTorch: async form)"};
  if (way.counts.of(CollectiveOp::kReduceScatter).calls > 0) fixes.erase(fixes.begin());
  const bool across = way.hosts_per_group.value_or(1) > 1;
  fixes.insert(across ? fixes.begin() : fixes.end(),
               "tensor parallelism: groups within a node; data or pipeline parallelism across nodes");
  return fixes;
}

Fixes pipeline_fixes(const Parallelism& way) {
  Fixes fixes = {"pipeline parallelism: more micro-batches a step: the bubble's share is (p - 1) / (m + p - 1)",
                 "pipeline parallelism: interleaved 1F1B (PyTorch: ScheduleInterleaved1F1B; "
                 "Megatron: --num-layers-per-virtual-pipeline-stage)",
                 "pipeline parallelism: a zero-bubble schedule (PyTorch: ScheduleInterleavedZeroBubble)"};
  const bool beyond = way.pipeline && way.pipeline->ideal_bubble_pct &&
                      way.pipeline->bubble_pct > 1.5 * *way.pipeline->ideal_bubble_pct;
  fixes.insert(beyond ? fixes.begin() : fixes.end(),
               "pipeline parallelism: balance the stages: embeddings and the loss count as layers");
  return fixes;
}

Fixes fixes(const Parallelism* way) {
  if (way == nullptr)
    return {"larger batch a GPU: more compute for the same bytes",
            "DDP: bucket_cap_mb, static_graph; FSDP: prefetching, reshard_after_forward; DeepSpeed: overlap_comm",
            "record all ranks with operators and ranges: the job's kind decides what helps"};
  switch (way->kind) {
    case ParallelKind::kDdp: return ddp_fixes(*way);
    case ParallelKind::kFsdp:
    case ParallelKind::kHsdp:
    case ParallelKind::kFsdpOrZero2: return fsdp_fixes(*way);
    case ParallelKind::kFsdpOrZero3: {
      Fixes both = fsdp_fixes(*way);
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
      return {"expert parallelism: overlap the exchange with local work: split the batch in two and alternate; DeepEP",
              "expert parallelism: groups within a node where experts fit; a balance loss against uneven experts",
              "exchange in bf16 or fp8"};
    case ParallelKind::kContext:
      return {"context parallelism: overlap the ring with attention (Megatron: --cp-comm-type p2p; a2a within a node)",
              "context parallelism: a balanced (zigzag) order of the sequence where attention is causal",
              "smaller groups: no more ranks a sequence than memory asks for"};
    case ParallelKind::kEmbedding:
      return {"embeddings: overlap the exchange with the dense part (TorchRec: TrainPipelineSparseDist)",
              "place embedding shards so that most traffic stays within a node",
              "exchange in bf16 or fp16 (TorchRec: qcomms_config)"};
    case ParallelKind::kUnknown: break;
  }
  return fixes(nullptr);
}

/// Ways are in order of what they leave exposed: the first that is known.
const Parallelism* most_exposed(const std::vector<Parallelism>& ways) {
  return first_where(ways, [](const Parallelism& w) { return w.kind != ParallelKind::kUnknown; });
}

void say_exposed_communication(const Measured& m, Finding& f) {
  const auto& rows = m.facts().get<Collectives>().rows;
  f.what = "communication that no compute hides";
  f.why = fmt::format("On {} communication runs alone for {} of the time; {} of it overlaps with compute.",
                      m.device_label(), percent_text(m.exposed_communication_pct()),
                      percent_text(m.device().overlap_pct()));
  f.fix = fixes(most_exposed(m.facts().get<RankParallelism>().ways));
  for (size_t i = 0; i < std::min<size_t>(rows.size(), 3); ++i)
    f.evidence.push_back(fmt::format("{} {}: {} calls, {} exposed", rows[i].name, rows[i].dtype, rows[i].calls,
                                     duration_text(rows[i].exposed_ns)));
  set_cost(f, m.wall_ns(), m.saved_by_communication());
}

// Time in which the rank does nothing but send to other stages and receive, percent of a step.
double bubble_pct(const std::vector<Parallelism>& ways, int rank) {
  for (const Parallelism& way : ways) {
    if (!way.pipeline) continue;
    for (const Stage& s : way.pipeline->by_stage)
      if (std::binary_search(s.ranks.begin(), s.ranks.end(), rank)) return s.bubble_pct;
    return way.pipeline->bubble_pct;
  }
  return 0;
}

// Stages of a pipeline wait for each other, which faster transfers do not change.
void judge_bubble(const Rule& rule, const Job& job, double bubble, Finding& f) {
  if (bubble <= 0) return;
  const WhatIf* free = find_what_if(job.what_if, "communication_free");
  const double gained = std::max(*f.value - bubble, free != nullptr ? free->saved_pct : 0);
  f.severity = std::min(f.severity, rule.severity_at(gained));
  if (!rule.beyond(gained, *f.threshold))
    f.what = "stages of the pipeline wait for each other: communication that no compute hides";
}

// The trace of one rank does not show who the others waited for. What its bytes cannot take even on a slow network is
// waiting, which no setting of the communication changes.
void settle_one_rank(const RankMeasure& m, Finding& f) {
  f.fix.insert(f.fix.begin(), "give the traces of all ranks: they show which rank the others wait for");
  if (2 * m.collectives.least_wait_ns <= m.collectives.exposed_ns) {
    f.evidence.push_back("one rank's trace cannot separate waiting for a late rank from transfer");
    return;
  }
  const int64_t wait_ns = m.collectives.least_wait_ns / std::max<int64_t>(m.steps, 1);
  f.verdict = fmt::format("Communication holds the job up: for {} of the time the GPU communicates and does nothing "
                          "else, and mostly waits for other ranks.",
                          share_text(f));
  f.what = fmt::format("collectives wait for other ranks: at least {} a step", duration_text(wait_ns));
  f.why += " Their bytes would take less than half of that even over a 100 Gbit/s network: the rest is waiting for ranks "
           "that arrive later.";
  f.cost_ns.reset(), f.cost_pct.reset();
}

// Waiting for whoever is late is no transfer, that for a rank that never comes is no communication, and the job's ranks
// together tell better how the work is shared.
bool settle_exposed_communication(const Rule& rule, const Evidence& evidence, const RankMeasure& m, Finding& f) {
  if (evidence.job == nullptr) {
    settle_one_rank(m, f);
    return true;
  }
  if (evidence.hang() != nullptr) return false;
  std::vector<Parallelism> ways;
  for (const Parallelism& way : evidence.job->parallelism)
    if (std::binary_search(way.ranks.begin(), way.ranks.end(), m.rank)) ways.push_back(way);
  if (!ways.empty()) f.fix = fixes(most_exposed(ways));
  const auto wait = evidence.job->wait_ns.find(m.rank);
  if (wait != evidence.job->wait_ns.end() && m.window_ns > 0) {
    f.value = *f.value - percent_of(wait->second, m.window_ns);
    f.severity = rule.severity_at(*f.value);
  }
  judge_bubble(rule, *evidence.job, bubble_pct(ways, m.rank), f);
  if (const std::vector<int>& missing = evidence.job->missing_ranks; !missing.empty())
    f.fix.insert(f.fix.begin(),
                 fmt::format("give the traces of all ranks: {} {} not here, and waiting for {} looks like this",
                             ranks_text(missing), missing.size() == 1 ? "is" : "are",
                             missing.size() == 1 ? "it" : "them"));
  return rule.beyond(*f.value, *f.threshold);
}

constexpr double kHurtsPct = 5;   // exposed communication: below it faster transfers gain nothing
constexpr int64_t kLargeMessage = 16 << 20;   // output.md: from 16 MiB on latency no longer tells

std::optional<Finding> check_low_bus_bandwidth(const Rule& rule, const Evidence& evidence) {
  if (evidence.job == nullptr) return std::nullopt;
  const double threshold = evidence.thresholds.of(rule);
  const Traffic* worst = nullptr;
  for (const Traffic& t : evidence.job->traffic) {
    // Of groups beyond one node link_pct() says nothing: the network sets the rate, which the table does not know.
    if (t.message_bytes.value_or(0) < kLargeMessage || !t.link_pct()) continue;
    if (worst == nullptr || *t.link_pct() < *worst->link_pct()) worst = &t;
  }
  if (worst == nullptr || !rule.beyond(*worst->link_pct(), threshold)) return std::nullopt;
  const double value = *worst->link_pct();
  Finding f = rule.finding(value, threshold);
  f.ranks = evidence.job->ranks;
  f.what = fmt::format("{} moves {:.0f} GB/s of the link's {:.0f}", worst->name, *worst->busbw_gbps, *worst->link_gbps);
  f.why = fmt::format("Bus bandwidth of large {} calls is {} of what {} can do.", worst->name, percent_text(value),
                      evidence.ranks.front().measure.device_name);
  f.fix = {"nvidia-smi topo -m: are all GPUs joined by NVLink, and does NCCL use it (NCCL_DEBUG=INFO)?",
           "unset NCCL_P2P_DISABLE, NCCL_SHM_DISABLE, NCCL_ALGO, NCCL_PROTO; check NCCL_P2P_LEVEL",
           "nvidia-smi nvlink -s: links that are down; container needs --ipc=host or a larger /dev/shm"};
  const auto exposed = [](const RankDiagnosis& r) { return r.measure.exposed_communication_pct; };
  const double most = exposed(*std::ranges::max_element(evidence.ranks, {}, exposed));
  if (most <= kHurtsPct) f.severity = Severity::kInfo;
  f.evidence = {fmt::format("{} calls of {:.1f} MiB in a group of {}", worst->whole_calls,
                            static_cast<double>(*worst->message_bytes) / 1048576, worst->group_size)};
  return f;
}

std::string call_text(const MissingCalls& hang) {
  const std::string which = hang.number >= 0 ? fmt::format(" {}", hang.number) : "";
  const std::string group = hang.process_group.empty() ? "" : " of group " + hang.process_group;
  return hang.name + which + group + (hang.step >= 0 ? fmt::format(", step {}", hang.step) : "");
}

std::optional<Finding> check_collective_hang(const Rule& rule, const Evidence& evidence) {
  const MissingCalls* hang = evidence.hang();
  const double threshold = evidence.thresholds.of(rule);
  if (hang == nullptr || !rule.beyond(static_cast<double>(hang->others), threshold)) return std::nullopt;
  Finding f = rule.finding(static_cast<double>(hang->others), threshold);
  for (const MissingCalls& m : evidence.job->missing) {
    if (!m.never_arrived()) continue;
    if (call_text(m) == call_text(*hang)) f.ranks.push_back(m.rank);
    else f.evidence.push_back(fmt::format("rank {} never arrives at {}", m.rank, call_text(m)));
  }
  std::sort(f.ranks.begin(), f.ranks.end());
  f.what = fmt::format("{} never {} at {}", ranks_text(f.ranks), f.ranks.size() == 1 ? "arrives" : "arrive",
                       call_text(*hang));
  f.names_ranks = true;
  f.why = hang->others == 1 ? "Another rank waits in it to the end of its trace."
                            : fmt::format("{} other ranks wait in it to the end of their traces.", hang->others);
  f.fix = {fmt::format("py-spy dump --pid PID   # where rank {} is instead", f.ranks.front()),
           "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1   # what each rank called last",
           "no collective in a branch that only some ranks take; as many batches on every rank: drop_last=True, "
           "torch.distributed.algorithms.Join"};
  return f;
}

}  // namespace

extern const Rule kExposedCommunication = {
    .id = "exposed-communication",
    .summary = "communication that no compute hides",
    .unit = "%",
    .threshold = 20,
    .grave = 40,
    .meaning =
        "The device runs collectives and nothing else. Either there is too little compute to hide them behind, or "
        "they start too late, or they are slow.",
    .computation =
        "Value: time in which communication kernels run and no compute does, as a share of the device's window, less "
        "waiting for whoever is late where all ranks are given. Cost: the trace is replayed with communication taking "
        "no time; at most the exposed time of the measured steps. Of a job, what its steps would take less, waiting "
        "of stages of a pipeline not gained; none where ranks or records are missing that others may have waited for.",
    .advice =
        {
            "DDP: bucket_cap_mb (25 by default): larger for fast links, smaller to start earlier",
            "DDP: gradient_as_bucket_view=True, static_graph=True; find_unused_parameters=False",
            "gradient accumulation with model.no_sync(): one all-reduce for several micro-batches",
            "bf16 or fp16 compression hooks; PowerSGD on slow links",
            "FSDP: backward_prefetch, forward_prefetch, limit_all_gathers; wrap whole blocks; hybrid sharding across "
            "nodes",
            "DeepSpeed: overlap_comm: true; reduce_bucket_size, allgather_bucket_size; ZeRO stage 1 or 2 instead of 3",
            "tensor parallelism within a node only; sequence parallelism; overlap with the products",
            "pipeline parallelism: more micro-batches, interleaved or zero-bubble schedules, balanced stages",
            "expert and embedding parallelism: overlap the exchange with local work; keep it within a node; bf16 or "
            "fp8",
            "larger batch a GPU: more compute for the same bytes",
            "network: NCCL_DEBUG=INFO shows rings and transports; check GPUDirect RDMA, NCCL_IB_HCA, topology, NVLink",
        },
    .by_framework =
        {
            {Framework::kVllm, "leave the custom all-reduce on (no --disable-custom-all-reduce); fewer "
             "tensor-parallel ranks where the model fits"},
            {Framework::kSglang, "leave the custom all-reduce on (no --disable-custom-all-reduce); --dp-size instead "
             "of --tp-size where the model fits"},
            {Framework::kDeepSpeed, "\"overlap_comm\": true, with larger reduce_bucket_size and allgather_bucket_size"},
            {Framework::kMegatron, "--overlap-grad-reduce --overlap-param-gather; --tp-comm-overlap with "
             "--sequence-parallel"},
            {Framework::kTrainer, "TrainingArguments(ddp_bucket_cap_mb=100, ddp_find_unused_parameters=False)", {}, true},
            {Framework::kLightning, "DDPStrategy(gradient_as_bucket_view=True, static_graph=True)", {}, true},
        },
    .verdict = "Communication holds the job up: for {} of the time the GPU communicates and does nothing else.",
    .seen = {Locator::At::kLongestKernel, "communication"},
    .rank = {.value = [](const Measured& m) {
               return only_if(m.device().communication_ns != 0, m.exposed_communication_pct());
             },
             .say = say_exposed_communication},
    .settle = settle_exposed_communication,
    .job_cost = {.change = "communication_free", .required = true},
    .checklist = {{.place = 4,
                   .id = "communication",
                   .question = "Is exposed communication under 20 % of the time?",
                   .label = "communication",
                   .value = [](const RankMeasure& m) -> std::optional<double> { return m.exposed_communication_pct; },
                   .limit = 20,
                   .of_several = true},
                  {.place = 8,
                   .id = "gradient-accumulation",
                   .question = "Are there more backward passes than optimizer steps?",
                   .label = "gradient accumulation",
                   .judge = [](const RankMeasure& m,
                               bool) { return m.accumulates ? Verdict::kPass : Verdict::kUnknown; }}},
};

extern const Rule kLowBusBandwidth = {
    .id = "low-bus-bandwidth",
    .summary = "large collectives move fewer bytes than the link could",
    .unit = "%",
    .threshold = 50,
    .below = true,
    .meaning =
        "Large messages should come near the rate of the link between the devices. Far below it, traffic takes a "
        "slower way (PCIe or host memory instead of NVLink), or a link is down.",
    .computation =
        "Value: median bus bandwidth (nccl-tests' definition) of the slowest kind of collective from 16 MiB, over the "
        "link's rate per direction. Transfer time runs from the last rank's arrival to the end, so all ranks of the "
        "group must be given; groups beyond one node are left alone. No cost: exposed communication has it.",
    .advice = {
        "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH shows rings and transports",
        "nvidia-smi topo -m and nvidia-smi nvlink -s show topology and links that are down",
        "no NCCL_P2P_DISABLE=1, NCCL_SHM_DISABLE=1, NCCL_NET=Socket left over in the environment",
        "containers: --ipc=host or --shm-size, all devices of the node visible, no ACS redirection on PCIe",
        "across nodes: NCCL_IB_HCA, GPUDirect RDMA (nvidia-peermem), one NIC a GPU, NCCL_CROSS_NIC",
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
        "A collective ends when all ranks of its group have come. A rank that left the loop, took another branch, "
        "waits for something else or died leaves the others in it until a timeout ends the job.",
    .computation =
        "Value: ranks that wait, to the end of their traces, in the first collective at which another rank of its "
        "group that is in hand never arrives. Needs the traces of several ranks. No cost is estimated.",
    .advice = {
        "py-spy dump --pid PID on the rank's host, or gdb -p PID: where it is instead",
        "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1: PyTorch's flight recorder names each rank's "
        "last call",
        "no collective in a branch that only some ranks take: if rank == 0, an exception caught on one rank, early "
        "stopping",
        "as many batches on every rank: drop_last=True, torch.distributed.algorithms.Join",
        "the end of the rank's log: out of memory, a dead data loader worker, Xid errors (profgpu doctor)",
    },
    .job = check_collective_hang,
};

}  // namespace profgpu
