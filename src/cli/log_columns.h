// The rows of `profgpu log`: columns by name, as CSV, JSON lines or a table on the screen.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "devices/backend.h"
#include "trace/sample_file.h"
#include "trace/sample_file_column.h"

namespace profgpu {

struct LogColumn {
  std::string name;          ///< as queried: "memory_used_bytes", "memory.used"
  SampleColumn what;
  bool smi = false;          ///< nvidia-smi's name, so its unit and its format of values too
  bool share = false;        ///< of a counter of time, the share of the time since the device's row before
  std::string_view fact;     ///< of the device, read once: "vbios_version"; empty: none
  TimestampStyle time = TimestampStyle::kUnixNs;
  bool time_of_day = false;  ///< "23:05:07.1", local, for a screen of 80 columns
};

enum class LogFormat { kCsv, kJson, kTable };
enum class LogUnits { kHeader, kValues, kNone };

/// The columns of a comma-separated list of names; `style`: --timestamps. The error is a usage error.
Result<std::vector<LogColumn>> log_columns(const std::string& query, std::optional<TimestampStyle> style);
/// The metrics among them.
MetricSet metrics_of(const std::vector<LogColumn>& columns);
/// Whether a column needs a device's facts.
bool has_facts(const std::vector<LogColumn>& columns);
std::vector<LogColumn> default_log_columns(LogFormat format, std::optional<TimestampStyle> style);
/// All names, for --help-query. `width`: of the terminal, which gets the meaning below the names; 0: a line for each.
std::string log_column_help(int width);

/// Turns readings into lines. JSON without --query is what SampleWriter writes. A queried metric without a new value
/// keeps its last one.
class LogRows {
 public:
  struct Options {
    LogFormat format = LogFormat::kCsv;
    std::vector<LogColumn> columns;
    bool queried = false;                      ///< the columns come from --query
    LogUnits units = LogUnits::kHeader;
    std::optional<TimestampStyle> timestamps;
    std::string host;                          ///< of devices that do not state theirs
    std::vector<std::vector<Fact>> facts;      ///< of each device, where has_facts()
    int width = 0;                             ///< of the screen that shows the table; 0: any
  };
  LogRows(Options options, std::vector<DeviceInfo> devices);

  /// Empty for JSON.
  [[nodiscard]] std::string header() const;
  /// Names of columns of a table for which the screen has no room.
  [[nodiscard]] std::string left_out() const;
  /// With its line feed; good until the next call.
  std::string_view row(const Reading& reading);
  /// Takes the values of a reading that gets no row.
  void keep(const Reading& reading);
  /// A sentence on the queried metrics of which rows repeat values that the device had not measured anew; empty: none.
  [[nodiscard]] std::string repeats_text() const;
  /// A new file begins: it must stand alone.
  void begin_file() { writer_ = SampleWriter(SampleFormat::kJsonLines, devices_, {}); }

 private:
  [[nodiscard]] std::string text(const LogColumn& column, const Reading& reading) const;
  [[nodiscard]] std::string fact_text(std::string_view id, uint32_t device) const;
  [[nodiscard]] std::string age_text(const Reading& reading) const;
  [[nodiscard]] std::string value_text(const LogColumn& column, double value) const;
  [[nodiscard]] std::string title_of(const LogColumn& column) const;
  void fit();
  [[nodiscard]] std::string table_header() const;
  void append_json(const Reading& reading);
  /// nvidia-smi's, where its csv is asked for.
  [[nodiscard]] std::string_view separator() const { return options_.units == LogUnits::kValues ? ", " : ","; }
  void append_table_cell(std::string& line, size_t column, std::string_view text) const;

  Options options_;
  std::vector<DeviceInfo> devices_;
  enum class Dress { kFull, kShort, kBare };   ///< bare: short names, and units in a line of their own
  Dress dress_ = Dress::kFull;
  std::vector<int> widths_;   ///< of columns that are shown
  SampleWriter writer_;
  struct Known {
    double value = 0;
    int64_t time_ns = 0;           ///< 0: not known
  };
  SampleRow values_;
  std::array<std::optional<double>, kMetricCount> shares_;   ///< see LogColumn::share
  std::vector<std::array<Known, kMetricCount>> known_;   ///< of each device, the last of each metric
  std::array<int64_t, kMetricCount> repeats_{};           ///< cells of rows so far
  int64_t rows_ = 0;
  std::string line_;
};

}  // namespace profgpu
