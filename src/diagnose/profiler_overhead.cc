#include <fmt/format.h>

#include "diagnose/measure.h"

namespace profgpu {
namespace {

Intervals overhead(const Measured& m) {
  const Trace& trace = m.trace();
  Intervals all;
  for (uint32_t i = 0; i < trace.host.size(); ++i)
    if (trace.host.kind[i] == HostKind::kOverhead) all.push_back(trace.host.interval(HostId(i)));
  return intersect(merged(std::move(all)), m.measured_time());
}

std::optional<double> profiler_overhead_value(const Measured& m) {
  return m.wall_pct(total_length(overhead(m)));
}

void say_profiler_overhead(const Measured&, Finding& f) {
  f.what = fmt::format("the profiler itself takes {} of the time", percent_text(*f.value));
  f.why = "Buffer flushes and instrumentation are part of these steps; without the profiler they are shorter.";
  f.fix = {"record fewer steps: schedule(wait=5, warmup=3, active=3)",
           "leave out what is not needed: with_stack, record_shapes, profile_memory"};
}

}  // namespace

extern const Rule kProfilerOverhead;
const Rule kProfilerOverhead = {
    .id = "profiler-overhead",
    .summary = "the profiler itself takes much of the time",
    .unit = "%",
    .threshold = 5,
    .severity = Severity::kInfo,
    .meaning =
        "The profiler flushes its buffers and instruments calls while the steps run, so they look slower than they "
        "are.",
    .computation =
        "Value: union of the profiler's own overhead records over the measured steps' wall time. No cost: the job "
        "does not pay it when it is not recorded.",
    .advice = {
        "torch.profiler.schedule with a few active steps and warmup=3",
        "with_stack=False, record_shapes=False, profile_memory=False unless needed",
        "compare step times with and without the profiler before trusting small differences",
    },
    .rank = {.value = profiler_overhead_value, .say = say_profiler_overhead, .host_alone = true},
};

}  // namespace profgpu
