// How devices answer, as far as the sampler knows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/sample.h"

namespace profgpu {

struct DeviceHealth {
  uint32_t device = 0;            ///< position among the backend's devices
  int64_t good_at_ns = 0;         ///< Unix time of the last good reading's end; 0: none yet
  int64_t errors = 0;             ///< readings that failed, and times that it fell silent
  std::string trouble;            ///< "GPU is lost"; "does not answer"; empty: the last reading was good, or is the first

  /// Whether what it said last still counts, for a device that is read each `interval_ns`.
  [[nodiscard]] bool answers(int64_t now_ns, int64_t interval_ns) const;
};

/// One line for each device that got into trouble or out of it. `told`: the troubles of the last call, empty before the first.
std::vector<std::string> health_changes(const std::vector<DeviceHealth>& health, const std::vector<DeviceInfo>& devices,
                                        std::vector<std::string>& told);

}  // namespace profgpu
