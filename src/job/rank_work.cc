#include "job/rank_work.h"

#include <algorithm>

#include "analyse/devices.h"
#include "analyse/phases.h"
#include "analyse/steps.h"

namespace profgpu {
namespace {

void add_idle(const DeviceIdle& idle, const std::vector<Step>& steps, std::vector<StepWork>& out) {
  size_t first = 0;
  for (const Gap& gap : idle.gaps) {
    while (first < steps.size() && steps[first].interval().end <= gap.start_ns) ++first;
    for (size_t i = first; i < steps.size() && steps[i].start_ns < gap.end_ns; ++i) {
      const int64_t part = std::min(gap.end_ns, steps[i].interval().end) - std::max(gap.start_ns, steps[i].start_ns);
      if (part > 0) out[i].idle_ns[static_cast<size_t>(gap.cause)] += part;
    }
  }
}

}  // namespace

RankWork RankWork::compute(const Facts& facts) {
  const std::vector<Step>& steps = facts.get<Steps>().steps;
  RankWork work;
  work.steps.resize(steps.size());
  for (const PhaseSegment& s : facts.get<Phases>().segments)
    work.steps[s.step].phase_ns[static_cast<size_t>(s.phase)] += s.end_ns - s.start_ns;
  const Devices& devices = facts.get<Devices>();
  if (devices.busiest < 0) return work;
  const auto busiest = static_cast<size_t>(devices.busiest);
  add_idle(facts.get<Idle>().devices[busiest], steps, work.steps);
  for (size_t i = 0; i < steps.size(); ++i) {
    const DeviceTime& device = devices.devices[busiest];
    work.steps[i].compute_ns = total_length(clipped(device.compute, steps[i].interval()));
    work.steps[i].exposed_communication_ns = total_length(clipped(device.exposed_communication, steps[i].interval()));
  }
  return work;
}

}  // namespace profgpu
