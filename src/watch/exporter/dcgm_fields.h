// DCGM's fields as dcgm-exporter names, types, words and prints them, as far as we can measure them, so that dashboards
// and alerts written for it go on working.
//
// Names, types and help texts are those of dcgm-exporter's counters files (github.com/NVIDIA/dcgm-exporter, etc/).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "watch/exporter/device_tally.h"
#include "watch/exporter/exposition.h"

namespace profgpu {

enum class DcgmNames : uint8_t {
  kClassic,  ///< DCGM_FI_DEV_GPU_TEMP
  kNew,      ///< DCGM_FI_DEV_GPU_TEMP_CELSIUS: the names that DCGM 4.6 brought
  kOff,
};

struct DcgmField {
  enum class Form : uint8_t {
    kWhole,       ///< a metric × scale, cut to a whole number
    kReal,        ///< a metric × scale, six decimals
    kRate,        ///< what the metric says in bytes per second, or else its counter's growth
    kNvlinkRate,  ///< growth of both directions' counters in thousands of KiB per second, cut; DCGM calls that a
                  ///< counter
    kXid,         ///< the last code, 0 if there was none
    kUsedRatio,   ///< used memory of what is not reserved
  };
  std::string_view name, new_name;  ///< the same where DCGM 4.6 has no other
  bool by_default;                  ///< in dcgm-exporter's default counters
  SeriesType type;
  std::string_view help;
  Metric metric;
  double scale = 1;
  Form form = Form::kWhole;
};

/// In the order of dcgm-exporter's default counters, then those that it has commented out.
const std::vector<DcgmField>& dcgm_fields();
/// By either name; null: none that we can measure.
const DcgmField* find_dcgm_field(std::string_view name);

/// Measured of a GPU as a whole: its instances all say the same, and sums would count it once for each.
bool of_whole_gpu(Metric metric);

/// The number as dcgm-exporter prints it; nullopt where the device does not say it.
std::optional<std::string> dcgm_text(const DcgmField& field, const DeviceTally& tally, int64_t now_ns);

/// One line of a counters file: what is shown, and in which words.
struct DcgmCounter {
  const DcgmField* field = nullptr;
  SeriesType type = SeriesType::kGauge;
  std::string help;
};

struct DcgmCounters {
  std::vector<DcgmCounter> counters;
  bool driver_label = false;          ///< DCGM_FI_DRIVER_VERSION is a label of every series
  std::vector<std::string> left_out;  ///< fields of the file that we cannot measure
};
DcgmCounters default_dcgm_counters();
/// The text of a counters file: `FIELD, type, help` a line, `#` begins a comment. The error names the line.
Result<DcgmCounters> parse_dcgm_counters(std::string_view text);

}  // namespace profgpu
