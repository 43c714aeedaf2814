#include "trace/import/log/log_family.h"

namespace profgpu {

extern const LogFamily kMegatron, kTorchTitan, kDeepSpeed, kLoop, kNemo, kMaxText, kHuggingFace, kLightning, kMlperf,
    kVision, kOpenMmLab, kPaddle, kFairseq, kVerl, kKeras, kMemoryLines, kJobSetup, kDeepSpeedProfile, kStalls, kRunEnd,
    kNcclTests, kNcclDebug, kServing, kMetricBlocks, kTorchtune, kTensorRtLlm, kDeepSpeedChat, kMetricRows, kBars,
    kCollectiveStates, kNvbandwidth,
    kReinforcement, kMindSpore, kLeRobot, kCountedSteps, kEspnet, kRunMarks;

const std::vector<const LogFamily*>& log_families() {
  static const std::vector<const LogFamily*> all = {
      &kRunMarks,   // before those that ask whether a run begins
      &kMegatron,    &kTorchTitan,   &kDeepSpeed,   &kLoop,     &kNemo,        &kMaxText,  &kHuggingFace,
      &kLightning,   &kMlperf,       &kVision,      &kOpenMmLab, &kPaddle,     &kFairseq,  &kVerl,
      &kReinforcement, &kMindSpore,  &kLeRobot,     &kCountedSteps,   &kEspnet,
      &kKeras,       &kTorchtune,    &kMetricBlocks, &kTensorRtLlm, &kDeepSpeedChat,
      &kMetricRows, &kBars,          &kServing, &kMemoryLines, &kJobSetup,
      &kDeepSpeedProfile, &kStalls,  &kCollectiveStates, &kRunEnd,  &kNcclTests, &kNcclDebug,
      &kNvbandwidth};
  return all;
}

}  // namespace profgpu
