// What is said of an alert that was raised or cleared, in the forms that it is said in.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

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

}  // namespace profgpu
