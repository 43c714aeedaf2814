// Files of samples: whatever the bytes, the reader ends, keeps its promises about order, and reads back what the writer
// makes of what it read.
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "trace/sample_file.h"

namespace {

using namespace profgpu;

void require(bool holds) {
  if (!holds) std::abort();
}

std::string memory_file(const void* data, size_t size, int& fd) {
  fd = ::memfd_create("samples", MFD_CLOEXEC);
  require(fd >= 0 && ::write(fd, data, size) == static_cast<ssize_t>(size));
  return "/proc/self/fd/" + std::to_string(fd);
}

void check(const SampleLog& log) {
  require(!log.devices.empty() && log.ticks > 0 && log.first_ns <= log.last_ns && log.first_ns >= 0);
  for (size_t i = 0; i < log.series.size(); ++i) {
    const SampleSeries& s = log.series[i];
    require(s.device < log.devices.size() && s.time_ns.size() == s.value.size() && !s.time_ns.empty());
    require(i == 0 || log.series[i - 1].device < s.device ||
            (log.series[i - 1].device == s.device && log.series[i - 1].metric < s.metric));
    for (size_t j = 0; j < s.value.size(); ++j)
      require(std::isfinite(s.value[j]) && (j == 0 || s.time_ns[j - 1] < s.time_ns[j]));
  }
}

// One reading for each value: the file is long, but says the same.
std::string written(const SampleLog& log) {
  SampleWriter writer(SampleFormat::kJsonLines, log.devices, {});
  std::string text;
  for (const SampleSeries& s : log.series)
    for (size_t i = 0; i < s.value.size(); ++i) {
      Reading r;
      r.device = s.device;
      r.time_ns = s.time_ns[i];
      r.add(s.metric, s.value[i]);
      text += writer.row(r);
    }
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view head(reinterpret_cast<const char*>(data), size);
  (void)looks_like_samples(head.substr(0, 64 << 10));
  int fd = -1;
  SampleFileIssues issues;
  auto log = read_sample_file(memory_file(data, size, fd), issues);
  ::close(fd);
  if (!log) return 0;
  check(*log);
  const std::string text = written(*log);
  if (text.empty()) return 0;
  auto again = read_sample_file(memory_file(text.data(), text.size(), fd), issues);
  ::close(fd);
  require(static_cast<bool>(again) && issues.damaged_rows == 0 && !issues.torn);
  check(*again);
  // Devices that no word tells apart become one.
  if (again->devices.size() == log->devices.size()) require(again->series.size() == log->series.size());
  return 0;
}
