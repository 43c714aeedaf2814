// What samples say of devices, for a person.
#pragma once

#include <string>
#include <vector>

#include "analyse/rank/telemetry.h"
#include "view/layout.h"

namespace profgpu {

/// Every device in a block of its own; more than four as a table. `about` says what was watched: "python train.py,
/// 62.4 s, exit 0"; it stands on the first line.
Lines device_lines(const std::vector<DeviceTelemetry>& devices, const std::string& about, int width);

/// One block.
Lines device_block(const DeviceTelemetry& device, int width);

/// "412 W"
std::string format_watts(double watts);
/// "25.7 kJ"
std::string format_energy(double joules);
/// "NVIDIA H200, driver 580.159"
std::string device_name(const DeviceTelemetry& device);
/// "2 driver errors (Xid), the last 79, 1 memory error not corrected"; empty: none
std::string errors_text(const DeviceTelemetry& device);

/// One device in one row, for many of them: busy, idle, memory ... The first column is the device's label.
Grid device_grid(const std::vector<DeviceTelemetry>& devices);

}  // namespace profgpu
