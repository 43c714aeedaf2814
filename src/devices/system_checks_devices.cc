// One device: links, modes, memory errors, clocks.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>

#include "base/clock.h"
#include "base/decimal.h"
#include "base/text.h"
#include "devices/system_checks.h"

namespace profgpu {

namespace {

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
  // In lower case: backends quote their drivers.
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
  const bool busy = value(Metric::kUtilization).value_or(0) >= kIdlePct.said;
  if (*width < *width_max)
    add("pcie_link", Health::kWarning, "PCIe runs with fewer lanes than it could: " + text,
        "seat the card and its riser anew, check the slot's wiring and the firmware's bifurcation");
  else if (slow && busy)
    add("pcie_link", Health::kWarning, "PCIe runs slower than it could, under load: " + text,
        "check the slot's speed in the firmware, and risers; `lspci -vv` shows LnkSta (downgraded)");
  else
    add("pcie_link", Health::kOk, "PCIe " + text + (slow ? " (lowered while idle)" : ""));
  if (value(Metric::kPcieReplays).value_or(0) >= kPcieReplaysSaid)
    add("pcie_replays", Health::kWarning, count(value(Metric::kPcieReplays)) + " PCIe packets were sent again",
        "a bad contact or riser; watch whether it grows: `profgpu log --query pcie_replays`");
}

void Examination::nvlink() {
  const std::string active = fact("nvlinks_active");  // "18 of 18"
  const auto errors = value(Metric::kNvlinkErrors);
  const size_t of = active.find(" of ");
  const auto up = whole_number(active.substr(0, of));
  const auto all = of == active.npos ? std::nullopt : whole_number(active.substr(of + 4));
  if (up && all && *all > 0) {
    const bool some = *up > 0 && *up < *all;  // none: the machine has no bridge or switch
    add("nvlink", some ? Health::kWarning : Health::kOk, active + " NVLinks are active",
        some ? "`nvidia-smi nvlink -s` shows which are not; check bridge, switch and nvidia-fabricmanager" : "");
  }
  if (errors && *errors > 0)
    add("nvlink_errors", Health::kWarning, count(errors) + " NVLink errors (replays, recoveries, CRC)",
        "a few over weeks are normal; `nvidia-smi nvlink -e` shows the link, reseat it if it goes on");
}

void Examination::modes() {
  const std::string persistence = fact("persistence_mode"), compute = fact("compute_mode");
  if (persistence == "disabled")
    add("persistence_mode", Health::kWarning,
        "persistence mode is off: the driver starts anew for each first program (seconds)",
        "run nvidia-persistenced, or `nvidia-smi -pm 1`");
  else if (!persistence.empty())
    add("persistence_mode", Health::kOk, "persistence mode is on");
  if (compute == "prohibited")
    add("compute_mode", Health::kProblem, "compute mode is prohibited: no program may use it",
        "`nvidia-smi -c DEFAULT`");
  else if (compute.starts_with("exclusive"))
    add("compute_mode", Health::kWarning, "compute mode is exclusive: one process at a time, others fail to start",
        "`nvidia-smi -c DEFAULT`, unless the job system wants it so");
}

void Examination::memory() {
  const std::string mode = fact("ecc_mode");  // "disabled, enabled after a reset"
  if (mode.starts_with("disabled"))
    add("ecc", Health::kWarning, "ECC is off: memory errors go unseen", "`nvidia-smi -e 1`, then reset or reboot");
  else if (mode.starts_with("enabled"))
    add("ecc", Health::kOk, "ECC is on");
  if (mode.find(',') != mode.npos)
    add("ecc_pending", Health::kWarning, "ECC is " + mode, "reset the device when it is free");
  if (positive(Metric::kEccUncorrected))
    add("ecc_errors", Health::kProblem,
        count(value(Metric::kEccUncorrected)) + " memory errors could not be corrected since the driver was loaded",
        "results of that time are in doubt: reset the device, run `dcgmi diag -r 3`");
  else if (positive(Metric::kEccCorrected))
    add("ecc_errors", Health::kWarning,
        count(value(Metric::kEccCorrected)) + " memory errors were corrected since the driver was loaded",
        "harmless by themselves; watch whether they grow");
  if (positive(Metric::kRemappedRowsFailed))
    add("remapped_rows", Health::kProblem, "remapping a memory row failed", "have the device replaced");
  else if (positive(Metric::kRemappedRowsPending))
    add("remapped_rows", Health::kProblem, "memory rows wait to be remapped",
        "stop its programs and `nvidia-smi --gpu-reset -i N`, or reboot");
  else if (positive(Metric::kRemappedRowsUncorrected))
    add("remapped_rows", Health::kWarning,
        count(value(Metric::kRemappedRowsUncorrected)) + " memory rows were remapped after uncorrectable errors",
        "done and over; many of them: have the device tested");
  if (positive(Metric::kRetiredPagesPending))
    add("retired_pages", Health::kProblem, "memory pages wait to be retired",
        "reboot, or reset the device when it is free");
  else if (positive(Metric::kRetiredPagesDoubleBit))
    add("retired_pages", Health::kWarning,
        count(value(Metric::kRetiredPagesDoubleBit)) + " memory pages were retired for double-bit errors",
        "from 60 on the device is to be replaced");
}

void Examination::clocks() {
  const auto mask = reason_bits(value(Metric::kClockEventReasons));
  if (!mask) return;
  std::string words;
  for (const ClockReasonInfo& r : clock_reasons())
    if ((*mask & static_cast<uint32_t>(r.reason)) != 0 && r.reason != ClockReason::kIdle)
      append_listed(words, r.words);
  if ((*mask & kFaultReasons & ~kHeatReasons) != 0)
    add("clocks", health_of(kHeldBackPct.severity), "the hardware holds clocks back now: " + words,
        "check fans, airflow, power cables and supplies");
  else if ((*mask & kHeatReasons) != 0)
    add("clocks", health_of(kHeldBackPct.severity), "clocks are held back now: " + words,
        "check fans, airflow and the room's temperature");
  else
    add("clocks", Health::kOk,
        words.empty() ? "nothing holds clocks back now" : "clocks are held back now by " + words);
}

void Examination::temperature() {
  const std::optional<double> left = to_slowdown_c(value(Metric::kTemperature), value(Metric::kTemperatureSlowdown),
                                                   value(Metric::kTemperatureMargin));
  if (left && *left <= kToSlowdown_c.said)
    add("temperature", health_of(kToSlowdown_c.severity),
        fmt::format("{:.0f} °C left before clocks are lowered", *left),
        "check fans, airflow and the room's temperature");
}

void Examination::power() {
  const auto limit = value(Metric::kPowerLimit), usual = value(Metric::kPowerLimitDefault);
  if (!limit || !usual) return;
  const bool low = is_lowered(limit, usual);
  add("power_limit", low ? Health::kWarning : Health::kOk,
      fmt::format("power limit {:.0f} W, default {:.0f} W", *limit, *usual),
      low ? fmt::format("if nobody wants it so: `nvidia-smi -pl {:.0f}`", *usual) : "");
}

void Examination::recovery() {
  const auto action = value(Metric::kRecoveryAction);
  if (!action || *action <= 0) return;
  constexpr std::string_view kActions[] = {"", "a reset of the device", "a reboot", "its peers to be drained",
                                           "to be drained and reset"};
  const auto i = static_cast<size_t>(std::min(*action, 5.0));
  add("recovery_action", Health::kProblem,
      fmt::format("the driver asks for {}",
                  i < std::size(kActions) ? kActions[i] : "a recovery that is not known here"),
      "take the device out of use, then do so");
}

}  // namespace

SystemChecks device_checks(const DeviceEvidence& device) {
  Examination e(device);
  if (!device.trouble.empty()) {
    e.add("answers", Health::kProblem, device.trouble,
          "look for Xid errors in the kernel log; reset the device, else reboot");
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

// Driver, libraries, toolkit, device files and rights.

namespace {

std::string variable_text(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool is_version(std::string_view text) {
  return text.find('.') != text.npos && text.find_first_not_of("0123456789.") == text.npos && text.front() != '.';
}

// Whether a GPU of NVIDIA (vendor 10de, class 03 display) is on the bus.
bool has_nvidia_on_bus(const SystemRoots& roots) {
  for (const std::string& name : folder_names(roots.sys + "/bus/pci/devices")) {
    const std::string folder = roots.sys + "/bus/pci/devices/" + name;
    if (file_line(folder + "/vendor") == "0x10de" && file_line(folder + "/class").starts_with("0x03")) return true;
  }
  return false;
}

std::vector<std::string> library_folders() {
  std::vector<std::string> folders;
  const std::string path = variable_text("LD_LIBRARY_PATH");
  for (const std::string_view folder : pieces_of(path, ':')) folders.emplace_back(folder);
  for (const char* usual : {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib",
                            "/usr/local/nvidia/lib64", "/usr/lib/wsl/lib", "/run/opengl-driver/lib"})
    folders.emplace_back(usual);
  return folders;
}

struct FoundLibrary {
  std::string path, version;   // version: what the file behind the link is called after
};

FoundLibrary find_loadable(const std::string& name) {
  for (const std::string& folder : library_folders()) {
    const std::string path = folder + "/" + name;
    char* real = ::realpath(path.c_str(), nullptr);
    if (!real) continue;
    const std::string target = real;
    std::free(real);
    const size_t so = target.rfind(".so.");
    const std::string version = so == target.npos ? "" : target.substr(so + 4);
    return {path, is_version(version) ? version : ""};
  }
  return {};
}

constexpr std::string_view kNoDriver = "no NVIDIA kernel module is loaded";

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

void check_driver_version(const SystemRoots& roots, SystemChecks& checks) {
  const std::string version = kernel_module_version(roots);
  if (!version.empty())
    checks.push_back({"driver_version", "", Health::kOk, "NVIDIA kernel module " + version});
  else if (has_nvidia_on_bus(roots))
    checks.push_back({"driver_version", "", Health::kProblem,
                      "an NVIDIA GPU is on the PCI bus, but no NVIDIA kernel module is loaded",
                      "`modprobe nvidia` says why; after a new kernel, install its headers and the driver again"});
  else
    checks.push_back(
        {"driver_version", "", Health::kUnknown, fmt::format("{}, and no NVIDIA GPU is on the PCI bus", kNoDriver)});
}

void check_driver_library(const SystemRoots& roots, SystemChecks& checks) {
  const std::string module = kernel_module_version(roots);
  for (const char* name : {"libnvidia-ml.so.1", "libcuda.so.1"}) {
    const FoundLibrary library = find_loadable(name);
    const std::string id = std::string("driver_library_") + (name[3] == 'n' ? "nvml" : "cuda");
    if (library.path.empty()) {
      checks.push_back({id, "", module.empty() ? Health::kUnknown : Health::kProblem,
                        std::string(name) + " is nowhere usual",
                        module.empty() ? ""
                                       : "install the driver's libraries of version " + module +
                                             "; in a container: start it with --gpus all, or with the NVIDIA runtime"});
    } else if (!module.empty() && !library.version.empty() && library.version.size() > 2 && library.version != module) {
      checks.push_back(
          {id, "", Health::kProblem,
           fmt::format("{} is of version {}, the kernel module of {}", library.path, library.version, module),
           "the driver was upgraded under a running system: reboot, or stop all GPU programs and reload the "
           "module (rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia; modprobe nvidia)"});
    } else {
      checks.push_back({id, "", Health::kOk,
                        library.path + (library.version.empty() ? "" : ", version " + library.version)});
    }
  }
}

void check_cuda_toolkit(const SystemRoots&, SystemChecks& checks) {
  std::vector<std::string> folders = {variable_text("CUDA_HOME"), variable_text("CUDA_PATH"), "/usr/local/cuda",
                                      "/opt/cuda"};
  for (const char* prefix : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const std::string folder = variable_text(prefix); !folder.empty()) {
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
  std::string detail = toolkit.empty() ? "no CUDA toolkit found" : "CUDA toolkit in " + toolkit;
  detail += cupti.empty() ? ", no libcupti" : ", " + cupti;
  const bool both = !toolkit.empty() && !cupti.empty();
  checks.push_back({"cuda_toolkit", "", both ? Health::kOk : Health::kUnknown, detail,
                    both ? "" : "PyTorch brings its own; set CUDA_HOME if there is one elsewhere"});
}

void check_device_nodes(const SystemRoots& roots, SystemChecks& checks) {
  std::vector<std::string> names, closed;
  std::vector<std::string> paths;
  for (const std::string& name : folder_names(roots.dev))
    if (name.starts_with("nvidia") || name == "kfd") paths.push_back(name);
  for (const std::string& name : folder_names(roots.dev + "/dri"))
    if (name.starts_with("renderD")) paths.push_back("dri/" + name);
  for (const std::string& name : paths) {
    const std::string path = roots.dev + "/" + name;
    if (name == "nvidia-caps" || name == "nvidia-caps-imex-channels") continue;  // folders
    (::access(path.c_str(), R_OK | W_OK) == 0 ? names : closed).push_back(name);
  }
  std::string list = joined(closed);
  if (!closed.empty())
    checks.push_back({"device_nodes", "", Health::kProblem, "this user may not open " + list + " in " + roots.dev,
                      closed.front().starts_with("nvidia")
                          ? "they should be open to all (0666); see NVreg_DeviceFileMode, or the "
                            "job system's device rules"
                          : "add the user to the groups render and video"});
  else if (names.empty() && !kernel_module_version(roots).empty())
    checks.push_back({"device_nodes", "", Health::kProblem,
                      "the driver is loaded, but there is no " + roots.dev + "/nvidia*",
                      "in a container: start it with --gpus all; else `nvidia-modprobe -c0 -u`"});
  else
    checks.push_back({"device_nodes", "", names.empty() ? Health::kUnknown : Health::kOk,
                      names.empty() ? "no GPU's files in " + roots.dev
                                    : fmt::format("{} device files, all of which this user may open", names.size())});
}

void check_profiling_permission(const SystemRoots& roots, SystemChecks& checks) {
  const std::string text = file_text(roots.proc + "/driver/nvidia/params").value_or("");
  const std::string_view only = line_value(text, "RmProfilingAdminOnly");
  if (only.empty()) return;
  if (only == "0") {
    checks.push_back({"profiling_permission", "", Health::kOk, "every user may profile GPUs"});
  } else if (::geteuid() == 0) {
    checks.push_back(
        {"profiling_permission", "", Health::kOk, "only administrators may profile GPUs, and this is one"});
  } else {
    checks.push_back(
        {"profiling_permission", "", Health::kWarning, "only administrators may read the GPU's counters",
         "for all users: options nvidia NVreg_RestrictProfilingToAdminUsers=0 in /etc/modprobe.d, then reboot; "
         "in a container: --cap-add SYS_ADMIN. Kernel traces work without"});
  }
}

void check_mps(const SystemRoots& roots, SystemChecks& checks) {
  const std::string program = running_program(roots, "nvidia-cuda-mps");
  if (!program.empty())
    checks.push_back(
        {"mps", "", Health::kOk, program + " runs: programs share GPUs through it",
         "figures of single processes may be the server's; `echo quit | nvidia-cuda-mps-control` ends it"});
  else if (!kernel_module_version(roots).empty())
    checks.push_back({"mps", "", Health::kOk, "no MPS server runs"});
}

// What the kernel log says of GPUs: NVIDIA's Xid errors, resets and hangs of AMD's and Intel's.

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
