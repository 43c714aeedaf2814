#include <fmt/format.h>

#include "analyse/collectives.h"
#include "diagnose/measure.h"

namespace profgpu {
namespace {

double waiting_pct(const Evidence& evidence, const Measured& m) {
  if (evidence.job == nullptr || evidence.job->stragglers.empty()) return 0;
  const auto it = evidence.job->wait_ns.find(m.rank());
  if (it == evidence.job->wait_ns.end() || m.device().span_ns == 0) return 0;
  return 100.0 * static_cast<double>(it->second) / static_cast<double>(m.device().span_ns);
}

// The advice is that of the kind of job that the collectives suggest.
std::vector<std::string> fixes(const std::vector<CollectiveRow>& rows) {
  int64_t reduce = 0, shard = 0, exchange = 0, pairs = 0;
  for (const CollectiveRow& r : rows) {
    if (r.name == "all_reduce") reduce += r.exposed_ns;
    if (r.name == "all_gather" || r.name == "reduce_scatter") shard += r.exposed_ns;
    if (r.name == "all_to_all") exchange += r.exposed_ns;
    if (r.name == "send_recv" || r.name == "send" || r.name == "recv") pairs += r.exposed_ns;
  }
  if (shard >= std::max({reduce, exchange, pairs}) && shard > 0)
    return {"FSDP: fully_shard(…, reshard_after_forward=False) or ShardingStrategy.SHARD_GRAD_OP where memory allows",
            "FSDP: forward_prefetch=True, backward_prefetch=BackwardPrefetch.BACKWARD_PRE, limit_all_gathers=True",
            "DeepSpeed: ZeRO stage 2 instead of 3 where memory allows; overlap_comm: true, larger reduce_bucket_size"};
  if (exchange >= std::max(reduce, pairs) && exchange > 0)
    return {"overlap the exchange with local work: split the batch in two and alternate (pipelined all-to-all)",
            "place experts or embedding shards so that most traffic stays within a node",
            "exchange in bf16 or fp8"};
  if (pairs > reduce)
    return {"pipeline parallelism: more micro-batches, interleaved schedule (1F1B), balanced stages",
            "keep pipeline neighbours on one node"};
  return {"DDP(…, bucket_cap_mb=100, gradient_as_bucket_view=True, static_graph=True)",
          "with model.no_sync(): for all micro-batches but the last (gradient accumulation)",
          "ddp_model.register_comm_hook(None, bf16_compress_hook)   # half the bytes"};
}

std::optional<Finding> check(const Rule& rule, const Evidence& evidence) {
  auto hit = fired(rule, evidence, {.critical = 40}, [&](const Measured& m) -> std::optional<double> {
    if (!m.has_device() || m.device().communication_ns == 0) return std::nullopt;
    return m.exposed_communication_pct() - waiting_pct(evidence, m);
  });
  if (!hit) return std::nullopt;
  Finding& f = hit->finding;
  const Measured& m = hit->worst;
  const auto& rows = m.facts().get<Collectives>().rows;
  f.what = "communication that no compute hides";
  f.why = fmt::format("On {} communication runs alone for {} of its span; {} of it overlaps with compute.",
                      m.device_label(), percent_text(m.exposed_communication_pct()),
                      percent_text(m.device().overlap_pct()));
  f.fix = fixes(rows);
  for (size_t i = 0; i < std::min<size_t>(rows.size(), 3); ++i)
    f.evidence.push_back(fmt::format("{} {}: {} calls, {} exposed", rows[i].name, rows[i].dtype, rows[i].calls,
                                     duration_text(static_cast<double>(rows[i].exposed_ns))));
  if (evidence.job == nullptr)
    f.evidence.push_back("one rank alone does not tell waiting for a late rank from transfer: give all ranks' traces");
  set_cost(f, m, m.replay().saved_by_communication());
  return f;
}

}  // namespace

extern const Rule kExposedCommunication;
const Rule kExposedCommunication = {
    "exposed-communication",
    "communication that no compute hides",
    "%",
    20,
    "The device runs collectives and nothing else. Either there is too little compute to hide them behind, or they start "
    "too late, or they are slow.",
    "Value: time in which communication kernels run and no compute does, as a share of the device's span, less waiting "
    "for stragglers where all ranks are given. Cost: the trace is replayed with communication taking no time; at most "
    "the exposed time of the measured steps.",
    {"DDP: bucket_cap_mb (25 by default): larger for fast links, smaller to start earlier",
     "DDP: gradient_as_bucket_view=True, static_graph=True; find_unused_parameters=False",
     "gradient accumulation with model.no_sync(): one all-reduce for several micro-batches",
     "bf16 or fp16 compression hooks; PowerSGD on slow links",
     "FSDP: backward_prefetch, forward_prefetch, limit_all_gathers; wrap whole blocks; hybrid sharding across nodes",
     "DeepSpeed: overlap_comm: true; reduce_bucket_size, allgather_bucket_size; ZeRO stage 1 or 2 instead of 3",
     "tensor parallelism within a node only; sequence parallelism halves what it sends",
     "larger batch a GPU: more compute for the same bytes",
     "network: NCCL_DEBUG=INFO shows rings and transports; check GPUDirect RDMA, NCCL_IB_HCA, topology, NVLink"},
    check};

}  // namespace profgpu
