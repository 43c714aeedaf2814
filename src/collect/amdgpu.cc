// The backend for AMD devices: sysfs of the amdgpu driver. No library of ROCm is needed.
#include <fmt/format.h>

#include <deque>

#include "collect/amdgpu_card.h"
#include "collect/amdgpu_processes.h"
#include "collect/backend.h"
#include "collect/drm_clients.h"
#include "collect/system_files.h"

namespace profgpu {
namespace {

class Amdgpu final : public Backend {
 public:
  Amdgpu(const SystemRoots& roots, std::vector<DrmCard> cards)
      : roots_(roots), clients_(roots.proc, {"amdgpu"}), processes_(roots.sys), seen_ns_(cards.size()) {
    std::string version = file_line(roots.sys + "/module/amdgpu/version");
    if (version.empty()) version = file_line(roots.proc + "/sys/kernel/osrelease");
    for (DrmCard& c : cards) {
      cards_.emplace_back(std::move(c), static_cast<uint32_t>(cards_.size()));
      infos_.push_back(cards_.back().info());
      infos_.back().driver_version = version;
    }
  }

  [[nodiscard]] std::string_view name() const override { return "amdgpu"; }
  [[nodiscard]] const std::vector<DeviceInfo>& devices() const override { return infos_; }

  Status read(const ReadRequest& request, Reading& reading) override {
    AmdgpuCard& card = cards_[reading.device];
    if (request.processes) {
      int64_t& seen_ns = seen_ns_[reading.device];
      if (auto use = clients_.use_of(card.card().pci, request.now_ns, seen_ns)) {
        seen_ns = use->time_ns;
        reading.has_processes = true;
        reading.processes = std::move(use->processes);
        processes_.add(card.card().pci, reading.processes);
      }
    }
    return card.read(request, reading);
  }

  [[nodiscard]] std::string why_absent(uint32_t device, Metric metric) const override {
    return cards_[device].why_absent(metric);
  }
  [[nodiscard]] int64_t calls() const override {
    int64_t sum = 0;
    for (const AmdgpuCard& c : cards_) sum += c.calls();
    return sum;
  }

  std::vector<Fact> system_facts() override {
    const std::string rocm_smi = find_library("librocm_smi64.so"), amd_smi = find_library("libamd_smi.so");
    return {
        {"driver_version", infos_.front().driver_version, ""},
        {"kernel", file_line(roots_.proc + "/sys/kernel/osrelease"), ""},
        {"rocm_version", file_line("/opt/rocm/.info/version"), "no /opt/rocm"},
        {"rocm_smi", rocm_smi, rocm_smi.empty() ? "librocm_smi64.so is not installed; not needed" : ""},
        {"amd_smi", amd_smi, amd_smi.empty() ? "libamd_smi.so is not installed; not needed" : ""},
        {"kfd", processes_.there() ? "present" : "", processes_.there() ? "" : "no compute driver (/sys/class/kfd)"}};
  }
  std::vector<Fact> device_facts(uint32_t device) override { return cards_[device].facts(); }

 private:
  const SystemRoots roots_;
  std::deque<AmdgpuCard> cards_;
  std::vector<DeviceInfo> infos_;
  DrmClients clients_;
  AmdgpuProcesses processes_;
  std::vector<int64_t> seen_ns_;   ///< by device: the look at processes that was handed over last
};

Result<std::unique_ptr<Backend>> open_amdgpu(const BackendOptions&) {
  const SystemRoots roots = SystemRoots::from_environment();
  std::vector<DrmCard> cards = drm_cards(roots.sys, "1002", {"amdgpu"});
  if (cards.empty())
    return Error{fmt::format("{}/class/drm has no card of AMD's with the amdgpu driver", roots.sys),
                 "in a container, pass --device /dev/dri and --device /dev/kfd"};
  return std::unique_ptr<Backend>(std::make_unique<Amdgpu>(roots, std::move(cards)));
}

}  // namespace

extern const BackendKind kAmdgpu;
const BackendKind kAmdgpu = {"amdgpu", "AMD GPUs through the files of the Linux driver amdgpu", true, &open_amdgpu};

}  // namespace profgpu
