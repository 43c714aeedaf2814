#include "analyse/rank/launch.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "analyse/rank/averaged_time.h"
#include "analyse/rank/first_use.h"
#include "analyse/rank/names.h"
#include "base/statistics.h"
#include "base/text.h"
#include "trace/intervals.h"
#include "trace/radix_sort.h"

namespace profgpu {
namespace {

// Activities launched and not yet ended, on the same device, at each launch, without its own.
std::vector<int64_t> queue_depths(const Trace& trace) {
  std::vector<int64_t> depths, ends;
  std::vector<SortKey> launches;   // per activity: start of its call
  for (const Trace::DeviceRows& rows : trace.device_rows) {
    launches.clear(), ends.clear();
    for (uint32_t i = rows.begin.value; i < rows.end.value; ++i) {
      const HostId call = trace.activity.launch[i];
      if (!call.valid()) continue;
      launches.push_back({ordered(trace.host.start_ns[call.value]), call.value});
      ends.push_back(trace.activity.end_ns(ActivityId(i)));
    }
    radix_sort(launches);
    sort_ties(launches, std::less());
    radix_sort(ends);
    int64_t launched = 0, ended = 0;
    const auto count = static_cast<int64_t>(launches.size());
    for (int64_t i = 0; i < count; ++i) {
      const auto& [time, call] = launches[static_cast<size_t>(i)];
      if (i > 0 && launches[static_cast<size_t>(i) - 1].row == call) continue;   // the rest of a graph
      while (launches[static_cast<size_t>(launched)].key < time) ++launched;
      while (ended < count && ends[static_cast<size_t>(ended)] <= unordered(time)) ++ended;
      depths.push_back(std::max<int64_t>(0, launched - ended));
    }
  }
  return depths;
}

}  // namespace

Launch Launch::compute(const Facts& facts) {
  const Trace& trace = facts.trace();
  Launch result;
  result.launches = static_cast<int64_t>(trace.launching.size());
  std::vector<int64_t> latencies, steady_latencies;
  latencies.reserve(trace.launching.size());
  const Names& names = facts.get<Names>();
  const Intervals left_out = facts.get<AveragedTime>().left_out;
  for (size_t c = 0; c < trace.launching.size(); ++c) {
    const HostId call = trace.launching[c];
    const uint32_t first = trace.launched_first[c], end = trace.launched_first[c + 1];
    latencies.push_back(trace.activity.start_ns[trace.launched[first].value] - trace.host.start_ns[call.value]);
    const bool steady = !contains(left_out, trace.host.start_ns[call.value]);
    if (steady) steady_latencies.push_back(latencies.back());
    // A launch with several activities replays a graph, whatever its name.
    if (end - first > 1 || names.graph_launch[trace.host.name[call.value].value]) continue;
    if (trace.activity.kind[trace.launched[first].value] != ActivityKind::kKernel) continue;
    const bool is_short = trace.activity.duration_ns[trace.launched[first].value] < trace.host.duration_ns[call.value];
    ++result.kernels;
    result.short_kernels += is_short;
    result.steady_kernels += steady;
    result.steady_short_kernels += steady && is_short;
  }
  if (!latencies.empty()) {
    radix_sort(latencies);
    result.median_latency_ns = percentile_of_sorted(latencies, 50);
    result.p95_latency_ns = percentile_of_sorted(latencies, 95);
  }
  result.steady_launches = static_cast<int64_t>(steady_latencies.size());
  result.steady_median_latency_ns = percentile(std::move(steady_latencies), 50);
  if (result.kernels > 0) result.short_kernel_pct = percent_of(result.short_kernels, result.kernels);
  result.median_queue_depth = percentile(queue_depths(trace), 50);
  return result;
}

KernelLaunches KernelLaunches::compute(const Facts& facts) {
  const Trace& trace = facts.trace();
  const Names& names = facts.get<Names>();
  const std::vector<Intervals>& captured = facts.get<FirstUse>().capture;
  KernelLaunches launches;
  launches.has_activity.resize(trace.host.size());
  for (const HostId call : trace.launching) launches.has_activity[call.value] = true;
  std::vector<bool> of_kernel(trace.strings.size());
  for (size_t name = 0; name < of_kernel.size(); ++name) {
    const std::string_view text = trace.strings[StringId(name)];
    of_kernel[name] =
        names.call[name] == CallKind::kLaunch && contains(text, "Launch") && !contains(text, "HostFunc");
  }
  for (uint32_t i = 0; i < trace.host.size(); ++i) {
    const HostId call(i);
    if (!of_kernel[trace.host.name[i].value] || !trace.host.is_call(call) || trace.host.is_inner_call(call)) continue;
    if (!contains(captured[trace.host.thread[i].value], trace.host.start_ns[i])) launches.calls.push_back(call);
  }
  return launches;
}

}  // namespace profgpu
