#include "watch/exporter/exporter_page.h"

#include <map>
#include <tuple>
#include <unordered_map>

#include "base/decimal.h"
#include "base/text.h"
#include "watch/exporter/dcgm_fields.h"
#include "watch/exporter/exposition.h"

namespace profgpu {
namespace {

constexpr size_t kMaxDevices = 4096, kMaxJobsShown = 64;

std::optional<uint32_t> small_number(std::string_view text) {
  const auto n = whole_number(text);
  return n && *n >= 0 && *n < 1'000'000 ? std::optional(static_cast<uint32_t>(*n)) : std::nullopt;
}

const MetricInfo* own_metric(std::string_view name) {
  static const auto kByName = [] {
    std::unordered_map<std::string_view, const MetricInfo*> all;
    for (const MetricInfo& m : metrics()) all.emplace(m.prometheus, &m);
    return all;
  }();
  const auto found = kByName.find(name);
  return found == kByName.end() ? nullptr : found->second;
}

class PageReader {
 public:
  void take(const ExpositionSample& s);
  Result<ExporterPage> finish();

 private:
  struct Device {
    ExporterDevice shown;
    std::array<bool, kMetricCount> ours{};   // the value has our name
  };
  Device* device_of(const ExpositionSample& s);
  void take_own(const ExpositionSample& s, Device& device);
  static void take_dcgm(const DcgmField& field, const ExpositionSample& s, Device& device);

  std::string host_;
  std::map<std::tuple<uint32_t, std::string, std::string>, Device> devices_;   // by index, instance and UUID
};

// Null: not a sample of a device.
PageReader::Device* PageReader::device_of(const ExpositionSample& s) {
  const auto index = small_number(s.label("gpu"));
  if (!index) return nullptr;
  const auto either = [&](std::string_view ours, std::string_view dcgm) {
    const std::string_view own = s.label(ours);
    return std::string(own.empty() ? s.label(dcgm) : own);
  };
  const std::string uuid = either("uuid", "UUID"), instance = either("mig_instance", "GPU_I_ID");
  auto found = devices_.find({*index, instance, uuid});
  if (found == devices_.end()) {
    if (devices_.size() == kMaxDevices) return nullptr;
    found = devices_.emplace(std::tuple(*index, instance, uuid), Device{}).first;
    DeviceInfo& info = found->second.shown.info;
    info.index = *index;
    info.uuid = uuid;
    info.gpu_instance = small_number(instance);
  }
  DeviceInfo& info = found->second.shown.info;
  if (info.name.empty()) info.name = either("model", "modelName");
  if (info.mig_profile.empty()) info.mig_profile = either("mig_profile", "GPU_I_PROFILE");
  if (info.pci_bus_id.empty()) info.pci_bus_id = lower_case(s.label("pci_bus_id"));
  if (info.driver_version.empty()) info.driver_version = either("driver_version", "DCGM_FI_DRIVER_VERSION");
  if (info.vendor.empty()) info.vendor = s.label("vendor");
  if (host_.empty()) host_ = either("host", "Hostname");
  return &found->second;
}

void PageReader::take_own(const ExpositionSample& s, Device& device) {
  ExporterDevice& d = device.shown;
  if (s.name == "profgpu_xid_errors_total") {   // one series for each code
    auto& count = d.values[static_cast<size_t>(Metric::kXidErrors)];
    count = count.value_or(0) + s.value;
  } else if (const MetricInfo* metric = own_metric(s.name)) {
    const auto m = static_cast<size_t>(metric->metric);
    d.values[m] = s.value / metric->prometheus_scale;
    device.ours[m] = true;
  } else if (s.name == "profgpu_device_up") {
    d.up = s.value != 0;
  } else if (s.name == "profgpu_device_last_success_timestamp_seconds" && s.value > 0 && s.value < 9e9) {
    d.good_at_ns = static_cast<int64_t>(s.value * 1e9);
  } else if (s.name == "profgpu_device_job_info" && d.jobs.size() < kMaxJobsShown) {
    d.jobs.emplace_back(s.label("hpc_job"));
  }
}

void PageReader::take_dcgm(const DcgmField& field, const ExpositionSample& s, Device& device) {
  Metric metric = field.metric;
  switch (field.form) {
    case DcgmField::Form::kWhole:
    case DcgmField::Form::kReal: break;
    case DcgmField::Form::kRate:
      if (metric != Metric::kPcieTx && metric != Metric::kPcieRx) return;   // of NVLink, we have the counters
      metric = metric == Metric::kPcieTx ? Metric::kPcieTxRate : Metric::kPcieRxRate;
      break;
    case DcgmField::Form::kXid: metric = Metric::kXidLast; break;
    case DcgmField::Form::kNvlinkRate:
    case DcgmField::Form::kUsedRatio: return;   // neither is a metric of ours
  }
  if (field.form == DcgmField::Form::kXid && s.value == 0) return;   // no error so far
  if (device.shown.info.vendor.empty()) device.shown.info.vendor = "NVIDIA";
  const auto m = static_cast<size_t>(metric);
  if (!device.ours[m]) device.shown.values[m] = s.value / field.scale;
}

void PageReader::take(const ExpositionSample& s) {
  const bool own = s.name.starts_with("profgpu_");
  const DcgmField* field = own ? nullptr : find_dcgm_field(s.name);
  if (!own && !field) return;
  Device* device = device_of(s);
  if (!device) return;
  field ? take_dcgm(*field, s, *device) : take_own(s, *device);
}

Result<ExporterPage> PageReader::finish() {
  ExporterPage page;
  page.host = host_;
  for (auto& [key, device] : devices_) {
    auto& values = device.shown.values;
    const auto at = [&](Metric m) -> auto& { return values[static_cast<size_t>(m)]; };
    // dcgm-exporter does not report the total.
    if (!at(Metric::kMemoryTotal) && at(Metric::kMemoryUsed) && at(Metric::kMemoryFree))
      at(Metric::kMemoryTotal) =
          *at(Metric::kMemoryUsed) + *at(Metric::kMemoryFree) + at(Metric::kMemoryReserved).value_or(0);
    for (const MetricInfo& m : metrics())
      if (auto& value = at(m.metric); value && m.kind == MetricKind::kConstant) {
        device.shown.info.constants.emplace_back(m.metric, *value);
        value.reset();
      }
    device.shown.info.host = host_;
    page.devices.push_back(std::move(device.shown));
  }
  if (page.devices.empty())
    return Error{"not the page of a GPU exporter", "profgpu exporter and dcgm-exporter answer at :9400/metrics"};
  return page;
}

}  // namespace

Result<ExporterPage> read_exporter_page(std::string_view text) {
  ExpositionReader lines(text);
  ExpositionSample sample;
  PageReader reader;
  while (lines.next(sample)) reader.take(sample);
  return reader.finish();
}

}  // namespace profgpu
