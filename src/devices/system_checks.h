// System checks: what makes GPUs on a machine slow, invisible or unsafe, and what to do about it.
//
// A check never changes anything, and each probe runs on a thread of its own with a deadline: files of a broken driver
// and of network file systems hang.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "devices/backend.h"
#include "devices/system_files.h"
#include "trace/health.h"

namespace profgpu {

struct SystemCheck {
  std::string id;                   ///< "pcie_link"
  std::string device;               ///< its label; empty: the machine
  Health verdict = Health::kUnknown;
  std::string detail;               ///< the finding
  std::string hint = {};            ///< what to do; empty: nothing
};
using SystemChecks = std::vector<SystemCheck>;

/// The checks of a probe.
class ProbeChecks {
 public:
  explicit ProbeChecks(std::string_view probe) : probe_(probe) {}
  /// `part`: the end of the id, where a probe has several checks: "_open_files".
  void add(Health verdict, std::string detail, std::string hint = {}, std::string_view part = {}) {
    checks.push_back({probe_ + std::string(part), "", verdict, std::move(detail), std::move(hint)});
  }
  SystemChecks checks;

 private:
  std::string probe_;
};

struct Probe {
  std::string_view id;
  std::string_view group;           ///< "driver", "container", "environment", "machine": headings on the screen
  void (*run)(const SystemRoots& roots, ProbeChecks& found);
};
/// The probes that need no device, in the order in which they are shown.
const std::vector<Probe>& machine_probes();
/// Those about NVIDIA's driver.
std::span<const Probe> driver_probes();
/// The heading of a check; "devices" for those of devices.
std::string_view group_of(const SystemCheck& check);

/// The detail of a probe that was not done in time.
constexpr std::string_view kProbeSilent = "the system did not answer in time";
/// Runs probes side by side. One that is not done by `deadline` gives "unknown".
SystemChecks run_probes(std::span<const Probe> probes, const SystemRoots& roots,
                        std::chrono::steady_clock::time_point deadline);

/// A device's own data, as read by the caller.
struct DeviceEvidence {
  const DeviceInfo* info = nullptr;
  std::string trouble;              ///< empty: it answers
  const Reading* reading = nullptr;
  const std::vector<Fact>* facts = nullptr;
};
SystemChecks device_checks(const DeviceEvidence& device);

/// The version of the loaded NVIDIA kernel module; empty: none.
std::string kernel_module_version(const SystemRoots& roots);
/// A running program whose short name (the kernel's) has that prefix; empty: none.
std::string running_program(const SystemRoots& roots, std::string_view prefix);

}  // namespace profgpu
