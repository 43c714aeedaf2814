// What the kernel log says of GPUs: NVIDIA's Xid errors, resets and hangs of AMD's and Intel's.
//
// Meanings after NVIDIA's "XID Errors" guide (docs.nvidia.com/deploy/xid-errors).
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
#include "collect/system_checks.h"

namespace profgpu {
namespace {

constexpr std::string_view kProgram =
    "most often the program: run it under compute-sanitizer; if it comes with other programs too, the device";
constexpr std::string_view kReset = "stop all programs on it and `nvidia-smi --gpu-reset -i N`, else reboot";
constexpr std::string_view kReplace = "reset it and run `dcgmi diag -r 3`; if it comes again, have the device replaced";

constexpr std::array<XidMeaning, 22> kXids = {{
    {13, Health::kWarning, "a kernel faulted (illegal instruction or address)", kProgram},
    {31, Health::kWarning, "a kernel touched memory that is not mapped", kProgram},
    {32, Health::kWarning, "a broken command buffer reached the device", "check PCIe errors and the driver's version"},
    {43, Health::kWarning, "a program's channel stopped after its own error", kProgram},
    {45, Health::kWarning, "a program's work was removed, since it ended or another error came before",
     "look at the errors before it"},
    {48, Health::kProblem, "a memory error of two bits, not correctable", kReset},
    {61, Health::kProblem, "the device's microcontroller halted (breakpoint)", kReset},
    {62, Health::kProblem, "the device's microcontroller halted", kReset},
    {63, Health::kWarning, "a memory row was remapped or a page retired",
     "reset the device when it is free, so that it takes effect"},
    {64, Health::kProblem, "remapping a memory row failed", kReplace},
    {69, Health::kWarning, "the graphics engine raised an exception", kProgram},
    {74, Health::kProblem, "an NVLink error", "`nvidia-smi nvlink -e`; reset the device, then check bridge and switch"},
    {79, Health::kProblem, "the device fell off the PCIe bus",
     "power cycle the machine; check seating, cables, power and temperature"},
    {92, Health::kWarning, "very many correctable memory errors", "watch it; have the device tested if it goes on"},
    {94, Health::kWarning, "a memory error that only its own program lost",
     "start that program again; reset the device when it is free"},
    {95, Health::kProblem, "a memory error that other programs may have seen", kReset},
    {109, Health::kWarning, "switching between programs took too long",
     "update the driver; if it comes again, report it to NVIDIA"},
    {110, Health::kProblem, "a security fault", "power cycle the machine"},
    {119, Health::kProblem, "the device's firmware (GSP) did not answer", "reset it or reboot; a newer driver may cure it"},
    {120, Health::kProblem, "the device's firmware (GSP) failed", "reset it or reboot; a newer driver may cure it"},
    {121, Health::kWarning, "an error of the chip-to-chip link", kReset},
    {140, Health::kProblem, "a memory error that could not be corrected", kReset},
}};

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

const XidMeaning* find_xid(int code) {
  const auto it = std::find_if(kXids.begin(), kXids.end(), [&](const XidMeaning& x) { return x.code == code; });
  return it == kXids.end() ? nullptr : &*it;
}

std::span<const XidMeaning> known_xids() { return kXids; }

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
    const XidMeaning* meaning = find_xid(key.second);
    checks.push_back({"kernel_log_xid", "", meaning ? meaning->verdict : Health::kWarning,
                      fmt::format("Xid {} on {}, {}: {}", key.second, key.first, how_often(seen),
                                  meaning ? meaning->what : "an error of the device or driver"),
                      std::string(meaning ? meaning->advice : "see NVIDIA's list of Xid errors")});
  }
  for (const auto& [i, seen] : patterns)
    checks.push_back({"kernel_log_message", "", Health::kWarning, fmt::format("{}, {}", kPatterns[i].what, how_often(seen)),
                      std::string(kPatterns[i].advice)});
  if (xids.empty() && patterns.empty())
    checks.push_back({"kernel_log", "", Health::kOk, "no GPU errors in the kernel log"});
}

}  // namespace profgpu
