// What compute programs hold on AMD devices, by /sys/class/kfd: buffers of ROCm that fdinfo of older kernels leaves
// out.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "trace/sample.h"

namespace profgpu {

class AmdgpuProcesses {
 public:
  explicit AmdgpuProcesses(const std::string& sys);
  /// Adds to `processes` what KFD knows about the device at `pci` ("0000:03:00.0"): new rows, and memory where it knows
  /// of more.
  void add(const std::string& pci, std::vector<ProcessSample>& processes) const;
  [[nodiscard]] bool there() const { return !gpu_ids_.empty(); }

 private:
  std::string folder_;
  std::map<std::string, std::string> gpu_ids_;   ///< PCI address to KFD's number of the device
};

}  // namespace profgpu
