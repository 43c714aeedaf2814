#include "analyse/rank/work_per_step.h"

#include "analyse/rank/devices.h"
#include "analyse/rank/roofline.h"
#include "analyse/rank/step_load.h"
#include "analyse/rank/steps.h"

namespace profgpu {
namespace {

struct Sums {
  double flops = 0, model_flops = 0, bytes = 0;
  int64_t all_ns = 0, flops_ns = 0, bytes_ns = 0;
};

// A run's work belongs to its kernels by their durations.
Sums sums_of(const Facts& facts, const DeviceTime& device) {
  const Trace& trace = facts.trace();
  const DeviceWork& work = facts.get<DeviceWork>();
  const std::vector<bool>& recomputed = facts.get<RunLimits>().recomputed;
  const std::vector<WorkKind>& kind = facts.get<Devices>().kind;
  StepFinder step_of(facts.get<Steps>(), StepFinder::By::kElapsed);
  Sums sums;
  for (ActivityId a = device.begin; a < device.end; ++a) {
    if (kind[a.value] != WorkKind::kCompute || !step_of.measured(trace.activity.start_ns[a.value])) continue;
    const int64_t ns = trace.activity.duration_ns[a.value];
    sums.all_ns += ns;
    const WorkRun* const run = work.run(a);
    if (run == nullptr || run->device_ns <= 0) continue;
    const double part = static_cast<double>(ns) / static_cast<double>(run->device_ns);
    if (const int64_t flops = run->work->needed_flops(); flops >= 0) {
      sums.flops_ns += ns, sums.flops += part * static_cast<double>(flops);
      if (!recomputed[work.run_of[a.value]]) sums.model_flops += part * static_cast<double>(flops);
    }
    if (run->work->bytes >= 0) sums.bytes_ns += ns, sums.bytes += part * static_cast<double>(run->work->bytes);
  }
  return sums;
}

std::optional<double> work_per(const std::optional<double>& work, const std::optional<double>& amount) {
  return work && amount && *amount > 0 ? std::optional(*work / *amount) : std::nullopt;
}

}  // namespace

WorkPerStep WorkPerStep::compute(const Facts& facts) {
  WorkPerStep w;
  const Devices& devices = facts.get<Devices>();
  const auto steps = static_cast<double>(facts.get<Steps>().measured().size());
  if (devices.busiest < 0 || steps == 0) return w;
  const Sums sums = sums_of(facts, devices.devices[static_cast<size_t>(devices.busiest)]);
  if (sums.all_ns == 0) return w;
  w.flops_known_pct = percent_of(sums.flops_ns, sums.all_ns);
  w.bytes_known_pct = percent_of(sums.bytes_ns, sums.all_ns);
  if (w.flops_known_pct >= kMinKnownPct) w.flops = sums.flops / steps, w.model_flops = sums.model_flops / steps;
  w.flops_is_lower_bound = facts.get<Roofline>().mfu_is_lower_bound();
  if (w.bytes_known_pct >= kMinKnownPct) w.bytes = sums.bytes / steps;
  w.bytes_is_lower_bound = 100 - w.bytes_known_pct > kCountedPct;
  const StepLoad& load = facts.get<StepLoad>();
  w.flops_per_token = work_per(w.flops, load.tokens), w.bytes_per_token = work_per(w.bytes, load.tokens);
  w.flops_per_sample = work_per(w.flops, load.samples), w.bytes_per_sample = work_per(w.bytes, load.samples);
  return w;
}

}  // namespace profgpu
