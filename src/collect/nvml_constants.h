// Limits and maxima of a device: what it says once and for all.
#pragma once

#include <array>
#include <optional>
#include <span>

#include "collect/nvml_library.h"
#include "trace/metric.h"

namespace profgpu::nvml {

/// One driver call.
struct Constant {
  Metric metric;
  std::optional<Metric> second;   ///< the same call says it too
  Return (*ask)(Library& library, Device device, std::array<double, 2>& values);
};

/// Of a whole GPU; a MIG instance has the first alone.
std::span<const Constant> constants();

}  // namespace profgpu::nvml
