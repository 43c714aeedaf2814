#include "analyse/launch.h"

#include <algorithm>

#include "analyse/statistics.h"

namespace profgpu {
namespace {

// Activities launched and not yet ended, on the same device, at each launch; the launch itself not counted.
std::vector<int64_t> queue_depths(const Trace& trace) {
  std::vector<int64_t> depths;
  for (const Trace::DeviceRows& rows : trace.device_rows) {
    std::vector<int64_t> launches, ends;
    for (uint32_t i = rows.begin.value; i < rows.end.value; ++i) {
      if (!trace.activity.launch[i].valid()) continue;
      launches.push_back(trace.host.start_ns[trace.activity.launch[i].value]);
      ends.push_back(trace.activity.end_ns(ActivityId(i)));
    }
    std::sort(launches.begin(), launches.end());
    std::sort(ends.begin(), ends.end());
    size_t launched = 0, ended = 0;
    for (size_t i = 0; i < launches.size(); ++i) {
      if (i > 0 && launches[i] == launches[i - 1]) continue;  // one graph launch counts once
      while (launched < launches.size() && launches[launched] < launches[i]) ++launched;
      while (ended < ends.size() && ends[ended] <= launches[i]) ++ended;
      depths.push_back(std::max<int64_t>(0, static_cast<int64_t>(launched) - static_cast<int64_t>(ended)));
    }
  }
  return depths;
}

}  // namespace

Launch Launch::compute(const Facts& facts) {
  const Trace& trace = facts.trace();
  Launch result;
  result.launches = static_cast<int64_t>(trace.launching.size());
  std::vector<int64_t> latencies;
  int64_t kernels = 0;
  for (size_t c = 0; c < trace.launching.size(); ++c) {
    const HostId call = trace.launching[c];
    const uint32_t first = trace.launched_first[c], end = trace.launched_first[c + 1];
    latencies.push_back(trace.activity.start_ns[trace.launched[first].value] - trace.host.start_ns[call.value]);
    const bool graph = end - first > 1 || trace.name(call).find("GraphLaunch") != std::string_view::npos;
    if (graph || trace.activity.kind[trace.launched[first].value] != ActivityKind::kKernel) continue;
    ++kernels;
    result.short_kernels +=
        trace.activity.duration_ns[trace.launched[first].value] < trace.host.duration_ns[call.value];
  }
  result.median_latency_ns = percentile(latencies, 50);
  result.p95_latency_ns = percentile(latencies, 95);
  if (kernels > 0)
    result.short_kernel_pct = 100.0 * static_cast<double>(result.short_kernels) / static_cast<double>(kernels);
  result.median_queue_depth = percentile(queue_depths(trace), 50);
  return result;
}

}  // namespace profgpu
