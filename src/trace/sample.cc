#include "trace/sample.h"

#include <fmt/format.h>

#include <algorithm>

namespace profgpu {

std::string DeviceInfo::label() const {
  return gpu_instance ? fmt::format("{}:{}", index, *gpu_instance) : std::to_string(index);
}

std::string DeviceInfo::label_on_host() const { return host.empty() ? label() : label() + " of " + host; }

std::optional<double> DeviceInfo::constant(Metric metric) const {
  for (const auto& [m, value] : constants)
    if (m == metric) return value;
  return std::nullopt;
}

std::optional<double> SampleSeries::at(int64_t time) const {
  const auto after = std::upper_bound(time_ns.begin(), time_ns.end(), time);
  if (after == time_ns.begin()) return std::nullopt;
  return value[static_cast<size_t>(after - time_ns.begin()) - 1];
}

int64_t median_distance(const std::vector<int64_t>& times) {
  std::vector<int64_t> distances;
  for (size_t i = 1; i < times.size(); ++i) distances.push_back(times[i] - times[i - 1]);
  if (distances.empty()) return 0;
  const auto middle = distances.begin() + static_cast<std::ptrdiff_t>(distances.size() / 2);
  std::nth_element(distances.begin(), middle, distances.end());
  return *middle;
}

bool SampleLog::several_hosts() const {
  return std::any_of(devices.begin(), devices.end(), [&](const DeviceInfo& d) { return d.host != devices.front().host; });
}

std::string SampleLog::label(uint32_t device) const {
  return several_hosts() ? devices[device].label_on_host() : devices[device].label();
}

const SampleSeries* SampleLog::find(uint32_t device, Metric metric) const {
  for (const SampleSeries& s : series)
    if (s.device == device && s.metric == metric && !s.time_ns.empty()) return &s;
  return nullptr;
}

}  // namespace profgpu
