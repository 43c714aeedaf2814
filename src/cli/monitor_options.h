// What `profgpu monitor` was asked for.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/device_options.h"
#include "cli/flag_values.h"
#include "watch/exporter/http_client.h"
#include "watch/monitor/alert_rule.h"

namespace profgpu {

struct MonitorCommand {
  DeviceOptions devices;
  std::string output;                       ///< empty: no log
  Rotation rotation{100'000'000, 9};
  int64_t sync_ns = 10'000'000'000;
  std::vector<AlertRule> alerts;
  std::string on_alert;                     ///< a line for the shell; empty: none
  std::optional<HttpUrl> webhook;
  std::chrono::milliseconds action_limit{30'000};
  bool syslog = false;
  bool test = false;                        ///< no device is watched: one alert is raised and cleared
  std::optional<int64_t> duration_ns;
};

/// The error is a usage error.
Result<MonitorCommand> monitor_command(const Arguments& arguments);
/// What alerts can look at, and which there are.
std::string alert_help(const std::vector<AlertRule>& alerts);

}  // namespace profgpu
