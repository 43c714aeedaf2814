#include "trace/sample.h"

#include <fmt/format.h>

namespace profgpu {

std::string DeviceInfo::label() const {
  return gpu_instance ? fmt::format("{}:{}", index, *gpu_instance) : std::to_string(index);
}

std::optional<double> DeviceInfo::constant(Metric metric) const {
  for (const auto& [m, value] : constants)
    if (m == metric) return value;
  return std::nullopt;
}

}  // namespace profgpu
