#include "cli/log_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/decimal.h"
#include "cli/size_text.h"
#include "cli/terminal.h"
#include "live/recording_folder.h"

namespace profgpu {
namespace {

constexpr double kSmallestFile = 4096;

Result<LogFormat> format_of(const Arguments& arguments) {
  const std::string format = arguments.value("--format");
  const std::string output = arguments.value("--output");
  if (format == "json") return LogFormat::kJson;
  if (format == "csv") return LogFormat::kCsv;
  if (format == "table") {
    if (!output.empty()) return Error{"--format table is for the screen", "leave --output out, or name a .csv or .jsonl file"};
    return LogFormat::kTable;
  }
  if (output.empty()) return stdout_is_terminal() ? LogFormat::kTable : LogFormat::kCsv;
  auto by_name = sample_format_of(output);
  if (!by_name) return Error{by_name.error().message, by_name.error().hint + ", or give --format"};
  return *by_name == SampleFormat::kCsv ? LogFormat::kCsv : LogFormat::kJson;
}

Status read_ends(const Arguments& arguments, LogOptions& options) {
  if (arguments.has("--count")) {
    options.count = whole_number(arguments.value("--count"));
    if (!options.count || *options.count < 1)
      return Error{fmt::format("--count takes a whole number from 1, not \"{}\"", arguments.value("--count"))};
  }
  if (arguments.has("--duration")) {
    options.duration_ns = duration_ns(arguments.value("--duration"));
    if (!options.duration_ns || *options.duration_ns < 1)
      return Error{fmt::format("--duration takes a time above 0, not \"{}\"", arguments.value("--duration")),
                   "seconds, or a number with a unit: --duration 60, --duration 10m"};
  }
  return ok();
}

Status read_rotation(const Arguments& arguments, LogOptions& options) {
  if (arguments.has("--keep") && !arguments.has("--rotate")) return Error{"--keep says how many older files stay: give --rotate too"};
  if (!arguments.has("--rotate")) return ok();
  if (options.output.empty()) return Error{"--rotate needs a file", "name one with --output"};
  const auto size = size_bytes(arguments.value("--rotate"));
  if (!size || *size < kSmallestFile || *size > 1e18)
    return Error{fmt::format("--rotate takes a size from 4KiB, not \"{}\"", arguments.value("--rotate")), "for example --rotate 100MB"};
  options.rotate_bytes = static_cast<int64_t>(*size);
  if (!arguments.has("--keep")) return ok();
  const auto keep = whole_number(arguments.value("--keep"));
  if (!keep || *keep < 0 || *keep > 1'000'000)
    return Error{fmt::format("--keep takes a whole number from 0 to 1000000, not \"{}\"", arguments.value("--keep"))};
  options.keep = *keep;
  return ok();
}

// The memory's size is always known at once.
bool has_constants(const std::vector<LogColumn>& columns) {
  return std::any_of(columns.begin(), columns.end(), [](const LogColumn& c) {
    return c.what.kind == SampleColumn::Kind::kMetric && c.what.metric->kind == MetricKind::kConstant &&
           c.what.metric->metric != Metric::kMemoryTotal;
  });
}

Status read_rows(const Arguments& arguments, LogRows::Options& rows) {
  auto format = format_of(arguments);
  if (!format) return format.error();
  rows.format = *format;
  if (arguments.has("--units") && arguments.has("--no-units")) return Error{"--units and --no-units exclude each other"};
  if (arguments.has("--units") && rows.format == LogFormat::kJson)
    return Error{"--units is for CSV and tables: in JSON a number is a number"};
  rows.units = arguments.has("--units") ? LogUnits::kValues : arguments.has("--no-units") ? LogUnits::kNone : LogUnits::kHeader;
  const std::string style = arguments.value("--timestamps");
  if (!style.empty())
    rows.timestamps = style == "iso"     ? TimestampStyle::kIso
                      : style == "epoch" ? TimestampStyle::kEpoch
                                         : TimestampStyle::kNvidiaSmi;
  rows.queried = arguments.has("--query");
  if (!rows.queried) {
    rows.columns = default_log_columns(rows.format, rows.timestamps);
    return ok();
  }
  std::string query;
  for (const std::string& part : arguments.values("--query")) query += (query.empty() ? "" : ",") + part;
  auto columns = log_columns(query, rows.timestamps);
  if (!columns) return columns.error();
  rows.columns = *std::move(columns);
  return ok();
}

}  // namespace

Result<LogOptions> log_options(const Arguments& arguments) {
  LogOptions options;
  options.rows.host = recording_host();
  auto devices = device_options(arguments, 1'000'000'000);
  if (!devices) return devices.error();
  options.devices = *std::move(devices);
  if (options.devices.backend == "none") return Error{"--backend none leaves nothing to log"};
  options.output = arguments.value("--output");
  if (arguments.has("--output") && options.output.empty()) return Error{"--output is empty", "name a .csv or .jsonl file"};
  if (Status read = read_rows(arguments, options.rows); !read) return read.error();
  options.devices.constants_later = !options.rows.queried || !has_constants(options.rows.columns);
  if (Status read = read_ends(arguments, options); !read) return read.error();
  if (Status read = read_rotation(arguments, options); !read) return read.error();
  return options;
}

}  // namespace profgpu
