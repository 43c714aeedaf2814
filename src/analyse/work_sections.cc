// Sections about work: kernels, ops, launches, collectives, memory.
#include <cmath>

#include "analyse/analysis.h"
#include "analyse/collectives.h"
#include "analyse/kernels.h"
#include "analyse/launch.h"
#include "analyse/memory.h"
#include "analyse/ops.h"

namespace profgpu {
namespace {

std::string_view work_kind_name(WorkKind kind) {
  switch (kind) {
    case WorkKind::kCompute: return "compute";
    case WorkKind::kCommunication: return "communication";
    case WorkKind::kMemory: break;
  }
  return "memory";
}

// Nanoseconds are whole in a report.
int64_t rounded_ns(double ns) { return std::llround(ns); }
Value rounded_ns(const std::optional<double>& ns) { return ns ? Value(rounded_ns(*ns)) : Value(); }

Value show_kernels(const Facts& facts) {
  const Trace& trace = facts.trace();
  Table t;
  t.columns = {"device", "name",   "short_name", "kind",   "category", "count",     "total_ns",   "mean_ns",
               "min_ns", "median_ns", "p95_ns",  "max_ns", "stddev_ns", "kernel_pct", "tensor_cores"};
  for (const KernelRow& k : facts.get<Kernels>().rows) {
    const std::string_view name = trace.strings[k.name];
    t.rows.push_back({k.device, name, short_kernel_name(name), work_kind_name(k.kind), kernel_category_name(k.category),
                      k.count, k.total_ns, rounded_ns(k.mean_ns), k.min_ns, rounded_ns(k.median_ns), rounded_ns(k.p95_ns), k.max_ns,
                      rounded_ns(k.stddev_ns),
                      k.kernel_pct, k.tensor_cores});
  }
  return t;
}

Value show_ops(const Facts& facts) {
  Table t;
  t.columns = {"name", "calls", "cpu_total_ns", "cpu_self_ns", "device_total_ns", "device_self_ns", "flops"};
  for (const OpRow& o : facts.get<Ops>().rows) {
    t.rows.push_back({o.text, o.calls, o.cpu_total_ns, o.cpu_self_ns, o.device_total_ns,
                      o.device_self_ns, o.flops > 0 ? Value(static_cast<int64_t>(o.flops)) : Value()});
  }
  return t;
}

Value show_launch(const Facts& facts) {
  const Launch& l = facts.get<Launch>();
  Record r;
  r.add("launches", l.launches)
      .add("median_latency_ns", rounded_ns(l.median_latency_ns))
      .add("p95_latency_ns", rounded_ns(l.p95_latency_ns))
      .add("short_kernels", l.short_kernels)
      .add("short_kernel_pct", l.short_kernel_pct)
      .add("median_queue_depth", l.median_queue_depth);
  return r;
}

Value show_collectives(const Facts& facts) { return collectives_value(facts.get<Collectives>().rows); }

Value show_memory(const Facts& facts) {
  const Memory& m = facts.get<Memory>();
  Table timeline;
  timeline.columns = {"time_ns", "allocated_bytes", "reserved_bytes"};
  for (const MemoryPoint& p : m.timeline) timeline.rows.push_back({p.time_ns, p.allocated_bytes, p.reserved_bytes});
  Record r;
  r.add("peak_allocated_bytes", m.peak_allocated_bytes)
      .add("peak_reserved_bytes", m.peak_reserved_bytes)
      .add("capacity_bytes", m.capacity_bytes)
      .add("growth_bytes_per_step", m.growth_bytes_per_step)
      .add("fragmentation_pct", m.fragmentation_pct)
      .add("allocator_calls", m.allocator_calls)
      .add("timeline", timeline);
  return r;
}

}  // namespace

Value collectives_value(const std::vector<CollectiveRow>& rows) {
  Table t;
  t.columns = {"name",     "dtype",      "group_size", "process_group", "calls",  "message_bytes",
               "total_ns", "exposed_ns", "algbw_gbps", "busbw_gbps",    "wait_ns",
               "wait_is_lower_bound"};
  for (const CollectiveRow& c : rows) {
    t.rows.push_back({c.name, c.dtype.empty() ? Value() : Value(c.dtype),
                      c.group_size > 0 ? Value(c.group_size) : Value(),
                      c.process_group.empty() ? Value() : Value(c.process_group), c.calls, c.message_bytes, c.total_ns,
                      c.exposed_ns, c.algbw_gbps, c.busbw_gbps, c.wait_ns,
                      c.wait_ns ? Value(c.wait_is_lower_bound) : Value()});
  }
  return t;
}

extern const Analysis kKernelsSection, kOpsSection, kLaunchSection, kCollectivesSection, kMemorySection;
const Analysis kKernelsSection = {"kernels", "Kernels", "kernels, copies and sets by device and name", show_kernels};
const Analysis kOpsSection = {"ops", "Ops", "operators as PyTorch's key_averages counts them", show_ops};
const Analysis kLaunchSection = {"launch", "Launches", "cost and latency of launches", show_launch};
const Analysis kCollectivesSection = {"collectives", "Collectives", "collectives by name, type, group and size",
                                      show_collectives};
const Analysis kMemorySection = {"memory", "Memory", "device memory as the framework's allocator saw it", show_memory};

}  // namespace profgpu
