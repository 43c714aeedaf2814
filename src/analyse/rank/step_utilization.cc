#include "analyse/rank/step_utilization.h"

#include "analyse/rank/devices.h"
#include "analyse/rank/roofline.h"
#include "analyse/rank/steps.h"
#include "analyse/rank/work.h"

namespace profgpu {

StepUtilization StepUtilization::compute(const Facts& facts) {
  StepUtilization out;
  const std::optional<DeviceLimits>& limits = facts.get<Limits>().device;
  const Devices& devices = facts.get<Devices>();
  const Steps& steps = facts.get<Steps>();
  if (!facts.get<Roofline>().mfu_pct || !limits || devices.busiest < 0) return out;
  const DeviceTime& device = devices.devices[static_cast<size_t>(devices.busiest)];
  const DeviceWork& work = facts.get<DeviceWork>();
  const RunLimits& of_run = facts.get<RunLimits>();
  std::vector<PeakTime> peak(steps.steps.size());
  StepFinder step_of(steps, StepFinder::By::kElapsed);
  for (size_t i = 0; i < work.runs.size(); ++i) {
    const WorkRun& run = work.runs[i];
    if (run.device_ns <= 0 || run.first < device.begin || device.end <= run.first) continue;
    const Step* step = step_of(facts.trace().activity.start_ns[run.first.value]);
    if (step == nullptr || of_run.impossible[i]) continue;
    peak[static_cast<size_t>(step - steps.steps.data())].add(*run.work, *limits, of_run.recomputed[i]);
  }
  for (size_t i = 0; i < peak.size(); ++i) {
    const auto wall_ns = static_cast<double>(steps.steps[i].elapsed.length());
    if (!peak[i].complete() || peak[i].all_ns <= 0 || wall_ns <= 0) continue;
    out.rows.push_back({i, 100 * peak[i].model_ns / wall_ns, 100 * peak[i].all_ns / wall_ns});
  }
  return out;
}

}  // namespace profgpu
