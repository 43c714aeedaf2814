// Devices on the screen: one line each, with curves below where there is room.
#pragma once

#include "top/frame.h"
#include "top/model.h"

namespace profgpu {

/// Adds the devices' heading and at most `rows` lines of devices. Where not all fit, those around the chosen one.
/// `rows` 0: one line each, as many as there are, with no curves.
void add_devices(Frame& frame, const TopModel& model, int width, int rows);
/// Lines that the devices can make use of, at most.
int useful_device_rows(const TopModel& model);

/// "61.2/79.6 GiB"
std::string memory_pair(const LiveDevice& device);
/// "GPU is lost, since 14:03:22 (12 s)"
std::string trouble_text(const LiveDevice& device, int64_t now_ns);
/// "07:48:50" of the local day.
std::string day_time(int64_t unix_ns);
/// "–" where it is not known, else the number without decimals and its unit.
std::string rounded(const std::optional<double>& x, std::string_view unit);
/// Bytes a second as "12.3 GB/s".
std::string speed_text(const std::optional<double>& bytes_per_second);

}  // namespace profgpu
