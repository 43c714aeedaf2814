// What an nvidia-smi can be asked, and what its devices are: found out by asking everything once.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "trace/sample.h"

namespace profgpu {

// What nvidia-smi prints with --format=csv,noheader,nounits: rows of fields between ", ", numbers, words for states,
// and several spellings of "there is no value".

struct SmiValue {
  std::optional<double> number;  ///< words for states are numbers too: "Active", "Yes", "P0", "0x1"
  std::string_view absent;       ///< why there is none; empty where there is one
  bool trouble = false;          ///< the device is in a bad state ("GPU is lost"), rather than without the value
};
/// Independent of any locale. `absent` lives as long as `field`.
SmiValue smi_value(std::string_view field);

/// The fields of a row; the last of `most` takes the rest of it, commas and all (process names are not quoted).
void split_smi_row(std::string_view row, size_t most, std::vector<std::string_view>& fields);

/// "00000000:0A:00.0" and shorter spellings as DeviceInfo::pci_bus_id has them; empty if it is none.
std::string smi_pci_bus_id(std::string_view text);

/// A column of --query-gpu.
struct SmiField {
  std::string name;
  const MetricInfo* metric = nullptr;  ///< null: identity or a fact
};

struct SmiDevice {
  DeviceInfo info;
  std::array<std::string, kMetricCount> absent;             ///< why a metric is absent; empty: it is not
  bool in_trouble = false;                                  ///< a field said so: what is absent may come back
  std::vector<Sample> first;                                ///< what it said when it was asked
  std::vector<std::pair<std::string, std::string>> facts;   ///< field and text
};

struct SmiInventory {
  std::string program;
  std::vector<SmiDevice> devices;
  std::vector<SmiField> fields;   ///< those that change and that at least one device has
  std::string message;            ///< what it said beside the rows: "Unable to determine the device handle ..."
};

/// PROFGPU_NVIDIA_SMI, else the one on PATH, else /usr/bin/nvidia-smi; empty if there is none.
std::string find_nvidia_smi();

/// The last line of `text` that is not blank, without the full stop.
std::string last_line(std::string_view text);

/// The value of a field as ours; absent where it has none or makes no sense.
SmiValue smi_metric_value(const MetricInfo& metric, std::string_view field);

Result<SmiInventory> query_smi(const std::string& program, int64_t timeout_ns);

}  // namespace profgpu
