#include <fmt/format.h>

#include "diagnose/measure.h"

namespace profgpu {
namespace {

std::optional<Finding> check(const Rule& rule, const Evidence& evidence) {
  auto hit = fired(rule, evidence, {.critical = 50, .below = true}, [](const Measured& m) -> std::optional<double> {
    if (!m.has_device()) return std::nullopt;
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
    "Value: length of the union of all activity over the span from the first to the last, per device. It has no cost of "
    "its own: the findings that explain the idle time have.",
    {"find the largest cause of idle time and follow its finding",
     "larger batches, if memory allows",
     "several small jobs on one device (MPS, MIG), if one cannot fill it"},
    check};

}  // namespace profgpu
