// A trace by hand on an H100 or another device, whose kernels have work by hand.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "analyse/rank/work.h"

namespace profgpu {

inline DeviceProperties h100() {
  DeviceProperties d;
  d.name = "NVIDIA H100 80GB HBM3";
  d.compute_major = 9;
  d.multiprocessors = 132;
  return d;
}

inline DeviceProperties mi300x() {
  DeviceProperties d;
  d.name = "AMD Instinct MI300X";
  d.multiprocessors = 304;
  return d;
}

/// A trace whose operators have the given work, in the order of their kernels.
struct WorkedTrace {
  Trace trace;
  Facts facts;

  WorkedTrace(Trace built, const std::vector<OpWork>& works, AnalysisOptions options = {},
              const DeviceProperties& device = h100())
      : trace(std::move(built)), facts((add_device(trace, device), trace), std::move(options)) {
    DeviceWork work;
    work.by_name.assign(trace.strings.size(), Precision::kUnknown);
    for (uint32_t i = 0; i < trace.activity.size(); ++i) {
      const ActivityId a(i);
      const int64_t ns = trace.activity.duration_ns[i];
      work.kernel_ns += ns;
      const OpWork of_kernel = i < works.size() ? works[i] : OpWork();
      const HostId op = trace.host.parent[trace.activity.launch[i].value];
      if (of_kernel == OpWork() || !op.valid()) {
        work.run_of.push_back(DeviceWork::kNone);
        continue;
      }
      work.run_of.push_back(static_cast<uint32_t>(work.runs.size()));
      work.runs.push_back({op, work.keep(of_kernel), a, ns});
    }
    facts.provide<DeviceWork>(std::move(work));
    facts.provide<OpWorks>({{OpWork()}, std::vector<uint32_t>(trace.host.size()), true, true});
  }
  static void add_device(Trace& trace, const DeviceProperties& device = h100()) { trace.devices.push_back(device); }
};

// 100 us at the peak rate of BF16, and hardly any bytes.
inline constexpr OpWork kHundred{.flops = 98'940'000'000, .bytes = 1000, .precision = Precision::kBf16};
// 100 us at the memory's rate.
inline constexpr OpWork kBytes{.flops = 0, .bytes = 335'000'000, .precision = Precision::kBf16};

}  // namespace profgpu
