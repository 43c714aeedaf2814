// Notices of raised and cleared alerts, in all their formats, and the webhook that posts them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "watch/exporter/http_client.h"
#include "watch/monitor/alert_rule.h"

namespace profgpu {

struct AlertNotice {
  int64_t time_ns = 0;                ///< Unix time at which it was raised or cleared
  int64_t since_ns = 0;               ///< Unix time at which its conditions became true
  bool raised = true;
  std::string name, condition, advice;
  Severity severity = Severity::kWarning;
  std::string quantity, unit;         ///< of the first condition
  std::optional<double> value;        ///< of the first condition, now
  std::string detail;                 ///< "Xid 79", "pid 4711, 4712"; empty: none
  std::string device;                 ///< as in files: "0", "0:7"; empty: not about a device
  std::string uuid, model, host;
};

/// "raised throttled (warning): GPU 0 of node1: mean(slowed_down_pct, 1m) > 50% for 5m; it is 100 %"
std::string alert_summary(const AlertNotice& notice);
/// A JSON object on one line, with its line feed: for logs, and the standard input of commands.
std::string alert_row(const AlertNotice& notice);
/// Variables "NAME=value" for a command.
std::vector<std::string> alert_variables(const AlertNotice& notice);
/// As Prometheus' Alertmanager posts to webhooks (version 4), with this one alert.
std::string alert_webhook_body(const AlertNotice& notice);

/// Posts alerts one after the other, on a thread of its own. Retries failures (no connection, no answer, 429, 5xx)
/// after 1, 2, 4 ... 60 s until they succeed or too many alerts wait, but not what is rejected (4xx and redirections).
class Webhook {
 public:
  /// `tell` gets a line when posting begins to fail and when it works again, on the thread. `program`: see http_call().
  Webhook(HttpUrl url, std::chrono::milliseconds limit, std::string program,
          std::function<void(const std::string&)> tell);
  ~Webhook();
  Webhook(const Webhook&) = delete;
  Webhook& operator=(const Webhook&) = delete;

  /// Never blocks. Drops the oldest if too many wait.
  void post(const AlertNotice& notice);
  /// Tries each waiting alert once more, for at most `patience`; false: the thread still waits for the network and is
  /// left behind.
  bool finish(std::chrono::milliseconds patience);

  /// Posts now, without retries.
  [[nodiscard]] Status post_now(const AlertNotice& notice) const;

  static constexpr size_t kMaxWaiting = 256;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;   // the thread may outlive us
  std::thread thread_;
};

}  // namespace profgpu
