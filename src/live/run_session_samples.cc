#include "live/run_session_samples.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace profgpu {

SampleOutput::SampleOutput(std::string path, int fd, SampleFormat format, std::vector<DeviceInfo> devices)
    : path_(std::move(path)), fd_(fd), writer_(format, std::move(devices), {}) {}

SampleOutput::~SampleOutput() { ::close(fd_); }

Result<std::unique_ptr<SampleOutput>> SampleOutput::open(const std::string& path,
                                                         const std::vector<DeviceInfo>& devices) {
  const auto format = sample_format_of(path);
  if (!format) return format.error();
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
  if (fd < 0) return Error{path + ": cannot be written: " + std::strerror(errno)};
  std::unique_ptr<SampleOutput> out(new SampleOutput(path, fd, *format, devices));
  out->write(out->writer_.header());
  return out;
}

void SampleOutput::add(const Reading& reading) {
  if (problem_.empty()) write(writer_.row(reading)), ++rows_;
}

void SampleOutput::mark(int64_t time_ns, std::string_view name) {
  if (problem_.empty()) write(writer_.mark(time_ns, name));
}

void SampleOutput::write(std::string_view row) {
  size_t done = 0;
  while (done < row.size()) {
    const ssize_t n = ::write(fd_, row.data() + done, row.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      problem_ = fmt::format("{}: cannot be written: {}; {} rows are in it", path_, std::strerror(errno), rows_);
      // Half a row helps nobody. What is no plain file (a pipe) cannot be cut.
      if (done > 0 && ::ftruncate(fd_, size_bytes_) != 0) problem_ += ", the last one torn";
      return;
    }
    done += static_cast<size_t>(n);
  }
  size_bytes_ += static_cast<int64_t>(row.size());
}

}  // namespace profgpu
