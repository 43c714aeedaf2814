// profgpu monitor: watches devices for a machine without Prometheus; keeps a log, raises alerts.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <ctime>

#include "app/words.h"
#include "base/clock.h"
#include "cli/device_options.h"
#include "cli/log_file.h"
#include "cli/monitor_options.h"
#include "cli/output.h"
#include "devices/sampler.h"
#include "watch/live/recording_folder.h"
#include "watch/monitor/alert_watch.h"

namespace profgpu {
namespace {

constexpr int64_t kShortestNap_ns = 20'000'000, kLongestNap_ns = 1'000'000'000, kBusyNap_ns = 100'000'000;
constexpr int64_t kLastRows_ns = 5'000'000'000;

/// SIGTERM, SIGINT and SIGHUP as values. Make it before any thread: all of them then hold these signals back.
class AwaitedSignals {
 public:
  AwaitedSignals() {
    sigemptyset(&set_);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set_, signal);
    ::pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  }
  /// 0: none came in that time.
  [[nodiscard]] int await(int64_t ns) const {
    const timespec time{static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
    return std::max(::sigtimedwait(&set_, nullptr, &time), 0);
  }

 private:
  sigset_t set_{};
};

class MonitorService {
 public:
  MonitorService(const MonitorCommand& command, OpenDevices devices, std::unique_ptr<MonitorLog> log)
      : command_(command),
        devices_(std::move(devices)),
        log_(std::move(log)),
        alarms_(command),
        watch_(command.alerts, devices_.backend->devices(), devices_.devices, command.devices.interval_ns,
               recording_host()),
        sampler_(devices_.backend, sampling(), [this](const Reading& r) { take(r); }) {}

  /// Until a signal, the end of the replay, or of --duration.
  Outcome run(const AwaitedSignals& signals);

 private:
  [[nodiscard]] SamplerOptions sampling() const {
    SamplerOptions options;
    options.interval_ns = command_.devices.interval_ns;
    options.process_interval_ns = std::max<int64_t>(options.interval_ns, 5'000'000'000);
    options.devices = devices_.devices;
    options.ends_ns = 1'000'000'000;
    return options;
  }
  void take(const Reading& reading) {
    watch_.add(reading);
    if (log_) log_->add(reading);
  }
  void look();
  Outcome end();

  const MonitorCommand& command_;
  OpenDevices devices_;
  std::unique_ptr<MonitorLog> log_;
  MonitorAlarms alarms_;
  AlertWatch watch_;
  Sampler sampler_;
  std::vector<std::string> troubles_told_;
};

void MonitorService::look() {
  const std::vector<DeviceHealth> health = sampler_.health();
  for (const std::string& line : health_changes(health, devices_.backend->devices(), troubles_told_))
    say_as_monitor(line);
  for (const AlertNotice& notice : watch_.look(unix_ns(), health)) {
    if (log_) log_->add_row(alert_row(notice));
    alarms_.give(notice);
  }
  alarms_.tend();
}

Outcome MonitorService::run(const AwaitedSignals& signals) {
  sampler_.start();
  const int64_t begun = monotonic_ns();
  const int64_t nap = std::clamp(command_.devices.interval_ns, kShortestNap_ns, kLongestNap_ns);
  while (!devices_.backend->ended()) {
    int64_t pause = alarms_.busy() ? std::min(nap, kBusyNap_ns) : nap;
    if (command_.duration_ns) {
      const int64_t left = begun + *command_.duration_ns - monotonic_ns();
      if (left <= 0) break;
      pause = std::min(pause, left);
    }
    const int signal = signals.await(pause);
    if (signal == SIGHUP && log_) log_->reopen();
    else if (signal == SIGTERM || signal == SIGINT) break;
    look();
  }
  return end();
}

Outcome MonitorService::end() {
  sampler_.stop();
  look();
  const bool posted = alarms_.finish();
  const bool written = !log_ || log_->close(kLastRows_ns);
  if (log_)
    say_as_monitor(fmt::format("rows written to {}: {}\nNext: profgpu analyze {}", command_.output, log_->rows(),
                               shell_line({command_.output})));
  Outcome outcome;
  if (!written)
    outcome = Outcome::failed({command_.output + ": its disk does not answer; the last rows may be missing"});
  if (!posted || !written || sampler_.any_stuck()) leave_stuck("monitor", outcome);
  return outcome;
}

Outcome test_alert(const MonitorCommand& command) {
  AlertNotice notice;
  notice.time_ns = notice.since_ns = unix_ns();
  notice.name = "test";
  notice.condition = "a test of what alerts do; nothing is wrong";
  notice.severity = Severity::kInfo;
  notice.host = recording_host();
  MonitorAlarms alarms(command);
  const Status tested = alarms.test(notice);
  return tested ? Outcome{} : Outcome::failed(tested.error());
}

std::string beginning(const MonitorCommand& command, const OpenDevices& devices) {
  const size_t count = devices.devices.size(), alerts = command.alerts.size();
  return fmt::format("{} device{}, read every {:g} s; {} alert{}; {}", count, count == 1 ? "" : "s",
                     static_cast<double>(command.devices.interval_ns) * 1e-9, alerts, alerts == 1 ? "" : "s",
                     command.output.empty() ? "no log (--output)" : "log in " + command.output);
}

Outcome monitor(const Arguments& arguments) {
  auto command = monitor_command(arguments);
  if (!command) return Outcome::usage(command.error());
  if (arguments.has("--help-alerts")) return Outcome::of(write_stdout(alert_help(command->alerts)));
  if (command->test) return test_alert(*command);
  const AwaitedSignals signals;
  auto devices = open_shown("monitor", command->devices);
  if (!devices) return Outcome::failed(devices.error());
  std::unique_ptr<MonitorLog> log;
  if (!command->output.empty()) {
    auto opened =
        MonitorLog::open({command->output, command->rotate_bytes, command->keep, command->sync_ns, recording_host()},
                         devices->backend->devices(), say_as_monitor);
    if (!opened) return Outcome::failed(opened.error());
    log = *std::move(opened);
  }
  say_as_monitor(beginning(*command, *devices));
  return MonitorService(*command, *std::move(devices), std::move(log)).run(signals);
}

FlagGroup monitor_device_flags() {
  FlagGroup group = shown_device_flags(true);
  group.flags.push_back(
      {.name = "--duration", .value = "TIME", .help = "end after this long (default: at SIGTERM or Ctrl-C)"});
  return group;
}

}  // namespace

extern const Command kMonitor;
const Command kMonitor{
    .name = "monitor",
    .summary = "a log and alerts for machines without Prometheus, as a service",
    .positional = "",
    .groups = {monitor_device_flags(),
               {"Log",
                {output_flag("append to this file, .jsonl"),
                 {.name = "--rotate",
                  .value = "SIZE",
                  .help = "begin a new file at this size; FILE becomes FILE.1, and so on (default 100MB)"},
                 {.name = "--keep", .value = "N", .help = "older files that stay (default 9)"},
                 {.name = "--sync",
                  .value = "TIME",
                  .help = "how often the log is synced to its disk; 0: always (default 10)"}}},
               {"Alerts",
                {{.name = "--alert",
                  .value = "ALERT",
                  .help =
                      "one more, or another in the place of a shipped one: 'hot: temperature_c > 85 until 80 for 2m'",
                  .repeatable = true},
                 {.name = "--alerts",
                  .value = "FILE",
                  .help = "a file with one such alert in each line",
                  .repeatable = true,
                  .takes_path = true},
                 {.name = "--only-own-alerts", .help = "none but those"},
                 {.name = "--help-alerts", .help = "list the alerts in force, and what alerts can look at"}}},
               {"What alerts do",
                {{.name = "--on-alert", .value = "COMMAND", .help = "run this by /bin/sh, at most four at once"},
                 {.name = "--webhook", .value = "URL", .help = "POST there, as Prometheus' Alertmanager does"},
                 {.name = "--syslog", .help = "to the system's log"},
                 {.name = "--action-limit",
                  .value = "TIME",
                  .help = "a command or a request that takes longer is ended (default 30)"},
                 {.name = "--test-alert", .help = "raise and clear a test alert, and say what came of it"}}}},
    .examples = {{"profgpu monitor -o gpu.jsonl --syslog", "for ever, in at most 1 GB"},
                 {"profgpu monitor --on-alert 'mail -s \"$PROFGPU_ALERT_SUMMARY\" root' --test-alert",
                  "does the mail arrive?"},
                 {"profgpu monitor --alert 'throttled: off' --alert 'full: memory_used_pct > 90 for 1m'",
                  "other alerts"},
                 {"profgpu monitor --help-alerts", "what is watched for"}},
    .notes =
        "An alert is raised when its condition was true for its time, and cleared when it was untrue for as long, a "
        "minute at "
        "most. The command gets PROFGPU_ALERT (the name), PROFGPU_ALERT_STATE (raised or cleared) and _SEVERITY, "
        "_SUMMARY, "
        "_CONDITION, _VALUE, _TIME, _SINCE, _GPU, _UUID, _MODEL and _HOST in its environment, and all of it as JSON on "
        "its "
        "standard input. The log is what `profgpu log` writes, with rows for alerts between; SIGHUP reopens it. A disk "
        "that is "
        "full is named once; alerts go on, and the log does when there is room. Exit status: 0 after SIGTERM, Ctrl-C "
        "or "
        "--duration, 1 no device or no log, or a test that failed, 2 usage.",
    .run = monitor,
};

}  // namespace profgpu
