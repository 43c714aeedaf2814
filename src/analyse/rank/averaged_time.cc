#include "analyse/rank/averaged_time.h"

#include <algorithm>
#include <map>

#include "analyse/rank/devices.h"
#include "analyse/rank/steps.h"

namespace profgpu {
namespace {

// By when it was launched: what a step queues may run long after it.
bool much_work_outside(const Trace& trace, const DeviceTime& device, const Steps& steps) {
  constexpr int64_t kGoodPart = 4;   // a quarter
  Intervals inside;
  for (const Step& s : steps.steps) inside.push_back(s.interval());
  inside = merged(std::move(inside));
  int64_t outside_ns = 0, all_ns = 0;
  for (uint32_t i = device.begin.value; i < device.end.value; ++i) {
    const HostId launch = trace.activity.launch[i];
    const int64_t asked_ns = launch.valid() ? trace.host.start_ns[launch.value] : trace.activity.start_ns[i];
    all_ns += trace.activity.duration_ns[i];
    if (!contains(inside, asked_ns)) outside_ns += trace.activity.duration_ns[i];
  }
  return kGoodPart * outside_ns > all_ns;
}

Intervals between_steps(const Trace& trace, const Steps& steps) {
  Intervals between;
  for (size_t i = 1; i < steps.steps.size(); ++i) {
    const Interval pause{steps.steps[i - 1].elapsed.end, steps.steps[i].elapsed.start};
    const bool one_window =
        profiler_window(trace, steps.steps[i - 1].start_ns) == profiler_window(trace, steps.steps[i].start_ns);
    if (pause.end > pause.start && one_window) append(between, pause);
  }
  return between;
}

// What a loop does between its steps now and then is no part of a step.
Intervals find_pauses(const Trace& trace, const Steps& steps) {
  constexpr int64_t kSmallPart = 10;   // a tenth
  const bool serves =
      !steps.of_engine.empty() ||
      std::ranges::any_of(steps.steps, [](const Step& s) { return is_served(s.batch.kind); });
  if (!steps.annotated || serves || !trace.log_steps.empty()) return {};
  Intervals pauses = between_steps(trace, steps);
  Intervals elapsed;
  for (const Step& s : steps.steps) elapsed.push_back(s.elapsed);
  const int64_t paused_ns = total_length(pauses), all_ns = paused_ns + total_length(merged(std::move(elapsed)));
  if (paused_ns < all_ns / kSmallPart) pauses.clear();
  return pauses;
}

// Whether a good part of the device's window lies before the first or behind the last step, as where a program starts
// up, or cleans up, with a few kernels.
bool much_time_outside(const Trace& trace, const DeviceTime& device, const Steps& steps) {
  constexpr int64_t kGoodPart = 4;   // a quarter
  if (!steps.annotated || device.spans.empty()) return false;
  std::map<size_t, Interval> hulls;   // by profiler window
  for (const Step& s : steps.steps) {
    const auto [hull_of, first] = hulls.try_emplace(profiler_window(trace, s.start_ns), s.elapsed);
    if (!first) hull_of->second = hull(hull_of->second, s.elapsed);
  }
  Intervals of_steps;
  for (const auto& [window, all] : hulls) of_steps.push_back(all);
  const int64_t outside_ns = total_length(subtract(device.spans, merged(std::move(of_steps))));
  return kGoodPart * outside_ns > total_length(device.spans);
}

}  // namespace

AveragedTime AveragedTime::compute(const Facts& facts) {
  const Steps& steps = facts.get<Steps>();
  const Devices& devices = facts.get<Devices>();
  AveragedTime out;
  out.work_outside = steps.annotated && devices.busiest >= 0 &&
                     much_work_outside(facts.trace(), devices.devices[devices.busiest], steps);
  const Intervals measured = steps.measured_time();
  out.left_out = out.work_outside ? subtract({{INT64_MIN, INT64_MAX}}, steps.measured_host_time())
                                  : steps.left_out_host_time();
  if (!out.work_outside) out.pauses = find_pauses(facts.trace(), steps);
  out.left_out = unite(out.left_out, out.pauses);
  const bool all = steps.measured().size() == steps.steps.size() && !out.work_outside && out.pauses.empty();
  for (const DeviceTime& d : devices.devices) {
    const bool whole = all && !much_time_outside(facts.trace(), d, steps);
    // If the device hardly runs in the measured steps, such as in a partial last step, they do not represent it.
    out.of_steps.push_back(!whole && 2 * total_length(intersect(d.spans, measured)) >= total_length(measured));
  }
  return out;
}

Intervals AveragedTime::part(const Facts& facts, size_t device, const Intervals& time) const {
  return of_steps[device] ? intersect(time, facts.get<Steps>().measured_time()) : time;
}

}  // namespace profgpu
