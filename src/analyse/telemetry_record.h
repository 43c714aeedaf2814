// What samples say of one device, as a document: the one place that names these fields.
//
// The first thirty fields have the names and units of the Python package's GpuSummary ("mb" is MiB there, and here).
#pragma once

#include <string>

#include "analyse/telemetry.h"
#include "report/report.h"

namespace profgpu {

/// Unknown is null. Lists: throttle, idle gaps, processes, metrics, counters, absent.
Record telemetry_record(const DeviceTelemetry& telemetry);

/// Utilization over time as text, one character a part, on a fixed scale from 0 to 100 %; a blank where it is not
/// known.
std::string sparkline(const std::vector<double>& percentages);

}  // namespace profgpu
