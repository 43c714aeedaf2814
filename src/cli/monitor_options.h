// What `profgpu monitor` was asked for.
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
  bool test = false;                        ///< no device is watched: one alert is raised and cleared
  std::optional<int64_t> duration_ns;
};

/// The error is a usage error.
Result<MonitorCommand> monitor_command(const Arguments& arguments);
/// What alerts can look at, and which there are.
std::string alert_help(const std::vector<AlertRule>& alerts);

// What `profgpu monitor` does about an alert: a line on standard error, a row in the log, syslog, a command, a webhook.

/// One line on standard error: "profgpu: monitor: …".
void say_as_monitor(const std::string& text);

/// For one thread.
class MonitorAlarms {
 public:
  explicit MonitorAlarms(const MonitorCommand& command);

  void give(const AlertNotice& notice);
  /// To be called a few times a second while busy(), else each second.
  void tend();
  [[nodiscard]] bool busy() const { return command_ && command_->busy(); }
  /// Lets what was begun end, for a few seconds; false: the network holds a thread, and the program should leave by
  /// std::_Exit.
  bool finish();
  /// Raises an alert and clears it, waits for what comes of it, and says so.
  Status test(AlertNotice notice);

 private:
  bool syslog_;
  std::optional<AlertCommand> command_;
  std::unique_ptr<Webhook> webhook_;
};

}  // namespace profgpu
