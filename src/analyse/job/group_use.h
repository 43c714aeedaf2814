// Collectives of each process group: which, when in the step, and how large.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyse/job/rank_digest.h"

namespace profgpu {

/// Part of the step that launched a call.
enum class StepPart : uint8_t { kForward, kBackward, kOther };
constexpr int kStepParts = 3;

/// Up to this size a message is a loss, a norm or a flag, and irrelevant for parallelism.
constexpr int64_t kSmallBytes = 1024;

struct CallCount {
  int64_t calls = 0, bytes = 0;
  int64_t largest = -1;       ///< bytes; -1: unknown
  bool sized = true;          ///< bytes of all calls are known

  void add(const CollectiveCall& call);
  void add(const CallCount& other);
};
/// By CollectiveOp, then StepPart.
struct CallCounts {
  std::array<std::array<CallCount, kStepParts>, kCollectiveOps> count{};

  [[nodiscard]] CallCount& at(CollectiveOp op, StepPart part) {
    return count[static_cast<size_t>(op)][static_cast<size_t>(part)];
  }
  [[nodiscard]] const CallCount& of(CollectiveOp op, StepPart part) const {
    return count[static_cast<size_t>(op)][static_cast<size_t>(part)];
  }
  [[nodiscard]] CallCount of(CollectiveOp op) const;
};

/// One group, over all ranks here and their measured steps.
struct GroupUse {
  std::string group, description, members;
  int64_t size = 0;           ///< 0: unknown
  CallCounts counts;
  bool deep_ep = false;       ///< DeepEP's kernels
  int64_t steps = 0;          ///< measured, over its ranks
  std::vector<int> ranks;     ///< with a trace here, ascending
};

/// All groups of the ranks, and the group of each call.
struct GroupUses {
  std::vector<GroupUse> groups;
  std::vector<std::vector<uint32_t>> group_of_call;   ///< by rank's index, then call
  JobLibraries libraries;     ///< of any rank
  bool of_host = false;       ///< all are calls of MPI that block a program without a device
  bool trains = false;        ///< a backward pass or an optimizer was seen
  bool phased = false;        ///< some calls are known to be in forward or backward
};
GroupUses group_uses(std::span<const RankDigest> ranks);

CollectiveOp op_of(const RankDigest& rank, size_t call);
StepPart step_part(const RankDigest& rank, size_t call);

/// Purpose of a process group, from its collectives.
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

/// Operations of a group that belong to one kind of parallelism.
struct GroupClaim {
  ParallelKind kind = ParallelKind::kUnknown;
  std::vector<CollectiveOp> ops;
  bool named = false;         ///< from names of groups, ranges or kernels; else from the pattern
};
/// Each of the group's operations is in exactly one claim. `ring`: its pairs send in a ring.
std::vector<GroupClaim> claims_of(const GroupUse& group, const GroupUses& all, bool ring);

}  // namespace profgpu
