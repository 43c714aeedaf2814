#include "cli/log_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <utility>

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
  // Whoever left before the header does so before the rows too, and that is no error.
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
    return Error{options_.path + ": exists and has other columns", "name another file, or ask for the same columns"};
  return Error{options_.path + ": exists and is not a log of samples", "name another file"};
}

// Whoever wrote it was killed at its first row, so there is no log yet.
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
  return options_.rotation.bytes > 0 && regular_ && bytes_ > static_cast<int64_t>(options_.header.size()) &&
         bytes_ + static_cast<int64_t>(row_bytes) > options_.rotation.bytes;
}

Status LogFile::rotate() {
  const auto old = [&](int64_t n) { return options_.path + (n == 0 ? "" : "." + std::to_string(n)); };
  int64_t last = 0;
  while (last < options_.rotation.keep && ::access(old(last + 1).c_str(), F_OK) == 0) ++last;
  for (int64_t n = std::min(last, options_.rotation.keep - 1); n >= 0; --n)
    if (std::rename(old(n).c_str(), old(n + 1).c_str()) != 0) return failed(old(n), "cannot be renamed: ", errno);
  if (options_.rotation.keep == 0 && ::unlink(options_.path.c_str()) != 0)
    return failed(options_.path, "cannot be removed: ", errno);
  ::close(std::exchange(fd_, -1));
  return open_file();
}

// False: nobody wants the row any more.
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
    if (!regular_ && !wait_for_reader()) return Error{std::string(name) + ": nobody reads it"};
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

}  // namespace profgpu
