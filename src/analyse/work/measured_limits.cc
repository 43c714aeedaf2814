#include "analyse/work/measured_limits.h"

namespace profgpu {

DeviceLimits measured_over(const DeviceLimits& measured, const FoundLimits& vendor) {
  if (!vendor.limits) return measured;
  DeviceLimits all = *vendor.limits;
  bool lacks = measured.memory_gbps <= 0 && all.memory_gbps > 0, any = false;
  for (size_t p = 0; p < all.tera.size(); ++p) {
    any = any || measured.tera[p] > 0;
    if (measured.tera[p] > 0) all.tera[p] = measured.tera[p], all.achievable_tera[p] = 0;
    else lacks = lacks || all.tera[p] > 0;
  }
  if (measured.memory_gbps > 0) all.memory_gbps = measured.memory_gbps;
  // Measured rates are of the clock that they were measured at.
  if (any) all.clock_mhz = 0;
  lacks = lacks || all.cache_bytes > 0 || all.link_gbps > 0 || all.host_link_gbps > 0;
  all.name = measured.name, all.uuid = measured.uuid;
  all.source = lacks ? measured.source + "; what it lacks: " + all.source : measured.source;
  return all;
}

}  // namespace profgpu
