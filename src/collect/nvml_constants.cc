#include "collect/nvml_constants.h"

namespace profgpu::nvml {
namespace {

using Values = std::array<double, 2>;

constexpr double kMilli = 1e-3;

Return ask_bar1(Library& library, Device device, Values& values) {
  Bar1Memory bar1{};
  const Return code = library.call(library.api.bar1, device, &bar1);
  values[0] = static_cast<double>(bar1.total);
  return code;
}

Return ask_power_range(Library& library, Device device, Values& values) {
  uint32_t low = 0, high = 0;
  const Return code = library.call(library.api.power_range, device, &low, &high);
  values = {low * kMilli, high * kMilli};
  return code;
}

template <GetUint Api::*Function>
Return ask_number(Library& library, Device device, Values& values) {
  uint32_t value = 0;
  const Return code = library.call(library.api.*Function, device, &value);
  values[0] = value;
  return code;
}

Return ask_power_default(Library& library, Device device, Values& values) {
  const Return code = ask_number<&Api::power_default>(library, device, values);
  values[0] *= kMilli;
  return code;
}

template <auto Function, uint32_t Which>
Return ask_indexed(Library& library, Device device, Values& values) {
  uint32_t value = 0;
  const Return code = library.call(library.api.*Function, device, Which, &value);
  values[0] = value;
  return code;
}

constexpr Constant kConstants[] = {
    {Metric::kBar1Total, {}, ask_bar1},
    {Metric::kSmClockMax, {}, ask_indexed<&Api::clock_max, kSmClock>},
    {Metric::kTemperatureSlowdown, {}, ask_indexed<&Api::threshold, kSlowdownThreshold>},
    {Metric::kPowerLimitMin, Metric::kPowerLimitMax, ask_power_range},
    {Metric::kPowerLimitDefault, {}, ask_power_default},
    {Metric::kPcieGenerationMax, {}, ask_number<&Api::pcie_generation_max>},
    {Metric::kPcieWidthMax, {}, ask_number<&Api::pcie_width_max>},
    {Metric::kTemperatureShutdown, {}, ask_indexed<&Api::threshold, kShutdownThreshold>},
    {Metric::kMemoryClockMax, {}, ask_indexed<&Api::clock_max, kMemoryClock>},
    {Metric::kGraphicsClockMax, {}, ask_indexed<&Api::clock_max, kGraphicsClock>},
    {Metric::kVideoClockMax, {}, ask_indexed<&Api::clock_max, kVideoClock>},
};

}  // namespace

std::span<const Constant> constants() { return kConstants; }

}  // namespace profgpu::nvml
