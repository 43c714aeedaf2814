// What samples say of one device, as data: the one place that names these fields. Terminal and JSON are made from it.
//
// The first thirty fields have the names and units of the Python package's GpuSummary ("mb" is MiB there, and here).
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "analyse/telemetry.h"
#include "report/report.h"

namespace profgpu {

struct TelemetryContext {
  std::optional<int64_t> wall_ns = std::nullopt;            ///< how long the command took; none: as long as was watched
  std::function<std::string(Metric)> why_absent = nullptr;  ///< of this device; may be empty
};

/// Unknown is null. Lists: throttle, idle gaps, processes, metrics, counters, absent.
Record telemetry_record(const DeviceTelemetry& telemetry, const TelemetryContext& context = {});

/// Utilization over time as text, one character a part, on a fixed scale from 0 to 100 %; a blank where it is not
/// known.
std::string sparkline(const std::vector<double>& percentages);

}  // namespace profgpu
