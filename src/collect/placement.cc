// Which container, pod or Slurm job a control group belongs to, by the names that the runtimes give their groups.
#include <algorithm>
#include <array>

#include "collect/host_process.h"
#include "collect/system_files.h"

namespace profgpu {
namespace {

constexpr size_t kShortId = 12;  // digits, as `docker ps` shows them

bool is_container_id(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == text.npos;
}

bool take_front(std::string_view& text, std::string_view front) {
  if (!text.starts_with(front)) return false;
  text.remove_prefix(front.size());
  return true;
}

// "docker-<id>.scope", "cri-containerd-<id>.scope", "crio-<id>", "libpod-<id>.scope"; with cgroupfs the id alone.
void take_container(std::string_view part, std::string_view parent, Placement& placement) {
  struct Runtime {
    std::string_view prefix, name;
  };
  constexpr std::array<Runtime, 5> kRuntimes = {{{"cri-containerd-", "containerd"}, {"crio-", "cri-o"},
                                                 {"libpod-", "podman"}, {"docker-", "docker"},
                                                 {"nerdctl-", "containerd"}}};
  const size_t colon = part.rfind(':');  // "kubepods-….slice:cri-containerd:<id>"
  std::string_view runtime;
  if (colon != part.npos) {
    if (part.substr(0, colon).ends_with("cri-containerd")) runtime = "containerd";
    part.remove_prefix(colon + 1);
  }
  for (const Runtime& r : kRuntimes)
    if (take_front(part, r.prefix)) {
      runtime = r.name;
      break;
    }
  if (part.ends_with(".scope")) part.remove_suffix(6);
  if (!is_container_id(part)) return;
  if (runtime.empty()) runtime = parent == "docker" ? "docker" : parent.starts_with("libpod") ? "podman" : "container";
  placement.container_runtime = runtime;
  placement.container = part.substr(0, kShortId);
}

// "pod<uid>", "kubepods-burstable-pod<uid with _>.slice".
void take_pod(std::string_view part, Placement& placement) {
  if (part.ends_with(".slice")) part.remove_suffix(6);
  const size_t at = part.starts_with("pod") ? 0 : part.rfind("-pod") == part.npos ? part.npos : part.rfind("-pod") + 1;
  if (at == part.npos) return;
  std::string uid(part.substr(at + 3));
  std::replace(uid.begin(), uid.end(), '_', '-');
  // Static pods have 32 digits, all others a UUID.
  if (uid.size() >= 32 && uid.size() <= 36 && uid.find_first_not_of("0123456789abcdef-") == uid.npos)
    placement.pod = uid;
}

void take_lxc(std::string_view part, std::string_view parent, Placement& placement) {
  if (parent == "lxc" || parent == "lxc.payload" || take_front(part, "lxc.payload.")) {
    placement.container_runtime = "lxc";
    placement.container = part.substr(0, 64);
  }
}

void take_slurm(std::string_view part, std::string_view parent, Placement& placement) {
  if (take_front(part, "job_") && (parent.starts_with("uid_") || parent.starts_with("slurm")))
    placement.slurm_job = part;
  else if (parent.starts_with("job_") && take_front(part, "step_"))
    placement.slurm_step = part;
}

}  // namespace

Placement placement_of(std::string_view cgroup) {
  Placement placement;
  for (const std::string_view line : pieces_of(cgroup, '\n')) {
    // "12:devices:/docker/…", "0::/system.slice/…": the path stands behind the second colon.
    const size_t first = line.find(':');
    const size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    std::string_view parent;
    for (const std::string_view part : pieces_of(line.substr(second + 1), '/')) {
      take_container(part, parent, placement);
      take_pod(part, placement);
      take_lxc(part, parent, placement);
      take_slurm(part, parent, placement);
      parent = part;
    }
  }
  return placement;
}

}  // namespace profgpu
