// What a process group is for, judged by which collectives run over it, when in the step, and how large.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "job/group_use.h"

namespace profgpu {

enum class ParallelKind : uint8_t {
  kDdp,
  kFsdp,
  kFsdpOrZero2,   ///< parameters gathered once a step, in forward
  kFsdpOrZero3,   ///< parameters gathered in forward and backward
  kHsdp,          ///< sharded within a group, gradients reduced again over replicas
  kZero1,
  kZero1Or2,      ///< gradients scattered, parameters gathered around the optimizer
  kZero2,
  kZero3,
  kTensor,
  kPipeline,
  kExpert,
  kContext,
  kEmbedding,     ///< tables of embeddings spread over ranks, as in recommendation models
  kUnknown
};
std::string_view parallel_kind_name(ParallelKind kind);

/// Operations of a group that together are one way to share the work.
struct GroupClaim {
  ParallelKind kind = ParallelKind::kUnknown;
  std::vector<CollectiveOp> ops;
  bool named = false;         ///< names of groups, ranges or kernels say it; else the pattern alone
};
/// Every operation that the group has is in exactly one claim. `ring`: its pairs send one way round.
std::vector<GroupClaim> claims_of(const GroupUse& group, const GroupUses& all, bool ring);

}  // namespace profgpu
