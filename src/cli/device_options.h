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

namespace profgpu {

struct DeviceOptions {
  std::vector<std::string> device;   ///< as typed; empty: what the command can see
  std::string backend = "auto";
  bool strict = false;               ///< no device is an error, not a note
  int64_t interval_ns = 0;
  bool constants_later = false;      ///< as in BackendOptions
};

/// --device, --backend, --strict and, where asked for, --interval. `default_interval`: as it stands in the help, "0.2";
/// must live as long as the program.
FlagGroup device_flags(bool with_interval, std::string_view default_interval);
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

}  // namespace profgpu
