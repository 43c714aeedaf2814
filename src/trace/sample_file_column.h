// The columns and keys of sample files, and the values in them: our names and nvidia-smi's.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "trace/sample.h"

namespace profgpu {

/// A key and the member that holds its value.
template <class Owner, class Value>
struct SampleKey {
  std::string_view key;
  Value Owner::*member;
};
// In the order in which they are written.
inline constexpr SampleKey<DeviceInfo, std::string> kDeviceTexts[] = {
    {"name", &DeviceInfo::name},
    {"uuid", &DeviceInfo::uuid},
    {"pci_bus_id", &DeviceInfo::pci_bus_id},
    {"vendor", &DeviceInfo::vendor},
    {"driver_version", &DeviceInfo::driver_version},
    {"mig_profile", &DeviceInfo::mig_profile},
    {"host", &DeviceInfo::host},
};
inline constexpr SampleKey<ProcessOrigin, std::string> kOriginTexts[] = {
    {"user", &ProcessOrigin::user},
    {"container_runtime", &ProcessOrigin::container_runtime},
    {"container", &ProcessOrigin::container},
    {"pod", &ProcessOrigin::pod},
    {"slurm_job", &ProcessOrigin::slurm_job},
    {"slurm_step", &ProcessOrigin::slurm_step},
};
inline constexpr SampleKey<ProcessOrigin, std::optional<int64_t>> kOriginNumbers[] = {
    {"rank", &ProcessOrigin::rank},
    {"world_size", &ProcessOrigin::world_size},
};
inline constexpr SampleKey<ProcessSample, std::optional<double>> kProcessShares[] = {
    {"utilization_pct", &ProcessSample::utilization_pct},
    {"memory_utilization_pct", &ProcessSample::memory_utilization_pct},
    {"encoder_pct", &ProcessSample::encoder_pct},
    {"decoder_pct", &ProcessSample::decoder_pct},
};

struct SampleColumn {
  enum class Kind { kUnknown, kTime, kUnixNs, kDevice, kDeviceText, kNumaNode, kProcesses, kMark, kAlert, kMetric };
  Kind kind = Kind::kUnknown;
  const MetricInfo* metric = nullptr;       ///< of kMetric
  double scale = 1;                         ///< to the metric's unit, where a value states no unit of its own
  std::string DeviceInfo::*text = nullptr;  ///< of kDeviceText
};

/// "memory_used_bytes", "memory.used", "memory.used [MiB]".
SampleColumn sample_column(std::string_view name);

struct SampleCell {
  std::optional<double> number;           ///< nullopt: absent
  bool damaged = false;                   ///< it is neither a number nor one of the ways to say that there is none
};
/// "45", "45 %", "1024 MiB", "P0", "0x4", "Not Active", "[N/A]", "null", "".
SampleCell sample_cell(std::string_view text, const SampleColumn& column);

/// nvidia-smi's words for states and masks as numbers: "Active", "No", "Drain P2P", "0x1F".
std::optional<double> state_number(std::string_view text);

}  // namespace profgpu
