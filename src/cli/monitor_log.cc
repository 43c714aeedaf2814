#include "cli/monitor_log.h"

#include <fmt/format.h>
#include <syslog.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include "base/clock.h"
#include "cli/output.h"
#include "watch/live/recording_folder.h"

namespace profgpu {

namespace {

// While the disk is full or the folder is gone.
constexpr int64_t kTryAgain_ns = 1'000'000'000;

}  // namespace

struct MonitorLog::Shared {
  using Entry = std::variant<Reading, std::string>;

  MonitorLogOptions options;
  std::vector<DeviceInfo> devices;
  std::function<void(const std::string&)> tell;

  // The thread's own.
  std::optional<LogFile> file;
  std::optional<SampleWriter> writer;
  bool failing = false;
  int64_t lost_now = 0, failed_at_ns = 0, synced_at_ns = 0;
  bool unsynced = false;

  std::atomic<bool> given_up{false};   // nobody waits for the reader of a pipe any longer
  std::atomic<int64_t> rows{0};

  std::mutex mutex;                    // all below
  std::condition_variable changed;
  std::vector<Entry> waiting;
  int64_t lost = 0;                    // while too many waited
  bool reopening = false, ending = false, ended = false;

  Status open_file();
  Status write(const Entry& entry);
  void take(const Entry& entry);
  void note_failure(const Error& error);
  void sync();
  void work();
  void add(Entry entry);
};

Status MonitorLog::Shared::open_file() {
  auto opened = LogFile::open({options.path, "", options.rotation, &given_up});
  if (!opened) return opened.error();
  file.emplace(*std::move(opened));
  writer.emplace(SampleFormat::kJsonLines, devices, std::vector<Metric>(), options.host);
  return ok();
}

Status MonitorLog::Shared::write(const Entry& entry) {
  if (!file)
    if (Status opened = open_file(); !opened) return opened;
  const auto* reading = std::get_if<Reading>(&entry);
  std::string row(reading ? writer->row(*reading) : std::get<std::string>(entry));
  if (file->is_full(row.size())) {
    if (Status rotated = file->rotate(); !rotated) {
      file.reset();
      return rotated;
    }
    writer.emplace(SampleFormat::kJsonLines, devices, std::vector<Metric>(), options.host);
    if (reading) row = writer->row(*reading);
  }
  Status written = file->write(row);
  // A device whose first row was lost is introduced by its next.
  if (!written) writer.emplace(SampleFormat::kJsonLines, devices, std::vector<Metric>(), options.host);
  return written;
}

void MonitorLog::Shared::note_failure(const Error& error) {
  failed_at_ns = monotonic_ns();
  if (!failing) tell(fmt::format("{}; alerts go on, and so will the log", error.message));
  failing = true;
}

void MonitorLog::Shared::take(const Entry& entry) {
  if (failing && monotonic_ns() - failed_at_ns < kTryAgain_ns) {
    ++lost_now;
    return;
  }
  if (Status written = write(entry); !written) {
    ++lost_now;
    return note_failure(written.error());
  }
  rows.fetch_add(1, std::memory_order_relaxed);
  unsynced = true;
  if (failing || lost_now > 0) tell(fmt::format("{}: goes on; rows that were lost: {}", options.path, lost_now));
  failing = false;
  lost_now = 0;
}

void MonitorLog::Shared::sync() {
  synced_at_ns = monotonic_ns();
  unsynced = false;
  if (!file) return;
  if (Status synced = file->sync(); !synced) note_failure(synced.error());
}

void MonitorLog::Shared::work() {
  std::vector<Entry> batch;
  std::unique_lock lock(mutex);
  for (bool last = false; !last;) {
    const auto wake = [&] { return ending || reopening || !waiting.empty(); };
    if (unsynced) changed.wait_for(lock, std::chrono::nanoseconds(std::max<int64_t>(options.sync_ns, 1)), wake);
    else changed.wait(lock, wake);
    batch.swap(waiting);
    waiting.clear();
    const bool anew = std::exchange(reopening, false);
    lost_now += std::exchange(lost, 0);
    last = ending;
    lock.unlock();
    for (const Entry& entry : batch) take(entry);
    batch.clear();
    if (unsynced && (last || anew || monotonic_ns() - synced_at_ns >= options.sync_ns)) sync();
    if (anew) file.reset();
    lock.lock();
  }
  file.reset();
  ended = true;
  changed.notify_all();
}

void MonitorLog::Shared::add(Entry entry) {
  std::lock_guard lock(mutex);
  if (waiting.size() >= kMaxWaiting) {
    ++lost;
    return;
  }
  waiting.push_back(std::move(entry));
  changed.notify_all();
}

Result<std::unique_ptr<MonitorLog>> MonitorLog::open(MonitorLogOptions options, std::vector<DeviceInfo> devices,
                                                     std::function<void(const std::string&)> tell) {
  auto shared = std::make_shared<Shared>();
  shared->options = std::move(options);
  shared->devices = std::move(devices);
  shared->tell = std::move(tell);
  if (Status opened = shared->open_file(); !opened) return opened.error();
  std::unique_ptr<MonitorLog> log(new MonitorLog(shared));
  log->thread_ = std::thread([shared] { shared->work(); });
  return log;
}

MonitorLog::~MonitorLog() { close(0); }

void MonitorLog::add(const Reading& reading) { shared_->add(reading); }
void MonitorLog::add_row(std::string row) { shared_->add(std::move(row)); }

void MonitorLog::reopen() {
  std::lock_guard lock(shared_->mutex);
  shared_->reopening = true;
  shared_->changed.notify_all();
}

bool MonitorLog::close(int64_t patience_ns) {
  if (!thread_.joinable()) return true;
  bool ended = false;
  {
    std::unique_lock lock(shared_->mutex);
    shared_->ending = true;
    shared_->given_up = true;
    shared_->changed.notify_all();
    ended = shared_->changed.wait_for(lock, std::chrono::nanoseconds(patience_ns), [&] { return shared_->ended; });
  }
  ended ? thread_.join() : thread_.detach();
  return ended;
}

int64_t MonitorLog::rows() const { return shared_->rows; }

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
