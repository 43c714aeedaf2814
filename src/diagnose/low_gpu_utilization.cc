#include <fmt/format.h>

#include "diagnose/device_measure.h"

namespace profgpu {
namespace {

// Without a trace: how busy the driver says that the device was.
std::optional<Finding> check_low_gpu_utilization_samples(const Rule& rule, const Evidence& evidence) {
  if (evidence.has_device_activity()) return std::nullopt;
  auto hit = fired_on_device(rule, evidence, {.critical = 50}, [](const DeviceTelemetry& d) {
    const SeriesSummary* s = d.find(Metric::kUtilization);
    return s ? s->mean : std::nullopt;
  });
  if (!hit) return std::nullopt;
  Finding& f = hit->finding;
  const DeviceTelemetry& d = *hit->worst;
  f.what = fmt::format("{} is busy {} of the time", d.label(), percent_text(*f.value));
  if (d.idle_gaps.regular)
    f.why = fmt::format("It idles in regular gaps of {}, one every {}: likely input or checkpoints.",
                        duration_text(static_cast<double>(d.idle_gaps.mean_ns)),
                        duration_text(static_cast<double>(d.idle_gaps.period_ns)));
  else if (d.idle_pct.value_or(0) > 10)
    f.why = fmt::format("It idles (under 5 %) for {} of the time.", percent_text(*d.idle_pct));
  else
    f.why = "It is never idle for long: small kernels with gaps between them, or waits within each step.";
  f.fix = {"record a window and see which: torch.profiler.profile(…).export_chrome_trace(\"trace.json\"), then profgpu analyze trace.json"};
  return f;
}

std::optional<Finding> check_low_gpu_utilization(const Rule& rule, const RankEvidence& evidence) {
  auto hit = fired(rule, evidence, {.critical = 50}, [](const Measured& m) -> std::optional<double> {
    if (!m.has_device() || m.device().span_ns == 0) return std::nullopt;
    return m.utilization_pct();
  });
  if (!hit) return std::nullopt;
  Finding& f = hit->finding;
  const Measured& m = hit->worst;
  f.what = fmt::format("{} is busy {} of the time", m.device_label(), percent_text(*f.value));
  f.why = "Nothing runs on it for the rest.";
  f.fix = {"see the idle time by cause: profgpu analyze … --section idle"};
  return f;
}

}  // namespace

extern const Rule kLowGpuUtilization;
const Rule kLowGpuUtilization = {
    "low-gpu-utilization",
    "the device is idle for a large part of the time",
    "%",
    80,
    "The device runs nothing for more than a fifth of the time. This is a symptom; another finding says what causes it. "
    "Busy does not mean efficient: a busy device may still run slow kernels.",
    "Value: length of the union of all activity over the span from the first to the last, per device; where there are only samples, the driver's utilization over the time. It has no cost of "
    "its own: the findings that explain the idle time have.",
    {"find the largest cause of idle time and follow its finding",
     "larger batches, if memory allows",
     "several small jobs on one device (MPS, MIG), if one cannot fill it"},
    {.rank = check_low_gpu_utilization, .whole = check_low_gpu_utilization_samples, .below = true}};

}  // namespace profgpu
