#include <fmt/format.h>

#include <utility>

#include "diagnose/measure.h"

namespace profgpu {
namespace {

struct Copies {
  std::vector<bool> which;   // by ActivityId
  Intervals time;            // the copies and the host's waits for them, in measured steps
  Intervals on_device;
  int64_t count = 0, bytes = 0;
};

// A call that waited for work queued before its copy did not wait for the copy until that was done.
Copies pageable(const Measured& m) {
  const Trace& trace = m.trace();
  Copies c;
  c.which.resize(trace.activity.size());
  std::vector<int64_t> stream_end(trace.queues.size(), INT64_MIN);
  for (uint32_t i = 0; i < trace.activity.size(); ++i) {
    const ActivityId id(i);
    const int64_t ready = std::exchange(stream_end[trace.activity.queue[i]], trace.activity.end_ns(id));
    if (trace.activity.kind[i] != ActivityKind::kMemcpy || trace.name(id).find("Pageable") == std::string_view::npos ||
        !m.in_measured_step(trace.activity.start_ns[i]))
      continue;
    c.which[i] = true;
    ++c.count;
    if (trace.activity.args[i].valid())
      c.bytes += std::max<int64_t>(0, trace.activity_args[trace.activity.args[i].value].bytes);
    c.on_device.push_back(trace.activity.interval(id));
    if (const HostId call = trace.activity.launch[i]; call.valid())
      c.time.push_back({std::max(trace.host.start_ns[call.value], ready), trace.host.end_ns(call)});
  }
  c.on_device = merged(std::move(c.on_device));
  c.time.insert(c.time.end(), c.on_device.begin(), c.on_device.end());
  c.time = intersect(merged(std::move(c.time)), m.measured_time());
  return c;
}

std::optional<double> pageable_copies_value(const Measured& m) {
  return m.wall_pct(total_length(pageable(m).time));
}

void say_pageable_copies(const Measured& m, Finding& f) {
  const Copies copies = pageable(m);
  f.what = "copies go through pageable memory, and the host waits for them";
  f.why = fmt::format("{} copies take {} of the steps. Pageable memory is staged, cannot overlap, and blocks the host.",
                      copies.count, percent_text(*f.value));
  f.fix = {"DataLoader(…, pin_memory=True) and batch.to(device, non_blocking=True)",
           "tensor.pin_memory() once for buffers that are copied again and again"};
  f.evidence.push_back(fmt::format("{} copies, {:.1f} MiB in all", copies.count,
                                   static_cast<double>(copies.bytes) / 1048576));
  // At most the time in which the copies alone kept the device busy: idle time has other findings.
  const DeviceTime& d = m.device();
  const Intervals exposed = intersect(subtract(copies.on_device, unite(d.compute, d.communication)), m.measured_time());
  Removal removal;
  removal.activity = copies.which;
  set_cost(f, m, std::min(total_length(exposed), m.replay().saved_by(removal)));
}

}  // namespace

extern const Rule kPageableCopies;
const Rule kPageableCopies = {
    .id = "pageable-copies",
    .summary = "copies from or to pageable memory",
    .unit = "%",
    .threshold = 5,
    .meaning =
        "A copy between the device and ordinary (pageable) host memory goes through a staging buffer: half the speed "
        "or less, no overlap with compute, and the call blocks even when it is asynchronous by name.",
    .computation =
        "Value: union of such copies and of the host calls that made them (from when the copy could start), as a "
        "share of the measured steps' wall time. Cost: the trace is replayed with those copies taking no time; at "
        "most the time they ran alone on the device.",
    .advice = {
        "DataLoader(…, pin_memory=True); batch.to(device, non_blocking=True)",
        "custom batch types: define pin_memory() on the class, or the loader leaves them pageable",
        "keep results on the device; copy them back in one piece, into a pinned buffer",
        "prefetch the next batch on a side stream while this one computes",
    },
    .verdict = [](const Finding& f, const Job*) {
      return fmt::format("Copies through pageable memory take {} of the time.", share_text(f));
    },
    .seen = {Locator::At::kLongestKernel, "Pageable"},
    .rank = {.value = pageable_copies_value, .say = say_pageable_copies},
    .job_cost = {.change = "copies_free"},
};

}  // namespace profgpu
