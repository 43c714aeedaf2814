// The devices that a user selects.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "trace/sample.h"

namespace profgpu {

struct Selection {
  std::vector<uint32_t> devices;   ///< positions, in the order asked for
  std::string note;                ///< to report: "CUDA_VISIBLE_DEVICES=2,3"; empty: nothing
};

/// `words`: the values of --device: indices ("0", "0,2", "0:7" for a MIG instance), UUIDs or unique prefixes of them,
/// PCI bus ids in any usual spelling, "cuda:N" (the N-th device that CUDA_VISIBLE_DEVICES leaves), "all". None: the
/// devices that CUDA_VISIBLE_DEVICES leaves to the command (AMD: of those that ROCR_VISIBLE_DEVICES leaves, those of
/// HIP_VISIBLE_DEVICES, else of CUDA_VISIBLE_DEVICES; Intel: ZE_AFFINITY_MASK). An unknown device is an error that
/// lists those available.
Result<Selection> select_devices(const std::vector<DeviceInfo>& devices, const std::vector<std::string>& words);

/// The version of the chosen devices' driver; empty if they do not have the same.
std::string common_driver(const std::vector<DeviceInfo>& devices, const std::vector<uint32_t>& chosen);

}  // namespace profgpu
