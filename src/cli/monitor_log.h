// The log of `profgpu monitor`: rows of samples and of alerts, written by a thread of its own, so that a disk that is
// full or hangs never holds up what watches the devices.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "cli/flag_values.h"
#include "cli/log_file.h"
#include "cli/monitor_options.h"
#include "trace/sample_file.h"
#include "watch/monitor/alert_command.h"
#include "watch/monitor/alert_notice.h"

namespace profgpu {

struct MonitorLogOptions {
  std::string path;
  Rotation rotation;
  int64_t sync_ns = 0;  ///< how often what was written is synced to the disk; 0: after each batch of rows
  std::string host;                    ///< of devices that do not state theirs
};

class MonitorLog {
 public:
  /// The error is that of the first opening; later ones are told and tried again. `tell` is called on the thread, once
  /// when writing begins to fail and once when it goes on.
  static Result<std::unique_ptr<MonitorLog>> open(MonitorLogOptions options, std::vector<DeviceInfo> devices,
                                                  std::function<void(const std::string&)> tell);
  ~MonitorLog();
  MonitorLog(const MonitorLog&) = delete;
  MonitorLog& operator=(const MonitorLog&) = delete;

  /// Neither waits. What comes while kMostWaiting wait is lost, and counted.
  void add(const Reading& reading);
  void add_row(std::string row);
  /// Closes the file and opens what then has its name: for whoever rotates it from outside.
  void reopen();
  /// Writes and syncs what waits; false: the disk hangs and the thread is left behind.
  bool close(int64_t patience_ns);
  [[nodiscard]] int64_t rows() const;

  static constexpr size_t kMaxWaiting = 16384;

 private:
  struct Shared;
  explicit MonitorLog(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

  std::shared_ptr<Shared> shared_;   // outlives us where the thread does
  std::thread thread_;
};

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
