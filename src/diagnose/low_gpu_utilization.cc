#include <fmt/format.h>

#include "diagnose/measure.h"
#include "report/quantity.h"
#include "trace/health.h"

namespace profgpu {
namespace {

// Without a trace: how busy the driver says that the device was.
std::optional<double> low_gpu_utilization_samples(const DeviceTelemetry& d) {
  const SeriesSummary* s = d.find(Metric::kUtilization);
  return s ? s->mean : std::nullopt;
}

void say_low_gpu_utilization_samples(const DeviceTelemetry& d, Finding& f) {
  f.what = fmt::format("{} is busy {} of the time", d.label(), percent_text(*f.value));
  if (d.idle_gaps.regular)
    f.why = fmt::format("It idles in regular gaps of {}, one every {}: likely input or checkpoints.",
                        duration_text(static_cast<double>(d.idle_gaps.mean_ns)),
                        duration_text(static_cast<double>(d.idle_gaps.period_ns)));
  else if (d.idle_pct.value_or(0) > 10)
    f.why = fmt::format("It idles (under 5 %) for {} of the time.", percent_text(*d.idle_pct));
  else
    f.why = "It is never idle for long: small kernels with gaps between them, or waits within each step.";
  f.fix = {"record a window and see which: torch.profiler.profile(…).export_chrome_trace(\"trace.json\"), then profgpu "
           "analyze trace.json"};
}

std::optional<double> low_gpu_utilization_value(const Measured& m) {
  if (m.device().span_ns == 0) return std::nullopt;
  return m.utilization_pct();
}

void say_low_gpu_utilization(const Measured& m, Finding& f) {
  f.what = fmt::format("{} is busy {} of the time", m.device_label(), percent_text(*f.value));
  f.why = "Nothing runs on it for the rest.";
  f.fix = {"see the idle time by cause: profgpu analyze … --section idle"};
}

constexpr double kHeldBytes = 256.0 * (1 << 20);   // a bare context of CUDA is about as large

std::optional<Advice> idle_now(const Rule&, const DeviceNow& d) {
  const double held = d.largest ? static_cast<double>(d.largest->memory_bytes.value_or(0)) : 0;
  if (!d.busy_pct || *d.busy_pct >= kIdlePct.said || held < kHeldBytes) return std::nullopt;
  return Advice{kIdlePct.severity,
                fmt::format("idle for the last minute, while process {}{} holds {}", d.largest->pid,
                            d.user.empty() ? "" : " of " + d.user, format_bytes(held)),
                fmt::format("`profgpu attach {}` shows what it waits for; k ends it", d.largest->pid)};
}

}  // namespace

extern const Rule kLowGpuUtilization;
const Rule kLowGpuUtilization = {
    .id = "low-gpu-utilization",
    .summary = "the device is idle for a large part of the time",
    .unit = "%",
    .threshold = 80,
    .below = true,
    .grave = 50,
    .symptom = true,
    .meaning =
        "The device runs nothing for more than a fifth of the time. This is a symptom; another finding says what "
        "causes it. Busy does not mean efficient: a busy device may still run slow kernels.",
    .computation =
        "Value: length of the union of all activity over the span from the first to the last, per device; where there "
        "are only samples, the driver's utilization over the time. It has no cost of its own: the findings that "
        "explain the idle time have.",
    .advice = {
        "find the largest cause of idle time and follow its finding",
        "larger batches, if memory allows",
        "several small jobs on one device (MPS, MIG), if one cannot fill it",
    },
    .rank = {.value = low_gpu_utilization_value, .say = say_low_gpu_utilization},
    .samples = {.value = low_gpu_utilization_samples, .say = say_low_gpu_utilization_samples, .without_trace = true},
    .checklist = {{.place = 1,
                   .id = "gpu-utilization",
                   .question = "Is the GPU busy over 80 % of the time?",
                   .label = "GPU busy",
                   .value = [](const RankMeasure& m) -> std::optional<double> { return m.least_utilization_pct; },
                   .limit = 80,
                   .above = true}},
    .now = idle_now,
};

}  // namespace profgpu
