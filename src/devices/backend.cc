// What backends share: their devices as one list, and facts that are metrics.
#include "devices/backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "trace/health.h"

namespace profgpu {
namespace {

class Composite : public Backend {
 public:
  explicit Composite(std::vector<std::unique_ptr<Backend>> parts) : parts_(std::move(parts)) {
    for (auto& part : parts_) {
      const auto first = static_cast<uint32_t>(devices_.size());
      append_listed(name_, part->name(), "+");
      for (DeviceInfo info : part->devices()) {
        if (info.parent) *info.parent += first;
        where_.emplace_back(part.get(), static_cast<uint32_t>(devices_.size()) - first);
        devices_.push_back(std::move(info));
      }
    }
  }

  std::string_view name() const override { return name_; }
  const std::vector<DeviceInfo>& devices() const override { return devices_; }
  Status read(const ReadRequest& request, Reading& reading) override {
    const uint32_t ours = reading.device;
    reading.device = where_[ours].second;
    Status status = where_[ours].first->read(request, reading);
    reading.device = ours;
    return status;
  }
  void set_interval(int64_t interval_ns) override {
    for (auto& part : parts_) part->set_interval(interval_ns);
  }
  std::string why_absent(uint32_t device, Metric metric) const override {
    return where_[device].first->why_absent(where_[device].second, metric);
  }
  int64_t calls() const override {
    int64_t sum = 0;
    for (const auto& part : parts_) sum += part->calls();
    return sum;
  }
  std::vector<Fact> system_facts() override {
    std::vector<Fact> all;
    for (auto& part : parts_)
      for (Fact& f : part->system_facts()) all.push_back(std::move(f));
    return all;
  }
  std::vector<Fact> device_facts(uint32_t device) override {
    return where_[device].first->device_facts(where_[device].second);
  }
  std::vector<std::vector<Link>> topology() override {
    const size_t n = devices_.size();
    std::vector<std::vector<Link>> all(n, std::vector<Link>(n, Link{"?"}));
    size_t first = 0;
    for (auto& part : parts_) {
      const auto some = part->topology();
      for (size_t i = 0; i < some.size(); ++i)
        for (size_t j = 0; j < some[i].size(); ++j) all[first + i][first + j] = some[i][j];
      first += part->devices().size();
    }
    for (size_t i = 0; i < n; ++i) all[i][i] = Link{"X"};
    return all;
  }
  bool ended() const override {
    return std::all_of(parts_.begin(), parts_.end(), [](const auto& p) { return p->ended(); });
  }

 private:
  std::vector<std::unique_ptr<Backend>> parts_;
  std::vector<DeviceInfo> devices_;
  std::vector<std::pair<Backend*, uint32_t>> where_;   // each device's backend, and its position there
  std::string name_;
};

std::string metric_text(Metric metric, double value) {
  if (metric == Metric::kRecoveryAction) return recovery_action(value);
  if (metric != Metric::kClockEventReasons) return fmt::format("{:.0f}", value);
  std::string names;
  for (const ClockReasonInfo& r : clock_reasons())
    if (reason_bits(value).value_or(0) & static_cast<uint32_t>(r.reason)) append_listed(names, r.name);
  return names.empty() ? "none" : names;
}

constexpr Metric kMetricFacts[] = {
    Metric::kPerformanceState, Metric::kPcieGeneration, Metric::kPcieGenerationMax, Metric::kPcieWidth,
    Metric::kPcieWidthMax, Metric::kPowerLimit, Metric::kPowerLimitDefault, Metric::kPowerLimitMin,
    Metric::kPowerLimitMax, Metric::kSmClockMax, Metric::kMemoryClockMax, Metric::kClockEventReasons,
    Metric::kRemappedRowsCorrected, Metric::kRemappedRowsUncorrected, Metric::kRemappedRowsPending,
    Metric::kRemappedRowsFailed, Metric::kRetiredPagesSingleBit, Metric::kRetiredPagesDoubleBit,
    Metric::kRetiredPagesPending, Metric::kEccCorrected, Metric::kEccUncorrected, Metric::kEccCorrectedTotal,
    Metric::kEccUncorrectedTotal, Metric::kPcieReplays, Metric::kRecoveryAction, Metric::kNvlinkErrors,
};

}  // namespace

void add_metric_facts(const DeviceInfo& info, std::span<const Sample> samples,
                      const std::function<std::string(Metric)>& why, std::vector<Fact>& facts) {
  for (const Metric metric : kMetricFacts) {
    std::optional<double> number = info.constant(metric);
    for (const Sample& s : samples)
      if (s.metric == metric) number = s.value;
    facts.push_back({std::string(metric_info(metric).name), number ? metric_text(metric, *number) : "",
                     number ? "" : why(metric)});
  }
}

std::shared_ptr<Backend> composite_backend(std::vector<std::unique_ptr<Backend>> parts) {
  if (parts.size() == 1) return std::move(parts.front());
  return std::make_shared<Composite>(std::move(parts));
}

}  // namespace profgpu
