// Unified memory: pages that the driver moves between host and device when a kernel or the host touches them.
#include <fmt/format.h>

#include <algorithm>

#include "analyse/rules/measure.h"

namespace profgpu {
namespace {

bool is_unified(std::string_view copy) { return contains(copy, "(Unified memory)"); }

struct Migrations {
  Intervals time;
  int64_t count = 0, bytes = 0, faults = 0;
  ActivityId longest;
};

Migrations migrations_of(const Measured& m) {
  const Trace& trace = m.trace();
  Migrations all;
  if (!m.has_device()) return all;
  for (ActivityId a = m.device().begin; a < m.device().end; ++a) {
    if (trace.activity.kind[a.value] != ActivityKind::kMemcpy || !is_unified(trace.name(a))) continue;
    const Interval time = trace.activity.interval(a);
    if (!contains(m.measured_time(), time.start)) continue;
    all.time.push_back(time);
    ++all.count;
    if (trace.activity.args[a.value].valid())
      all.bytes += std::max<int64_t>(0, trace.activity_args[trace.activity.args[a.value].value].bytes);
    if (!all.longest.valid() || trace.activity.duration_ns[all.longest.value] < time.length()) all.longest = a;
  }
  all.time = merged(std::move(all.time));
  for (const CounterValue& c : trace.counters)
    if (contains(m.measured_time(), c.time_ns) && trace.strings[c.name] == "unified memory: page faults of the GPU")
      all.faults += static_cast<int64_t>(c.value);
  return all;
}

std::optional<double> unified_memory_value(const Measured& m) {
  const Migrations all = migrations_of(m);
  return only_if(all.count > 0, m.window_pct(all.time));
}

void describe_unified_memory(const Measured& m, Finding& f) {
  const Migrations all = migrations_of(m);
  const std::string pct = format_percent(*f.value, 0);
  f.what = "kernels wait for pages of unified memory";
  f.verdict = fmt::format("Pages of unified memory migrate for {} of the time, and kernels that touch them wait.", pct);
  f.why = fmt::format("For {} of the time the driver moves pages between the host and {}, one after another as they are "
                      "touched.",
                      format_percent(*f.value), m.device_label());
  f.evidence.push_back(fmt::format("{} {}, {} in total", format_count(all.count),
                                   all.count == 1 ? "migration" : "migrations",
                                   format_bytes(static_cast<double>(all.bytes))));
  if (all.faults > 0) f.evidence.push_back(fmt::format("{} page faults of GPUs", format_count(all.faults)));
  f.evidence.emplace_back("no cost: prefetched pages move in the background, but how much of that kernels hide is not known");
  f.seen = {Locator::At::kLongestKernel, std::string(m.trace().name(all.longest))};
  see(f, m.trace().activity.interval(all.longest));
  f.own_fixes = true;
}

}  // namespace

extern const Rule kUnifiedMemory = {
    .id = "unified-memory",
    .summary = "kernels wait while pages of unified memory migrate",
    .unit = "%",
    .threshold = 5,
    .severe = 25,
    .meaning =
        "Memory of cudaMallocManaged moves page by page to whoever touches it. Each first touch by a kernel stops its "
        "threads until the driver has moved the page, in pieces far smaller than a copy would be.",
    .computation =
        "Value: union of the driver's migrations as a share of the device's window; only recordings of Nsight Systems "
        "with --cuda-um-gpu-page-faults or --cuda-um-cpu-page-faults have them. No cost: kernels run meanwhile, and how "
        "long they wait is not recorded.",
    .advice = {
        "cudaMemPrefetchAsync before the kernel that reads the data, on its stream; and back before the host reads them",
        "cudaMemAdvise: cudaMemAdviseSetReadMostly for what is only read, cudaMemAdviseSetPreferredLocation for what stays on "
        "one side",
        "cudaMalloc with cudaMemcpyAsync for what always moves whole",
        "touch data on one side only within the loop: initialize it in a kernel",
    },
    .rank = {.value = unified_memory_value, .describe = describe_unified_memory},
};

}  // namespace profgpu
