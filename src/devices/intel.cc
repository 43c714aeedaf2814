// The backend for Intel devices: sysfs, sensors and fdinfo of the drivers xe and i915, and Level Zero's counters where
// that is installed.

#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "devices/backend.h"
#include "devices/drm_card.h"
#include "devices/drm_clients.h"
#include "devices/level_zero.h"
#include "devices/system_files.h"

namespace profgpu {

// One Intel card and its files under xe or i915.

class IntelCard {
 public:
  IntelCard(DrmCard card, uint32_t index, const std::string& sys);

  [[nodiscard]] const DeviceInfo& info() const { return info_; }
  /// `counters`: Level Zero's for this card; null: none.
  Status read(const ReadRequest& request, DrmClients& clients, LevelZeroDevice* counters, Reading& reading);
  [[nodiscard]] std::string why_absent(Metric metric) const;
  /// Some processes on the device are not visible.
  [[nodiscard]] bool hidden() const { return use_state_ == Use::kHidden; }
  [[nodiscard]] const std::string& pci() const { return card_.pci; }
  [[nodiscard]] int64_t calls() const { return files_.calls(); }
  [[nodiscard]] std::vector<Fact> facts() const;

 private:
  void add_clock_files();
  void add_sensor_files();
  void add_power(const ReadRequest& request, size_t begin, Reading& reading);
  void add_clock_reasons(const ReadRequest& request, Reading& reading);
  void add_use(const ReadRequest& request, DrmClients& clients, const LevelZeroDevice* counters, Reading& reading);

  const DrmCard card_;
  const std::string vendor_file_;
  const bool is_xe_;
  std::string clocks_;               ///< the folder of the first GT's clocks
  DeviceInfo info_;
  DrmFiles files_;
  std::optional<DrmFile> throttled_; ///< whether there is any reason
  std::deque<DrmFile> reasons_;
  std::vector<ClockReason> reason_bits_;   ///< as many
  int64_t reasons_ns_ = 0, counters_ns_ = 0;
  double energy_j_ = 0;              ///< at energy_ns_
  int64_t energy_ns_ = 0;            ///< 0: not read yet
  DrmUse use_;
  bool new_processes_ = false;
  enum class Use : uint8_t { kOneLook, kHidden, kKnown };
  std::atomic<Use> use_state_ = Use::kOneLook;
};

namespace {

constexpr double kMicroUnits = 1e-6, kMilliUnits = 1e-3;
/// The energy counter moves about every millisecond: shorter differences give no reliable power.
constexpr int64_t kMinPowerGap_ns = 10'000'000;
constexpr int64_t kReasonsGap_ns = 500'000'000;
/// Level Zero's calls may take milliseconds.
constexpr int64_t kCountersGap_ns = 500'000'000;
/// On Arc cards the kernel sees the link behind the card's own switch: always one lane of the first generation.
constexpr const char* kHiddenLink = "the switch on the card hides the link to the slot";

struct ReasonFile {
  ClockReason bit;
  const char* xe;
  const char* i915;
};
// PL1, PL2 and PL4 limit power over seconds, over milliseconds and at once; RATL limits the running average
// temperature.
constexpr ReasonFile kReasonFiles[] = {
    {ClockReason::kSwPowerCap, "reason_pl1", "throttle_reason_pl1"},
    {ClockReason::kSwPowerCap, "reason_pl2", "throttle_reason_pl2"},
    {ClockReason::kHwSlowdown, "reason_pl4", "throttle_reason_pl4"},
    {ClockReason::kHwThermal, "reason_thermal", "throttle_reason_thermal"},
    {ClockReason::kHwThermal, "reason_prochot", "throttle_reason_prochot"},
    {ClockReason::kSwThermal, "reason_ratl", "throttle_reason_ratl"},
    {ClockReason::kHwThermal, "reason_vr_thermalert", "throttle_reason_vr_thermalert"},
    {ClockReason::kHwSlowdown, "reason_vr_tdc", "throttle_reason_vr_tdc"},
};

bool runs_kernels(const std::string& engine) {
  return engine == "render" || engine == "compute" || engine == "rcs" || engine == "ccs";
}

}  // namespace

IntelCard::IntelCard(DrmCard card, uint32_t index, const std::string& sys)
    : card_(std::move(card)),
      vendor_file_(card_.folder + "/vendor"),
      is_xe_(card_.driver == "xe"),
      clocks_(is_xe_ ? card_.folder + "/tile0/gt0/freq0" : sys + "/class/drm/" + card_.name + "/gt/gt0"),
      info_(drm_device_info(card_, index, "Intel")) {
  const auto add = [&](Metric metric, const std::string& path, double scale = 1) {
    if (info_.constant(metric)) return;
    if (const auto value = number_once(path, scale); value && *value > 0) info_.constants.emplace_back(metric, *value);
  };
  const std::string card_folder = sys + "/class/drm/" + card_.name;
  add(Metric::kMemoryTotal, card_.folder + "/tile0/physical_vram_size_bytes");
  add(Metric::kMemoryTotal, card_folder + "/lmem_total_bytes");
  add(Metric::kSmClockMax, clocks_ + (is_xe_ ? "/rp0_freq" : "/rps_RP0_freq_mhz"));
  add(Metric::kSmClockMax, card_folder + "/gt_RP0_freq_mhz");
  for (const char* n : {"1", "2"})
    add(Metric::kPowerLimitDefault, card_.hwmon + "/power" + n + "_rated_max", kMicroUnits);
  add_clock_files();
  add_sensor_files();
}

void IntelCard::add_clock_files() {
  const std::string old = card_.folder.substr(0, card_.folder.rfind('/'));
  if (is_xe_) files_.add(DrmFiles::kFast, Metric::kSmClock, {clocks_ + "/act_freq"});
  else files_.add(DrmFiles::kFast, Metric::kSmClock, {clocks_ + "/rps_act_freq_mhz", old + "/gt_act_freq_mhz"});
  const std::string folder = clocks_ + (is_xe_ ? "/throttle/" : "/");
  throttled_.emplace(Metric::kClockEventReasons, folder + (is_xe_ ? "status" : "throttle_reason_status"), 1,
                     FileForm::kNumber);
  for (const ReasonFile& r : kReasonFiles) {
    const std::string path = folder + (is_xe_ ? r.xe : r.i915);
    if (::access(path.c_str(), R_OK) != 0) continue;
    reasons_.emplace_back(Metric::kClockEventReasons, path, 1, FileForm::kNumber);
    reason_bits_.push_back(r.bit);
  }
}

void IntelCard::add_sensor_files() {
  const std::string& h = card_.hwmon;
  // Of the card where available, else of the package: 1 and 2 under both drivers.
  files_.add(DrmFiles::kFast, Metric::kEnergy, {h + "/energy1_input", h + "/energy2_input"}, kMicroUnits);
  files_.add(DrmFiles::kSlow, Metric::kPowerLimit, {h + "/power1_max", h + "/power2_max"}, kMicroUnits);
  const int package = hwmon_temperature(h, "pkg"), memory = hwmon_temperature(h, "vram");
  const int core_sensor = package ? package : is_xe_ ? 2 : 1;
  files_.add(DrmFiles::kSlow, Metric::kTemperature, {fmt::format("{}/temp{}_input", h, core_sensor)}, kMilliUnits);
  files_.add(DrmFiles::kSlow, Metric::kMemoryTemperature, {fmt::format("{}/temp{}_input", h, memory ? memory : 3)},
             kMilliUnits);
}

Status IntelCard::read(const ReadRequest& request, DrmClients& clients, LevelZeroDevice* counters, Reading& reading) {
  if (::access(vendor_file_.c_str(), F_OK) != 0)
    return Error{fmt::format("the device is gone: {} is no longer in sysfs", card_.name)};
  const size_t begin = reading.samples.size();
  files_.read(request, reading);
  add_power(request, begin, reading);
  add_clock_reasons(request, reading);
  if (counters && (request.everything || request.now_ns - counters_ns_ >= kCountersGap_ns)) {
    counters_ns_ = request.now_ns;
    counters->read(reading);
  }
  add_use(request, clients, counters, reading);
  return ok();
}

/// Power is the difference of energy since the previous reading. A limit of 0 W means no limit.
void IntelCard::add_power(const ReadRequest& request, size_t begin, Reading& reading) {
  std::erase_if(reading.samples, [](const Sample& s) { return s.metric == Metric::kPowerLimit && s.value == 0; });
  for (size_t i = begin; i < reading.samples.size(); ++i) {
    if (reading.samples[i].metric != Metric::kEnergy) continue;
    const double energy_j = reading.samples[i].value;
    const int64_t elapsed_ns = request.now_ns - energy_ns_;
    if (energy_ns_ != 0 && elapsed_ns < kMinPowerGap_ns) return;
    if (energy_ns_ != 0 && energy_j >= energy_j_)
      reading.add(Metric::kPower, (energy_j - energy_j_) / (static_cast<double>(elapsed_ns) * 1e-9));
    energy_j_ = energy_j, energy_ns_ = request.now_ns;
    return;
  }
}

void IntelCard::add_clock_reasons(const ReadRequest& request, Reading& reading) {
  if (!request.everything && request.now_ns - reasons_ns_ < kReasonsGap_ns) return;
  reasons_ns_ = request.now_ns;
  const auto status = throttled_->read();
  if (!status) return;
  uint32_t bits = 0;
  for (size_t i = 0; *status != 0 && i < reasons_.size(); ++i)
    if (reasons_[i].read().value_or(0) != 0) bits |= static_cast<uint32_t>(reason_bits_[i]);
  // Limited for a reason without a file: an approximate reason is better than none.
  if (*status != 0 && bits == 0) bits = static_cast<uint32_t>(ClockReason::kHwSlowdown);
  reading.add(Metric::kClockEventReasons, bits);
}

void IntelCard::add_use(const ReadRequest& request, DrmClients& clients, const LevelZeroDevice* counters,
                        Reading& reading) {
  const auto counted = [&](Metric metric) { return counters && counters->says(metric); };
  if (auto use = clients.use_of(card_.pci, request.now_ns, use_.time_ns)) {
    use_ = std::move(*use);
    new_processes_ = true;
    double busiest_pct = 0;
    bool any = false;
    for (const auto& [engine, pct] : use_.engines_pct)
      if (runs_kernels(engine)) busiest_pct = std::max(busiest_pct, pct), any = true;
    // No visible engine means idle only where all processes are visible.
    const bool known = use_.compared && (any || use_.complete);
    if (known && !counted(Metric::kUtilization)) reading.add(Metric::kUtilization, busiest_pct);
    use_state_ = known ? Use::kKnown : use_.compared ? Use::kHidden : Use::kOneLook;
    const auto total = info_.constant(Metric::kMemoryTotal);
    const bool memory_known = !counted(Metric::kMemoryUsed) && (use_.memory_bytes || (use_.complete && total));
    const double used = static_cast<double>(use_.memory_bytes.value_or(0));
    if (memory_known) reading.add(Metric::kMemoryUsed, used);
    if (memory_known && use_.complete && total && used <= *total) reading.add(Metric::kMemoryFree, *total - used);
  }
  if (!request.processes || !new_processes_) return;
  new_processes_ = false;
  reading.has_processes = true;
  reading.processes = use_.processes;
}

std::string IntelCard::why_absent(Metric metric) const {
  if (info_.constant(metric)) return "";
  if (const auto reason = files_.why_absent(metric == Metric::kPower ? Metric::kEnergy : metric)) return *reason;
  switch (metric) {
    case Metric::kClockEventReasons: return throttled_->why_absent();
    case Metric::kFanSpeed: return "the driver reports revolutions per minute without a maximum";
    case Metric::kPcieGeneration: case Metric::kPcieWidth: case Metric::kPcieGenerationMax: case Metric::kPcieWidthMax:
      return kHiddenLink;
    case Metric::kUtilization: case Metric::kMemoryUsed: case Metric::kMemoryFree: break;
    default: return fmt::format("{} does not report it", card_.driver);
  }
  const Use state = use_state_;
  if (state == Use::kHidden) return "no permission to see other users' processes on the device";
  if (state == Use::kOneLook) return "available after one second";
  const bool has_memory = info_.constant(Metric::kMemoryTotal).has_value();
  return metric == Metric::kUtilization || has_memory ? "" : "this device has no memory of its own";
}

std::vector<Fact> IntelCard::facts() const {
  std::vector<Fact> facts = drm_facts(card_);
  for (const char* n : {"1", "2", "3"}) {
    const std::string rpm = file_line(card_.hwmon + "/fan" + n + "_input");
    if (!rpm.empty()) facts.push_back({std::string("fan") + n, rpm + " revolutions per minute", ""});
  }
  facts.push_back(drm_number_fact("power_limit_w", card_.hwmon + "/power1_max", kMicroUnits));
  facts.push_back(drm_number_fact("power_critical_w", card_.hwmon + "/power1_crit", kMicroUnits));
  facts.push_back({"pcie_width", "", kHiddenLink});
  facts.push_back({"pcie_generation", "", kHiddenLink});
  facts.push_back({"utilization_source", "engine times of the visible processes (/proc/PID/fdinfo)", ""});
  return facts;
}

namespace {

/// Watching for longer than this uses Level Zero; short commands skip its start-up cost.
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
    const bool seen_by_all =
        metric == Metric::kUtilization || metric == Metric::kMemoryUsed || metric == Metric::kMemoryFree;
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
            {"level_zero", loader,
             loader.empty() ? "libze_loader.so.1 is not installed; it is needed for memory bandwidth, PCIe traffic "
                              "and the use by other users' processes"
                            : ""}};
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
    return Error{fmt::format("{}/class/drm has no Intel card with the driver xe or i915", roots.sys),
                 "in a container, pass --device /dev/dri"};
  return std::unique_ptr<Backend>(std::make_unique<Intel>(roots, cards));
}

}  // namespace

extern const BackendKind kIntel = {"intel", "Intel GPUs through the Linux drivers xe and i915", true, &open_intel};

}  // namespace profgpu
