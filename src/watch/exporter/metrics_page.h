// The page that Prometheus reads: DCGM's names, our own, and how the exporter itself does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "watch/exporter/dcgm_fields.h"
#include "watch/exporter/device_tally.h"
#include "watch/exporter/exposition.h"
#include "watch/exporter/kubelet_pods.h"

namespace profgpu {

/// One device as the page shows it.
struct ShownDevice {
  const DeviceInfo* info = nullptr;
  DeviceTally tally;
  bool up = false;         ///< it answers: only then are its values shown
  int64_t good_at_ns = 0;  ///< Unix time of its last good reading; 0: none yet
  int64_t errors = 0;
  std::string trouble;            ///< "GPU is lost"; empty: none
  std::vector<std::string> jobs;  ///< of a batch system, on the device now
  std::vector<PodContainer> pods;  ///< Kubernetes', that were given the device
};

/// What the exporter says of itself.
struct ServiceFigures {
  int64_t start_ns = 0;  ///< Unix time
  int64_t ticks = 0, late_ticks = 0, missed_ticks = 0, driver_calls = 0;
  int64_t scrapes = 0;
  int64_t connections = 0, refused = 0;  ///< open now; turned away since the start
};

/// How the kubelet does that pods are asked of.
struct ShownKubelet {
  bool up = false;
  int64_t good_at_ns = 0;  ///< Unix time of its last answer; 0: none yet
};

struct MetricsPageInput {
  std::vector<ShownDevice> devices;
  std::string host;  ///< empty: no label for it
  DcgmNames names = DcgmNames::kClassic;
  const DcgmCounters* counters = nullptr;
  ServiceFigures figures;
  std::optional<ShownKubelet> kubelet;  ///< nullopt: not asked
  bool shared_pods = false;             ///< a copy of DCGM's series for each container, not for the first alone
  int64_t now_ns = 0;  ///< Unix time
};

/// `room`: about how long the page gets.
std::string metrics_page(const MetricsPageInput& input, ExpositionFormat format, size_t room = 0);
/// A page for people, without scripts and without links to elsewhere.
std::string status_page(const MetricsPageInput& input);

/// "0" for GPU 0 and for its MIG instances, whose own number is another label.
std::string device_number(const DeviceInfo& info);

}  // namespace profgpu
