#include "measure/clock_lock.h"

#include <fmt/format.h>

#include <chrono>

#include "base/text.h"
#include "devices/nvml_inventory.h"
#include "devices/pending.h"

namespace profgpu {
namespace {

constexpr std::chrono::seconds kReleasePatience{10};
constexpr const char* kResetByHand = "`sudo nvidia-smi -rgc` releases them";

Error not_locked(nvml::Return code) {
  if (code == nvml::kNoPermission)
    return {"this user has no right to lock clocks", "root has it: sudo profgpu bench --lock-clocks"};
  return {nvml::words_of(code)};
}

}  // namespace

Status ClockLock::open() {
  if (library_) return ok();
  auto opened = nvml::Library::open();
  if (!opened) return opened.error();
  library_ = *std::move(opened);
  return ok();
}

Result<nvml::Device> ClockLock::find(const std::string& uuid, const std::string& pci_bus_id) const {
  uint32_t count = 0;
  (void)library_->call(library_->api.count, &count);
  for (uint32_t i = 0; i < count; ++i) {
    nvml::Device device = nullptr;
    nvml::PciInfo pci{};
    char text[96] = {};
    if (library_->call(library_->api.handle, i, &device) != nvml::kSuccess) continue;
    if (library_->call(library_->api.uuid, device, text, uint32_t{sizeof text - 1}) == nvml::kSuccess && uuid == text)
      return device;
    if (library_->call(library_->api.pci_info, device, &pci) == nvml::kSuccess && !pci_bus_id.empty() &&
        nvml::bus_id_of(pci) == pci_bus_id)
      return device;
  }
  return Error{"NVML does not have this device"};
}

Status ClockLock::lock(const std::string& uuid, const std::string& pci_bus_id) {
  const std::lock_guard guard(mutex_);
  if (released_) return ok();
  if (const Status opened = open(); !opened) return opened;
  const auto device = find(uuid, pci_bus_id);
  if (!device) return device.error();
  // Before the call: what comes back too late is released as well.
  locked_.emplace_back(*device, pci_bus_id);
  const nvml::Return code = library_->call(library_->api.lock_clocks, *device, nvml::kTdpClock, nvml::kTdpClock);
  if (code == nvml::kSuccess) return ok();
  locked_.pop_back();
  return not_locked(code);
}

Status ClockLock::release() {
  const std::lock_guard guard(mutex_);
  released_ = true;
  std::string left;
  for (const auto& [device, address] : locked_)
    if (library_->call(library_->api.unlock_clocks, device) != nvml::kSuccess) append_listed(left, address);
  locked_.clear();
  library_.reset();
  if (!left.empty()) return Error{"the clocks may still be locked of " + left, kResetByHand};
  return ok();
}

std::string released_in_time(const std::shared_ptr<ClockLock>& lock) {
  Pending<Status> released([lock] { return lock->release(); });
  const auto done = released.await(std::chrono::steady_clock::now() + kReleasePatience);
  if (done && *done) return "";
  if (!done) left_in_driver = true;
  return fmt::format("{}: {}", done ? done->error().message : "the driver does not answer: clocks may still be locked",
                     kResetByHand);
}

}  // namespace profgpu
