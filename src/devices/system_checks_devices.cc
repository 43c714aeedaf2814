// One device: links, modes, memory errors, clocks.
#include <fmt/format.h>

#include <algorithm>

#include "base/decimal.h"
#include "base/text.h"
#include "devices/system_checks.h"

namespace profgpu {
namespace {

class Examination {
 public:
  explicit Examination(const DeviceEvidence& device) : device_(device) {}

  void pcie();
  void nvlink();
  void modes();
  void memory();
  void clocks();
  void temperature();
  void power();
  void recovery();
  void add(std::string id, Health verdict, std::string detail, std::string hint = {}) {
    checks.push_back({std::move(id), device_.info->label(), verdict, std::move(detail), std::move(hint)});
  }
  SystemChecks checks;

 private:
  // The newest sample, else the constant.
  [[nodiscard]] std::optional<double> value(Metric metric) const {
    const Sample* newest = nullptr;
    if (device_.reading)
      for (const Sample& s : device_.reading->samples)
        if (s.metric == metric && (!newest || s.time_ns >= newest->time_ns)) newest = &s;
    return newest ? std::optional(newest->value) : device_.info->constant(metric);
  }
  [[nodiscard]] bool positive(Metric metric) const { return value(metric).value_or(0) > 0; }
  // In lower case: backends quote their drivers.
  [[nodiscard]] std::string fact(std::string_view id) const {
    if (device_.facts)
      for (const Fact& f : *device_.facts)
        if (f.id == id) return lower_case(f.value);
    return "";
  }
  const DeviceEvidence& device_;
};

std::string count(const std::optional<double>& n) { return fmt::format("{:.0f}", n.value_or(0)); }

void Examination::pcie() {
  const auto width = value(Metric::kPcieWidth), width_max = value(Metric::kPcieWidthMax);
  const auto generation = value(Metric::kPcieGeneration), generation_max = value(Metric::kPcieGenerationMax);
  if (!width || !width_max || *width_max <= 0) return;
  std::string text = fmt::format("x{:.0f} of x{:.0f}", *width, *width_max);
  if (generation && generation_max) text += fmt::format(", generation {:.0f} of {:.0f}", *generation, *generation_max);
  const bool slow = generation && generation_max && *generation < *generation_max;
  const bool busy = value(Metric::kUtilization).value_or(0) >= kIdlePct.said;
  if (*width < *width_max)
    add("pcie_link", Health::kWarning, "PCIe runs with fewer lanes than it could: " + text,
        "seat the card and its riser anew, check the slot's wiring and the firmware's bifurcation");
  else if (slow && busy)
    add("pcie_link", Health::kWarning, "PCIe runs slower than it could, under load: " + text,
        "check the slot's speed in the firmware, and risers; `lspci -vv` shows LnkSta (downgraded)");
  else
    add("pcie_link", Health::kOk, "PCIe " + text + (slow ? " (lowered while idle)" : ""));
  if (value(Metric::kPcieReplays).value_or(0) >= kPcieReplaysSaid)
    add("pcie_replays", Health::kWarning, count(value(Metric::kPcieReplays)) + " PCIe packets were sent again",
        "a bad contact or riser; watch whether it grows: `profgpu log --query pcie_replays`");
}

void Examination::nvlink() {
  const std::string active = fact("nvlinks_active");  // "18 of 18"
  const auto errors = value(Metric::kNvlinkErrors);
  const size_t of = active.find(" of ");
  const auto up = whole_number(active.substr(0, of));
  const auto all = of == active.npos ? std::nullopt : whole_number(active.substr(of + 4));
  if (up && all && *all > 0) {
    const bool some = *up > 0 && *up < *all;  // none: the machine has no bridge or switch
    add("nvlink", some ? Health::kWarning : Health::kOk, active + " NVLinks are active",
        some ? "`nvidia-smi nvlink -s` shows which are not; check bridge, switch and nvidia-fabricmanager" : "");
  }
  if (errors && *errors > 0)
    add("nvlink_errors", Health::kWarning, count(errors) + " NVLink errors (replays, recoveries, CRC)",
        "a few over weeks are normal; `nvidia-smi nvlink -e` shows the link, reseat it if it goes on");
}

void Examination::modes() {
  const std::string persistence = fact("persistence_mode"), compute = fact("compute_mode");
  if (persistence == "disabled")
    add("persistence_mode", Health::kWarning,
        "persistence mode is off: the driver starts anew for each first program (seconds)",
        "run nvidia-persistenced, or `nvidia-smi -pm 1`");
  else if (!persistence.empty())
    add("persistence_mode", Health::kOk, "persistence mode is on");
  if (compute == "prohibited")
    add("compute_mode", Health::kProblem, "compute mode is prohibited: no program may use it",
        "`nvidia-smi -c DEFAULT`");
  else if (compute.starts_with("exclusive"))
    add("compute_mode", Health::kWarning, "compute mode is exclusive: one process at a time, others fail to start",
        "`nvidia-smi -c DEFAULT`, unless the job system wants it so");
}

void Examination::memory() {
  const std::string mode = fact("ecc_mode");  // "disabled, enabled after a reset"
  if (mode.starts_with("disabled"))
    add("ecc", Health::kWarning, "ECC is off: memory errors go unseen", "`nvidia-smi -e 1`, then reset or reboot");
  else if (mode.starts_with("enabled"))
    add("ecc", Health::kOk, "ECC is on");
  if (mode.find(',') != mode.npos)
    add("ecc_pending", Health::kWarning, "ECC is " + mode, "reset the device when it is free");
  if (positive(Metric::kEccUncorrected))
    add("ecc_errors", Health::kProblem,
        count(value(Metric::kEccUncorrected)) + " memory errors could not be corrected since the driver was loaded",
        "results of that time are in doubt: reset the device, run `dcgmi diag -r 3`");
  else if (positive(Metric::kEccCorrected))
    add("ecc_errors", Health::kWarning,
        count(value(Metric::kEccCorrected)) + " memory errors were corrected since the driver was loaded",
        "harmless by themselves; watch whether they grow");
  if (positive(Metric::kRemappedRowsFailed))
    add("remapped_rows", Health::kProblem, "remapping a memory row failed", "have the device replaced");
  else if (positive(Metric::kRemappedRowsPending))
    add("remapped_rows", Health::kProblem, "memory rows wait to be remapped",
        "stop its programs and `nvidia-smi --gpu-reset -i N`, or reboot");
  else if (positive(Metric::kRemappedRowsUncorrected))
    add("remapped_rows", Health::kWarning,
        count(value(Metric::kRemappedRowsUncorrected)) + " memory rows were remapped after uncorrectable errors",
        "done and over; many of them: have the device tested");
  if (positive(Metric::kRetiredPagesPending))
    add("retired_pages", Health::kProblem, "memory pages wait to be retired",
        "reboot, or reset the device when it is free");
  else if (positive(Metric::kRetiredPagesDoubleBit))
    add("retired_pages", Health::kWarning,
        count(value(Metric::kRetiredPagesDoubleBit)) + " memory pages were retired for double-bit errors",
        "from 60 on the device is to be replaced");
}

void Examination::clocks() {
  const auto mask = reason_bits(value(Metric::kClockEventReasons));
  if (!mask) return;
  std::string words;
  for (const ClockReasonInfo& r : clock_reasons())
    if ((*mask & static_cast<uint32_t>(r.reason)) != 0 && r.reason != ClockReason::kIdle)
      append_listed(words, r.words);
  if ((*mask & kFaultReasons & ~kHeatReasons) != 0)
    add("clocks", health_of(kHeldBackPct.severity), "the hardware holds clocks back now: " + words,
        "check fans, airflow, power cables and supplies");
  else if ((*mask & kHeatReasons) != 0)
    add("clocks", health_of(kHeldBackPct.severity), "clocks are held back now: " + words,
        "check fans, airflow and the room's temperature");
  else
    add("clocks", Health::kOk,
        words.empty() ? "nothing holds clocks back now" : "clocks are held back now by " + words);
}

void Examination::temperature() {
  const std::optional<double> left = to_slowdown_c(value(Metric::kTemperature), value(Metric::kTemperatureSlowdown),
                                                   value(Metric::kTemperatureMargin));
  if (left && *left <= kToSlowdown_c.said)
    add("temperature", health_of(kToSlowdown_c.severity),
        fmt::format("{:.0f} °C left before clocks are lowered", *left),
        "check fans, airflow and the room's temperature");
}

void Examination::power() {
  const auto limit = value(Metric::kPowerLimit), usual = value(Metric::kPowerLimitDefault);
  if (!limit || !usual) return;
  const bool low = is_lowered(limit, usual);
  add("power_limit", low ? Health::kWarning : Health::kOk,
      fmt::format("power limit {:.0f} W, default {:.0f} W", *limit, *usual),
      low ? fmt::format("if nobody wants it so: `nvidia-smi -pl {:.0f}`", *usual) : "");
}

void Examination::recovery() {
  const auto action = value(Metric::kRecoveryAction);
  if (!action || *action <= 0) return;
  constexpr std::string_view kActions[] = {"", "a reset of the device", "a reboot", "its peers to be drained",
                                           "to be drained and reset"};
  const auto i = static_cast<size_t>(std::min(*action, 5.0));
  add("recovery_action", Health::kProblem,
      fmt::format("the driver asks for {}",
                  i < std::size(kActions) ? kActions[i] : "a recovery that is not known here"),
      "take the device out of use, then do so");
}

}  // namespace

SystemChecks device_checks(const DeviceEvidence& device) {
  Examination e(device);
  if (!device.trouble.empty()) {
    e.add("answers", Health::kProblem, device.trouble,
          "look for Xid errors in the kernel log; reset the device, else reboot");
    return e.checks;
  }
  e.pcie();
  e.nvlink();
  e.modes();
  e.memory();
  e.clocks();
  e.temperature();
  e.power();
  e.recovery();
  return e.checks;
}

}  // namespace profgpu
