// The fields and devices of an nvidia-smi, found by one query for everything.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "trace/sample.h"

namespace profgpu {

// nvidia-smi's output with --format=csv,noheader,nounits: rows of fields between ", "; numbers, words for states, and
// several spellings of "no value".

struct SmiValue {
  std::optional<double> number;  ///< in the metric's unit; words for states are numbers too: "Active", "P0", "0x1"
  std::string_view absent;       ///< why there is none; empty where there is one
  bool trouble = false;          ///< the device is in a bad state ("GPU is lost"), not just without the value
};
/// Independent of any locale. `absent` lives as long as `field`.
SmiValue smi_value(const MetricInfo& metric, std::string_view field);
/// Why a field has no value: "[N/A]" and the like; empty for anything else.
std::string_view smi_absence(std::string_view text, bool& trouble);
/// A row's time; `now_ns` where nvidia-smi's time is seconds off, as in another time zone.
int64_t smi_time(TimestampReader& reader, std::string_view timestamp, int64_t now_ns);

/// The fields of a row; the last of `max` takes the rest with its commas (process names are not quoted).
void split_smi_row(std::string_view row, size_t max, std::vector<std::string_view>& fields);

/// A column of --query-gpu.
struct SmiField {
  std::string name;
  const MetricInfo* metric = nullptr;  ///< null: identity or a fact
};

struct SmiDevice {
  DeviceInfo info;
  std::array<std::string, kMetricCount> absent;             ///< why a metric is absent; empty: it is not
  bool in_trouble = false;                                  ///< by a field: absent values may come back
  std::vector<Sample> first;                                ///< of the query
  std::vector<std::pair<std::string, std::string>> facts;   ///< field and text
};

struct SmiInventory {
  std::string program;
  std::vector<SmiDevice> devices;
  std::vector<SmiField> fields;   ///< those that change and that at least one device has
  std::string message;            ///< printed besides the rows: "Unable to determine the device handle ..."
};

/// PROFGPU_NVIDIA_SMI, else the one in PATH, else /usr/bin/nvidia-smi; empty if there is none.
std::string find_nvidia_smi();

/// The last nonblank line of `text`, without the full stop.
std::string last_line(std::string_view text);

Result<SmiInventory> query_smi(const std::string& program, int64_t timeout_ns);

}  // namespace profgpu
