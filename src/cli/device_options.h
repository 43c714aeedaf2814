// Which devices a command watches, through which backend, how often: flags that `run`, `log`, `stat`, `devices` and
// `doctor` share.
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
  std::vector<std::string> device;   ///< as typed; empty: what the command can see
  std::string backend = "auto";
  bool strict = false;               ///< no device is an error, not a note
  int64_t interval_ns = 0;
  bool constants_later = false;      ///< as in BackendOptions
};

constexpr std::string_view kIntervalHelp =
    "time between samples in seconds, or with a unit: 0.5, 100ms (default 1)";

/// Help of --device, --backend, --strict and --interval; the latter two are not there where it is empty.
struct DeviceFlags {
  std::string_view device =
      "index, UUID, PCI id, cuda:N or all; several with commas or again (default: what the command can see)";
  std::string_view backend = "auto, nvml, smi, amdgpu, intel, replay:FILE or none (default auto)";
  std::string_view strict = "fail if no device can be read";
  std::string_view interval = {};
};
FlagGroup device_flags(const DeviceFlags& flags);
/// The error is a usage error.
Result<DeviceOptions> device_options(const Arguments& arguments, int64_t default_interval_ns);

struct OpenDevices {
  std::shared_ptr<Backend> backend;  ///< null: none
  std::vector<uint32_t> devices;     ///< positions among the backend's, in the order asked for
  std::vector<std::string> notes;    ///< one line each, for people
  std::vector<Tried> tried;          ///< backends that are not there
};
/// Without --strict a machine without devices gives no backend and a note that says why. A backend that was named and
/// cannot be opened, and a device that does not exist, are errors either way.
Result<OpenDevices> open_devices(const DeviceOptions& options);

/// "nvml: …; amdgpu: …", one line.
std::string tried_text(const std::vector<Tried>& tried);

// Opening devices for commands that show what is now: with a deadline, and an error where there is nothing to show.

/// device_flags() for commands that show all devices unless told otherwise, and fail where there is none.
FlagGroup shown_device_flags(bool with_interval = false);
/// Opens them for a command that needs one at least. A driver that does not answer within half a minute ends the
/// program.
Result<OpenDevices> open_shown(std::string_view command, const DeviceOptions& options);
/// Says the outcome's error, if any, and ends the program without waiting for the thread that is stuck in the driver.
[[noreturn]] void leave_stuck(std::string_view command, const Outcome& outcome);
/// Writes `text` to standard output; `stuck` as in leave_stuck(). `otherwise`: the outcome where it could be written.
Outcome show_text(std::string_view command, std::string_view text, bool stuck, Outcome otherwise = {});

/// What devices say once, waited for until a deadline only: one that hangs keeps nobody's facts but its own.
class PendingFacts {
 public:
  PendingFacts(const std::shared_ptr<Backend>& backend, const std::vector<uint32_t>& devices) {
    for (const uint32_t d : devices) asked_.emplace_back([backend, d] { return backend->device_facts(d); });
  }
  /// In the order of the devices; nullopt: not told in time, and its thread is still in the driver.
  std::vector<std::optional<std::vector<Fact>>> await(std::chrono::steady_clock::time_point deadline);

 private:
  std::vector<Pending<std::vector<Fact>>> asked_;
};

}  // namespace profgpu
