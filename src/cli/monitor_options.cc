#include "cli/monitor_options.h"

#include <fmt/format.h>
#include <syslog.h>
#include <unistd.h>

#include "app/words.h"
#include "base/dyn_lib.h"
#include "base/secrets.h"
#include "base/text.h"
#include "cli/log_file.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "devices/system_files.h"
#include "trace/sample_file.h"

namespace profgpu {
namespace {

constexpr int64_t kHour_ns = 3600 * kSecond_ns;
constexpr size_t kMaxAlertBytes = 1 << 20, kMaxAlerts = 1000;

Status read_log(const Arguments& arguments, MonitorCommand& command) {
  command.output = arguments.value("--output");
  for (const std::string_view flag : {"--rotate", "--keep", "--sync"})
    if (arguments.has(flag) && command.output.empty())
      return Error{fmt::format("{} needs a log", flag), "name its file with --output"};
  if (arguments.has("--output") && command.output.empty()) return Error{"--output is empty", "name a .jsonl file"};
  if (auto format = sample_format_of(command.output);
      !command.output.empty() && (!format || *format == SampleFormat::kCsv) && !command.output.starts_with("/dev/"))
    return Error{command.output + ": logs with alerts are JSON lines", "use a name that ends in .jsonl"};
  if (Status read = read_rotation(arguments, command.rotate_bytes, command.keep); !read) return read;
  return OptionReader(arguments).time("--sync", 0, kHour_ns, command.sync_ns).status();
}

Status read_alerts(const Arguments& arguments, MonitorCommand& command) {
  std::vector<std::string> given;
  for (const std::string& path : arguments.values("--alerts")) {
    const auto text = file_text(path, kMaxAlertBytes);
    if (!text) return Error{path + ": cannot be read", "it should have one alert per line, in the form of --alert"};
    for (const std::string_view line : pieces_of(*text, '\n'))
      if (const auto alert = without_blanks(line); !alert.empty() && alert.front() != '#') given.emplace_back(alert);
  }
  for (const std::string& alert : arguments.values("--alert")) given.push_back(alert);
  if (given.size() > kMaxAlerts) return Error{fmt::format("{} alerts exceed the limit of {}", given.size(), kMaxAlerts)};
  auto alerts =
      alerts_in_force(arguments.has("--only-own-alerts") ? std::vector<AlertRule>() : shipped_alerts(), given);
  if (!alerts) return alerts.error();
  command.alerts = *std::move(alerts);
  return ok();
}

Status read_actions(const Arguments& arguments, MonitorCommand& command) {
  command.on_alert = arguments.value("--on-alert");
  if (arguments.has("--on-alert") && command.on_alert.empty())
    return Error{"--on-alert is empty", "give a shell command"};
  command.syslog = arguments.has("--syslog");
  if (arguments.has("--webhook")) {
    auto url = parse_http_url(arguments.value("--webhook"));
    if (!url) return url.error().within("--webhook");
    command.webhook = *std::move(url);
  }
  int64_t limit_ns = 30 * kSecond_ns;
  OptionReader read(arguments);
  if (read.time("--action-limit", kSecond_ns / 10, kHour_ns, limit_ns); !read.status()) return read.status();
  command.action_limit = std::chrono::milliseconds(limit_ns / 1'000'000);
  command.test = arguments.has("--test-alert");
  if (command.test && command.on_alert.empty() && !command.webhook && !command.syslog)
    return Error{"--test-alert has nothing to test", "add --on-alert, --webhook or --syslog"};
  return ok();
}

}  // namespace

Result<MonitorCommand> monitor_command(const Arguments& arguments) {
  MonitorCommand command;
  auto devices = device_options(arguments, "all");
  if (!devices) return devices.error();
  command.devices = *std::move(devices);
  OptionReader read(arguments);
  read.time("--duration", kSecond_ns / 1000, INT64_MAX, command.duration_ns);
  for (const Status& status : {read.status(), read_log(arguments, command), read_alerts(arguments, command),
                               read_actions(arguments, command)})
    if (!status) return status.error();
  return command;
}

namespace {

constexpr int kHelpWidth = 120;

}  // namespace

std::string alert_help(const std::vector<AlertRule>& alerts) {
  const int width = text_width(kHelpWidth);
  const auto entry = [&](std::string_view left, int cells, std::string_view right) {
    return wrap(right, width, fmt::format("  {:<{}} ", left, cells));
  };
  std::string out = "Active alerts:\n";
  for (const AlertRule& rule : alerts) {
    out += fmt::format("  {}: {}\n", rule.name, rule.condition);   // whole, so that it can be copied
    if (!rule.advice.empty()) out += wrap(rule.advice, width, "      ");
  }
  out += "\nConditions can use every metric that `profgpu log --help-query` lists, and:\n";
  for (const AlertFigure& f : alert_figures())
    out += entry(fmt::format("{:<18} {:<4}", f.name, f.unit), 23, f.help);
  out += entry("mean(METRIC, TIME)", 23, "its mean over that time, once half of it is known");
  out += entry("increase(METRIC, TIME)", 23, "how much a counter grew in that time");
  return out +
         "\nForm of an alert:\n"
         "  NAME: METRIC > LEVEL [until LEVEL] [and METRIC < LEVEL ...]\n"
         "        [for TIME] [clear after TIME] [severity info|warning|critical]\n"
         "  NAME: off\n"
         "\nNext: profgpu monitor --alert 'hot: temperature_c > 85 for 2m' --test-alert\n";
}

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

void print_monitor(const std::string& text) { print_message("profgpu: monitor: " + masked_message(text)); }

MonitorAlarms::MonitorAlarms(const MonitorCommand& command) : syslog_(command.syslog) {
  if (syslog_) ::openlog("profgpu", LOG_PID | LOG_NDELAY, LOG_DAEMON);
  if (!command.on_alert.empty())
    command_.emplace(command.on_alert, command.action_limit.count() * 1'000'000, print_monitor);
  if (command.webhook)
    webhook_ = std::make_unique<Webhook>(*command.webhook, command.action_limit, own_program(), print_monitor);
}

void MonitorAlarms::give(const AlertNotice& notice) {
  print_monitor(alert_summary(notice));
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
  const auto report = [&](std::string_view what, const Status& status) {
    print_monitor(fmt::format("{}: {}", what, status ? "ok" : status.error().message));
    if (!status && all) all = Error{"not every action succeeded with the test alert"};
  };
  for (const bool raised : {true, false}) {
    notice.raised = raised;
    print_monitor(alert_summary(notice));
    if (syslog_) {
      log_to_system(notice);
      report("--syslog", ok());   // syslog(3) does not report whether it is read
    }
    if (command_) {
      const int64_t before = command_->failures();
      command_->run(notice);
      while (command_->tend(), command_->busy()) ::usleep(10'000);
      report("--on-alert", command_->failures() == before ? ok() : Status(Error{"failed"}));
    }
    if (webhook_) report("--webhook", webhook_->post_now(notice));
  }
  return all;
}

}  // namespace profgpu
