#include "analyse/analysis.h"

namespace profgpu {

extern const Analysis kDevicesSection, kStepsSection, kPhasesSection, kAverageStepSection, kIdleSection,
    kKernelsSection, kOpsSection, kLaunchSection, kCollectivesSection, kMemorySection, kMeasuredSection,
    kThreadsSection;

const std::vector<const Analysis*>& analyses() {
  static const std::vector<const Analysis*> all = {
      &kDevicesSection, &kStepsSection, &kPhasesSection, &kAverageStepSection, &kIdleSection,
      &kKernelsSection, &kOpsSection,   &kLaunchSection, &kCollectivesSection, &kMemorySection, &kMeasuredSection,
      &kThreadsSection};
  return all;
}

}  // namespace profgpu
