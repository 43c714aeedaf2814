// The machine itself: kernel, clock, processors, limits, perf events, memory nodes, IOMMU.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/timex.h>
#include <sys/utsname.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>

#include "base/text.h"
#include "devices/switch_event.h"
#include "devices/system_checks.h"

namespace profgpu {
namespace {

int64_t count_of(const std::string& folder, std::string_view beginning) {
  const auto names = folder_names(folder);
  return std::count_if(names.begin(), names.end(), [&](const std::string& n) {
    return n.starts_with(beginning) && n.size() > beginning.size() &&
           n.find_first_not_of("0123456789", beginning.size()) == n.npos;
  });
}

// Programs that keep the clock, by the kernel's short names.
std::string time_keeper(const SystemRoots& roots) {
  std::set<std::string> found;
  for (const char* name : {"chronyd", "systemd-timesyn", "ntpd", "ptp4l", "phc2sys"})
    if (!running_program(roots, name).empty())
      found.insert(name == std::string_view("systemd-timesyn") ? "systemd-timesyncd" : name);
  return joined(found);
}

}  // namespace

void check_system(const SystemRoots&, SystemChecks& checks) {
  utsname u{};
  std::string text = ::uname(&u) == 0 ? fmt::format("{} {} {}", u.sysname, u.release, u.machine) : "kernel unknown";
  const std::string release = file_text("/etc/os-release").value_or("");
  for (const std::string_view line : pieces_of(release, '\n'))
    if (line.starts_with("PRETTY_NAME=")) {
      std::string name(line.substr(12));
      std::erase(name, '"');
      text = name + ", " + text;
    }
  checks.push_back({"system", "", Health::kOk, text});
}

void check_clock(const SystemRoots& roots, SystemChecks& checks) {
  timex t{};
  const int state = ::adjtimex(&t);
  const std::string keeper = time_keeper(roots);
  const std::string by = keeper.empty() ? "" : " by " + keeper;
  if (state < 0) {
    checks.push_back({"clock", "", Health::kUnknown, "the kernel does not say whether the clock is synchronised"});
  } else if (state == TIME_ERROR || (t.status & STA_UNSYNC) != 0) {
    checks.push_back(
        {"clock", "", Health::kWarning,
         "the clock is not synchronised" + (keeper.empty() ? "" : " though " + keeper + " runs"),
         "traces of several machines will not fit together; install chrony (PTP where the network has it)"});
  } else {
    checks.push_back(
        {"clock", "", Health::kOk,
         fmt::format("synchronised{}, at most {:.3g} ms off", by, static_cast<double>(t.maxerror) * 1e-3)});
  }
}

void check_governor(const SystemRoots& roots, SystemChecks& checks) {
  std::set<std::string> governors, drivers;
  const std::string folder = roots.sys + "/devices/system/cpu";
  for (const std::string& name : folder_names(folder)) {
    const std::string governor = file_line(folder + "/" + name + "/cpufreq/scaling_governor");
    if (governor.empty()) continue;
    governors.insert(governor);
    drivers.insert(file_line(folder + "/" + name + "/cpufreq/scaling_driver"));
  }
  if (governors.empty()) {
    checks.push_back({"cpu_governor", "", Health::kUnknown, "processor clocks are not shown (a virtual machine?)"});
    return;
  }
  // These drivers' "powersave" raises clocks under load as the others' "ondemand" does.
  const bool scales = drivers.contains("intel_pstate") || drivers.contains("amd-pstate-epp");
  const bool slow = (governors.contains("powersave") && !scales) || governors.contains("conservative");
  checks.push_back(
      {"cpu_governor", "", slow ? Health::kWarning : Health::kOk,
       fmt::format("{} ({})", joined(governors), joined(drivers)),
       slow ? "launches and data loading wait for slow processors: `cpupower frequency-set -g performance`" : ""});
}

void check_limits(const SystemRoots& roots, SystemChecks& checks) {
  constexpr rlim_t kMinFiles = 4096;
  const auto words = [](rlim_t n, rlim_t unit, std::string_view suffix) {
    return n == RLIM_INFINITY ? std::string("unlimited") : fmt::format("{}{}", n / unit, suffix);
  };
  rlimit files{}, memory{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || ::getrlimit(RLIMIT_MEMLOCK, &memory) != 0) return;
  if (files.rlim_cur < kMinFiles)
    checks.push_back({"limits_open_files", "", Health::kWarning,
                      "at most " + words(files.rlim_cur, 1, "") + " open files",
                      "DataLoader workers and many ranks need more: `ulimit -n 65536`, or LimitNOFILE in the service"});
  else
    checks.push_back({"limits_open_files", "", Health::kOk, "at most " + words(files.rlim_cur, 1, "") + " open files"});
  const bool fabric = !folder_names(roots.sys + "/class/infiniband").empty();
  const bool little = fabric && memory.rlim_cur != RLIM_INFINITY;
  checks.push_back(
      {"limits_locked_memory", "", little ? Health::kWarning : Health::kOk,
       words(memory.rlim_cur, 1 << 20, " MiB") + " of locked memory" + (fabric ? ", and there is InfiniBand" : ""),
       little ? "NCCL over InfiniBand locks its buffers: memlock unlimited in /etc/security/limits.conf, "
                "docker run --ulimit memlock=-1"
              : ""});
}

void check_perf_events(const SystemRoots& roots, SystemChecks& checks) {
  const int event = open_switch_event(0, 1);
  if (event >= 0) {
    ::close(event);
    checks.push_back({"perf_events", "", Health::kOk, "perf events of context switches may be used"});
    return;
  }
  const Error why = switch_event_refusal(errno, roots);
  checks.push_back({"perf_events", "", Health::kUnknown, why.message + ": recordings sample threads only", why.hint});
}

void check_numa(const SystemRoots& roots, SystemChecks& checks) {
  const int64_t nodes = count_of(roots.sys + "/devices/system/node", "node");
  const std::string online = file_line(roots.sys + "/devices/system/cpu/online");
  if (nodes == 0) {
    checks.push_back({"numa", "", Health::kUnknown, "memory nodes are not shown"});
    return;
  }
  const bool balances = nodes > 1 && file_line(roots.proc + "/sys/kernel/numa_balancing") == "1";
  checks.push_back(
      {"numa", "", balances ? Health::kWarning : Health::kOk,
       fmt::format("{} memory node{}, processors {}{}", nodes, nodes == 1 ? "" : "s", online,
                   balances ? "; the kernel moves pages between nodes" : ""),
       balances    ? "pinned buffers and page moves disturb each other: `sysctl kernel.numa_balancing=0`, and keep "
                     "each rank near its GPU (numactl)"
       : nodes > 1 ? "keep each rank on the node of its GPU: `profgpu devices` shows which, numactl binds"
                   : ""});
}

void check_iommu(const SystemRoots& roots, SystemChecks& checks) {
  std::set<std::string> types;
  const std::string folder = roots.sys + "/kernel/iommu_groups";
  for (const std::string& group : folder_names(folder)) types.insert(file_line(folder + "/" + group + "/type"));
  types.erase("");
  int64_t gpus = 0;
  for (const std::string& name : folder_names(roots.sys + "/bus/pci/devices"))
    gpus += file_line(roots.sys + "/bus/pci/devices/" + name + "/class").starts_with("0x0302") ||
            file_line(roots.sys + "/bus/pci/devices/" + name + "/class").starts_with("0x0300");
  if (types.empty()) {
    checks.push_back({"iommu", "", Health::kOk, "no IOMMU is in use"});
    return;
  }
  const bool translates = types.contains("DMA") || types.contains("DMA-FQ");
  checks.push_back({"iommu", "", translates && gpus > 1 ? Health::kWarning : Health::kOk, "IOMMU: " + joined(types),
                    translates && gpus > 1
                        ? "on bare metal it sends traffic between GPUs through the processor: iommu=pt on the "
                          "kernel's command line, ACS off in the firmware (`lspci -vvv | grep ACSCtl`)"
                        : ""});
}

}  // namespace profgpu
