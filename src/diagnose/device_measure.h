// What rules read off samples of devices, the same way in all of them: on the worst device.
#pragma once

#include <functional>
#include <optional>

#include "diagnose/measure.h"
#include "diagnose/rule.h"

namespace profgpu {

/// What a rule reads off one device's samples; nothing if it has nothing to say about it.
using DeviceReading = std::function<std::optional<double>(const DeviceTelemetry&)>;

struct FiredOnDevice {
  Finding finding;
  const DeviceTelemetry* worst = nullptr;
};
/// As fired(), over the devices of which there are samples. Devices that nothing used, and runs of less than two seconds,
/// say nothing.
std::optional<FiredOnDevice> fired_on_device(const Rule& rule, const Evidence& evidence, Limits limits,
                                             const DeviceReading& reading);

/// Percent of the time that the named reasons held clocks back; nothing where it is not known.
std::optional<double> throttled_pct(const DeviceTelemetry& device, const std::vector<std::string_view>& reasons);

}  // namespace profgpu
