#include "analyse/rank/facts.h"

#include <utility>

namespace profgpu {
namespace {

// What the product is tells how many multiprocessors it has, unless the trace says so itself.
Trace with_devices_named(Trace trace, const std::string& gpu) {
  if (gpu.empty()) return trace;
  std::vector<DeviceProperties> devices;
  for (const Trace::DeviceRows& rows : trace.device_rows) {
    DeviceProperties& device = devices.emplace_back(trace.properties(rows.device));
    device.id = rows.device;
    device.name = gpu;
    if (device.multiprocessors > 0) continue;
    const FoundLimits found = find_limits({gpu});
    if (found.limits) device.multiprocessors = found.limits->multiprocessors;
  }
  trace.devices = std::move(devices);
  return trace;
}

}  // namespace

TraceFacts::TraceFacts(Trace read, AnalysisOptions options)
    : trace(with_devices_named(std::move(read), options.gpu)), facts(trace, std::move(options)) {}

}  // namespace profgpu
