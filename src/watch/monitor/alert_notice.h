// What is said of an alert that was raised or cleared, in the forms that it is said in.
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
  int64_t since_ns = 0;               ///< Unix time at which its condition came true
  bool raised = true;
  std::string name, condition, advice;
  Severity severity = Severity::kWarning;
  std::string quantity, unit;         ///< of the first condition
  std::optional<double> value;        ///< of the first condition, now
  std::string detail;                 ///< "Xid 79", "pid 4711, 4712"; empty: there is no more to say
  std::string device;                 ///< as files name it: "0", "0:7"; empty: no device is meant
  std::string uuid, model, host;
};

/// "raised throttled (warning): GPU 0 of node1: mean(slowed_down_pct, 1m) > 50% for 5m; it is 100 %"
std::string alert_summary(const AlertNotice& notice);
/// One object on one line, with its line feed: what logs get, and commands on their standard input.
std::string alert_row(const AlertNotice& notice);
/// Variables "NAME=value" for a command.
std::vector<std::string> alert_variables(const AlertNotice& notice);
/// What Prometheus' Alertmanager posts to webhooks (version 4), with this one alert.
std::string alert_webhook_body(const AlertNotice& notice);

// Alerts by HTTP POST, in the form of Alertmanager's webhooks.

/// A thread of its own posts one after the other. What is not taken (no connection, no answer, 429, 5xx) is tried again
/// after 1, 2, 4 ... 60 s until it is taken or too many wait; what is refused (4xx and redirections) is not.
class Webhook {
 public:
  /// `tell` gets a line when posting begins to fail and when it goes on, on the thread. `program`: see http_call().
  Webhook(HttpUrl url, std::chrono::milliseconds limit, std::string program,
          std::function<void(const std::string&)> tell);
  ~Webhook();
  Webhook(const Webhook&) = delete;
  Webhook& operator=(const Webhook&) = delete;

  /// Never waits. Of those that wait, the oldest gives way.
  void post(const AlertNotice& notice);
  /// Each that waits is tried once more, for so long; false: the thread still waits for the network and is left behind.
  bool finish(std::chrono::milliseconds patience);

  /// Posts at once, once.
  [[nodiscard]] Status post_now(const AlertNotice& notice) const;

  static constexpr size_t kMaxWaiting = 256;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;   // outlives us where the thread does
  std::thread thread_;
};

}  // namespace profgpu
