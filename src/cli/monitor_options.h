// What `profgpu monitor` was asked for.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/device_options.h"
#include "watch/exporter/http_client.h"
#include "watch/monitor/alert_rule.h"

namespace profgpu {

struct MonitorCommand {
  DeviceOptions devices;
  std::string output;                       ///< empty: no log
  int64_t rotate_bytes = 0, keep = 0, sync_ns = 0;
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
