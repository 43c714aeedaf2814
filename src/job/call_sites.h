// What the program's own ranges say of a rank's collectives: what was called, for whom, and when gradients were made.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "analyse/facts.h"

namespace profgpu {

enum class CollectiveOp : uint8_t {
  kUnknown, kAllReduce, kAllGather, kReduceScatter, kAllToAll, kBroadcast, kReduce, kSend, kRecv, kSendRecv
};
constexpr int kCollectiveOps = 10;
/// nccl-tests' term; "other" for kUnknown.
std::string_view collective_op_name(CollectiveOp op);

struct CallSite {
  CollectiveOp op = CollectiveOp::kUnknown;
  bool gradient_hook = false;   ///< launched where autograd hands over a parameter's gradient
  /// Of a bare send or receive, as its range has them ("nccl:send 0->1"): places in a group that nobody names; -1: unknown.
  int32_t own = -1, peer = -1;
};

/// Libraries that show in the names of ranges, ops or Python frames.
struct JobLibraries {
  bool ddp = false, fsdp = false, deepspeed = false, megatron = false, torchrec = false;
};

struct CallSites {
  std::vector<CallSite> calls;       ///< of CollectiveCalls::calls, one for one
  std::vector<Interval> backward;    ///< backward passes, one a micro-batch, in order, on the clock of the calls
  JobLibraries libraries;

  static CallSites compute(const Facts& facts);
};

}  // namespace profgpu
