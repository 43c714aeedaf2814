#include "devices/system_checks.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <set>

#include "base/secrets.h"
#include "base/text.h"
#include "devices/host_process.h"
#include "devices/pending.h"
#include "devices/switch_event.h"

namespace profgpu {

std::string_view group_of(const SystemCheck& check) {
  for (const Probe& probe : machine_probes())
    if (check.device.empty() && check.id.starts_with(probe.id)) return probe.group;
  return "devices";
}

SystemChecks run_probes(std::span<const Probe> probes, const SystemRoots& roots,
                        std::chrono::steady_clock::time_point deadline) {
  std::vector<Pending<SystemChecks>> running;
  for (const Probe& probe : probes)
    running.emplace_back([probe, roots] {
      ProbeChecks found(probe.id);
      probe.run(roots, found);
      return found.checks;
    });
  SystemChecks all;
  for (size_t i = 0; i < probes.size(); ++i) {
    auto checks = running[i].await(deadline);
    if (checks) all.insert(all.end(), checks->begin(), checks->end());
    else all.push_back({std::string(probes[i].id), "", Health::kUnknown, std::string(kProbeSilent)});
  }
  return all;
}

std::string running_program(const SystemRoots& roots, std::string_view prefix) {
  for (const int64_t pid : process_ids(roots.proc))
    if (std::string comm = file_line(fmt::format("{}/{}/comm", roots.proc, pid)); comm.starts_with(prefix)) return comm;
  return "";
}

namespace {

using enum Health;

// The machine itself: kernel, clock, CPUs, limits, perf events, memory nodes, IOMMU.

// Programs that synchronize the clock, by the kernel's short names.
std::string time_daemon(const SystemRoots& roots) {
  std::set<std::string> found;
  for (const char* name : {"chronyd", "systemd-timesyn", "ntpd", "ptp4l", "phc2sys"})
    if (!running_program(roots, name).empty())
      found.insert(name == std::string_view("systemd-timesyn") ? "systemd-timesyncd" : name);
  return joined(found);
}

void check_system(const SystemRoots&, ProbeChecks& found) {
  utsname u{};
  std::string text = ::uname(&u) == 0 ? fmt::format("{} {} {}", u.sysname, u.release, u.machine) : "kernel unknown";
  std::string distribution(line_value(file_text("/etc/os-release").value_or(""), "PRETTY_NAME", '='));
  std::erase(distribution, '"');
  found.add(kOk, distribution.empty() ? text : distribution + ", " + text);
}

void check_clock(const SystemRoots& roots, ProbeChecks& found) {
  timex t{};
  const int state = ::adjtimex(&t);
  const std::string daemon = time_daemon(roots);
  if (state < 0) {
    found.add(kUnknown, "the kernel does not report whether the clock is synchronized");
  } else if (state == TIME_ERROR || (t.status & STA_UNSYNC) != 0) {
    found.add(kWarning, "the clock is not synchronized" + (daemon.empty() ? "" : " although " + daemon + " runs"),
              "traces of several machines will not align; install chrony (PTP if the network has it)");
  } else {
    found.add(kOk, fmt::format("synchronized{}, at most {:.3g} ms off", daemon.empty() ? "" : " by " + daemon,
                               static_cast<double>(t.maxerror) * 1e-3));
  }
}

void check_governor(const SystemRoots& roots, ProbeChecks& found) {
  std::set<std::string> governors, drivers;
  const std::string folder = roots.sys + "/devices/system/cpu";
  for (const std::string& name : folder_names(folder)) {
    const std::string governor = file_line(folder + "/" + name + "/cpufreq/scaling_governor");
    if (governor.empty()) continue;
    governors.insert(governor);
    drivers.insert(file_line(folder + "/" + name + "/cpufreq/scaling_driver"));
  }
  if (governors.empty()) return found.add(kUnknown, "CPU clocks are not visible (a virtual machine?)");
  // The "powersave" of these drivers raises clocks under load, like "ondemand" of others.
  const bool scales = drivers.contains("intel_pstate") || drivers.contains("amd-pstate-epp");
  const bool slow = (governors.contains("powersave") && !scales) || governors.contains("conservative");
  found.add(slow ? kWarning : kOk, fmt::format("{} ({})", joined(governors), joined(drivers)),
            slow ? "slow CPUs delay launches and data loading: `cpupower frequency-set -g performance`" : "");
}

void check_limits(const SystemRoots& roots, ProbeChecks& found) {
  constexpr rlim_t kMinFiles = 4096;
  const auto words = [](rlim_t n, rlim_t unit, std::string_view suffix) {
    return n == RLIM_INFINITY ? std::string("unlimited") : fmt::format("{}{}", n / unit, suffix);
  };
  rlimit files{}, memory{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || ::getrlimit(RLIMIT_MEMLOCK, &memory) != 0) return;
  const bool few = files.rlim_cur < kMinFiles;
  found.add(few ? kWarning : kOk, "open file limit: " + words(files.rlim_cur, 1, ""),
            few ? "DataLoader workers and many ranks need more: `ulimit -n 65536`, or LimitNOFILE in the service" : "",
            "_open_files");
  const bool fabric = !folder_names(roots.sys + "/class/infiniband").empty();
  const bool little = fabric && memory.rlim_cur != RLIM_INFINITY;
  found.add(little ? kWarning : kOk,
            "locked memory limit: " + words(memory.rlim_cur, 1 << 20, " MiB") + (fabric ? "; InfiniBand is present" : ""),
            little ? "NCCL over InfiniBand locks its buffers: memlock unlimited in /etc/security/limits.conf, "
                     "docker run --ulimit memlock=-1"
                   : "",
            "_locked_memory");
}

void check_perf_events(const SystemRoots& roots, ProbeChecks& found) {
  const int event = open_switch_event(0, 1);
  if (event >= 0) {
    ::close(event);
    return found.add(kOk, "perf events for context switches are available");
  }
  const Error why = switch_event_refusal(errno, roots);
  found.add(kUnknown, why.message + ": recordings sample threads only", why.hint);
}

void check_numa(const SystemRoots& roots, ProbeChecks& found) {
  const auto names = folder_names(roots.sys + "/devices/system/node");
  const auto nodes = std::count_if(names.begin(), names.end(), [](std::string_view name) {
    return name.starts_with("node") && all_digits(name.substr(4));
  });
  if (nodes == 0) return found.add(kUnknown, "NUMA nodes are not visible");
  const bool balances = nodes > 1 && file_line(roots.proc + "/sys/kernel/numa_balancing") == "1";
  found.add(balances ? kWarning : kOk,
            fmt::format("{} NUMA node{}, CPUs {}{}", nodes, nodes == 1 ? "" : "s",
                        file_line(roots.sys + "/devices/system/cpu/online"),
                        balances ? "; the kernel moves pages between nodes" : ""),
            balances    ? "page moves interfere with pinned buffers: `sysctl kernel.numa_balancing=0`, and bind each "
                          "rank near its GPU (numactl)"
            : nodes > 1 ? "bind each rank to the node of its GPU: `profgpu devices` shows the nodes, numactl binds"
                        : "");
}

void check_iommu(const SystemRoots& roots, ProbeChecks& found) {
  std::set<std::string> types;
  const std::string folder = roots.sys + "/kernel/iommu_groups";
  for (const std::string& group : folder_names(folder)) types.insert(file_line(folder + "/" + group + "/type"));
  types.erase("");
  int gpus = 0;
  for (const std::string& name : folder_names(roots.sys + "/bus/pci/devices")) {
    const std::string device_class = file_line(roots.sys + "/bus/pci/devices/" + name + "/class");
    gpus += device_class.starts_with("0x0302") || device_class.starts_with("0x0300");
  }
  if (types.empty()) return found.add(kOk, "no IOMMU is in use");
  const bool detour = gpus > 1 && (types.contains("DMA") || types.contains("DMA-FQ"));
  found.add(detour ? kWarning : kOk, "IOMMU: " + joined(types),
            detour ? "on bare metal it routes traffic between GPUs through the CPU: iommu=pt on the kernel's command "
                     "line, ACS off in the firmware (`lspci -vvv | grep ACSCtl`)"
                   : "");
}

// Inherited variables, and the container.

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? std::optional<std::string>(value) : std::nullopt;
}

struct Suspicion {
  const char* name;
  std::string_view value;     // empty: any except "0" and ""
  std::string_view what, advice;
  Health verdict = kWarning;
};
constexpr std::string_view kDebugging = "for debugging only: unset it", kUnset = "unset it";

constexpr Suspicion kCuda[] = {
    {"CUDA_LAUNCH_BLOCKING", "", "every kernel launch waits for its kernel", kDebugging},
    {"HIP_LAUNCH_BLOCKING", "", "every kernel launch waits for its kernel", kDebugging},
    {"AMD_SERIALIZE_KERNEL", "", "kernels run one after the other", kDebugging},
    {"PYTORCH_NO_CUDA_MEMORY_CACHING", "", "every tensor costs a cudaMalloc", kDebugging},
    {"CUDA_CACHE_DISABLE", "", "kernels are compiled again at every start", kUnset},
    {"CUDA_DISABLE_PTX_JIT", "", "programs built for older devices will not start", kUnset},
    {"CUDA_MODULE_LOADING", "EAGER", "all kernels are loaded at the start: slower, and more memory",
     "unset it, or LAZY"},
    {"CUDA_COREDUMP_ENABLE", "", "a fault writes the device's whole memory to disk", "unset it in production"},
    {"NVIDIA_TF32_OVERRIDE", "0", "TF32 is off: FP32 GEMMs do not use tensor cores",
     "unset it unless results need it"},
    {"TORCHDYNAMO_DISABLE", "", "torch.compile does nothing", kUnset},
    {"TORCH_COMPILE_DISABLE", "", "torch.compile does nothing", kUnset},
    {"TORCH_DISTRIBUTED_DEBUG", "DETAIL", "every collective is checked across all ranks", kDebugging},
    {"TORCH_USE_CUDA_DSA", "", "kernels contain assertions", kDebugging},
    {"TORCH_NCCL_BLOCKING_WAIT", "", "collectives block the calling thread", kUnset},
    {"NCCL_BLOCKING_WAIT", "", "collectives block the calling thread", kUnset},
};

constexpr std::string_view kOwnChoice = "NCCL's own choice is nearly always better: unset it";
constexpr Suspicion kNccl[] = {
    {"NCCL_P2P_DISABLE", "1", "GPUs communicate through host memory, not directly",
     "unset it unless the machine needs it"},
    {"NCCL_SHM_DISABLE", "1", "GPUs of one machine communicate over the network", kUnset},
    {"NCCL_IB_DISABLE", "1", "machines communicate over TCP, not InfiniBand or RoCE",
     "unset it if there is such a network"},
    {"NCCL_NVLS_ENABLE", "0", "NVLink SHARP is off", kUnset},
    {"NCCL_NET_GDR_LEVEL", "LOC", "the network does not access GPU memory directly", kUnset},
    {"NCCL_LAUNCH_MODE", "GROUP", "an old launch mode", kUnset},
    {"NCCL_DEBUG", "TRACE", "NCCL writes a line for every call", "WARN or INFO"},
    {"NCCL_SOCKET_IFNAME", "docker0", "the containers' own interface reaches no other machine",
     "name the network's interface, or unset it"},
    {"NCCL_PROTO", "", "the protocol is fixed", kOwnChoice, kOk},
    {"NCCL_ALGO", "", "the algorithm is fixed", kOwnChoice, kOk},
    {"NCCL_MAX_NCHANNELS", "1", "one channel cannot saturate NVLink", kUnset},
    {"NCCL_SOCKET_IFNAME", "lo", "the loopback interface reaches no other machine",
     "name the network's interface, or unset it"},
};

void add_suspicions(std::span<const Suspicion> all, ProbeChecks& found) {
  for (const Suspicion& s : all) {
    const std::string value = variable(s.name).value_or("");
    if (!value.empty() && (s.value.empty() ? value != "0" : value == s.value))
      found.add(s.verdict, fmt::format("{}={}: {}", s.name, value, s.what), std::string(s.advice));
  }
}

// "NAME=value, NAME=value" of all variables with one of the prefixes, without secrets.
std::string list_of(std::initializer_list<std::string_view> prefixes) {
  std::set<std::string> found;
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals == text.npos || std::ranges::none_of(prefixes, [&](auto prefix) { return text.starts_with(prefix); }))
      continue;
    const std::string_view name = text.substr(0, equals);
    found.insert(fmt::format("{}={}", name, masked_member(name, text.substr(equals + 1))).substr(0, 160));
  }
  return joined(found);
}

void check_cuda_environment(const SystemRoots&, ProbeChecks& found) {
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"})
    if (const auto value = variable(name); value && (value->empty() || *value == "-1" || *value == "NoDevFiles"))
      found.add(kProblem, fmt::format("{}=\"{}\" hides every device", name, *value),
                fmt::format("unset it, or name devices: {}=0,1", name));
  add_suspicions(kCuda, found);
  const std::string list = list_of({"CUDA_", "NVIDIA_", "PYTORCH_", "TORCH_", "HIP_", "ROCR_", "ZE_"});
  if (found.checks.empty() || !list.empty())
    found.add(kOk, list.empty() ? "no CUDA or PyTorch variables are set" : list);
}

void check_nccl_environment(const SystemRoots&, ProbeChecks& found) {
  add_suspicions(kNccl, found);
  const std::string list = list_of({"NCCL_", "RCCL_"});
  if (!list.empty()) found.add(kOk, list);
  else
    found.add(kOk, "no NCCL_ variables are set",
              "to see which links NCCL uses: NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH");
}

void check_slurm(const SystemRoots&, ProbeChecks& found) {
  constexpr std::pair<const char*, std::string_view> kParts[] = {
      {"SLURM_JOB_ID", "job"},         {"SLURM_STEP_ID", "step"},
      {"SLURM_JOB_NODELIST", "nodes"}, {"SLURM_NTASKS", "tasks"},
      {"SLURM_CPUS_PER_TASK", "CPUs per task"},
      {"SLURM_JOB_GPUS", "GPUs"},      {"SLURM_STEP_GPUS", "GPUs of the step"},
  };
  std::string text;
  for (const auto& [name, words] : kParts)
    if (const auto value = variable(name)) append_listed(text, fmt::format("{} {}", words, *value));
  if (variable("SLURM_JOB_ID")) found.add(kOk, text);
}

std::string container_kind(const SystemRoots& roots) {
  const Placement placement = placement_of(file_text(roots.proc + "/self/cgroup").value_or(""));
  if (!placement.container.empty())
    return placement.container_runtime + " " + placement.container +
           (placement.pod.empty() ? "" : ", pod " + placement.pod);
  if (variable("KUBERNETES_SERVICE_HOST")) return "Kubernetes";
  if (const auto kind = variable("container")) return *kind;
  if (variable("APPTAINER_CONTAINER") || variable("SINGULARITY_CONTAINER")) return "Apptainer";
  // Files that Docker and Podman leave in a container's root.
  if (::access((roots.proc + "/self/root/.dockerenv").c_str(), F_OK) == 0) return "docker";
  return ::access((roots.proc + "/self/root/run/.containerenv").c_str(), F_OK) == 0 ? "podman" : "";
}

void check_container(const SystemRoots& roots, ProbeChecks& found) {
  const std::string kind = container_kind(roots);
  if (kind.empty()) return found.add(kOk, "no container detected");
  const auto visible = variable("NVIDIA_VISIBLE_DEVICES"), able = variable("NVIDIA_DRIVER_CAPABILITIES");
  const bool nodes = ::access((roots.dev + "/nvidiactl").c_str(), F_OK) == 0;
  if (visible && (*visible == "void" || *visible == "none"))
    found.add(kProblem, fmt::format("in a container ({}); NVIDIA_VISIBLE_DEVICES={} gives it no GPU", kind, *visible),
              "set it to all, or to indices or UUIDs; in Kubernetes request nvidia.com/gpu");
  else if (!nodes && !kernel_module_version(roots).empty())
    found.add(kProblem, fmt::format("in a container ({}) without /dev/nvidiactl, while the host has a driver", kind),
              "docker run --gpus all (needs the NVIDIA container toolkit); podman run --device nvidia.com/gpu=all");
  else if (able && able->find("all") == able->npos && able->find("utility") == able->npos && nodes)
    found.add(kWarning, fmt::format("NVIDIA_DRIVER_CAPABILITIES={} leaves out libnvidia-ml and nvidia-smi", *able),
              "add utility: NVIDIA_DRIVER_CAPABILITIES=compute,utility");
  else
    found.add(kOk, fmt::format("in a container ({}){}", kind, visible ? ", NVIDIA_VISIBLE_DEVICES=" + *visible : ""));
  if (!HostProcesses(roots.proc).sees_host())
    found.add(kOk, "pids here differ from the host's",
              "to see whose processes use a GPU: --pid host, or mount the host's /proc and set PROFGPU_PROC_ROOT to it",
              "_processes");
}

void check_shared_memory(const SystemRoots& roots, ProbeChecks& found) {
  struct statvfs s{};
  const std::string path = roots.dev + "/shm";
  if (::statvfs(path.c_str(), &s) != 0) return found.add(kUnknown, "there is no " + path);
  const double total = static_cast<double>(s.f_blocks) * static_cast<double>(s.f_frsize);
  const double free = static_cast<double>(s.f_bavail) * static_cast<double>(s.f_frsize);
  const std::string sizes = fmt::format("{} has {:.1f} GiB, {:.1f} free", path, total / (1 << 30), free / (1 << 30));
  // Docker's default is 64 MiB: DataLoader workers and NCCL then fail with "bus error" or "no space left".
  if (total < (1 << 30))
    found.add(kWarning, sizes + ": too little for DataLoader workers and NCCL",
              "docker run --ipc=host or --shm-size=8g; in Kubernetes an emptyDir of medium Memory at /dev/shm");
  else if (free < 0.1 * total) found.add(kWarning, sizes, "remove files left by dead programs");
  else found.add(kOk, sizes);
}

}  // namespace

const std::vector<Probe>& machine_probes() {
  static const std::vector<Probe> kAll = [] {
    std::vector<Probe> all(driver_probes().begin(), driver_probes().end());
    all.insert(all.end(), {
        {"container", "container", check_container},
        {"shared_memory", "container", check_shared_memory},
        {"cuda_environment", "environment", check_cuda_environment},
        {"nccl_environment", "environment", check_nccl_environment},
        {"slurm", "environment", check_slurm},
        {"system", "machine", check_system},
        {"clock", "machine", check_clock},
        {"cpu_governor", "machine", check_governor},
        {"limits", "machine", check_limits},
        {"perf_events", "machine", check_perf_events},
        {"numa", "machine", check_numa},
        {"iommu", "machine", check_iommu},
    });
    return all;
  }();
  return kAll;
}

}  // namespace profgpu
