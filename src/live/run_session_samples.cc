#include "live/run_session_samples.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/clock.h"

namespace profgpu {
namespace {

constexpr int64_t kReaderComes_ns = 5'000'000'000;
constexpr int kReaderTakes_ms = 1'000;

// A pipe opens as soon as somebody reads it; without O_NONBLOCK it would wait for that for ever.
int open_to_write(const std::string& path) {
  const timespec pause{0, 10'000'000};
  const int64_t until_ns = monotonic_ns() + kReaderComes_ns;
  for (;;) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
    if (fd >= 0 || errno != ENXIO || monotonic_ns() >= until_ns) return fd;
    ::nanosleep(&pause, nullptr);
  }
}

}  // namespace

SampleOutput::SampleOutput(std::string path, int fd, SampleWriter writer)
    : path_(std::move(path)), fd_(fd), writer_(std::move(writer)) {}

SampleOutput::~SampleOutput() { ::close(fd_); }

Result<std::unique_ptr<SampleOutput>> SampleOutput::open(const std::string& path, const std::vector<DeviceInfo>& devices,
                                                         std::string_view host) {
  const auto format = sample_format_of(path);
  if (!format) return format.error();
  const int fd = open_to_write(path);
  if (fd < 0 && errno == ENXIO)
    return Error{path + ": nobody reads this pipe", "start its reader first, or name a file"};
  if (fd < 0) return Error{path + ": cannot be written: " + std::strerror(errno)};
  std::unique_ptr<SampleOutput> out(new SampleOutput(path, fd, {*format, devices, {}, host}));
  out->write(out->writer_.header());
  return out;
}

void SampleOutput::add(const Reading& reading) {
  if (!problem_.empty()) return;
  const std::string_view rows = writer_.rows(reading);
  write(rows);
  if (problem_.empty()) rows_ += std::count(rows.begin(), rows.end(), '\n');
}

void SampleOutput::mark(int64_t time_ns, std::string_view name) {
  if (problem_.empty()) write(writer_.mark(time_ns, name));
}

void SampleOutput::write(std::string_view row) {
  size_t done = 0;
  while (done < row.size()) {
    const ssize_t n = ::write(fd_, row.data() + done, row.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) {
      pollfd room{fd_, POLLOUT, 0};
      if (::poll(&room, 1, kReaderTakes_ms) != 0) continue;
    }
    if (n < 0) {
      const char* why = errno == EAGAIN ? "its reader has stopped to read" : std::strerror(errno);
      problem_ = fmt::format("{}: cannot be written: {}; {} rows are in it", path_, why, rows_);
      // Half a row helps nobody. What is no plain file (a pipe) cannot be cut.
      if (done > 0 && ::ftruncate(fd_, size_bytes_) != 0) problem_ += ", the last one torn";
      return;
    }
    done += static_cast<size_t>(n);
  }
  size_bytes_ += static_cast<int64_t>(row.size());
}

}  // namespace profgpu
