#include <fmt/format.h>

#include "diagnose/measure.h"

namespace profgpu {
namespace {

std::optional<double> device_waits_value(const Measured& m) {
  return m.idle_pct(IdleCause::kDependency);
}

void say_device_waits(const Measured& m, Finding& f) {
  f.what = "launched work waits on the device for something else";
  f.why = fmt::format("{} idles {} of its span with work already queued: it waits for another stream's event, another "
                      "device or a host function.",
                      m.device_label(), percent_text(*f.value));
  f.fix = {"look for stream.wait_event / wait_stream on work that is not needed yet, and move the wait to its first use",
           "start the other stream's work earlier (prefetch the copy or the collective one layer ahead)"};
  if (const Gap* gap = longest_gap(m, IdleCause::kDependency))
    f.evidence.push_back(fmt::format("longest {} before {}", duration_text(static_cast<double>(gap->length())),
                                     shortened(m.trace().name(gap->after))));
  set_cost(f, m, m.saved_by_cause(IdleCause::kDependency));
}

}  // namespace

extern const Rule kDeviceWaits;
const Rule kDeviceWaits = {
    .id = "device-waits",
    .summary = "queued work waits for another stream, device or host function",
    .unit = "%",
    .threshold = 10,
    .meaning =
        "The host was in time, and yet the device idles: what was launched could not start because it depends on "
        "something unfinished elsewhere, such as an event of another stream, a peer device, or a callback on the "
        "host.",
    .computation =
        "Value: idle time of cause dependency as a share of the device's span. Cost: the trace is replayed with those "
        "waits taken out; at most that idle time. Activity that the profiler dropped looks the same: see the input's "
        "issues.",
    .advice = {
        "record the event right after the work that matters and wait for it right before its first use",
        "do not wait for the default stream: it orders itself with every blocking stream",
        "pipeline parallelism: more micro-batches shrink the bubbles; interleaved schedules",
        "offloading: prefetch parameters and states a layer ahead (DeepSpeed overlap_comm, FSDP "
        "forward_prefetch=True)",
        "no cudaLaunchHostFunc or stream callbacks in the step",
        "if the profiler dropped records, record a shorter window",
    },
    .verdict = [](const Finding& f, const Job*) {
      return fmt::format("Queued work waits on the GPU: {} of the time it idles for another stream, device or callback.",
                         share_text(f));
    },
    .seen = longest_gap_of(IdleCause::kDependency),
    .rank = {.value = device_waits_value, .say = say_device_waits},
    .job_cost = {.change = "dependency_free"},
};

}  // namespace profgpu
