// Options of `profgpu monitor`.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/device_options.h"
#include "watch/exporter/http_client.h"
#include "watch/monitor/alert_command.h"
#include "watch/monitor/alert_notice.h"
#include "watch/monitor/alert_rule.h"

namespace profgpu {

struct MonitorCommand {
  DeviceOptions devices;
  std::string output;                       ///< empty: no log
  int64_t rotate_bytes = 100'000'000, keep = 9, sync_ns = 10'000'000'000;
  std::vector<AlertRule> alerts;
  std::string on_alert;                     ///< a line for the shell; empty: none
  std::optional<HttpUrl> webhook;
  std::chrono::milliseconds action_limit{30'000};
  bool syslog = false;
  bool test = false;                        ///< watch no device; raise and clear one alert
  std::optional<int64_t> duration_ns;
};

/// The error is a usage error.
Result<MonitorCommand> monitor_command(const Arguments& arguments);
/// The active alerts, and what conditions can use.
std::string alert_help(const std::vector<AlertRule>& alerts);

// The actions of an alert: a line on standard error, a row in the log, syslog, a command, a webhook.

/// One line on standard error: "profgpu: monitor: …".
void print_monitor(const std::string& text);

/// For one thread.
class MonitorAlarms {
 public:
  explicit MonitorAlarms(const MonitorCommand& command);

  void give(const AlertNotice& notice);
  /// Call it a few times a second while busy(), else every second.
  void tend();
  [[nodiscard]] bool busy() const { return command_ && command_->busy(); }
  /// Waits a few seconds for running actions; false: a thread is blocked in the network, and the program should leave
  /// by std::_Exit.
  bool finish();
  /// Raises an alert and clears it, waits for the actions, and prints their results.
  Status test(AlertNotice notice);

 private:
  bool syslog_;
  std::optional<AlertCommand> command_;
  std::unique_ptr<Webhook> webhook_;
};

}  // namespace profgpu
