// Which devices a command watches, through which backend, how often: flags of all commands that read devices.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/decimal.h"
#include "base/result.h"
#include "cli/command.h"
#include "devices/backend.h"
#include "devices/pending.h"

namespace profgpu {

struct DeviceOptions {
  std::vector<std::string> device;   ///< as typed; empty: those that the environment makes visible
  std::string backend = "auto";
  bool strict = false;               ///< no device is an error, not a note
  int64_t interval_ns = 0;
  bool constants_later = false;      ///< as in BackendOptions
};

constexpr std::string_view kVisibleDevices =
    "index, UUID, PCI id, cuda:N or all, separated by commas (default: those the command can see)";
constexpr std::string_view kAllDevices = "index, UUID, PCI id or cuda:N, separated by commas (default: all)";
inline const Flag kStrictFlag{"--strict", "fail if no GPU can be read"};
inline const Flag kIntervalFlag{"-i, --interval TIME", "time between samples: seconds, or 100ms, 2m (default 1)"};

/// --device, which `device` explains, --backend, and what else a command has.
FlagGroup device_flags(std::string_view device, const std::vector<Flag>& more = {});
/// `otherwise`: the devices without --device; empty: those that the environment makes visible. The error is a usage
/// error.
Result<DeviceOptions> device_options(const Arguments& arguments, std::string_view otherwise = {},
                                     int64_t interval_ns = 1'000'000'000);

struct OpenDevices {
  std::shared_ptr<Backend> backend;  ///< null: none
  std::vector<uint32_t> devices;     ///< indices into the backend's, in the order requested
  std::vector<std::string> notes;    ///< one line each, for people
  std::vector<Tried> tried;          ///< backends that did not open
};
/// Without --strict a machine without devices gives no backend and a note with the reason. A named backend that cannot
/// be opened, and a device that does not exist, are errors either way.
Result<OpenDevices> open_devices(const DeviceOptions& options);

/// "nvml: …; amdgpu: …", one line.
std::string tried_text(const std::vector<Tried>& tried);

// For commands that show current readings: with a deadline, and an error where there is nothing to show.

/// Opens at least one device. A driver that does not answer within half a minute ends the program.
Result<OpenDevices> open_shown(std::string_view command, const DeviceOptions& options);
/// Prints the outcome's error, if any, and ends the program without waiting for the thread that is stuck in the driver.
[[noreturn]] void leave_stuck(std::string_view command, const Outcome& outcome);

/// Facts of devices, read once and in parallel until a deadline: one device that hangs does not hold up the others.
class PendingFacts {
 public:
  PendingFacts(const std::shared_ptr<Backend>& backend, const std::vector<uint32_t>& devices) {
    for (const uint32_t d : devices) pending_.emplace_back([backend, d] { return backend->device_facts(d); });
  }
  /// In the order of the devices; nullopt: not in time, and its thread is still in the driver.
  std::vector<std::optional<std::vector<Fact>>> await(std::chrono::steady_clock::time_point deadline);

 private:
  std::vector<Pending<std::vector<Fact>>> pending_;
};

}  // namespace profgpu
