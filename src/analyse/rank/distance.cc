#include "analyse/rank/distance.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "analyse/rank/measured.h"
#include "analyse/rank/roofline.h"
#include "analyse/rank/steps.h"

namespace profgpu {
namespace {

// Parts of compute time, in the order of the document.
enum ComputePart : uint8_t { kNecessary, kProducts, kMemoryBound, kSmall, kRecomputed, kUnknownWork, kComputeParts };
constexpr std::array<std::string_view, kComputeParts> kComputePartNames = {
    "necessary_work", "products", "memory_bound", "small_kernels", "recomputation", "unknown_work"};

ComputePart part_over_limit(Bound bound) {
  if (bound == Bound::kLatency) return kSmall;
  return bound == Bound::kMemory ? kMemoryBound : kProducts;
}

std::string name_of_state(const std::string& state) {
  if (state == "communication") return "exposed_communication";
  return state == "memory" ? "exposed_copies" : state;
}

}  // namespace

ExclusiveTime ExclusiveTime::compute(const Facts& facts) {
  const Trace& trace = facts.trace();
  const Devices& devices = facts.get<Devices>();
  ExclusiveTime all{std::vector<int64_t>(trace.activity.size())};
  if (devices.busiest < 0) return all;
  const DeviceTime& device = devices.devices[static_cast<size_t>(devices.busiest)];
  const Intervals measured = facts.get<Steps>().measured_time();
  size_t at = 0;
  int64_t done = INT64_MIN;
  for (ActivityId a = device.begin; a < device.end; ++a) {   // by start
    if (devices.kind[a.value] != WorkKind::kCompute) continue;
    const Interval own{std::max(done, trace.activity.start_ns[a.value]), trace.activity.end_ns(a)};
    if (own.start >= own.end) continue;
    done = own.end;
    while (at < measured.size() && measured[at].end <= own.start) ++at;
    for (size_t i = at; i < measured.size() && measured[i].start < own.end; ++i)
      all.ns[a.value] += overlap_length(measured[i], own);
  }
  return all;
}

Distance Distance::compute(const Facts& facts) {
  const MeasuredSteps& measured = facts.get<MeasuredSteps>();
  Distance d;
  d.steps = measured.steps, d.wall_ns = measured.known_wall_ns();
  d.left_out_ns = measured.wall_ns - d.wall_ns;
  const DeviceWork& work = facts.get<DeviceWork>();
  const RunLimits& limits = facts.get<RunLimits>();
  const std::vector<int64_t>& exclusive = facts.get<ExclusiveTime>().ns;
  std::array<int64_t, kComputeParts> part_ns{};
  for (size_t i = 0; i < exclusive.size(); ++i) {
    if (exclusive[i] == 0) continue;
    const ActivityId a(i);
    const std::optional<double> needed = limits.needed_part(work, a);
    const uint32_t run = work.run_of[i];
    if (run != DeviceWork::kNone && limits.recomputed[run]) {
      part_ns[kRecomputed] += exclusive[i];
    } else if (!needed) {
      part_ns[kUnknownWork] += exclusive[i];
    } else {
      const int64_t least = std::llround(*needed * static_cast<double>(exclusive[i]));
      part_ns[kNecessary] += least;
      part_ns[part_over_limit(limits.bound[run])] += exclusive[i] - least;
    }
  }
  const auto add = [&](std::string name, int64_t ns) {
    if (ns != 0) d.parts.push_back({std::move(name), ns, percent_of(ns, d.wall_ns)});
  };
  for (size_t p = 0; p < kComputeParts; ++p) add(std::string(kComputePartNames[p]), part_ns[p]);
  for (const NamedTime& state : measured.states)
    if (state.name != "compute" && !state.is_unknown_work()) add(name_of_state(state.name), state.time.total_ns);
  d.known_pct = facts.get<Roofline>().known_pct;
  const int64_t limit_ns = part_ns[kNecessary] + part_ns[kUnknownWork];
  if (part_ns[kNecessary] > 0) {
    d.limit_ns = limit_ns;
    d.times_limit = static_cast<double>(d.wall_ns) / static_cast<double>(limit_ns);
    d.times_limit_is_lower_bound = percent_of(part_ns[kUnknownWork], limit_ns) > Distance::kKnownPct;
  }
  return d;
}

}  // namespace profgpu
