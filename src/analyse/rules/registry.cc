#include "analyse/rules/rule.h"

namespace profgpu {

extern const Rule kLowGpuUtilization, kDataLoadingBound, kHostBoundLaunches, kDeviceWaits, kExcessiveSynchronization,
    kExposedCommunication, kLowBusBandwidth, kCollectiveHang, kStragglerRank, kStepTimeVariance, kShortKernels,
    kPageableCopies, kFullPrecisionGemm, kUnfusedOptimizer, kAllocatorChurn, kMemoryGrowth, kMemoryNearCapacity,
    kMemoryFragmentation, kCheckpointStall, kDominantKernel, kThermalThrottle, kPowerCap, kProfilerOverhead, kFirstUse,
    kUntracedWork, kGraphCapture, kFusableElementwise, kUnfusedAttention, kSmallBatch, kExposedCopies,
    kLateCopy, kRedundantSyncCopies, kLayoutCopies, kMisalignedGemm, kGraphBreaks, kRecompiles, kEagerInference,
    kPythonGc, kRunFailure, kLossNotFinite, kSkippedSteps, kPipelineBubble, kOptimizerOffload, kCacheFull,
    kRejectedDrafts, kSlowTransport, kSlowPairs, kSlowRank, kNcclWarnings,
    kWrongResults, kMemoryRanOut, kPeakSpike, kRetainedGraph, kReferenceCycle, kDuplicateWeights, kOversizedWorkspace,
    kHostPinnedGrowth,
    kSlowProducts, kMemoryBound, kLowMfu, kMpiImbalance, kHostCode,
    kTimeBetweenSteps, kMpiWait, kUnifiedMemory;

const std::vector<const Rule*>& rules() {
  static const std::vector<const Rule*> all = {
      &kLowGpuUtilization, &kDataLoadingBound, &kHostBoundLaunches, &kDeviceWaits, &kExcessiveSynchronization,
      &kExposedCommunication, &kLowBusBandwidth, &kCollectiveHang, &kStragglerRank, &kStepTimeVariance,
      &kShortKernels, &kPageableCopies, &kFullPrecisionGemm, &kUnfusedOptimizer, &kAllocatorChurn, &kMemoryGrowth,
      &kMemoryNearCapacity, &kMemoryFragmentation, &kCheckpointStall, &kDominantKernel, &kThermalThrottle, &kPowerCap,
      &kProfilerOverhead, &kFirstUse, &kUntracedWork, &kGraphCapture, &kFusableElementwise, &kUnfusedAttention,
      &kSmallBatch, &kExposedCopies, &kLateCopy, &kRedundantSyncCopies, &kLayoutCopies, &kMisalignedGemm,
      &profgpu::kGraphBreaks,   // Framework has a kGraphBreaks, too
      &kRecompiles, &kEagerInference, &kPythonGc, &kRunFailure,
      &kLossNotFinite, &kSkippedSteps, &kPipelineBubble, &kOptimizerOffload, &kCacheFull, &kRejectedDrafts,
      &kSlowTransport, &kSlowPairs, &kSlowRank,
      &kNcclWarnings,
      &kWrongResults, &kMemoryRanOut,
      &kPeakSpike, &kRetainedGraph, &kReferenceCycle, &kDuplicateWeights, &kOversizedWorkspace, &kHostPinnedGrowth,
      &kSlowProducts, &kMemoryBound, &kLowMfu, &kMpiImbalance,
      &kHostCode, &kTimeBetweenSteps, &kMpiWait, &kUnifiedMemory};
  return all;
}

const Rule* find_rule(std::string_view id) {
  const auto* found = first_where(rules(), [&](const Rule* r) { return r->id == id; });
  return found != nullptr ? *found : nullptr;
}

}  // namespace profgpu
