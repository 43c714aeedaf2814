// Measured rates of a device beside those of its vendor's documents.
#pragma once

#include "analyse/work/device_limits.h"

namespace profgpu {

/// Measured rates, and for what was not measured those of the vendor's document; the source names both.
DeviceLimits measured_over(const DeviceLimits& measured, const FoundLimits& vendor);

}  // namespace profgpu
