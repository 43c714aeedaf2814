// ClockLock: the clocks of devices are held still while they are measured, where the user asks for it and may.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "devices/nvml_library.h"

namespace profgpu {

class ClockLock {
 public:
  /// Holds the device's clocks at what it keeps up within its power limit. Does nothing after release().
  Status lock(const std::string& uuid, const std::string& pci_bus_id);
  /// Has all devices choose their clocks again. By any thread, once; the rest does nothing. The error names the devices
  /// whose clocks may still be locked.
  Status release();

 private:
  Status open();
  [[nodiscard]] Result<nvml::Device> find(const std::string& uuid, const std::string& pci_bus_id) const;

  std::mutex mutex_;
  bool released_ = false;
  std::shared_ptr<nvml::Library> library_;
  std::vector<std::pair<nvml::Device, std::string>> locked_;   // with the PCI address
};

/// Releases what is locked from the thread that waits, whatever the one that measures is stuck in; gives up after
/// seconds. Empty: it worked, or there was nothing to do.
std::string released_in_time(const std::shared_ptr<ClockLock>& lock);

}  // namespace profgpu
