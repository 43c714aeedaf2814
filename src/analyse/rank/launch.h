// The cost and latency of launches.
#pragma once

#include <optional>
#include <vector>

#include "analyse/rank/facts.h"
#include "analyse/report/document.h"
#include "trace/trace.h"

namespace profgpu {

struct Launch {
  int64_t launches = 0;                      ///< runtime and driver calls with linked activity
  std::optional<double> median_latency_ns;   ///< from the launch call's start to its first activity's start
  std::optional<double> p95_latency_ns;
  int64_t short_kernels = 0;                 ///< kernels shorter than their own launch call
  std::optional<double> short_kernel_pct;    ///< of linked kernels outside graphs
  int64_t kernels = 0;                       ///< linked, outside graphs
  int64_t steady_kernels = 0, steady_short_kernels = 0;   ///< of these, outside warm-up steps
  int64_t steady_launches = 0;               ///< likewise
  std::optional<double> steady_median_latency_ns;
  std::optional<double> median_queue_depth;  ///< activities launched and not yet ended, on the same device, at a launch

  void fields(auto&& v) const {
    v("launches", launches), v("median_latency_ns", whole_ns(median_latency_ns));
    v("p95_latency_ns", whole_ns(p95_latency_ns)), v("short_kernels", short_kernels);
    v("short_kernel_pct", short_kernel_pct), v("median_queue_depth", median_queue_depth);
  }
  static Launch compute(const Facts& facts);
};

/// Calls that launch a kernel, outside of captures: each should have activity.
struct KernelLaunches {
  std::vector<HostId> calls;         ///< in the order of host rows
  std::vector<bool> has_activity;    ///< by host row
  static KernelLaunches compute(const Facts& facts);
};
constexpr int64_t kMinLost = 20;     // so many without activity in a row, or in one gap: the recording lacks records

}  // namespace profgpu
