#include "collect/device_health.h"

#include <fmt/format.h>

namespace profgpu {

bool DeviceHealth::answers(int64_t now_ns, int64_t interval_ns) const {
  constexpr int64_t kPatience_ns = 10'000'000'000;
  return trouble.empty() && good_at_ns != 0 && now_ns - good_at_ns <= kPatience_ns + 3 * interval_ns;
}

std::vector<std::string> health_changes(const std::vector<DeviceHealth>& health, const std::vector<DeviceInfo>& devices,
                                        std::vector<std::string>& told) {
  std::vector<std::string> lines;
  told.resize(health.size());
  for (size_t i = 0; i < health.size(); ++i) {
    const std::string& trouble = health[i].trouble;
    if (trouble == told[i]) continue;
    const std::string name = devices[health[i].device].label();
    lines.push_back(trouble.empty() ? fmt::format("GPU {} answers again", name) : fmt::format("GPU {}: {}", name, trouble));
    told[i] = trouble;
  }
  return lines;
}

}  // namespace profgpu
