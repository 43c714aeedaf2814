// What `profgpu monitor` does about an alert: a line on standard error, a row in the log, syslog, a command, a webhook.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cli/monitor_options.h"
#include "watch/monitor/alert_command.h"
#include "watch/monitor/webhook.h"

namespace profgpu {

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
