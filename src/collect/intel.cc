// The backend for Intel devices: sysfs, sensors and fdinfo of the drivers xe and i915; where Level Zero is installed, what that counts.
#include <fmt/format.h>

#include <atomic>
#include <deque>

#include "collect/backend.h"
#include "collect/drm_clients.h"
#include "collect/intel_card.h"
#include "collect/level_zero.h"
#include "collect/system_files.h"

namespace profgpu {
namespace {

/// Who watches for longer than this wants Level Zero; a short command need not pay for it.
constexpr int64_t kWorthLevelZero_ns = 500'000'000;

class Intel final : public Backend {
 public:
  Intel(const SystemRoots& roots, const std::vector<DrmCard>& cards)
      : roots_(roots), clients_(roots.proc, {"xe", "i915"}) {
    const std::string kernel = file_line(roots.proc + "/sys/kernel/osrelease");
    for (const DrmCard& c : cards) {
      cards_.emplace_back(c, static_cast<uint32_t>(cards_.size()), roots.sys);
      infos_.push_back(cards_.back().info());
      infos_.back().driver_version = kernel.empty() ? c.driver : c.driver + " " + kernel;
    }
  }

  [[nodiscard]] std::string_view name() const override { return "intel"; }
  [[nodiscard]] const std::vector<DeviceInfo>& devices() const override { return infos_; }
  Status read(const ReadRequest& request, Reading& reading) override {
    int64_t none = 0;
    first_ns_.compare_exchange_strong(none, request.now_ns);
    if (request.now_ns - first_ns_ >= kWorthLevelZero_ns) level_zero_.start();
    IntelCard& card = cards_[reading.device];
    return card.read(request, clients_, level_zero_.device(card.pci()), reading);
  }
  [[nodiscard]] std::string why_absent(uint32_t device, Metric metric) const override {
    const IntelCard& card = cards_[device];
    const LevelZeroDevice* counters = level_zero_.device(card.pci());
    if (counters && counters->says(metric)) return "";
    std::string why = card.why_absent(metric);
    const bool seen_by_all = metric == Metric::kUtilization || metric == Metric::kMemoryUsed || metric == Metric::kMemoryFree;
    if (seen_by_all && card.hidden() && !counters) why += ", and " + level_zero_.why();
    return why;
  }
  [[nodiscard]] int64_t calls() const override {
    int64_t sum = 0;
    for (const IntelCard& c : cards_) sum += c.calls();
    return sum + level_zero_.calls();
  }
  std::vector<Fact> system_facts() override {
    const std::string loader = find_library("libze_loader.so.1");
    return {{"driver_version", infos_.front().driver_version, ""},
            {"level_zero", loader, loader.empty() ? "libze_loader.so.1 is not installed; needed for memory bandwidth, PCIe traffic, "
                                                    "and what other users' processes do" : ""}};
  }
  std::vector<Fact> device_facts(uint32_t device) override { return cards_[device].facts(); }

 private:
  const SystemRoots roots_;
  std::deque<IntelCard> cards_;
  std::vector<DeviceInfo> infos_;
  DrmClients clients_;
  std::atomic<int64_t> first_ns_{0};   ///< monotonic, of the first reading
  LevelZero level_zero_;
};

Result<std::unique_ptr<Backend>> open_intel(const BackendOptions&) {
  const SystemRoots roots = SystemRoots::from_environment();
  const std::vector<DrmCard> cards = drm_cards(roots.sys, "8086", {"xe", "i915"});
  if (cards.empty())
    return Error{fmt::format("{}/class/drm has no card of Intel's with the driver xe or i915", roots.sys),
                 "in a container, pass --device /dev/dri"};
  return std::unique_ptr<Backend>(std::make_unique<Intel>(roots, cards));
}

}  // namespace

extern const BackendKind kIntel;
const BackendKind kIntel = {"intel", "Intel GPUs through the files of the Linux drivers xe and i915", true, &open_intel};

}  // namespace profgpu
