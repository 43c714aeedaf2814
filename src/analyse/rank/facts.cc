#include "analyse/rank/facts.h"

#include <utility>

namespace profgpu {
namespace {

// NVIDIA's tensor cores are those of Volta or later, with TF32 those of Ampere or later.
int32_t compute_major_of(const DeviceLimits& limits) {
  if (limits.operations_per_ns(Precision::kTf32) > 0) return 8;
  const bool tensor_cores = limits.operations_per_ns(Precision::kFp16) > 2.5 * limits.operations_per_ns(Precision::kFp32);
  return tensor_cores ? 7 : 0;
}

// What the product is tells what it has, unless the trace says so itself.
Trace with_devices_named(Trace trace, const std::string& gpu) {
  const FoundLimits found = find_limits({gpu});
  if (gpu.empty() || !found.limits) return trace;
  std::vector<DeviceProperties> devices;
  for (const Trace::DeviceRows& rows : trace.device_rows) {
    DeviceProperties& device = devices.emplace_back(trace.properties(rows.device));
    device.id = rows.device;
    if (find_limits({device.name}).limits) continue;   // the trace says it well enough
    device.name = gpu;
    if (device.multiprocessors == 0) device.multiprocessors = found.limits->multiprocessors;
    if (device.compute_major == 0) device.compute_major = compute_major_of(*found.limits);
  }
  trace.devices = std::move(devices);
  return trace;
}

}  // namespace

TraceFacts::TraceFacts(Trace read, AnalysisOptions options)
    : trace(with_devices_named(std::move(read), options.gpu)), facts(trace, std::move(options)) {}

}  // namespace profgpu
