// What `profgpu log` was asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "cli/command.h"
#include "cli/device_options.h"
#include "cli/log_columns.h"

namespace profgpu {

struct LogOptions {
  DeviceOptions devices;
  LogRows::Options rows;
  std::string output;                      ///< empty: standard output
  std::optional<int64_t> count;            ///< rows of each device
  std::optional<int64_t> duration_ns;
  int64_t rotate_bytes = 0;
  int64_t keep = INT64_MAX;

  /// An end was asked for, so that a signal before it cuts the log short.
  [[nodiscard]] bool bounded() const { return count || duration_ns; }
};

/// Everything wrong with the options is a usage error.
Result<LogOptions> log_options(const Arguments& arguments);

}  // namespace profgpu
