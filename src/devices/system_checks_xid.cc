// What the kernel log says of GPUs: NVIDIA's Xid errors, resets and hangs of AMD's and Intel's.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>

#include "base/clock.h"
#include "base/decimal.h"
#include "devices/system_checks.h"

namespace profgpu {
namespace {

struct Pattern {
  std::string_view text, what, advice;
};
constexpr std::array<Pattern, 4> kPatterns = {{
    {"NVRM: API mismatch", "a program's NVIDIA libraries are of another version than the kernel module",
     "reboot, or bring driver and libraries to one version"},
    {"NVRM: RmInitAdapter failed", "the driver could not start a device",
     "power cycle the machine; check the driver's version"},
    {"amdgpu: GPU reset", "the AMD driver reset a device", "look at the lines before it: `dmesg | grep amdgpu`"},
    {"GPU HANG", "the Intel driver found a device hanging", "look at the lines before it: `dmesg | grep -E 'i915|xe'`"},
}};

struct Seen {
  int64_t count = 0, last_us = 0;
  std::string last;
};

// 0 or errno. One read() gives one record; a copy of the log is an ordinary file.
int read_log(const std::string& path, std::string& text) {
  constexpr size_t kMost = 32 << 20;
  const int fd = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return errno;
  std::array<char, 16384> buffer;
  int error = 0;
  while (text.size() < kMost) {
    const ssize_t n = ::read(fd, buffer.data(), buffer.size());
    if (n == 0) break;
    if (n < 0 && (errno == EINTR || errno == EPIPE)) continue;  // EPIPE: records were overwritten meanwhile
    if (n < 0) {
      error = errno == EAGAIN ? 0 : errno;
      break;
    }
    text.append(buffer.data(), static_cast<size_t>(n));
  }
  ::close(fd);
  return error;
}

// "4,1234,5678901,-;text": priority, number, microseconds since boot.
std::pair<int64_t, std::string_view> record_of(std::string_view line) {
  const size_t semicolon = line.find(';');
  if (semicolon == line.npos) return {0, line};
  const std::vector<std::string_view> head = pieces_of(line.substr(0, semicolon), ',');
  return {head.size() > 2 ? whole_number(head[2]).value_or(0) : 0, line.substr(semicolon + 1)};
}

// "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, …"
std::optional<std::pair<std::string, int>> xid_of(std::string_view text) {
  constexpr std::string_view kMark = "NVRM: Xid (";
  const size_t at = text.find(kMark);
  const size_t close = at == text.npos ? at : text.find("):", at);
  if (close == text.npos) return std::nullopt;
  std::string_view device = text.substr(at + kMark.size(), close - at - kMark.size());
  if (device.starts_with("PCI:")) device.remove_prefix(4);
  std::string_view rest = without_blanks(text.substr(close + 2));
  const auto code = whole_number(rest.substr(0, rest.find_first_not_of("0123456789")));
  if (!code || *code > 100'000) return std::nullopt;
  return std::pair(std::string(device), static_cast<int>(*code));
}

void note(Seen& seen, int64_t at_us, std::string_view text) {
  ++seen.count;
  seen.last_us = std::max(seen.last_us, at_us);
  seen.last = text.substr(0, 200);
}

// The kernel counts from boot, as the monotonic clock does.
std::string how_often(const Seen& seen) {
  const int64_t age_ns = monotonic_ns() - seen.last_us * 1000;
  const std::string times = seen.count == 1 ? "once" : fmt::format("{} times", seen.count);
  return seen.last_us > 0 && age_ns >= 0 ? fmt::format("{}, last {} ago", times, rough_age(age_ns)) : times;
}

}  // namespace

void check_kernel_log(const SystemRoots& roots, SystemChecks& checks) {
  std::string log;
  if (const int error = read_log(roots.dev + "/kmsg", log); error != 0) {
    checks.push_back({"kernel_log", "", Health::kUnknown,
                      fmt::format("the kernel log cannot be read: {}", std::strerror(error)),
                      "as an administrator: `dmesg | grep -i -E 'xid|nvrm|amdgpu'`"});
    return;
  }
  std::map<std::pair<std::string, int>, Seen> xids;
  std::map<size_t, Seen> patterns;
  for (const std::string_view line : pieces_of(log, '\n')) {
    const auto [at_us, text] = record_of(line);
    if (const auto xid = xid_of(text)) note(xids[*xid], at_us, text);
    for (size_t i = 0; i < kPatterns.size(); ++i)
      if (text.find(kPatterns[i].text) != text.npos) note(patterns[i], at_us, text);
  }
  for (const auto& [key, seen] : xids) {
    const XidMeaning meaning = xid_meaning(key.second);
    checks.push_back({"kernel_log_xid", "", health_of(meaning.severity),
                      fmt::format("Xid {} on {}, {}: {}", key.second, key.first, how_often(seen), meaning.what),
                      std::string(meaning.advice)});
  }
  for (const auto& [i, seen] : patterns)
    checks.push_back({"kernel_log_message", "", Health::kWarning,
                      fmt::format("{}, {}", kPatterns[i].what, how_often(seen)), std::string(kPatterns[i].advice)});
  if (xids.empty() && patterns.empty())
    checks.push_back({"kernel_log", "", Health::kOk, "no GPU errors in the kernel log"});
}

}  // namespace profgpu
