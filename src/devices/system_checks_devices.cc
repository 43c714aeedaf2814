// A device: links, modes, memory errors, clocks; and NVIDIA's driver: libraries, device files, rights, kernel log.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "base/decimal.h"
#include "base/environment.h"
#include "base/text.h"
#include "devices/system_checks.h"

namespace profgpu {

namespace {

using enum Health;

class Examination {
 public:
  explicit Examination(const DeviceEvidence& device) : device_(device) {}

  void pcie();
  void nvlink();
  void modes();
  void memory();
  void clocks();
  void temperature();
  void power();
  void recovery();
  void add(std::string id, Health verdict, std::string detail, std::string hint = {}) {
    checks.push_back({std::move(id), device_.info->label(), verdict, std::move(detail), std::move(hint)});
  }
  SystemChecks checks;

 private:
  // The newest sample, else the constant.
  [[nodiscard]] std::optional<double> value(Metric metric) const {
    const Sample* newest = nullptr;
    if (device_.reading)
      for (const Sample& s : device_.reading->samples)
        if (s.metric == metric && (!newest || s.time_ns >= newest->time_ns)) newest = &s;
    return newest ? std::optional(newest->value) : device_.info->constant(metric);
  }
  [[nodiscard]] bool positive(Metric metric) const { return value(metric).value_or(0) > 0; }
  // In lower case: backends quote the drivers' texts.
  [[nodiscard]] std::string fact(std::string_view id) const {
    if (device_.facts)
      for (const Fact& f : *device_.facts)
        if (f.id == id) return lower_case(f.value);
    return "";
  }
  const DeviceEvidence& device_;
};

std::string count(const std::optional<double>& n) { return fmt::format("{:.0f}", n.value_or(0)); }

void Examination::pcie() {
  const auto width = value(Metric::kPcieWidth), width_max = value(Metric::kPcieWidthMax);
  const auto generation = value(Metric::kPcieGeneration), generation_max = value(Metric::kPcieGenerationMax);
  if (!width || !width_max || *width_max <= 0) return;
  std::string text = fmt::format("x{:.0f} of x{:.0f}", *width, *width_max);
  if (generation && generation_max) text += fmt::format(", generation {:.0f} of {:.0f}", *generation, *generation_max);
  const bool slow = generation && generation_max && *generation < *generation_max;
  const bool busy = value(Metric::kUtilization).value_or(0) >= kIdlePct.reported;
  if (*width < *width_max)
    add("pcie_link", kWarning, "PCIe runs with fewer lanes than possible: " + text,
        "reseat the card and its riser, check the slot's wiring and the firmware's bifurcation");
  else if (slow && busy)
    add("pcie_link", kWarning, "PCIe runs slower than possible under load: " + text,
        "check the slot's speed in the firmware, and risers; `lspci -vv` shows LnkSta (downgraded)");
  else
    add("pcie_link", kOk, "PCIe " + text + (slow ? " (lowered while idle)" : ""));
  if (value(Metric::kPcieReplays).value_or(0) >= kMinPcieReplays)
    add("pcie_replays", kWarning, count(value(Metric::kPcieReplays)) + " PCIe packets were retransmitted",
        "a bad contact or riser; check whether the count grows: `profgpu log --query pcie_replays`");
}

void Examination::nvlink() {
  const std::string active = fact("nvlinks_active");  // "18 of 18"
  const auto errors = value(Metric::kNvlinkErrors);
  const size_t of = active.find(" of ");
  const auto up = whole_number(active.substr(0, of));
  const auto all = of == active.npos ? std::nullopt : whole_number(active.substr(of + 4));
  if (up && all && *all > 0) {
    const bool some = *up > 0 && *up < *all;  // none: the machine has no bridge or switch
    add("nvlink", some ? kWarning : kOk, active + " NVLinks are active",
        some ? "`nvidia-smi nvlink -s` shows which; check bridge, switch and nvidia-fabricmanager" : "");
  }
  if (errors && *errors > 0)
    add("nvlink_errors", kWarning, count(errors) + " NVLink errors (replays, recoveries, CRC)",
        "a few over weeks are normal; `nvidia-smi nvlink -e` shows the link, reseat it if errors continue");
}

void Examination::modes() {
  const std::string persistence = fact("persistence_mode"), compute = fact("compute_mode");
  if (persistence == "disabled")
    add("persistence_mode", kWarning,
        "persistence mode is off: the first program waits seconds for the driver to start",
        "run nvidia-persistenced, or `nvidia-smi -pm 1`");
  else if (!persistence.empty())
    add("persistence_mode", kOk, "persistence mode is on");
  if (compute == "prohibited")
    add("compute_mode", kProblem, "compute mode is prohibited: no program can use the device",
        "`nvidia-smi -c DEFAULT`");
  else if (compute.starts_with("exclusive"))
    add("compute_mode", kWarning, "compute mode is exclusive: one process at a time, others fail to start",
        "`nvidia-smi -c DEFAULT`, unless the job system requires this");
}

void Examination::memory() {
  const std::string mode = fact("ecc_mode");  // "disabled, enabled after a reset"
  if (mode.starts_with("disabled"))
    add("ecc", kWarning, "ECC is off: memory errors go unnoticed", "`nvidia-smi -e 1`, then reset or reboot");
  else if (mode.starts_with("enabled"))
    add("ecc", kOk, "ECC is on");
  if (mode.find(',') != mode.npos)
    add("ecc_pending", kWarning, "ECC is " + mode, "reset the device when it is free");
  if (positive(Metric::kEccUncorrected))
    add("ecc_errors", kProblem,
        count(value(Metric::kEccUncorrected)) + " memory errors could not be corrected since the driver was loaded",
        "results since then are in doubt: reset the device, run `dcgmi diag -r 3`");
  else if (positive(Metric::kEccCorrected))
    add("ecc_errors", kWarning,
        count(value(Metric::kEccCorrected)) + " memory errors were corrected since the driver was loaded",
        "harmless by themselves; check whether the count grows");
  if (positive(Metric::kRemappedRowsFailed))
    add("remapped_rows", kProblem, "remapping a memory row failed", "have the device replaced");
  else if (positive(Metric::kRemappedRowsPending))
    add("remapped_rows", kProblem, "memory rows are pending to be remapped",
        "stop its programs and `nvidia-smi --gpu-reset -i N`, or reboot");
  else if (positive(Metric::kRemappedRowsUncorrected))
    add("remapped_rows", kWarning,
        count(value(Metric::kRemappedRowsUncorrected)) + " memory rows were remapped after uncorrectable errors",
        "no action needed; if there are many, have the device tested");
  if (positive(Metric::kRetiredPagesPending))
    add("retired_pages", kProblem, "memory pages are pending to be retired",
        "reboot, or reset the device when it is free");
  else if (positive(Metric::kRetiredPagesDoubleBit))
    add("retired_pages", kWarning,
        count(value(Metric::kRetiredPagesDoubleBit)) + " memory pages were retired for double-bit errors",
        "from 60 on, have the device replaced");
}

void Examination::clocks() {
  const auto mask = reason_bits(value(Metric::kClockEventReasons));
  if (!mask) return;
  std::string words;
  for (const ClockReasonInfo& r : clock_reasons())
    if ((*mask & static_cast<uint32_t>(r.reason)) != 0 && r.reason != ClockReason::kIdle)
      append_listed(words, r.words);
  if ((*mask & kFaultReasons & ~kHeatReasons) != 0)
    add("clocks", health_of(kHeldBackPct.severity), "clocks are throttled by the hardware: " + words,
        "check fans, airflow, power cables and supplies");
  else if ((*mask & kHeatReasons) != 0)
    add("clocks", health_of(kHeldBackPct.severity), "clocks are throttled: " + words,
        "check fans, airflow and the room's temperature");
  else
    add("clocks", kOk, words.empty() ? "clocks are not limited" : "clocks are limited by " + words);
}

void Examination::temperature() {
  const std::optional<double> left = to_slowdown_c(value(Metric::kTemperature), value(Metric::kTemperatureSlowdown),
                                                   value(Metric::kTemperatureMargin));
  if (left && *left <= kToSlowdown_c.reported)
    add("temperature", health_of(kToSlowdown_c.severity), fmt::format("{:.0f} °C below thermal slowdown", *left),
        "check fans, airflow and the room's temperature");
}

void Examination::power() {
  const auto limit = value(Metric::kPowerLimit), usual = value(Metric::kPowerLimitDefault);
  if (!limit || !usual) return;
  const bool low = is_lowered(limit, usual);
  add("power_limit", low ? kWarning : kOk,
      fmt::format("power limit {:.0f} W, default {:.0f} W", *limit, *usual),
      low ? fmt::format("unless intended: `nvidia-smi -pl {:.0f}`", *usual) : "");
}

void Examination::recovery() {
  const auto action = value(Metric::kRecoveryAction);
  if (!action || *action <= 0) return;
  add("recovery_action", kProblem, "the driver recommends: " + recovery_action(*action),
      "take the device out of use, then do so");
}

}  // namespace

SystemChecks device_checks(const DeviceEvidence& device) {
  Examination e(device);
  if (!device.trouble.empty()) {
    e.add("answers", kProblem, device.trouble,
          "check the kernel log for Xid errors; reset the device, else reboot");
    return e.checks;
  }
  e.pcie();
  e.nvlink();
  e.modes();
  e.memory();
  e.clocks();
  e.temperature();
  e.power();
  e.recovery();
  return e.checks;
}

// NVIDIA's driver, libraries, toolkit, device files and rights.

namespace {

bool is_version(std::string_view text) {
  return text.find('.') != text.npos && text.find_first_not_of("0123456789.") == text.npos && text.front() != '.';
}

// Whether an NVIDIA GPU (vendor 10de, class 03 display) is on the bus.
bool has_nvidia_on_bus(const SystemRoots& roots) {
  for (const std::string& name : folder_names(roots.sys + "/bus/pci/devices")) {
    const std::string folder = roots.sys + "/bus/pci/devices/" + name;
    if (file_line(folder + "/vendor") == "0x10de" && file_line(folder + "/class").starts_with("0x03")) return true;
  }
  return false;
}

}  // namespace

std::string kernel_module_version(const SystemRoots& roots) {
  const std::string module = file_line(roots.sys + "/module/nvidia/version");
  if (!module.empty() && is_version(module)) return module;
  // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 …": the first word that is a version.
  const std::string line = file_line(roots.proc + "/driver/nvidia/version");
  for (const std::string_view word : pieces_of(line, ' '))
    if (is_version(word)) return std::string(word);
  return "";
}

namespace {

void check_driver_version(const SystemRoots& roots, ProbeChecks& found) {
  const std::string version = kernel_module_version(roots);
  if (!version.empty())
    found.add(kOk, "NVIDIA kernel module " + version);
  else if (has_nvidia_on_bus(roots))
    found.add(kProblem, "an NVIDIA GPU is on the PCI bus, but no NVIDIA kernel module is loaded",
              "`modprobe nvidia` shows why; after a kernel update, reinstall its headers and the driver");
  else
    found.add(kUnknown, "no NVIDIA kernel module is loaded, and no NVIDIA GPU is on the PCI bus");
}

// The version that the file behind a library's link is named after; empty: none.
std::string library_version(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> target(::realpath(path.c_str(), nullptr), &std::free);
  const std::string_view file = target ? target.get() : "";
  const size_t so = file.rfind(".so.");
  const std::string_view version = so == file.npos ? "" : file.substr(so + 4);
  return version.size() > 2 && is_version(version) ? std::string(version) : "";
}

void check_driver_library(const SystemRoots& roots, ProbeChecks& found) {
  const std::string module = kernel_module_version(roots);
  for (const auto& [name, part] : {std::pair{"libnvidia-ml.so.1", "_nvml"}, {"libcuda.so.1", "_cuda"}}) {
    const std::string path = find_library(name), version = library_version(path);
    if (path.empty() && module.empty()) {
      found.add(kUnknown, std::string(name) + " not found", "", part);
    } else if (path.empty()) {
      found.add(kProblem, std::string(name) + " not found",
                "install the driver's libraries of version " + module +
                    "; in a container: start it with --gpus all, or with the NVIDIA runtime",
                part);
    } else if (!module.empty() && !version.empty() && version != module) {
      found.add(kProblem, fmt::format("{} has version {}, the kernel module has {}", path, version, module),
                "the driver was upgraded on a running system: reboot, or stop all GPU programs and reload the "
                "module (rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia; modprobe nvidia)",
                part);
    } else {
      found.add(kOk, path + (version.empty() ? "" : ", version " + version), "", part);
    }
  }
}

void check_cuda_toolkit(const SystemRoots&, ProbeChecks& found) {
  std::vector<std::string> folders = {environment("CUDA_HOME"), environment("CUDA_PATH"), "/usr/local/cuda",
                                      "/opt/cuda"};
  for (const char* prefix : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const std::string folder = environment(prefix); !folder.empty()) {
      folders.push_back(folder);
      for (const std::string& python : folder_names(folder + "/lib"))
        if (python.starts_with("python"))
          folders.push_back(folder + "/lib/" + python + "/site-packages/nvidia/cuda_cupti");
    }
  std::string toolkit, cupti;
  for (const std::string& folder : folders) {
    if (folder.empty()) continue;
    if (toolkit.empty() && ::access((folder + "/bin/nvcc").c_str(), X_OK) == 0) toolkit = folder;
    for (const char* place : {"/extras/CUPTI/lib64", "/lib64", "/lib", "/targets/x86_64-linux/lib"})
      for (const std::string& file : folder_names(folder + place))
        if (cupti.empty() && file.starts_with("libcupti.so")) cupti = folder + place + "/" + file;
  }
  const bool both = !toolkit.empty() && !cupti.empty();
  found.add(both ? kOk : kUnknown,
            (toolkit.empty() ? "no CUDA toolkit found" : "CUDA toolkit in " + toolkit) +
                (cupti.empty() ? ", no libcupti" : ", " + cupti),
            both ? "" : "PyTorch brings its own; set CUDA_HOME if there is one elsewhere");
}

void check_device_nodes(const SystemRoots& roots, ProbeChecks& found) {
  std::vector<std::string> names, closed;
  for (const std::string& name : folder_names(roots.dev))
    if ((name.starts_with("nvidia") && !name.starts_with("nvidia-caps")) || name == "kfd") names.push_back(name);
  for (const std::string& name : folder_names(roots.dev + "/dri"))
    if (name.starts_with("renderD")) names.push_back("dri/" + name);
  for (const std::string& name : names)
    if (::access((roots.dev + "/" + name).c_str(), R_OK | W_OK) != 0) closed.push_back(name);
  if (!closed.empty())
    found.add(kProblem, "no permission to open " + joined(closed) + " in " + roots.dev,
              closed.front().starts_with("nvidia") ? "they should be open to all (0666); see NVreg_DeviceFileMode, or "
                                                     "the job system's device rules"
                                                   : "add the user to the groups render and video");
  else if (names.empty() && !kernel_module_version(roots).empty())
    found.add(kProblem, "the driver is loaded, but there is no " + roots.dev + "/nvidia*",
              "in a container: start it with --gpus all; else `nvidia-modprobe -c0 -u`");
  else if (names.empty()) found.add(kUnknown, "no GPU device files in " + roots.dev);
  else found.add(kOk, fmt::format("{} device files, all accessible to this user", names.size()));
}

void check_profiling_permission(const SystemRoots& roots, ProbeChecks& found) {
  const std::string text = file_text(roots.proc + "/driver/nvidia/params").value_or("");
  const std::string_view only = line_value(text, "RmProfilingAdminOnly");
  if (only.empty()) return;
  if (only == "0") found.add(kOk, "every user may profile GPUs");
  else if (::geteuid() == 0) found.add(kOk, "only administrators may profile GPUs; this user is one");
  else
    found.add(kWarning, "only administrators may read the GPU's counters",
              "for all users: options nvidia NVreg_RestrictProfilingToAdminUsers=0 in /etc/modprobe.d, then reboot; "
              "in a container: --cap-add SYS_ADMIN. Kernel traces work without");
}

void check_mps(const SystemRoots& roots, ProbeChecks& found) {
  const std::string program = running_program(roots, "nvidia-cuda-mps");
  if (!program.empty())
    found.add(kOk, program + " runs: programs share GPUs through it",
              "figures of single processes may be the server's; `echo quit | nvidia-cuda-mps-control` ends it");
  else if (!kernel_module_version(roots).empty()) found.add(kOk, "no MPS server runs");
}

// The kernel log: NVIDIA's Xid errors, resets and hangs of AMD and Intel devices.

struct Pattern {
  std::string_view text, what, advice;
};
constexpr std::array<Pattern, 4> kPatterns = {{
    {"NVRM: API mismatch", "a program's NVIDIA libraries do not match the kernel module's version",
     "reboot, or bring driver and libraries to one version"},
    {"NVRM: RmInitAdapter failed", "the driver could not start a device",
     "power cycle the machine; check the driver's version"},
    {"amdgpu: GPU reset", "the AMD driver reset a device", "check the preceding lines: `dmesg | grep amdgpu`"},
    {"GPU HANG", "the Intel driver detected a hang", "check the preceding lines: `dmesg | grep -E 'i915|xe'`"},
}};

struct Seen {
  int64_t count = 0, last_us = 0;
};

// 0 or errno. One read() returns one record; a copy of the log is an ordinary file.
int read_log(const std::string& path, std::string& text) {
  constexpr size_t kMaxLog = 32 << 20;
  const int fd = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return errno;
  std::array<char, 16384> buffer;
  int error = 0;
  while (text.size() < kMaxLog) {
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
  const std::string_view rest = without_blanks(text.substr(close + 2));
  const auto code = whole_number(rest.substr(0, rest.find_first_not_of("0123456789")));
  if (!code || *code > 100'000) return std::nullopt;
  return std::pair(std::string(device), static_cast<int>(*code));
}

void note(Seen& seen, int64_t at_us) {
  ++seen.count;
  seen.last_us = std::max(seen.last_us, at_us);
}

// "4 min", "3 h", "12 days".
std::string rough_age(int64_t ns) {
  const int64_t minutes = ns / 60'000'000'000;
  if (minutes < 1) return "less than a minute";
  if (minutes < 120) return fmt::format("{} min", minutes);
  if (minutes < 48 * 60) return fmt::format("{} h", minutes / 60);
  return fmt::format("{} days", minutes / (24 * 60));
}

// The kernel counts from boot, like the monotonic clock.
std::string how_often(const Seen& seen) {
  const int64_t age_ns = monotonic_ns() - seen.last_us * 1000;
  const std::string times = seen.count == 1 ? "once" : fmt::format("{} times", seen.count);
  return seen.last_us > 0 && age_ns >= 0 ? fmt::format("{}, last {} ago", times, rough_age(age_ns)) : times;
}

void check_kernel_log(const SystemRoots& roots, ProbeChecks& found) {
  std::string log;
  if (const int error = read_log(roots.dev + "/kmsg", log); error != 0)
    return found.add(kUnknown, fmt::format("cannot read the kernel log: {}", std::strerror(error)),
                     "as an administrator: `dmesg | grep -i -E 'xid|nvrm|amdgpu'`");
  std::map<std::pair<std::string, int>, Seen> xids;
  std::map<size_t, Seen> patterns;
  for (const std::string_view line : pieces_of(log, '\n')) {
    const auto [at_us, text] = record_of(line);
    if (const auto xid = xid_of(text)) note(xids[*xid], at_us);
    for (size_t i = 0; i < kPatterns.size(); ++i)
      if (text.find(kPatterns[i].text) != text.npos) note(patterns[i], at_us);
  }
  for (const auto& [key, seen] : xids) {
    const XidMeaning meaning = xid_meaning(key.second);
    found.add(health_of(meaning.severity),
              fmt::format("Xid {} on {}, {}: {}", key.second, key.first, how_often(seen), meaning.what),
              std::string(meaning.advice), "_xid");
  }
  for (const auto& [i, seen] : patterns)
    found.add(kWarning, fmt::format("{}, {}", kPatterns[i].what, how_often(seen)), std::string(kPatterns[i].advice),
              "_message");
  if (xids.empty() && patterns.empty()) found.add(kOk, "no GPU errors in the kernel log");
}

constexpr Probe kDriverProbes[] = {
    {"driver_version", "driver", check_driver_version},
    {"driver_library", "driver", check_driver_library},
    {"cuda_toolkit", "driver", check_cuda_toolkit},
    {"device_nodes", "driver", check_device_nodes},
    {"profiling_permission", "driver", check_profiling_permission},
    {"mps", "driver", check_mps},
    {"kernel_log", "driver", check_kernel_log},
};

}  // namespace

std::span<const Probe> driver_probes() { return kDriverProbes; }

}  // namespace profgpu
