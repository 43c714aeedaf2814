#include <algorithm>

#include "analyse/rules/rule.h"

namespace profgpu {

extern const Rule kLowGpuUtilization, kDataLoadingBound, kHostBoundLaunches, kDeviceWaits, kExcessiveSynchronization,
    kExposedCommunication, kLowBusBandwidth, kCollectiveHang, kStragglerRank, kStepTimeVariance, kShortKernels,
    kPageableCopies, kFullPrecisionGemm, kUnfusedOptimizer, kAllocatorChurn, kMemoryGrowth, kMemoryNearCapacity,
    kMemoryFragmentation, kCheckpointStall, kDominantKernel, kThermalThrottle, kPowerCap, kProfilerOverhead, kFirstUse,
    kUntracedWork, kGraphCapture, kFusableElementwise, kUnfusedAttention, kSmallBatch;

const std::vector<const Rule*>& rules() {
  static const std::vector<const Rule*> all = {
      &kLowGpuUtilization, &kDataLoadingBound,   &kHostBoundLaunches,   &kDeviceWaits,     &kExcessiveSynchronization,
      &kExposedCommunication, &kLowBusBandwidth, &kCollectiveHang,      &kStragglerRank,   &kStepTimeVariance,
      &kShortKernels,      &kPageableCopies,     &kFullPrecisionGemm,   &kUnfusedOptimizer, &kAllocatorChurn,
      &kMemoryGrowth,      &kMemoryNearCapacity, &kMemoryFragmentation, &kCheckpointStall, &kDominantKernel,
      &kThermalThrottle,   &kPowerCap,           &kProfilerOverhead,    &kFirstUse,        &kUntracedWork,
      &kGraphCapture,      &kFusableElementwise, &kUnfusedAttention,    &kSmallBatch};
  return all;
}

const Rule* find_rule(std::string_view id) {
  const auto& all = rules();
  const auto it = std::find_if(all.begin(), all.end(), [&](const Rule* r) { return r->id == id; });
  return it == all.end() ? nullptr : *it;
}

}  // namespace profgpu
