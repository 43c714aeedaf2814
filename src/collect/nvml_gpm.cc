#include "collect/nvml_gpm.h"

#include <cmath>
#include <iterator>
#include <utility>

namespace profgpu::nvml {
namespace {

struct Row {
  uint32_t id;
  Metric metric;
  double scale;
};
// Percentages are 0 to 100. NVML's header gives the traffic in MiB/s and is believed here; DCGM passes the same number
// on as bytes per second, so one of the two is wrong by 2^20.
constexpr double kMiB = 1 << 20;
constexpr Row kRows[] = {
    {1, Metric::kGraphicsActive, 1}, {2, Metric::kSmActive, 1},      {3, Metric::kSmOccupancy, 1},
    {5, Metric::kTensorActive, 1},   {10, Metric::kDramActive, 1},   {11, Metric::kFp64Active, 1},
    {12, Metric::kFp32Active, 1},    {13, Metric::kFp16Active, 1},   {20, Metric::kPcieTxRate, kMiB},
    {21, Metric::kPcieRxRate, kMiB},
};
// Two takes that are closer say more about the counters' grain than about the device.
constexpr int64_t kShortestNs = 50'000'000;

}  // namespace

Gpm::~Gpm() {
  if (before_) calls_.library.call(calls_.library.api.gpm_free, before_);
  if (after_) calls_.library.call(calls_.library.api.gpm_free, after_);
}

Return Gpm::start() {
  const Api& api = calls_.library.api;
  GpmSupport support{1, 0};
  // Instances have what their GPU has.
  const Device asked = calls_.parent ? calls_.parent : calls_.device;
  if (const Return code = calls_.call_system(api.gpm_support, asked, &support); code != kSuccess) return code;
  if (!support.supported || !api.gpm_metrics || !api.gpm_free) return kNotSupported;
  if (const Return code = calls_.call_system(api.gpm_alloc, &before_); code != kSuccess) return code;
  const Return code = calls_.call_system(api.gpm_alloc, &after_);
  started_ = code == kSuccess;
  return code;
}

Return Gpm::take(GpmSample sample) {
  const Api& api = calls_.library.api;
  return calls_.parent ? calls_.call_system(api.gpm_mig_sample, calls_.parent, calls_.gpu_instance, sample)
                       : calls_.call(api.gpm_sample, sample);
}

Return Gpm::read(int64_t now_ns, Reading& reading) {
  if (!started_)
    if (const Return code = start(); code != kSuccess) return code;
  if (taken_ns_ != 0 && now_ns - taken_ns_ < kShortestNs) return kSuccess;
  if (const Return code = take(after_); code != kSuccess) return code;
  const Return code = taken_ns_ != 0 ? add_metrics(after_, reading) : kSuccess;
  std::swap(before_, after_);
  taken_ns_ = now_ns;
  taken_unix_ns_ = reading.time_ns;
  return code;
}

Return Gpm::add_metrics(GpmSample now, Reading& reading) {
  GpmMetrics<std::size(kRows)> request{};
  request.version = 1;
  request.count = std::size(kRows);
  request.before = before_;
  request.after = now;
  for (size_t i = 0; i < std::size(kRows); ++i) request.metrics[i].id = kRows[i].id;
  const Return asked = calls_.call_system(calls_.library.api.gpm_metrics, static_cast<void*>(&request));
  if (asked != kSuccess) return asked;
  for (size_t i = 0; i < std::size(kRows); ++i) {
    const GpmMetric& m = request.metrics[i];
    const auto code = static_cast<Return>(m.result);
    // A driver that has nothing to say says NaN.
    const bool good = code == kSuccess && std::isfinite(m.value) && m.value >= 0;
    calls_.note(kRows[i].metric, good ? kSuccess : code == kSuccess ? kNoData : code);
    if (good) reading.add(kRows[i].metric, m.value * kRows[i].scale, taken_unix_ns_);
  }
  return kSuccess;
}

}  // namespace profgpu::nvml
