// System checks: what about a machine makes GPUs slow, unseen or unsafe, and what to do about it.
//
// A check never changes anything, and each probe runs on a thread of its own with a deadline: files of a broken driver
// and of network file systems hang.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "devices/backend.h"
#include "devices/system_files.h"
#include "trace/health.h"

namespace profgpu {

struct SystemCheck {
  std::string id;                   ///< "pcie_link"
  std::string device;               ///< its label; empty: the machine
  Health verdict = Health::kUnknown;
  std::string detail;               ///< what is so
  std::string hint = {};            ///< what to do; empty where there is nothing to do
};
using SystemChecks = std::vector<SystemCheck>;

struct Probe {
  std::string_view id;
  std::string_view group;           ///< "driver", "container", "environment", "machine": headings on the screen
  void (*run)(const SystemRoots& roots, SystemChecks& checks);
};
/// What needs no device, in the order in which it is shown.
const std::vector<Probe>& machine_probes();
/// The heading that a check belongs under; "devices" for those of devices.
std::string_view group_of(const SystemCheck& check);

/// The detail of a probe that was not done in time.
constexpr std::string_view kProbeSilent = "the system did not answer in time";
/// Runs probes side by side. One that is not done by `deadline` gives "unknown".
SystemChecks run_probes(const std::vector<Probe>& probes, const SystemRoots& roots,
                        std::chrono::steady_clock::time_point deadline);

/// What a device says of itself, read by someone else.
struct DeviceEvidence {
  const DeviceInfo* info = nullptr;
  std::string trouble;              ///< empty: it answers
  const Reading* reading = nullptr;
  const std::vector<Fact>* facts = nullptr;
};
SystemChecks device_checks(const DeviceEvidence& device);

// The probes, by file.
void check_driver_version(const SystemRoots& roots, SystemChecks& checks);
void check_driver_library(const SystemRoots& roots, SystemChecks& checks);
void check_cuda_toolkit(const SystemRoots& roots, SystemChecks& checks);
void check_device_nodes(const SystemRoots& roots, SystemChecks& checks);
void check_profiling_permission(const SystemRoots& roots, SystemChecks& checks);
void check_mps(const SystemRoots& roots, SystemChecks& checks);
void check_kernel_log(const SystemRoots& roots, SystemChecks& checks);
void check_container(const SystemRoots& roots, SystemChecks& checks);
void check_shared_memory(const SystemRoots& roots, SystemChecks& checks);
void check_cuda_environment(const SystemRoots& roots, SystemChecks& checks);
void check_nccl_environment(const SystemRoots& roots, SystemChecks& checks);
void check_slurm(const SystemRoots& roots, SystemChecks& checks);
void check_system(const SystemRoots& roots, SystemChecks& checks);
void check_clock(const SystemRoots& roots, SystemChecks& checks);
void check_governor(const SystemRoots& roots, SystemChecks& checks);
void check_limits(const SystemRoots& roots, SystemChecks& checks);
void check_perf_events(const SystemRoots& roots, SystemChecks& checks);
void check_numa(const SystemRoots& roots, SystemChecks& checks);
void check_iommu(const SystemRoots& roots, SystemChecks& checks);

/// The version of the NVIDIA kernel module that is loaded; empty: none.
std::string kernel_module_version(const SystemRoots& roots);
/// Programs that run, by the kernel's short name; empty: none of that beginning.
std::string running_program(const SystemRoots& roots, std::string_view beginning);
/// "4 min", "3 h", "12 days".
std::string rough_age(int64_t ns);

}  // namespace profgpu
