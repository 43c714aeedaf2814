#include "devices/system_checks.h"

#include <fmt/format.h>

#include "base/decimal.h"
#include "devices/pending.h"

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

}  // namespace profgpu
