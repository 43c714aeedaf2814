// Rates of the links between devices of one node.
#pragma once

#include <optional>
#include <string_view>

namespace profgpu {

constexpr int kDevicesOfOneNode = 8;

/// Peak rate of one device's links to its peers, per direction, in 1e9 bytes a second; nullopt if the name does not say.
std::optional<double> link_rate_gbps(std::string_view device_name);

}  // namespace profgpu
