#include "devices/system_checks.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <set>

#include "base/decimal.h"
#include "base/text.h"
#include "devices/host_process.h"
#include "devices/pending.h"
#include "devices/switch_event.h"

namespace profgpu {

const std::vector<Probe>& machine_probes() {
  static const std::vector<Probe> kAll = {
      {"driver_version", "driver", check_driver_version},
      {"driver_library", "driver", check_driver_library},
      {"cuda_toolkit", "driver", check_cuda_toolkit},
      {"device_nodes", "driver", check_device_nodes},
      {"profiling_permission", "driver", check_profiling_permission},
      {"mps", "driver", check_mps},
      {"kernel_log", "driver", check_kernel_log},
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
  };
  return kAll;
}

std::string_view group_of(const SystemCheck& check) {
  for (const Probe& probe : machine_probes())
    if (check.device.empty() && check.id.starts_with(probe.id)) return probe.group;
  return "devices";
}

SystemChecks run_probes(const std::vector<Probe>& probes, const SystemRoots& roots,
                        std::chrono::steady_clock::time_point deadline) {
  std::vector<Pending<SystemChecks>> running;
  running.reserve(probes.size());
  for (const Probe& probe : probes)
    running.emplace_back([run = probe.run, roots] {
      SystemChecks checks;
      run(roots, checks);
      return checks;
    });
  SystemChecks all;
  for (size_t i = 0; i < probes.size(); ++i) {
    auto checks = running[i].await(deadline);
    if (checks) all.insert(all.end(), checks->begin(), checks->end());
    else all.push_back({std::string(probes[i].id), "", Health::kUnknown, std::string(kProbeSilent)});
  }
  return all;
}

std::string running_program(const SystemRoots& roots, std::string_view beginning) {
  for (const std::string& name : folder_names(roots.proc)) {
    if (!whole_number(name)) continue;
    std::string comm = file_line(fmt::format("{}/{}/comm", roots.proc, name));
    if (comm.starts_with(beginning)) return comm;
  }
  return "";
}

std::string rough_age(int64_t ns) {
  const int64_t minutes = ns / 60'000'000'000;
  if (minutes < 1) return "less than a minute";
  if (minutes < 120) return fmt::format("{} min", minutes);
  if (minutes < 48 * 60) return fmt::format("{} h", minutes / 60);
  return fmt::format("{} days", minutes / (24 * 60));
}

// The machine itself: kernel, clock, processors, limits, perf events, memory nodes, IOMMU.

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

// Variables that programs inherit, and the container they run in.

namespace {

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? std::optional<std::string>(value) : std::nullopt;
}

struct Suspicion {
  const char* name;
  std::string_view value;     // empty: any but "0" and ""
  Health verdict;
  std::string_view what, advice;
};

constexpr std::array<Suspicion, 15> kCuda = {{
    {"CUDA_LAUNCH_BLOCKING", "", Health::kWarning, "every kernel launch waits for its kernel",
     "for debugging only: unset it"},
    {"HIP_LAUNCH_BLOCKING", "", Health::kWarning, "every kernel launch waits for its kernel",
     "for debugging only: unset it"},
    {"AMD_SERIALIZE_KERNEL", "", Health::kWarning, "kernels run one after the other", "for debugging only: unset it"},
    {"PYTORCH_NO_CUDA_MEMORY_CACHING", "", Health::kWarning, "every tensor costs a cudaMalloc",
     "for debugging only: unset it"},
    {"CUDA_CACHE_DISABLE", "", Health::kWarning, "kernels are compiled again at every start", "unset it"},
    {"CUDA_DISABLE_PTX_JIT", "", Health::kWarning, "programs built for older devices will not start", "unset it"},
    {"CUDA_MODULE_LOADING", "EAGER", Health::kWarning, "all kernels are loaded at the start: slow, and more memory",
     "unset it, or LAZY"},
    {"CUDA_COREDUMP_ENABLE", "", Health::kWarning, "a fault writes the device's whole memory to disk",
     "unset it in production"},
    {"NVIDIA_TF32_OVERRIDE", "0", Health::kWarning, "matrix units do not take single precision (TF32)",
     "unset it unless results need it"},
    {"TORCHDYNAMO_DISABLE", "", Health::kWarning, "torch.compile does nothing", "unset it"},
    {"TORCH_COMPILE_DISABLE", "", Health::kWarning, "torch.compile does nothing", "unset it"},
    {"TORCH_DISTRIBUTED_DEBUG", "DETAIL", Health::kWarning, "every collective is checked across all ranks",
     "for debugging only: unset it"},
    {"TORCH_USE_CUDA_DSA", "", Health::kWarning, "kernels carry assertions", "for debugging only: unset it"},
    {"TORCH_NCCL_BLOCKING_WAIT", "", Health::kWarning, "collectives block the thread that calls them", "unset it"},
    {"NCCL_BLOCKING_WAIT", "", Health::kWarning, "collectives block the thread that calls them", "unset it"},
}};

constexpr std::array<Suspicion, 12> kNccl = {{
    {"NCCL_P2P_DISABLE", "1", Health::kWarning, "GPUs talk through host memory, not to each other",
     "unset it unless the machine needs it"},
    {"NCCL_SHM_DISABLE", "1", Health::kWarning, "GPUs of one machine talk through the network", "unset it"},
    {"NCCL_IB_DISABLE", "1", Health::kWarning, "machines talk by TCP, not by InfiniBand or RoCE",
     "unset it where there is such a network"},
    {"NCCL_NVLS_ENABLE", "0", Health::kWarning, "NVLink SHARP is off", "unset it"},
    {"NCCL_NET_GDR_LEVEL", "LOC", Health::kWarning, "the network does not reach GPU memory directly", "unset it"},
    {"NCCL_LAUNCH_MODE", "GROUP", Health::kWarning, "an old way to launch", "unset it"},
    {"NCCL_DEBUG", "TRACE", Health::kWarning, "NCCL writes a line for every call", "WARN or INFO"},
    {"NCCL_SOCKET_IFNAME", "docker0", Health::kWarning, "containers' own interface reaches no other machine",
     "name the network's interface, or unset it"},
    {"NCCL_PROTO", "", Health::kOk, "the choice of protocol is fixed",
     "NCCL's own choice is nearly always better: unset it"},
    {"NCCL_ALGO", "", Health::kOk, "the choice of algorithm is fixed",
     "NCCL's own choice is nearly always better: unset it"},
    {"NCCL_MAX_NCHANNELS", "1", Health::kWarning, "one channel cannot fill NVLink", "unset it"},
    {"NCCL_SOCKET_IFNAME", "lo", Health::kWarning, "the loopback interface reaches no other machine",
     "name the network's interface, or unset it"},
}};

bool fires(const Suspicion& s) {
  const auto value = variable(s.name);
  if (!value || value->empty()) return false;
  return s.value.empty() ? *value != "0" : *value == s.value;
}

template <size_t N>
bool add_suspicions(const std::array<Suspicion, N>& all, const std::string& id, SystemChecks& checks) {
  bool any = false;
  for (const Suspicion& s : all)
    if (fires(s)) {
      checks.push_back({id, "", s.verdict, fmt::format("{}={}: {}", s.name, variable(s.name).value_or(""), s.what),
                        std::string(s.advice)});
      any = true;
    }
  return any;
}

// "NAME=value, NAME=value" of all variables with such a beginning.
std::string list_of(std::initializer_list<std::string_view> beginnings) {
  std::vector<std::string> found;
  for (char** entry = environ; entry && *entry; ++entry)
    for (const std::string_view beginning : beginnings)
      if (std::string_view(*entry).starts_with(beginning)) found.push_back(std::string(*entry).substr(0, 160));
  std::sort(found.begin(), found.end());
  std::string text = joined(found);
  return text;
}

void check_visible_devices(const char* name, SystemChecks& checks) {
  const auto value = variable(name);
  if (value && (value->empty() || *value == "-1" || *value == "NoDevFiles"))
    checks.push_back({"cuda_environment", "", Health::kProblem,
                      fmt::format("{}=\"{}\" hides every device", name, *value),
                      fmt::format("unset it, or name devices: {}=0,1", name)});
}

std::string container_of(const SystemRoots& roots) {
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

}  // namespace

void check_container(const SystemRoots& roots, SystemChecks& checks) {
  const std::string kind = container_of(roots);
  if (kind.empty()) {
    checks.push_back({"container", "", Health::kOk, "no container seen"});
    return;
  }
  const auto visible = variable("NVIDIA_VISIBLE_DEVICES"), able = variable("NVIDIA_DRIVER_CAPABILITIES");
  const bool nodes = ::access((roots.dev + "/nvidiactl").c_str(), F_OK) == 0;
  if (visible && (*visible == "void" || *visible == "none"))
    checks.push_back({"container", "", Health::kProblem,
                      fmt::format("in a container ({}); NVIDIA_VISIBLE_DEVICES={} gives it no GPU", kind, *visible),
                      "set it to all, or to indices or UUIDs; in Kubernetes ask for nvidia.com/gpu"});
  else if (!nodes && !kernel_module_version(roots).empty())
    checks.push_back(
        {"container", "", Health::kProblem,
         fmt::format("in a container ({}) that has no /dev/nvidiactl, while the host has a driver", kind),
         "docker run --gpus all (needs the NVIDIA container toolkit); podman run --device nvidia.com/gpu=all"});
  else if (able && able->find("all") == able->npos && able->find("utility") == able->npos && nodes)
    checks.push_back({"container", "", Health::kWarning,
                      fmt::format("NVIDIA_DRIVER_CAPABILITIES={} leaves out libnvidia-ml and nvidia-smi", *able),
                      "add utility: NVIDIA_DRIVER_CAPABILITIES=compute,utility"});
  else
    checks.push_back(
        {"container", "", Health::kOk,
         fmt::format("in a container ({}){}", kind, visible ? ", NVIDIA_VISIBLE_DEVICES=" + *visible : "")});
  if (!HostProcesses(roots.proc).sees_host())
    checks.push_back(
        {"container_processes", "", Health::kOk, "process numbers here are not the host's",
         "to see whose processes use a GPU: --pid host, or mount the host's /proc and name it in PROFGPU_PROC_ROOT"});
}

void check_shared_memory(const SystemRoots& roots, SystemChecks& checks) {
  struct statvfs s{};
  const std::string path = roots.dev + "/shm";
  if (::statvfs(path.c_str(), &s) != 0) {
    checks.push_back({"shared_memory", "", Health::kUnknown, "there is no " + path});
    return;
  }
  const double total = static_cast<double>(s.f_blocks) * static_cast<double>(s.f_frsize);
  const double free = static_cast<double>(s.f_bavail) * static_cast<double>(s.f_frsize);
  const std::string sizes = fmt::format("{} has {:.1f} GiB, {:.1f} free", path, total / (1 << 30), free / (1 << 30));
  // Docker's default is 64 MiB: DataLoader workers and NCCL then die with "bus error" or "no space left".
  if (total < (1 << 30))
    checks.push_back(
        {"shared_memory", "", Health::kWarning, sizes + ": too little for DataLoader workers and NCCL",
         "docker run --ipc=host or --shm-size=8g; in Kubernetes an emptyDir of medium Memory at /dev/shm"});
  else if (free < 0.1 * total)
    checks.push_back({"shared_memory", "", Health::kWarning, sizes, "remove what dead programs left there"});
  else
    checks.push_back({"shared_memory", "", Health::kOk, sizes});
}

void check_cuda_environment(const SystemRoots&, SystemChecks& checks) {
  const size_t before = checks.size();
  check_visible_devices("CUDA_VISIBLE_DEVICES", checks);
  check_visible_devices("HIP_VISIBLE_DEVICES", checks);
  check_visible_devices("ROCR_VISIBLE_DEVICES", checks);
  add_suspicions(kCuda, "cuda_environment", checks);
  const std::string list = list_of({"CUDA_", "NVIDIA_", "PYTORCH_", "TORCH_", "HIP_", "ROCR_", "ZE_"});
  if (checks.size() == before || !list.empty())
    checks.push_back(
        {"cuda_environment", "", Health::kOk, list.empty() ? "no variables for CUDA or PyTorch are set" : list});
}

void check_nccl_environment(const SystemRoots&, SystemChecks& checks) {
  const bool any = add_suspicions(kNccl, "nccl_environment", checks);
  const std::string list = list_of({"NCCL_", "RCCL_"});
  if (!list.empty()) checks.push_back({"nccl_environment", "", Health::kOk, list});
  else if (!any)
    checks.push_back({"nccl_environment", "", Health::kOk, "no NCCL_ variables are set",
                      "to see which links NCCL takes: NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH"});
}

void check_slurm(const SystemRoots&, SystemChecks& checks) {
  const auto job = variable("SLURM_JOB_ID");
  if (!job) return;
  std::string text = "job " + *job;
  constexpr std::pair<const char*, std::string_view> kParts[] = {
      {"SLURM_STEP_ID", "step"},  {"SLURM_JOB_NODELIST", "nodes"},
      {"SLURM_NTASKS", "tasks"},  {"SLURM_CPUS_PER_TASK", "processors a task"},
      {"SLURM_JOB_GPUS", "GPUs"}, {"SLURM_STEP_GPUS", "GPUs of the step"}};
  for (const auto& [name, words] : kParts)
    if (const auto value = variable(name)) text += fmt::format(", {} {}", words, *value);
  checks.push_back({"slurm", "", Health::kOk, text});
}

}  // namespace profgpu
