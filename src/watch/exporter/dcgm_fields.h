// DCGM's fields with dcgm-exporter's names, types, help texts and number formats, so that dashboards and alerts written
// for it keep working. Only those that we can measure.
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
  kNew,      ///< DCGM_FI_DEV_GPU_TEMP_CELSIUS: the names of DCGM 4.6
  kOff,
};

struct DcgmField {
  enum class Form : uint8_t {
    kWhole,       ///< a metric × scale, truncated to a whole number
    kReal,        ///< a metric × scale, six decimals
    kRate,        ///< bytes per second: the gauge, or else the counter's growth
    kNvlinkRate,  ///< growth of both directions' counters in thousands of KiB per second, truncated; DCGM calls it a
                  ///< counter
    kXid,         ///< the last code, 0 if there was none
    kUsedRatio,   ///< used memory of what is not reserved
  };
  Metric metric;
  SeriesType type;
  std::string_view name, new_name;  ///< new_name: empty where DCGM 4.6 did not change it
  std::string_view help;
  double scale = 1;
  Form form = Form::kWhole;

  [[nodiscard]] std::string_view name_in(DcgmNames names) const {
    return names == DcgmNames::kNew && !new_name.empty() ? new_name : name;
  }
};

/// First dcgm-exporter's default counters in its order, then those that it has commented out.
const std::vector<DcgmField>& dcgm_fields();
/// By either name; null: not one that we can measure.
const DcgmField* find_dcgm_field(std::string_view name);

/// Measured for a GPU as a whole: all its instances report the same, and a sum would count it several times.
bool of_whole_gpu(Metric metric);

/// The number as dcgm-exporter prints it; nullopt if the device does not report it.
std::optional<std::string> dcgm_text(const DcgmField& field, const DeviceTally& tally, int64_t now_ns);

/// One line of a counters file: what is shown, and its help text.
struct DcgmCounter {
  const DcgmField* field = nullptr;
  SeriesType type = SeriesType::kGauge;
  std::string help;
};

struct DcgmCounters {
  std::vector<DcgmCounter> counters;
  bool driver_label = false;          ///< every series has the label DCGM_FI_DRIVER_VERSION
  std::vector<std::string> left_out;  ///< fields of the file that we cannot measure
};
DcgmCounters default_dcgm_counters();
/// The text of a counters file: `FIELD, type, help` per line, `#` begins a comment. The error names the line.
Result<DcgmCounters> parse_dcgm_counters(std::string_view text);

}  // namespace profgpu
