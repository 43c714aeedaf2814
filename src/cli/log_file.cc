#include "cli/log_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/decimal.h"
#include "devices/sampler.h"
#include "trace/sample_file.h"

namespace profgpu {
namespace {

constexpr size_t kHeadBytes = 64 << 10;

Error failed(const std::string& path, const char* what, int error, bool rotates = true) {
  const bool full = error == ENOSPC || error == EDQUOT;
  const char* hint = !full     ? ""
                     : rotates ? "free some space, or bound the log: --rotate 100MB --keep 5"
                               : "free some space";
  return {path + ": " + what + std::strerror(error), hint};
}

// Up to `most` bytes from `offset`.
std::string bytes_at(const std::string& path, int64_t offset, size_t most) {
  std::string text(most, '\0');
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const ssize_t n = fd < 0 ? -1 : ::pread(fd, text.data(), most, offset);
  if (fd >= 0) ::close(fd);
  text.resize(static_cast<size_t>(std::max<ssize_t>(n, 0)));
  return text;
}

}  // namespace

LogFile::LogFile(LogFile&& other) noexcept
    : options_(std::move(other.options_)), fd_(std::exchange(other.fd_, -1)), regular_(other.regular_),
      reader_left_(other.reader_left_), bytes_(other.bytes_) {}

LogFile::~LogFile() {
  if (fd_ > STDERR_FILENO) ::close(fd_);
}

Result<LogFile> LogFile::open(Options options) {
  LogFile file(std::move(options));
  // A reader that leaves before the header also leaves before the rows, and that is no error.
  if (Status opened = file.open_file(); !opened && !file.reader_left_) return opened.error();
  return file;
}

// Whether rows with our header can follow what is there.
Status LogFile::check_old(int64_t size) const {
  const std::string head = bytes_at(options_.path, 0, kHeadBytes);
  if (head.empty() && size > 0) return Error{options_.path + ": exists and cannot be read", "name another file"};
  const bool json = options_.header.empty();
  if (json ? head.front() == '{' && looks_like_samples(head) : head.starts_with(options_.header)) return ok();
  if (looks_like_samples(head))
    return Error{options_.path + ": exists and has other columns", "name another file, or query the same columns"};
  return Error{options_.path + ": exists and is not a log of samples", "name another file"};
}

// Its writer was killed at the first row, so there is no log yet.
bool LogFile::is_torn_first_row(int64_t size) const {
  constexpr std::string_view kJsonBegins = "{\"time";
  const std::string text = bytes_at(options_.path, 0, kHeadBytes);
  if (!regular_ || static_cast<int64_t>(text.size()) != size || text.find('\n') != text.npos) return false;
  if (!options_.header.empty()) return options_.header.starts_with(text);
  return std::string_view(text).substr(0, kJsonBegins.size()) == kJsonBegins.substr(0, text.size()) &&
         !looks_like_samples(text);
}

Status LogFile::open_file() {
  if (options_.path.empty()) {
    fd_ = STDOUT_FILENO;
    return options_.header.empty() ? ok() : write(options_.header);
  }
  fd_ = ::open(options_.path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0) return failed(options_.path, "", errno);
  struct stat info{};
  regular_ = ::fstat(fd_, &info) == 0 && S_ISREG(info.st_mode);
  bytes_ = regular_ ? info.st_size : 0;
  if (bytes_ > 0 && is_torn_first_row(bytes_) && ::ftruncate(fd_, 0) == 0) bytes_ = 0;
  if (bytes_ == 0) return options_.header.empty() ? ok() : write(options_.header);
  if (Status same = check_old(bytes_); !same) return same;
  return bytes_at(options_.path, bytes_ - 1, 1) == "\n" ? ok() : write("\n");
}

bool LogFile::is_full(size_t row_bytes) const {
  return options_.rotate_bytes > 0 && regular_ && bytes_ > static_cast<int64_t>(options_.header.size()) &&
         bytes_ + static_cast<int64_t>(row_bytes) > options_.rotate_bytes;
}

Status LogFile::rotate() {
  const auto old = [&](int64_t n) { return options_.path + (n == 0 ? "" : "." + std::to_string(n)); };
  int64_t last = 0;
  while (last < options_.keep && ::access(old(last + 1).c_str(), F_OK) == 0) ++last;
  for (int64_t n = std::min(last, options_.keep - 1); n >= 0; --n)
    if (std::rename(old(n).c_str(), old(n + 1).c_str()) != 0) return failed(old(n), "cannot be renamed: ", errno);
  if (options_.keep == 0 && ::unlink(options_.path.c_str()) != 0)
    return failed(options_.path, "cannot be removed: ", errno);
  ::close(std::exchange(fd_, -1));
  return open_file();
}

// False: the row is no longer wanted.
bool LogFile::wait_for_reader() const {
  pollfd output{fd_, POLLOUT, 0};
  constexpr int kLook_ms = 50;
  while (::poll(&output, 1, kLook_ms) == 0)
    if (options_.given_up != nullptr && *options_.given_up) return false;
  return true;
}

Status LogFile::write(std::string_view row) {
  const std::string_view name = options_.path.empty() ? "standard output" : std::string_view(options_.path);
  const int64_t before = bytes_;
  for (std::string_view rest = row; !rest.empty();) {
    // A pipe with room for PIPE_BUF takes that much at once and without waiting.
    if (!regular_ && !wait_for_reader()) return Error{std::string(name) + ": its reader does not read"};
    const ssize_t n = ::write(fd_, rest.data(), regular_ ? rest.size() : std::min<size_t>(rest.size(), PIPE_BUF));
    if (n >= 0) {
      rest.remove_prefix(static_cast<size_t>(n));
      bytes_ += n;
      continue;
    }
    const int error = errno;
    if (error == EINTR) continue;
    struct stat info{};
    // A disk that filled up in the middle of the row; unless another writer's rows came behind.
    if (regular_ && bytes_ > before && ::fstat(fd_, &info) == 0 && info.st_size == bytes_ &&
        ::ftruncate(fd_, before) == 0)
      bytes_ = before;
    reader_left_ = error == EPIPE;
    return failed(std::string(name), "cannot be written: ", error, !options_.path.empty());
  }
  return ok();
}

Status LogFile::sync() {
  if (!regular_ || ::fdatasync(fd_) == 0) return ok();
  return failed(options_.path, "cannot be written to its disk: ", errno);
}

namespace {

// While the disk is full or the folder is gone.
constexpr int64_t kRetry_ns = 1'000'000'000;

}  // namespace

struct MonitorLog::Shared {
  using Entry = std::variant<Reading, std::string>;

  MonitorLogOptions options;
  std::vector<DeviceInfo> devices;
  std::function<void(const std::string&)> report;

  // The thread's own.
  std::optional<LogFile> file;
  std::optional<SampleWriter> writer;
  bool failing = false;
  int64_t lost_now = 0, failed_at_ns = 0, synced_at_ns = 0;
  bool unsynced = false;

  std::atomic<bool> given_up{false};   // rows no longer wait for the reader of a pipe
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
  auto opened = LogFile::open({options.path, "", options.rotate_bytes, options.keep, &given_up});
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
  if (!failing) report(fmt::format("{}; alerts continue, and the log will too", error.message));
  failing = true;
}

void MonitorLog::Shared::take(const Entry& entry) {
  if (failing && monotonic_ns() - failed_at_ns < kRetry_ns) {
    ++lost_now;
    return;
  }
  if (Status written = write(entry); !written) {
    ++lost_now;
    return note_failure(written.error());
  }
  rows.fetch_add(1, std::memory_order_relaxed);
  unsynced = true;
  if (failing || lost_now > 0) report(fmt::format("{}: continues; rows lost: {}", options.path, lost_now));
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
                                                     std::function<void(const std::string&)> report) {
  auto shared = std::make_shared<Shared>();
  shared->options = std::move(options);
  shared->devices = std::move(devices);
  shared->report = std::move(report);
  if (Status opened = shared->open_file(); !opened) return opened.error();
  std::unique_ptr<MonitorLog> log(new MonitorLog(shared));
  log->thread_ = std::thread([shared] { shared->work(); });
  return log;
}

MonitorLog::~MonitorLog() { close(0); }

void MonitorLog::add(const Reading& reading) {
  Reading room;
  shared_->add(as_shown(reading, room));
}
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

Status read_rotation(const Arguments& arguments, int64_t& rotate_bytes, int64_t& keep) {
  constexpr int64_t kMinFileBytes = 4096, kMaxFiles = 1'000'000;
  OptionReader read(arguments);
  read.size("--rotate", kMinFileBytes, rotate_bytes).whole("--keep", 0, kMaxFiles, keep);
  return read.status();
}

}  // namespace profgpu
