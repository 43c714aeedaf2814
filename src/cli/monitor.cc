// profgpu monitor: watches devices on machines without Prometheus; keeps a log, raises alerts.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <ctime>

#include "app/words.h"
#include "base/clock.h"
#include "base/steady_unix.h"
#include "cli/device_options.h"
#include "cli/log_file.h"
#include "cli/monitor_options.h"
#include "cli/output.h"
#include "devices/sampler.h"
#include "view/wording.h"
#include "watch/live/recording_folder.h"
#include "watch/monitor/alert_watch.h"

namespace profgpu {
namespace {

constexpr int64_t kMinNap_ns = 20'000'000, kMaxNap_ns = 1'000'000'000, kBusyNap_ns = 100'000'000;
constexpr int64_t kLastRows_ns = 5'000'000'000;

/// SIGTERM, SIGINT and SIGHUP as values. Create it before any thread, so that all of them block these signals.
class AwaitedSignals {
 public:
  AwaitedSignals() {
    sigemptyset(&set_);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set_, signal);
    ::pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  }
  /// 0: none arrived in that time.
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
  std::vector<std::string> printed_;
};

void MonitorService::look() {
  const std::vector<DeviceHealth> health = sampler_.health();
  for (const std::string& line : health_changes(health, devices_.backend->devices(), printed_))
    print_monitor(line);
  for (AlertNotice& notice : watch_.look(steady_unix_ns(), health)) {
    notice.time_ns += clock_set_by_ns();
    notice.since_ns += clock_set_by_ns();
    if (log_) log_->add_row(alert_row(notice));
    alarms_.give(notice);
  }
  alarms_.tend();
}

Outcome MonitorService::run(const AwaitedSignals& signals) {
  sampler_.start();
  const int64_t begun = monotonic_ns();
  const int64_t nap = std::clamp(command_.devices.interval_ns, kMinNap_ns, kMaxNap_ns);
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
    print_monitor(fmt::format("rows written to {}: {}\nNext: profgpu analyze {}", command_.output, log_->rows(),
                               shell_line({command_.output})));
  Outcome outcome;
  if (!written) outcome = Error{command_.output + ": its disk does not answer; the last rows may be missing"};
  if (!posted || !written || sampler_.any_stuck()) leave_stuck("monitor", outcome);
  return outcome;
}

Outcome test_alert(const MonitorCommand& command) {
  AlertNotice notice;
  notice.time_ns = notice.since_ns = unix_ns();
  notice.name = "test";
  notice.condition = "a test of the alert actions; nothing is wrong";
  notice.severity = Severity::kInfo;
  notice.host = recording_host();
  return MonitorAlarms(command).test(notice);
}

std::string beginning(const MonitorCommand& command, const OpenDevices& devices) {
  return fmt::format("{}, read every {:g} s; {}; {}",
                     plural(static_cast<int64_t>(devices.devices.size()), "GPU", "GPUs"),
                     static_cast<double>(command.devices.interval_ns) * 1e-9,
                     plural(static_cast<int64_t>(command.alerts.size()), "alert", "alerts"),
                     command.output.empty() ? "no log (--output)" : "log in " + command.output);
}

Outcome monitor(const Arguments& arguments) {
  auto command = monitor_command(arguments);
  if (!command) return Outcome::usage(command.error());
  if (arguments.has("--help-alerts")) return write_text(alert_help(command->alerts));
  if (command->test) return test_alert(*command);
  const AwaitedSignals signals;
  auto devices = open_shown("monitor", command->devices);
  if (!devices) return devices.error();
  std::unique_ptr<MonitorLog> log;
  if (!command->output.empty()) {
    auto opened =
        MonitorLog::open({command->output, command->rotate_bytes, command->keep, command->sync_ns, recording_host()},
                         devices->backend->devices(), print_monitor);
    if (!opened) return opened.error();
    log = *std::move(opened);
  }
  print_monitor(beginning(*command, *devices));
  return MonitorService(*command, *std::move(devices), std::move(log)).run(signals);
}

}  // namespace

extern const Command kMonitor{
    .name = "monitor",
    .summary = "keep a log and raise alerts on machines without Prometheus",
    .groups =
        {device_flags(kAllDevices,
                      {kIntervalFlag, {"--duration TIME", "stop after this time (default: at SIGTERM or Ctrl-C)"}}),
         {"Log",
          {{"-o, --output FILE", "append to this file, .jsonl"},
           {"--rotate SIZE", "start a new file at this size; FILE becomes FILE.1, and so on (default 100MB)"},
           {"--keep N", "number of older files to keep (default 9)"},
           {"--sync TIME", "how often to sync the log to its disk; 0: always (default 10)"}}},
         {"Alerts",
          {{"--alert ALERT...", "add an alert, or replace a shipped one: 'hot: temperature_c > 85 until 80 for 2m'"},
           {"--alerts FILE...", "read alerts from a file, one per line"},
           {"--only-own-alerts", "no shipped alerts"},
           {"--help-alerts", "list the active alerts, and what conditions can use"}}},
         {"Actions",
          {{"--on-alert COMMAND", "run this with /bin/sh, at most four at once"},
           {"--webhook URL", "POST there, like Prometheus' Alertmanager"},
           {"--syslog", "write to the system log"},
           {"--action-limit TIME", "end a command or request that takes longer (default 30)"},
           {"--test-alert", "raise and clear a test alert, and print the results"}}}},
    .examples = {{"profgpu monitor -o gpu.jsonl --syslog", "run forever, in at most 1 GB"},
                 {"profgpu monitor --on-alert 'mail -s \"$PROFGPU_ALERT_SUMMARY\" root' --test-alert",
                  "does the mail arrive?"},
                 {"profgpu monitor --alert 'throttled: off' --alert 'full: memory_used_pct > 90 for 1m'",
                  "other alerts"},
                 {"profgpu monitor --help-alerts", "what is watched for"}},
    .notes =
        "An alert is raised when its condition has been true for the time after `for`, and cleared when it has been false "
        "for as long, at most one minute. The command gets PROFGPU_ALERT (the name), PROFGPU_ALERT_STATE (raised or cleared) and _SEVERITY, "
        "_SUMMARY, _CONDITION, _VALUE, _TIME, _SINCE, _GPU, _UUID, _MODEL and _HOST in its environment, and all of it as "
        "JSON on standard input.\n\n"
        "The log has the rows of `profgpu log` and rows for alerts; SIGHUP reopens it. When the disk is full, one message "
        "reports it, alerts continue, and the log resumes once there is space.\n\n"
        "Exit status: 0 after SIGTERM, Ctrl-C or --duration, 1 no GPU, no log, or a failed test, 2 usage.",
    .run = monitor,
};

}  // namespace profgpu
