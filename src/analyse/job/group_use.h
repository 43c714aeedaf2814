// Which collectives run over a process group, when in the step, and how large.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyse/job/rank_digest.h"

namespace profgpu {

/// Part of a step that launched a call.
enum class StepPart : uint8_t { kForward, kBackward, kOther };
constexpr int kStepParts = 3;

/// Up to this a message is a loss, a norm or a flag, and tells nothing of how work is shared.
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

/// One group, over all ranks in hand and their measured steps.
struct GroupUse {
  std::string group, description, members;
  int64_t size = 0;           ///< 0: unknown
  CallCounts counts;
  bool deep_ep = false;       ///< DeepEP's kernels
  int64_t steps = 0;          ///< measured, of its ranks together
  std::vector<int> ranks;     ///< in hand, ascending
};

/// All groups of the ranks, and which group each call is of.
struct GroupUses {
  std::vector<GroupUse> groups;
  std::vector<std::vector<uint32_t>> group_of_call;   ///< by rank's place, then call
  JobLibraries libraries;     ///< of any rank
  bool trains = false;        ///< a backward pass or an optimizer was seen
  bool phased = false;        ///< forward or backward is known of some calls
};
GroupUses group_uses(std::span<const RankDigest> ranks);

CollectiveOp op_of(const RankDigest& rank, size_t call);
StepPart step_part(const RankDigest& rank, size_t call);

// What a process group is for, judged by which collectives run over it, when in the step, and how large.

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

/// Operations of a group that together are one way to share the work.
struct GroupClaim {
  ParallelKind kind = ParallelKind::kUnknown;
  std::vector<CollectiveOp> ops;
  bool named = false;         ///< names of groups, ranges or kernels say it; else the pattern alone
};
/// Every operation that the group has is in exactly one claim. `ring`: its pairs send one way round.
std::vector<GroupClaim> claims_of(const GroupUse& group, const GroupUses& all, bool ring);

}  // namespace profgpu
