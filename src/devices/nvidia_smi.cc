#include "devices/nvidia_smi.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "base/clock.h"
#include "base/text.h"
#include "devices/nvidia_smi_child.h"
#include "devices/nvidia_smi_query.h"

namespace profgpu {
namespace {

/// How long the very first list of processes may delay a reading: one-shot commands have no second.
constexpr int64_t kFirstProcesses_ns = 1'000'000'000;
/// The values of the inventory's query count as the first reading's for this long: nvidia-smi averages over up to a
/// second anyway, and consumers drop values from before their first reading.
constexpr int64_t kStillNow_ns = 1'000'000'000;

class NvidiaSmi final : public Backend {
 public:
  NvidiaSmi(SmiInventory inventory, int64_t interval_ns, SmiTimes times)
      : inventory_(std::move(inventory)), interval_ns_(interval_ns), times_(times) {
    for (const SmiDevice& d : inventory_.devices) infos_.push_back(d.info);
    read_before_.resize(infos_.size());
  }

  [[nodiscard]] std::string_view name() const override { return "smi"; }
  [[nodiscard]] const std::vector<DeviceInfo>& devices() const override { return infos_; }
  [[nodiscard]] int64_t calls() const override {
    const std::lock_guard lock(mutex_);
    return static_cast<int64_t>(infos_.size()) + (stream_ ? stream_->rows() : 0);
  }

  Status read(const ReadRequest& request, Reading& reading) override {
    SmiStream& rows = stream();
    const SmiDevice& device = inventory_.devices[reading.device];
    if (!read_before_[reading.device]) {
      read_before_[reading.device] = 1;
      for (Sample s : device.first) {
        if (reading.time_ns - s.time_ns < kStillNow_ns) s.time_ns = std::max(s.time_ns, reading.time_ns);
        reading.samples.push_back(s);
      }
    }
    if (request.processes) rows.take_processes(reading.device, patience_ns(request), reading);
    return rows.take(reading.device, reading);
  }

  void set_interval(int64_t interval_ns) override {
    const std::lock_guard lock(mutex_);
    interval_ns_ = interval_ns;
    if (stream_) stream_->set_interval(interval_ns);
  }

  [[nodiscard]] std::string why_absent(uint32_t device, Metric metric) const override {
    const std::lock_guard lock(mutex_);
    const SmiDevice& d = inventory_.devices[device];
    std::string reason = stream_ ? stream_->why_absent(device, metric) : d.absent[static_cast<size_t>(metric)];
    if (!reason.empty() && in_mig_mode(d) && metric_info(metric).unit == "%")
      reason = "nvidia-smi does not report it in MIG mode; the library (NVML) does";
    return reason;
  }

  std::vector<Fact> system_facts() override {
    std::vector<Fact> facts = {{"driver_version", infos_.front().driver_version, ""},
                               {"nvidia_smi", inventory_.program, ""}};
    const std::lock_guard lock(mutex_);
    const std::string message = stream_ ? stream_->message() : inventory_.message;
    if (!message.empty()) facts.push_back({"nvidia_smi_message", message, ""});
    if (stream_) facts.push_back({"nvidia_smi_starts", std::to_string(stream_->starts()), ""});
    return facts;
  }

  std::vector<Fact> device_facts(uint32_t device) override;

 private:
  static int64_t patience_ns(const ReadRequest& request) {
    if (!request.everything) return 0;
    const int64_t left_ns = request.until_ns - monotonic_ns();
    return request.until_ns == 0 ? kFirstProcesses_ns : std::clamp<int64_t>(left_ns, 0, kFirstProcesses_ns);
  }
  static bool in_mig_mode(const SmiDevice& device) {
    for (const auto& [field, text] : device.facts)
      if (field == "mig.mode.current") return text == "Enabled";
    return false;
  }

  /// The child is started by the first reading: an inventory needs none.
  SmiStream& stream() {
    const std::lock_guard lock(mutex_);
    if (!stream_) stream_ = std::make_unique<SmiStream>(inventory_, interval_ns_, times_);
    return *stream_;
  }

  const SmiInventory inventory_;
  int64_t interval_ns_;            // under mutex_
  const SmiTimes times_;
  std::vector<DeviceInfo> infos_;
  std::vector<char> read_before_;  // one reader per device at a time; bytes, as different devices have several
  mutable std::mutex mutex_;       // stream_ is set once
  std::unique_ptr<SmiStream> stream_;
};

/// Named and worded like NVML's facts: "mode.current" is "mode", "Enabled" is "enabled".
Fact text_fact(std::string_view field, std::string_view text) {
  std::string id(field.substr(0, field.find(".current"))), value(text);
  std::replace(id.begin(), id.end(), '.', '_');
  bool trouble = false;
  if (const std::string_view reason = smi_absence(text, trouble); !reason.empty()) return {id, "", std::string(reason)};
  if (id.ends_with("_mode")) {
    value = lower_case(value);
    std::replace(value.begin(), value.end(), '_', ' ');
  }
  return {id, value, ""};
}

constexpr Metric kSmiMetricFacts[] = {
    Metric::kPerformanceState, Metric::kPcieGeneration, Metric::kPcieGenerationMax, Metric::kPcieWidth,
    Metric::kPcieWidthMax, Metric::kPowerLimit, Metric::kPowerLimitDefault, Metric::kPowerLimitMin,
    Metric::kPowerLimitMax, Metric::kSmClockMax, Metric::kMemoryClockMax, Metric::kRemappedRowsCorrected,
    Metric::kRemappedRowsUncorrected, Metric::kRemappedRowsPending, Metric::kRemappedRowsFailed,
    Metric::kRetiredPagesSingleBit, Metric::kRetiredPagesDoubleBit, Metric::kRetiredPagesPending,
    Metric::kEccCorrected, Metric::kEccUncorrected, Metric::kEccCorrectedTotal, Metric::kEccUncorrectedTotal,
};

/// The MIG instances of a GPU as `nvidia-smi -L` lists them: "3g.40gb (MIG-...), 1g.10gb (MIG-...)".
std::string mig_instances(const std::string& program, const std::string& uuid, int64_t timeout_ns) {
  const auto output = run_smi({program, "-L"}, timeout_ns);
  if (!output) return "";
  std::string list;
  bool ours = false;
  for (const std::string_view raw : pieces_of(output->text, '\n')) {
    const std::string_view line = without_blanks(raw);
    if (line.starts_with("GPU ")) ours = line.find(uuid) != line.npos;
    const size_t id = line.find("(UUID: "), device = line.find(" Device");
    if (!ours || !line.starts_with("MIG ") || id == line.npos || device == line.npos) continue;
    const std::string_view profile = without_blanks(line.substr(4, device - 4));
    const std::string_view name = line.substr(id + 7, line.find(')', id) - id - 7);
    append_listed(list, fmt::format("{} ({})", profile, name));
  }
  return list;
}

std::vector<Fact> NvidiaSmi::device_facts(uint32_t device) {
  const SmiDevice& d = inventory_.devices[device];
  std::vector<Fact> facts;
  for (const auto& [field, text] : d.facts) facts.push_back(text_fact(field, text));
  const auto why = [&](Metric m) { return d.absent[static_cast<size_t>(m)]; };
  add_metric_facts(kSmiMetricFacts, d.info, d.first, why, facts);
  if (in_mig_mode(d)) {
    facts.push_back({"mig_instances", mig_instances(inventory_.program, d.info.uuid, times_.query_ns), ""});
    facts.push_back({"mig_note", "nvidia-smi measures the whole GPU, not its instances", ""});
  }
  return facts;
}

Result<std::unique_ptr<Backend>> open_kind(const BackendOptions& options) { return open_nvidia_smi(options, {}); }

}  // namespace

Result<std::unique_ptr<Backend>> open_nvidia_smi(const BackendOptions& options, const SmiTimes& times) {
  const std::string program = find_nvidia_smi();
  if (program.empty())
    return Error{"nvidia-smi not found in PATH", "install the NVIDIA driver's utilities, or set PROFGPU_NVIDIA_SMI"};
  auto inventory = query_smi(program, times.query_ns);
  if (!inventory) return inventory.error();
  return std::unique_ptr<Backend>(std::make_unique<NvidiaSmi>(std::move(*inventory), options.interval_ns, times));
}

extern const BackendKind kSmi;
const BackendKind kSmi = {"smi", "NVIDIA GPUs through the program nvidia-smi, where the library is missing", true,
                                &open_kind};

}  // namespace profgpu
