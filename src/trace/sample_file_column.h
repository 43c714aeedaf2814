// What a column or a key of a file of samples means, and the numbers in it: our names and nvidia-smi's.
#pragma once

#include <optional>
#include <string_view>

#include "trace/metric.h"

namespace profgpu {

struct SampleColumn {
  enum class Kind {
    kUnknown, kTime, kUnixNs, kDevice, kName, kUuid, kPciBusId, kVendor, kDriverVersion, kMigProfile, kHost, kNumaNode,
    kProcesses, kMark, kAlert, kMetric,
  };
  Kind kind = Kind::kUnknown;
  const MetricInfo* metric = nullptr;
  double scale = 1;                       ///< to the metric's unit, where a value states no unit of its own
};

/// "memory_used_bytes", "memory.used", "memory.used [MiB]".
SampleColumn sample_column(std::string_view name);

struct SampleCell {
  std::optional<double> number;           ///< nullopt: absent
  bool damaged = false;                   ///< it is neither a number nor one of the ways to say that there is none
};
/// "45", "45 %", "1024 MiB", "P0", "0x4", "Not Active", "[N/A]", "null", "".
SampleCell sample_cell(std::string_view text, const SampleColumn& column);

/// nvidia-smi's words for states and masks as numbers: "Active", "No", "Drain P2P", "0x1F".
std::optional<double> state_number(std::string_view text);

}  // namespace profgpu
