#include "cli/monitor_alarms.h"

#include <fmt/format.h>
#include <syslog.h>
#include <unistd.h>

#include "cli/output.h"
#include "watch/live/recording_environment.h"

namespace profgpu {
namespace {

constexpr int64_t kLastCommands_ns = 3'000'000'000;
constexpr std::chrono::seconds kLastPosts{3};

int priority_of(const AlertNotice& notice) {
  if (!notice.raised) return LOG_NOTICE;
  switch (notice.severity) {
    case Severity::kInfo: return LOG_INFO;
    case Severity::kWarning: return LOG_WARNING;
    case Severity::kCritical: return LOG_CRIT;
  }
  return LOG_NOTICE;
}

void log_to_system(const AlertNotice& notice) {
  ::syslog(priority_of(notice), "%s", printable(alert_summary(notice)).c_str());
}

}  // namespace

void say_as_monitor(const std::string& text) { print_message("profgpu: monitor: " + text); }

MonitorAlarms::MonitorAlarms(const MonitorCommand& command) : syslog_(command.syslog) {
  if (syslog_) ::openlog("profgpu", LOG_PID | LOG_NDELAY, LOG_DAEMON);
  if (!command.on_alert.empty())
    command_.emplace(command.on_alert, command.action_limit.count() * 1'000'000, say_as_monitor);
  if (command.webhook)
    webhook_ = std::make_unique<Webhook>(*command.webhook, command.action_limit, own_program(), say_as_monitor);
}

void MonitorAlarms::give(const AlertNotice& notice) {
  say_as_monitor(alert_summary(notice));
  if (syslog_) log_to_system(notice);
  if (command_) command_->run(notice);
  if (webhook_) webhook_->post(notice);
}

void MonitorAlarms::tend() {
  if (command_) command_->tend();
}

bool MonitorAlarms::finish() {
  if (command_) command_->finish(kLastCommands_ns);
  return !webhook_ || webhook_->finish(kLastPosts);
}

Status MonitorAlarms::test(AlertNotice notice) {
  Status all = ok();
  const auto tell = [&](std::string_view what, const Status& status) {
    say_as_monitor(fmt::format("{}: {}", what, status ? "ok" : status.error().message));
    if (!status && all) all = Error{"not every action took the test alert"};
  };
  for (const bool raised : {true, false}) {
    notice.raised = raised;
    say_as_monitor(alert_summary(notice));
    if (syslog_) {
      log_to_system(notice);
      tell("--syslog", ok());   // whether anybody reads it, syslog(3) does not say
    }
    if (command_) {
      const int64_t before = command_->failures();
      command_->run(notice);
      while (command_->tend(), command_->busy()) ::usleep(10'000);
      tell("--on-alert", command_->failures() == before ? ok() : Status(Error{"failed"}));
    }
    if (webhook_) tell("--webhook", webhook_->post_now(notice));
  }
  return all;
}

}  // namespace profgpu
