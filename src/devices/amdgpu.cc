// The backend for AMD devices: sysfs of the amdgpu driver. No ROCm library is needed.

#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/decimal.h"
#include "base/text.h"
#include "devices/amdgpu_metrics.h"
#include "devices/backend.h"
#include "devices/drm_card.h"
#include "devices/drm_clients.h"
#include "devices/pci_address.h"
#include "trace/sample.h"

namespace profgpu {

// One AMD card and its files.

class AmdgpuCard {
 public:
  AmdgpuCard(DrmCard card, uint32_t index);

  [[nodiscard]] const DeviceInfo& info() const { return info_; }
  [[nodiscard]] const DrmCard& card() const { return card_; }
  Status read(const ReadRequest& request, Reading& reading);
  [[nodiscard]] std::string why_absent(Metric metric) const;
  [[nodiscard]] int64_t calls() const { return files_.calls() + table_reads_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::vector<Fact> facts() const;

 private:
  void add_constants();
  void add_files();
  void add_file(DrmFiles::Pace pace, Metric metric, const std::vector<std::string>& paths, double scale = 1,
                FileForm form = FileForm::kNumber);

  const DrmCard card_;
  const std::string vendor_file_;
  DeviceInfo info_;
  AmdgpuMetrics table_;
  std::set<Metric> in_table_;            ///< in the table when the card was opened
  bool table_each_tick_ = false;         ///< it has values that change fast
  int64_t table_read_ns_ = 0;
  std::atomic<int64_t> table_reads_ = 0;
  DrmFiles files_;
  int core_sensor_ = 0;                  ///< N of tempN_*
};

namespace {

constexpr double kMicro = 1e-6, kMilli = 1e-3;
constexpr int64_t kSlowTable_ns = 1'000'000'000;

/// "GPU-" and the sixteen digits, as in ROCR_VISIBLE_DEVICES.
std::string unique_id(const DrmCard& card) {
  const std::string id = file_line(card.folder + "/unique_id");
  return hex_number(id).value_or(0) != 0 ? "GPU-" + id : "";
}

}  // namespace

AmdgpuCard::AmdgpuCard(DrmCard card, uint32_t index)
    : card_(std::move(card)),
      vendor_file_(card_.folder + "/vendor"),
      info_(drm_device_info(card_, index, "AMD")),
      table_(card_.folder + "/gpu_metrics") {
  if (const std::string name = file_line(card_.folder + "/product_name"); !name.empty()) info_.name = name;
  replace_invalid_utf8(info_.name);
  info_.uuid = unique_id(card_);
  for (const char* label : {"edge", "junction"})
    if (core_sensor_ == 0) core_sensor_ = hwmon_temperature(card_.hwmon, label);
  Reading trial;
  table_.read(trial);
  for (const Sample& s : trial.samples) in_table_.insert(s.metric);
  table_each_tick_ = in_table_.contains(Metric::kPower) || in_table_.contains(Metric::kUtilization);
  add_constants();
  add_files();
}

void AmdgpuCard::add_constants() {
  const std::string &f = card_.folder, &h = card_.hwmon;
  const std::string core = fmt::format("{}/temp{}_", h, core_sensor_);
  const auto add = [&](Metric metric, const std::string& path, double scale = 1, FileForm form = FileForm::kNumber) {
    if (const auto value = number_once(path, scale, form); value && *value > 0)
      info_.constants.emplace_back(metric, *value);
  };
  add(Metric::kMemoryTotal, f + "/mem_info_vram_total");
  add(Metric::kBar1Total, f + "/mem_info_vis_vram_total");
  add(Metric::kPowerLimitDefault, h + "/power1_cap_default", kMicro);
  add(Metric::kPowerLimitMin, h + "/power1_cap_min", kMicro);
  add(Metric::kPowerLimitMax, h + "/power1_cap_max", kMicro);
  add(Metric::kTemperatureSlowdown, core + "crit", kMilli);
  add(Metric::kTemperatureShutdown, core + "emergency", kMilli);
  add(Metric::kSmClockMax, f + "/pp_dpm_sclk", 1, FileForm::kHighestClock);
  add(Metric::kMemoryClockMax, f + "/pp_dpm_mclk", 1, FileForm::kHighestClock);
  add(Metric::kPcieGenerationMax, f + "/max_link_speed", 1, FileForm::kLinkGeneration);
  add(Metric::kPcieWidthMax, f + "/max_link_width");
}

void AmdgpuCard::add_file(DrmFiles::Pace pace, Metric metric, const std::vector<std::string>& paths, double scale,
                          FileForm form) {
  if (!in_table_.contains(metric)) files_.add(pace, metric, paths, scale, form);
}

// Never pcie_bw: reading it sleeps for a second inside the kernel.
void AmdgpuCard::add_files() {
  using enum Metric;
  constexpr auto kFast = DrmFiles::kFast, kSlow = DrmFiles::kSlow;
  const std::string &f = card_.folder, &h = card_.hwmon;
  const int memory_sensor = hwmon_temperature(h, "mem");
  add_file(kFast, kUtilization, {f + "/gpu_busy_percent"});
  add_file(kFast, kPower, {h + "/power1_average", h + "/power1_input"}, kMicro);
  add_file(kFast, kMemoryUsed, {f + "/mem_info_vram_used"});
  add_file(kSlow, kMemoryUtilization, {f + "/mem_busy_percent"});
  add_file(kSlow, kPowerLimit, {h + "/power1_cap"}, kMicro);
  add_file(kSlow, kTemperature, {fmt::format("{}/temp{}_input", h, std::max(core_sensor_, 1))}, kMilli);
  add_file(kSlow, kMemoryTemperature, {fmt::format("{}/temp{}_input", h, memory_sensor ? memory_sensor : 3)}, kMilli);
  add_file(kSlow, kSmClock, {f + "/pp_dpm_sclk"}, 1, FileForm::kCurrentClock);
  add_file(kSlow, kMemoryClock, {f + "/pp_dpm_mclk"}, 1, FileForm::kCurrentClock);
  // pwm1 ranges from 0 to 255.
  add_file(kSlow, kFanSpeed, {h + "/pwm1"}, 100.0 / 255);
  add_file(kSlow, kBar1Used, {f + "/mem_info_vis_vram_used"});
  add_file(kSlow, kPcieGeneration, {f + "/current_link_speed"}, 1, FileForm::kLinkGeneration);
  add_file(kSlow, kPcieWidth, {f + "/current_link_width"});
  add_file(kSlow, kPcieReplays, {f + "/pcie_replay_count"});
  add_file(kSlow, kEccUncorrected, {f + "/ras/umc_err_count"}, 1, FileForm::kUncorrected);
  add_file(kSlow, kEccCorrected, {f + "/ras/umc_err_count"}, 1, FileForm::kCorrected);
}

Status AmdgpuCard::read(const ReadRequest& request, Reading& reading) {
  if (::access(vendor_file_.c_str(), F_OK) != 0)
    return Error{fmt::format("the device is gone: {} is no longer in sysfs", card_.name)};
  const size_t begin = reading.samples.size();
  const bool due = table_each_tick_ || request.everything || request.now_ns - table_read_ns_ >= kSlowTable_ns;
  if (due && table_.there()) {
    table_read_ns_ = request.now_ns;
    table_reads_.fetch_add(1, std::memory_order_relaxed);
    table_.read(reading);
  }
  files_.read(request, reading);
  const auto total = info_.constant(Metric::kMemoryTotal);
  for (size_t i = begin; total && i < reading.samples.size(); ++i) {
    const double used = reading.samples[i].value;
    if (reading.samples[i].metric != Metric::kMemoryUsed || used > *total) continue;
    reading.add(Metric::kMemoryFree, *total - used);
    break;
  }
  return ok();
}

std::string AmdgpuCard::why_absent(Metric metric) const {
  if (info_.constant(metric)) return "";
  if (metric == Metric::kMemoryFree) metric = Metric::kMemoryUsed;
  if (in_table_.contains(metric)) return table_.why_absent();
  if (const auto reason = files_.why_absent(metric)) return *reason;
  const bool could = metric == Metric::kEnergy || metric == Metric::kClockEventReasons || metric == Metric::kXgmiTx ||
                     metric == Metric::kXgmiRx || metric_info(metric).unit == "ns";
  const std::string table = table_.why_absent();
  if (could) return table.empty() ? fmt::format("not in this device's gpu_metrics ({})", table_.revision()) : table;
  return "amdgpu does not report it";
}

std::vector<Fact> AmdgpuCard::facts() const {
  std::vector<Fact> facts = drm_facts(card_);
  const auto add = [&](std::string id, std::string value, const std::string& reason) {
    facts.push_back({std::move(id), value, value.empty() ? reason : ""});
  };
  add("vbios_version", file_line(card_.folder + "/vbios_version"), "no readable vbios_version");
  add("gpu_metrics", table_.revision(), table_.why_absent());
  const std::string& f = card_.folder;
  facts.push_back(drm_number_fact("power_limit_w", card_.hwmon + "/power1_cap", kMicro));
  facts.push_back(drm_number_fact("pcie_width", f + "/current_link_width"));
  facts.push_back(drm_number_fact("pcie_width_max", f + "/max_link_width"));
  facts.push_back(drm_number_fact("pcie_generation", f + "/current_link_speed", 1, FileForm::kLinkGeneration));
  facts.push_back(drm_number_fact("pcie_generation_max", f + "/max_link_speed", 1, FileForm::kLinkGeneration));
  add("performance_level", file_line(card_.folder + "/power_dpm_force_performance_level"),
      "no readable power_dpm_force_performance_level");
  add("compute_partition", file_line(card_.folder + "/current_compute_partition"), "not partitioned");
  add("memory_partition", file_line(card_.folder + "/current_memory_partition"), "not partitioned");
  for (const std::string& name : folder_names(card_.folder + "/ras")) {
    const std::string text = file_text(card_.folder + "/ras/" + name, 64 << 10).value_or("");
    const std::string_view ue = line_value(text, "ue"), ce = line_value(text, "ce");
    if (name.ends_with("_err_count") && !ue.empty() && (ue != "0" || ce != "0"))
      add("ras_" + name.substr(0, name.size() - 10), fmt::format("{} uncorrected, {} corrected", ue, ce), "");
    // One line per page: address, size and R (retired), P (pending) or F (failed).
    if (name == "gpu_vram_bad_pages") add("bad_pages", std::to_string(std::count(text.begin(), text.end(), '\n')), "");
  }
  return facts;
}

// Memory of compute programs on AMD devices, from /sys/class/kfd: fdinfo of older kernels lacks ROCm's buffers.

class AmdgpuProcesses {
 public:
  explicit AmdgpuProcesses(const std::string& sys);
  /// Adds to `processes` those that KFD lists for the device at `pci` ("0000:03:00.0"), and memory where KFD has more.
  void add(const std::string& pci, std::vector<ProcessSample>& processes) const;
  [[nodiscard]] bool there() const { return !gpu_ids_.empty(); }

 private:
  std::string folder_;
  std::map<PciAddress, std::string> gpu_ids_;   ///< KFD's numbers of the devices
};

AmdgpuProcesses::AmdgpuProcesses(const std::string& sys) : folder_(sys + "/class/kfd/kfd") {
  for (const std::string& node : folder_names(folder_ + "/topology/nodes")) {
    const std::string path = folder_ + "/topology/nodes/" + node;
    const std::string gpu_id = file_line(path + "/gpu_id");
    const std::string properties = file_text(path + "/properties", 16 << 10).value_or("");
    const auto location = whole_number(line_value(properties, "location_id", ' '));
    const auto domain = whole_number(line_value(properties, "domain", ' '));
    // CPUs are nodes too; their number is 0.
    if (gpu_id.empty() || gpu_id == "0" || !location || *location < 0 || *location > 0xffff) continue;
    const auto bits = static_cast<uint32_t>(*location);
    gpu_ids_[{static_cast<uint32_t>(domain.value_or(0)), bits >> 8, bits >> 3 & 31, bits & 7}] = gpu_id;
  }
}

void AmdgpuProcesses::add(const std::string& pci, std::vector<ProcessSample>& processes) const {
  const auto id = gpu_ids_.find(pci_address(pci).value_or(PciAddress{}));
  if (id == gpu_ids_.end()) return;
  for (const int64_t pid : process_ids(folder_ + "/proc")) {
    const auto bytes = whole_number(file_line(fmt::format("{}/proc/{}/vram_{}", folder_, pid, id->second)));
    if (pid < 1 || !bytes || *bytes < 0) continue;
    auto at = std::find_if(processes.begin(), processes.end(), [&](const auto& p) { return p.pid == pid; });
    // Compute programs open every device, even those that they do not use.
    if (at == processes.end() && *bytes == 0) continue;
    if (at == processes.end()) {
      processes.push_back({});
      at = std::prev(processes.end());
      at->pid = pid;
    }
    at->type = 'C';
    at->memory_bytes = std::max(at->memory_bytes.value_or(0), *bytes);
  }
}

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
  std::vector<int64_t> seen_ns_;   ///< by device: the latest look at processes that was passed on
};

Result<std::unique_ptr<Backend>> open_amdgpu(const BackendOptions&) {
  const SystemRoots roots = SystemRoots::from_environment();
  std::vector<DrmCard> cards = drm_cards(roots.sys, "1002", {"amdgpu"});
  if (cards.empty())
    return Error{fmt::format("{}/class/drm has no AMD card with the amdgpu driver", roots.sys),
                 "in a container, pass --device /dev/dri and --device /dev/kfd"};
  return std::unique_ptr<Backend>(std::make_unique<Amdgpu>(roots, std::move(cards)));
}

}  // namespace

extern const BackendKind kAmdgpu = {"amdgpu", "AMD GPUs through the Linux driver amdgpu", true, &open_amdgpu};

}  // namespace profgpu
