// The page that Prometheus reads: metrics under DCGM's names and our own, and about the exporter itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "devices/sampler.h"
#include "watch/exporter/dcgm_fields.h"
#include "watch/exporter/device_tally.h"
#include "watch/exporter/exposition.h"
#include "watch/exporter/http_server.h"
#include "watch/exporter/kubelet_pods.h"

namespace profgpu {

/// One device as the page shows it.
struct ShownDevice {
  const DeviceInfo* info = nullptr;
  DeviceTally tally;
  bool up = false;                 ///< it answers: only then are its values shown
  DeviceHealth health = {};
  std::vector<std::string> jobs = {};   ///< of a batch system, on the device now
  std::vector<PodContainer> pods = {};  ///< Kubernetes containers that were given the device
};

struct MetricsPageInput {
  std::vector<ShownDevice> devices;
  std::string host;  ///< empty: no label for it
  DcgmNames names = DcgmNames::kClassic;
  const DcgmCounters* counters = nullptr;
  std::optional<KubeletAnswers> kubelet;   ///< nullopt: not queried
  bool shared_pods = false;                ///< a copy of DCGM's series for each container, not only for the first
  int64_t now_ns = 0, start_ns = 0;        ///< Unix time; of the exporter's start
  int64_t scrapes = 0;
  SamplerStatistics sampler;
  HttpFigures http;
};

/// `room`: expected length of the page.
std::string metrics_page(const MetricsPageInput& input, ExpositionFormat format, size_t room = 0);
/// A page for people, without scripts and without links to elsewhere.
std::string status_page(const MetricsPageInput& input);

}  // namespace profgpu
