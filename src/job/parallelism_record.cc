// Ways to share the work as a report has them.
#include <fmt/format.h>

#include "base/text.h"
#include "job/parallelism.h"

namespace profgpu {
namespace {

using Op = CollectiveOp;

std::string reduction_words(const Parallelism& way) {
  if (way.gradients && way.gradients->backward_per_step == 0)
    return "data parallel: gradients all-reduced outside the backward pass";
  return "data parallel (DDP): gradients all-reduced in buckets";
}

std::string tensor_words(const Parallelism& way) {
  if (way.counts.of(Op::kReduceScatter).calls > 0)
    return "tensor parallel with sequence parallelism: activations all-gathered and reduce-scattered in every layer";
  return "tensor parallel: activations all-reduced in every layer";
}

std::string expert_words(const Parallelism& way) {
  const char* alike = way.named ? "" : "; sequence parallelism by all-to-all looks alike";
  return fmt::format("expert parallel: tokens exchanged all to all{}", alike);
}

std::string unknown_words(const Parallelism& way) {
  std::string names;
  for (int op = 0; op < kCollectiveOps; ++op)
    if (way.counts.of(static_cast<Op>(op)).calls > 0)
      append_listed(names, (static_cast<Op>(op) == Op::kUnknown ? "kernels that do not say what they do" : std::string(collective_op_name(static_cast<Op>(op)))));
  return "no pattern that is known: " + names;
}

Table collectives_table(const Parallelism& way) {
  Table table;
  table.columns = {"name", "forward_calls_per_step", "backward_calls_per_step", "other_calls_per_step",
                   "bytes_per_step"};
  for (int i = 0; i < kCollectiveOps; ++i) {
    const Op op = static_cast<Op>(i);
    const CallCount all = way.counts.of(op);
    if (all.calls == 0) continue;
    table.rows.push_back({collective_op_name(op), way.per_step(op, StepPart::kForward),
                          way.per_step(op, StepPart::kBackward), way.per_step(op, StepPart::kOther),
                          all.sized && way.rank_steps > 0 ? Value(all.bytes / way.rank_steps) : Value()});
  }
  return table;
}

void add_gradients(const GradientUse& g, Record& detail) {
  detail.add("buckets_per_step", g.per_step)
      .add("smallest_bucket_bytes", g.smallest_bytes)
      .add("median_bucket_bytes", g.median_bytes)
      .add("largest_bucket_bytes", g.largest_bytes)
      .add("first_bucket_delay_ns", g.first_delay_ns)
      .add("last_bucket_tail_ns", g.tail_ns)
      .add("micro_batches_per_step", g.micro_batches_per_step > 0 ? Value(g.micro_batches_per_step) : Value())
      .add("reduced_micro_batches_per_step", g.micro_batches_per_step > 0 ? Value(g.reduced_passes_per_step) : Value())
      .add("steps_without_reduction", g.steps_without);
}

void add_gathers(const GatherUse& g, Record& detail) {
  detail.add("gathers_per_step", g.per_step)
      .add("gathered_again_in_backward", g.backward_per_step > 0)
      .add("late_gathers_per_step", g.late_per_step)
      .add("late_gathers_ns_per_step", static_cast<int64_t>(g.late_ns_per_step));
}

void add_pipeline(const Pipeline& p, Record& detail) {
  Table stages;
  stages.columns = {"stage", "ranks", "bubble_ns_per_step", "bubble_pct", "peak_allocated_bytes"};
  for (const Stage& s : p.by_stage) {
    List ranks;
    for (const int rank : s.ranks) ranks.emplace_back(rank);
    stages.rows.push_back({s.stage, std::move(ranks), s.bubble_ns_per_step, s.bubble_pct, s.peak_allocated_bytes});
  }
  detail.add("stages", p.stages)
      .add("micro_batches_per_step", p.micro_batches)
      .add("bubble_pct", p.bubble_pct)
      .add("ideal_bubble_pct", p.ideal_bubble_pct)
      .add("by_stage", std::move(stages));
}

Record detail_of(const Parallelism& way) {
  Record detail;
  detail.add("told_by", way.named ? "names" : "pattern")
      .add("ranks", way.ranks.size())
      .add("hosts_per_group", way.hosts_per_group)
      .add("collectives", collectives_table(way));
  if (way.replicas) detail.add("replica_group_size", *way.replicas);
  if (way.gradients) add_gradients(*way.gradients, detail);
  if (way.gathers) add_gathers(*way.gathers, detail);
  if (way.pipeline) add_pipeline(*way.pipeline, detail);
  if (way.counts.of(Op::kAllToAll).calls > 0) detail.add("bytes_spread_pct", way.bytes_spread_pct);
  return detail;
}

}  // namespace

std::string parallelism_words(const Parallelism& way) {
  switch (way.kind) {
    case ParallelKind::kDdp: return reduction_words(way);
    case ParallelKind::kFsdp: return "FSDP: parameters all-gathered before use, gradients reduce-scattered";
    case ParallelKind::kFsdpOrZero2:
      return "gradients and optimizer sharded, parameters all-gathered once a step (FSDP that keeps them after "
             "forward, or ZeRO-2)";
    case ParallelKind::kFsdpOrZero3:
      return "parameters sharded: all-gathered in forward and backward, gradients reduce-scattered (FSDP or ZeRO-3)";
    case ParallelKind::kHsdp:
      return "hybrid FSDP: parameters sharded within a group, gradients all-reduced over its replicas";
    case ParallelKind::kZero1: return "ZeRO-1: optimizer sharded, parameters gathered after it";
    case ParallelKind::kZero1Or2:
      return "ZeRO-1 or ZeRO-2: gradients scattered to their owners, parameters gathered after the optimizer";
    case ParallelKind::kZero2:
      return "ZeRO-2: gradients scattered to their owners in every micro-batch, parameters gathered after the "
             "optimizer";
    case ParallelKind::kZero3:
      return "ZeRO-3: parameters all-gathered in forward and backward, gradients reduce-scattered";
    case ParallelKind::kTensor: return tensor_words(way);
    case ParallelKind::kPipeline: return "pipeline parallel: activations and their gradients sent between stages";
    case ParallelKind::kExpert: return expert_words(way);
    case ParallelKind::kContext: return "context parallel: parts of the sequence exchanged for attention";
    case ParallelKind::kEmbedding: return "embedding parallel: tables spread over ranks, their rows exchanged";
    case ParallelKind::kUnknown: break;
  }
  return unknown_words(way);
}

Table parallelism_table(const std::vector<Parallelism>& ways) {
  Table table;
  table.columns = {"kind", "words", "group_size", "groups", "calls_per_step", "bytes_per_step",
                   "communication_ns_per_step", "exposed_ns_per_step", "overlap_pct", "detail"};
  for (const Parallelism& way : ways) {
    const std::string alone = way.ranks.size() == 1 ? ", as this rank's calls suggest" : "";
    table.rows.push_back({parallel_kind_name(way.kind), parallelism_words(way) + alone,
                          way.group_size > 0 ? Value(way.group_size) : Value(), way.groups, way.calls_per_step,
                          way.bytes_per_step, way.communication_ns_per_step, way.exposed_ns_per_step, way.overlap_pct(),
                          detail_of(way)});
  }
  return table;
}

}  // namespace profgpu
