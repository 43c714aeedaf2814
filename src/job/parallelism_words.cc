// Ways to share the work as sentences.
#include <fmt/format.h>

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
      names += (names.empty() ? "" : ", ") + (static_cast<Op>(op) == Op::kUnknown ? "kernels that do not say what they do" : std::string(collective_op_name(static_cast<Op>(op))));
  return "no pattern that is known: " + names;
}

std::string kind_words(const Parallelism& way) {
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

}  // namespace

std::string Parallelism::words() const {
  return kind_words(*this) + (ranks.size() == 1 ? ", as this rank's calls suggest" : "");
}

}  // namespace profgpu
