#include "analyse/rank/device_use.h"

#include <algorithm>
#include <functional>

#include "analyse/rank/averaged_time.h"
#include "analyse/rank/devices.h"
#include "trace/no_timeline.h"

namespace profgpu {

double DeviceUse::idle_pct(IdleCause cause) const {
  const IdleShare* share = first_where(idle, [&](const IdleShare& s) { return s.cause == cause; });
  return share != nullptr ? share->window_pct : 0;
}

std::vector<DeviceUse> DeviceUse::rows(const Facts& facts) {
  const AveragedTime& averaged = facts.get<AveragedTime>();
  const std::vector<DeviceTime>& devices = facts.get<Devices>().devices;
  std::vector<DeviceUse> rows;
  // Without most of its records, nothing tells when a device idled.
  if (has_no_timeline(facts.trace()) || facts.get<LostLaunches>().are_most(facts)) return rows;
  for (size_t d = 0; d < devices.size(); ++d) {
    const DeviceTime& t = devices[d];
    const DeviceIdle& on = facts.get<Idle>().devices[d];
    const auto part = [&](const Intervals& time) { return total_length(averaged.part(facts, d, time)); };
    DeviceUse& use = rows.emplace_back(DeviceUse{t.id, averaged.of_steps[d], part(on.window), part(t.busy),
                                                 part(t.compute), part(t.communication), part(t.memory),
                                                 part(t.exposed_communication), part(t.exposed_memory), {}});
    if (const int32_t index = facts.trace().properties(t.id).host_index; index != t.id) use.host_index = index;
    for (size_t c = 0; c < kIdleCauses; ++c) {
      const int64_t ns = use.of_steps ? on.measured_ns[c] : on.total_ns[c] + on.edge_ns[c];
      if (ns > 0) use.idle.push_back({static_cast<IdleCause>(c), ns, percent_of(ns, use.window_ns)});
    }
    std::ranges::stable_sort(use.idle, std::greater(), &IdleShare::total_ns);
  }
  return rows;
}

}  // namespace profgpu
