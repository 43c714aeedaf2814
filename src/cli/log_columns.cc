#include "cli/log_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "analyse/report/quantity.h"
#include "analyse/report/text.h"
#include "app/words.h"
#include "base/csv.h"
#include "base/json_quoted.h"
#include "base/text.h"
#include "cli/output.h"

namespace profgpu {
namespace {

using Kind = SampleColumn::Kind;

// Enough to see why a job is slow. The same on every machine, so that logs can be appended to and put side by side.
constexpr Metric kDefaultMetrics[] = {
    Metric::kUtilization, Metric::kMemoryUtilization, Metric::kMemoryUsed, Metric::kMemoryTotal, Metric::kPower,
    Metric::kPowerLimit, Metric::kEnergy, Metric::kTemperature, Metric::kMemoryTemperature, Metric::kFanSpeed,
    Metric::kSmClock, Metric::kMemoryClock, Metric::kPerformanceState, Metric::kClockEventReasons,
    Metric::kThrottlePower, Metric::kThrottleSwThermal, Metric::kThrottleHwThermal, Metric::kPcieTx, Metric::kPcieRx,
    Metric::kNvlinkTx, Metric::kNvlinkRx, Metric::kSmActive, Metric::kTensorActive, Metric::kDramActive,
};
constexpr Metric kScreenMetrics[] = {Metric::kUtilization, Metric::kMemoryUsed,  Metric::kPower,
                                     Metric::kTemperature, Metric::kSmClock,     Metric::kClockEventReasons};
constexpr std::string_view kAge = "age_s";
constexpr int kMinColumn = 8, kMinBare = 5, kMinDevice = 3;   // cells of a column on the screen

// As nvidia-smi dmon heads them.
constexpr std::pair<Metric, std::string_view> kShortNames[] = {
    {Metric::kPower, "pwr"},
    {Metric::kTemperature, "gtemp"},
    {Metric::kMemoryTemperature, "mtemp"},
    {Metric::kUtilization, "sm"},
    {Metric::kMemoryUtilization, "mem"},
    {Metric::kEncoderUtilization, "enc"},
    {Metric::kDecoderUtilization, "dec"},
    {Metric::kJpegUtilization, "jpg"},
    {Metric::kOfaUtilization, "ofa"},
    {Metric::kMemoryClock, "mclk"},
    {Metric::kSmClock, "pclk"},
    {Metric::kThrottlePower, "pviol"},
    {Metric::kThrottleThermal, "tviol"},
    {Metric::kMemoryUsed, "fb"},
    {Metric::kBar1Used, "bar1"},
    {Metric::kEccCorrected, "sbecc"},
    {Metric::kEccUncorrected, "dbecc"},
    {Metric::kPcieReplays, "pci"},
    {Metric::kPcieRxRate, "rxpci"},
    {Metric::kPcieTxRate, "txpci"},
    {Metric::kClockEventReasons, "reasons"},
};

/// A field that is not a metric: our name, nvidia-smi's, what it is, and the id of the fact, if it is one.
struct Plain {
  std::string_view name, smi, help, fact = {};
};
constexpr Plain kPlain[] = {
    {"time_ns", "", "nanoseconds since 1970"},
    {"timestamp", "timestamp", "time in the format of --timestamps (default: nvidia-smi's)"},
    {"device", "index", "index; \"0:7\" for a MIG instance"},
    {"name", "name", "product name"},
    {"uuid", "uuid", "globally unique id"},
    {"pci_bus_id", "pci.bus_id", "PCI address"},
    {"vendor", "", "vendor"},
    {"host", "", "machine that it is in"},
    {"driver_version", "driver_version", "driver version"},
    {kAge, "", "age of the oldest value of the row in seconds, limits aside"},
    {"", "count", "number of devices"},
    {"", "pci.bus", "PCI bus number in hexadecimal"},
    {"", "serial", "serial number of the board", "serial"},
    {"", "vbios_version", "firmware version of the board", "vbios_version"},
    {"", "persistence_mode", "whether the driver stays loaded", "persistence_mode"},
    {"", "compute_mode", "how many processes may use it", "compute_mode"},
    {"", "ecc.mode.current", "whether memory errors are corrected", "ecc_mode"},
    {"", "mig.mode.current", "whether it is split into instances", "mig_mode"},
};

// A field that files of samples do not have. Null: nvidia-smi has no such name, or we have one for it too.
const Plain* only_smi(std::string_view name) {
  for (const Plain& p : kPlain)
    if (p.name.empty() ? p.smi == name : p.name == kAge && name == kAge) return &p;
  return nullptr;
}

bool can_be_queried(const SampleColumn& column) {
  switch (column.kind) {
    case Kind::kUnixNs:
    case Kind::kTime:
    case Kind::kDevice:
    case Kind::kMetric: return true;
    case Kind::kDeviceText: return column.text != &DeviceInfo::mig_profile;
    default: return false;
  }
}

// "enabled, disabled after a reset" as nvidia-smi says it: "Enabled"; "exclusive process": "Exclusive_Process".
std::string smi_fact(const Fact& fact) {
  if (!fact.id.ends_with("_mode")) return fact.value;
  std::string out = fact.value.substr(0, fact.value.find(','));
  bool first = true;
  for (char& c : out) {
    if (first) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    first = c == ' ';
    if (first) c = '_';
  }
  return out;
}

struct SmiReason {
  std::string_view name;
  ClockReason bit;
};
constexpr SmiReason kSmiReasons[] = {
    {"gpu_idle", ClockReason::kIdle},
    {"applications_clocks_setting", ClockReason::kApplicationClocks},
    {"sw_power_cap", ClockReason::kSwPowerCap},
    {"hw_slowdown", ClockReason::kHwSlowdown},
    {"sync_boost", ClockReason::kSyncBoost},
    {"sw_thermal_slowdown", ClockReason::kSwThermal},
    {"hw_thermal_slowdown", ClockReason::kHwThermal},
    {"hw_power_brake_slowdown", ClockReason::kHwPowerBrake},
};

// The reason of "clocks_event_reasons.sw_power_cap"; null: the column is no single reason.
const SmiReason* single_reason(std::string_view name) {
  for (const std::string_view group : {"clocks_event_reasons.", "clocks_throttle_reasons."})
    if (name.starts_with(group))
      for (const SmiReason& r : kSmiReasons)
        if (name.substr(group.size()) == r.name) return &r;
  return nullptr;
}

std::vector<std::string> all_names() {
  std::vector<std::string> names = {"all"};
  for (const Plain& p : kPlain)
    for (const std::string_view n : {p.name, p.smi})
      if (!n.empty()) names.emplace_back(n);
  for (const MetricInfo& m : metrics())
    for (const std::string_view n : {m.name, m.smi, m.smi_alias})
      if (!n.empty()) names.emplace_back(n);
  return names;
}

// "throttle_power_ns" for "throttle_power_pct"; empty: the name is no share of a counter of time.
std::string counter_of_share(std::string_view name) {
  if (!name.ends_with("_pct") || sample_column(name).kind == Kind::kMetric) return "";
  const std::string counter = std::string(name.substr(0, name.size() - 4)) + "_ns";
  const SampleColumn column = sample_column(counter);
  return column.kind == Kind::kMetric && column.metric->kind == MetricKind::kCounter ? counter : "";
}

LogColumn column_of(std::string_view name, std::optional<TimestampStyle> style) {
  const Plain* const smi = only_smi(name);
  const std::string counter = counter_of_share(name);
  const std::string_view read = single_reason(name) ? "clocks_event_reasons.active" : counter.empty() ? name : counter;
  LogColumn c;
  c.name = name, c.what = sample_column(read);
  c.share = !counter.empty();
  if (smi) c.fact = smi->fact;
  c.smi = !c.fact.empty() || (c.what.kind == Kind::kMetric && read != c.what.metric->name);
  c.time = name == "time_ns" ? TimestampStyle::kUnixNs : style.value_or(TimestampStyle::kNvidiaSmi);
  return c;
}

std::string_view smi_unit(const MetricInfo& metric) {
  if (metric.unit == "B") return "MiB";
  if (metric.unit == "ns") return "us";
  return metric.unit == "°C" ? std::string_view() : metric.unit;   // nvidia-smi writes degrees without a unit
}

// As nvidia-smi writes numbers: power with two decimals, all else whole, MiB truncated.
std::string smi_number(const MetricInfo& metric, double value) {
  value /= metric.smi_scale;
  return fmt::format("{:.{}f}", metric.unit == "B" ? std::trunc(value) : value, metric.unit == "W" ? 2 : 0);
}

bool is_yes_or_no(Metric metric) {
  return metric == Metric::kRemappedRowsFailed || metric == Metric::kRemappedRowsPending ||
         metric == Metric::kRetiredPagesPending;
}

std::string bit_names(double bits) {
  std::string out;
  for (const ClockReasonInfo& r : clock_reasons())
    if ((static_cast<uint64_t>(std::max(bits, 0.0)) & static_cast<uint64_t>(r.reason)) != 0)
      out += (out.empty() ? "" : "+") + std::string(r.name);
  return out.empty() ? "none" : out;
}

// For the screen: "57.8 GiB", "412 W", "3.4 s".
std::string quantity_text(const MetricInfo& metric, double value) {
  if (metric.metric == Metric::kClockEventReasons) return bit_names(value);
  if (metric.unit == "B") return format_bytes(value);
  if (metric.unit == "B/s") return format_bytes(value) + "/s";
  if (metric.unit == "ns") return format_duration(value);
  std::string out;
  append_number(out, std::round(value * 10) / 10);
  return metric.unit.empty() ? out : out + " " + std::string(metric.unit);
}

// Whole numbers, and the unit that stands above them.
std::pair<double, std::string_view> bare_quantity(const LogColumn& c, double value) {
  const std::string_view unit = c.share ? "%" : c.what.metric->unit;
  if (unit == "B") return {value / (1 << 20), "MiB"};
  if (unit == "B/s") return {value / 1e6, "MB/s"};
  if (unit == "ns") return {value / 1e6, "ms"};
  if (unit == "°C") return {value, "C"};
  return {value, unit};
}

std::string time_text(const LogColumn& c, int64_t unix_ns) {
  if (c.time_of_day) return timestamp_text(unix_ns, TimestampStyle::kNvidiaSmi).substr(11, 10);
  return timestamp_text(unix_ns, c.time);
}

bool is_time(const LogColumn& c) { return c.what.kind == Kind::kTime || c.what.kind == Kind::kUnixNs; }

// On the screen values carry their unit: "memory used" for memory_used_bytes.
std::string title(const LogColumn& c) {
  if (is_time(c)) return "time";
  if (c.smi) return c.name;
  if (c.name == "device") return "GPU";
  std::string text = c.name;
  if (c.what.kind == Kind::kMetric && !c.what.metric->unit.empty())
    for (const std::string_view unit : {"_pct", "_bytes", "_w", "_j", "_c", "_mhz", "_ns", "_bytes_per_second"})
      if (text.ends_with(unit)) text.resize(text.size() - unit.size());
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

bool is_text(const LogColumn& c) {
  return c.what.kind != Kind::kMetric || c.what.metric->metric == Metric::kClockEventReasons;
}

}  // namespace

Result<std::vector<LogColumn>> log_columns(const std::string& query, std::optional<TimestampStyle> style) {
  std::vector<LogColumn> columns;
  for (size_t from = 0; from <= query.size();) {
    const size_t comma = std::min(query.find(',', from), query.size());
    const std::string name(without_blanks(std::string_view(query).substr(from, comma - from)));
    from = comma + 1;
    if (name == "all") {
      for (const MetricInfo& m : metrics()) columns.push_back(column_of(m.name, style));
      continue;
    }
    columns.push_back(column_of(name, style));
    if (can_be_queried(columns.back().what) || only_smi(name)) continue;
    const std::string near = name.empty() ? "" : nearest(name, all_names());
    return Error{name.empty() ? "--query: an empty field name" : "--query: there is no field \"" + name + "\"",
                 (near.empty() ? "" : "did you mean " + near + "? ") + "`profgpu log --help-query` lists all"};
  }
  return columns;
}

MetricSet metrics_of(const std::vector<LogColumn>& columns) {
  MetricSet out;
  for (const LogColumn& c : columns)
    if (c.what.kind == Kind::kMetric) out.set(static_cast<size_t>(c.what.metric->metric));
  return out;
}

bool has_facts(const std::vector<LogColumn>& columns) {
  return std::any_of(columns.begin(), columns.end(), [](const LogColumn& c) { return !c.fact.empty(); });
}

std::vector<LogColumn> default_log_columns(LogFormat format, std::optional<TimestampStyle> style) {
  std::vector<LogColumn> columns;
  if (format == LogFormat::kTable) {
    columns.push_back(column_of("timestamp", style));
    columns.back().time_of_day = !style;
    columns.push_back(column_of("device", style));
    for (const Metric m : kScreenMetrics) columns.push_back(column_of(metric_info(m).name, style));
    return columns;
  }
  for (const std::string_view name : {style ? "timestamp" : "time_ns", "device", "name", "uuid", "host"})
    columns.push_back(column_of(name, style));
  for (const Metric m : kDefaultMetrics) columns.push_back(column_of(metric_info(m).name, style));
  return columns;
}

std::string log_column_help(int width) {
  std::string out;
  const auto add = [&](std::string_view name, std::string_view smi, std::string_view unit, std::string_view help) {
    if (width == 0) {
      out += fmt::format("{:<32} {:<46} {:<5} {}\n", name, smi, unit, help);
      return;
    }
    std::string names(name);
    if (!smi.empty()) append_listed(names, smi, "  ");
    if (!unit.empty()) names += fmt::format("  [{}]", unit);
    for (const std::string& line : wrapped(names, width)) out += line + "\n";
    for (const std::string& line : wrapped(help, width - 4)) out += "    " + line + "\n";
  };
  add("field", "nvidia-smi's name", "unit", "meaning");
  for (const Plain& p : kPlain) add(p.name, p.smi, "", p.help);
  for (const SmiReason& r : kSmiReasons)
    add("", fmt::format("clocks_event_reasons.{}", r.name), "",
        fmt::format("Active or Not Active; also clocks_throttle_reasons.{}", r.name));
  for (const MetricInfo& m : metrics()) {
    std::string smi(m.smi);
    if (!m.smi_alias.empty()) smi += ", " + std::string(m.smi_alias);
    add(m.name, smi, m.unit, m.help);
  }
  for (const MetricInfo& m : metrics())
    if (m.kind == MetricKind::kCounter && m.name.ends_with("_ns"))
      add(std::string(m.name.substr(0, m.name.size() - 2)) + "pct", "", "%",
          fmt::format("share of {} in the time since the row before", m.name));
  add("all", "", "", "every metric, by our names");
  return out + "\nNext: profgpu log --query timestamp,index,utilization.gpu,memory.used -o gpu.csv\n";
}

LogRows::LogRows(Options options, std::vector<DeviceInfo> devices)
    : options_(std::move(options)), devices_(std::move(devices)), writer_(SampleFormat::kJsonLines, {}, {}),
      known_(devices_.size()) {
  for (DeviceInfo& d : devices_)
    if (d.host.empty()) d.host = options_.host;
  begin_file();
  for (const Dress dress : {Dress::kFull, Dress::kShort, Dress::kBare}) {
    dress_ = dress;
    fit();
    if (widths_.size() == options_.columns.size()) break;
  }
}

// The last column may be as long as it likes, if it is text.
void LogRows::fit() {
  widths_.clear();
  int used = 0;
  for (const LogColumn& c : options_.columns) {
    const int least = c.what.kind == Kind::kDevice ? kMinDevice : dress_ == Dress::kBare ? kMinBare : kMinColumn;
    int width = std::max(display_width(title_of(c)), least);
    if (is_time(c)) width = display_width(time_text(c, 0));
    Reading reading;
    for (; c.what.kind != Kind::kMetric && !is_time(c) && reading.device < devices_.size(); ++reading.device)
      width = std::max(width, display_width(text(c, reading)));
    used += width + (widths_.empty() ? 0 : dress_ == Dress::kBare ? 1 : 2);
    if (options_.format == LogFormat::kTable && options_.width > 0 && used > options_.width && !widths_.empty()) return;
    widths_.push_back(width);
  }
}

std::string LogRows::title_of(const LogColumn& c) const {
  if (dress_ != Dress::kFull && c.what.kind == Kind::kMetric && !c.smi)
    for (const auto& [metric, name] : kShortNames)
      if (metric == c.what.metric->metric) return std::string(name);
  return title(c);
}

std::string LogRows::left_out() const {
  std::string names;
  for (size_t i = widths_.size(); i < options_.columns.size(); ++i) append_listed(names, options_.columns[i].name);
  return names;
}

void LogRows::append_table_cell(std::string& line, size_t column, std::string_view text) const {
  if (column > 0) line += dress_ == Dress::kBare ? " " : "  ";
  const bool left = is_text(options_.columns[column]), last = column + 1 == widths_.size();
  const int width = left && last ? 0 : widths_[column];
  line += left ? padded_right(std::string(text), width) : padded_left(std::string(text), width);
}

std::string LogRows::header() const {
  std::string line;
  if (options_.format == LogFormat::kJson) return line;
  if (options_.format == LogFormat::kTable) return table_header();
  for (size_t i = 0; i < options_.columns.size(); ++i) {
    const LogColumn& c = options_.columns[i];
    const bool united = c.smi && c.what.metric && options_.units != LogUnits::kNone;
    const std::string_view unit = united ? smi_unit(*c.what.metric) : "";
    if (i > 0) line += separator();
    line += unit.empty() ? c.name : fmt::format("{} [{}]", c.name, unit);
  }
  return line + "\n";
}

std::string LogRows::table_header() const {
  std::string names, units;
  for (size_t i = 0; i < widths_.size(); ++i) {
    const LogColumn& c = options_.columns[i];
    append_table_cell(names, i, title_of(c));
    const bool bare = c.what.kind == Kind::kMetric && !c.smi;
    append_table_cell(units, i, bare ? bare_quantity(c, 0).second : "");
  }
  return names + "\n" + (dress_ == Dress::kBare ? units + "\n" : "");
}

std::string LogRows::value_text(const LogColumn& c, double value) const {
  const MetricInfo& metric = *c.what.metric;
  const bool table = options_.format == LogFormat::kTable;
  if (table && dress_ == Dress::kBare && !c.smi && metric.metric != Metric::kClockEventReasons)
    return fmt::format("{:.0f}", bare_quantity(c, value).first);
  if (c.share) {
    const std::string share = fmt::format("{:.1f}", value);
    return options_.units == LogUnits::kValues || (table && options_.units == LogUnits::kHeader) ? share + " %" : share;
  }
  if (table && !c.smi && options_.units != LogUnits::kNone) return quantity_text(metric, value);
  if (c.smi && metric.metric == Metric::kPerformanceState) return fmt::format("P{:.0f}", value);
  if (c.smi && metric.metric == Metric::kClockEventReasons && !single_reason(c.name))
    return fmt::format("0x{:016x}", static_cast<uint64_t>(std::max(value, 0.0)));
  if (const SmiReason* reason = single_reason(c.name))
    return (static_cast<uint64_t>(std::max(value, 0.0)) & static_cast<uint64_t>(reason->bit)) ? "Active" : "Not Active";
  if (c.smi && is_yes_or_no(metric.metric)) return value > 0 ? "Yes" : "No";
  std::string out;
  c.smi ? void(out = smi_number(metric, value)) : append_number(out, value);
  const std::string_view unit = c.smi ? smi_unit(metric) : metric.unit;
  const bool with_unit = options_.units == LogUnits::kValues || (table && options_.units == LogUnits::kHeader);
  if (with_unit && !unit.empty()) out.append(" ").append(unit);
  return out;
}

std::string LogRows::fact_text(std::string_view id, uint32_t device) const {
  if (device >= options_.facts.size()) return "";
  for (const Fact& f : options_.facts[device])
    if (f.id == id) return smi_fact(f);
  return "";
}

std::string LogRows::age_text(const Reading& reading) const {
  int64_t oldest_ns = INT64_MAX;
  for (const LogColumn& c : options_.columns) {
    if (c.what.kind != Kind::kMetric || c.what.metric->kind == MetricKind::kConstant) continue;
    const Known& known = known_[reading.device][static_cast<size_t>(c.what.metric->metric)];
    if (known.time_ns != 0) oldest_ns = std::min(oldest_ns, known.time_ns);
  }
  if (oldest_ns == INT64_MAX) return "";
  return fmt::format("{:.3f}", static_cast<double>(std::max<int64_t>(reading.time_ns - oldest_ns, 0)) / 1e9);
}

std::string LogRows::text(const LogColumn& c, const Reading& reading) const {
  const DeviceInfo& device = devices_[reading.device];
  switch (c.what.kind) {
    case Kind::kUnixNs:
    case Kind::kTime: return time_text(c, reading.time_ns);
    case Kind::kDevice: return device_word(devices_, reading.device);
    case Kind::kDeviceText: return device.*c.what.text;
    case Kind::kMetric: {
      std::optional<double> value = values_[c.what.metric->metric];
      const Known& known = known_[reading.device][static_cast<size_t>(c.what.metric->metric)];
      if (c.share) value = shares_[static_cast<size_t>(c.what.metric->metric)];
      else if (!value && options_.queried && known.time_ns != 0) value = known.value;
      if (!value && !c.share) value = device.constant(c.what.metric->metric);
      return value ? value_text(c, *value) : "";
    }
    case Kind::kUnknown:
      if (!c.fact.empty()) return fact_text(c.fact, reading.device);
      if (c.name == kAge) return age_text(reading);
      if (c.name == "count") return std::to_string(devices_.size());
      return device.pci_bus_id.size() < 11 ? "" : "0x" + upper_case(device.pci_bus_id.substr(9, 2));
    default: return "";
  }
}

void LogRows::append_json(const Reading& reading) {
  const std::string device = device_word(devices_, reading.device);
  const bool number = device.find_first_not_of("0123456789") == std::string::npos;
  line_ += fmt::format("\"device\":{}", number ? device : json_quoted(device));
  for (const LogColumn& c : options_.columns) {
    if (is_time(c) || c.what.kind == Kind::kDevice) continue;
    const std::string value = text(c, reading);
    if (value.empty()) continue;
    line_ += fmt::format(",{}:", json_quoted(c.name));
    const bool bare = (c.what.kind == Kind::kMetric || c.name == kAge) &&
                      value.find_first_not_of("0123456789+-.e") == std::string::npos;
    bare ? void(line_ += value) : append_json_quoted(line_, value);
  }
  line_ += "}\n";
}

std::string LogRows::repeats_text() const {
  std::string names;
  for (const LogColumn& c : options_.columns) {
    if (c.what.kind != Kind::kMetric) continue;
    const int64_t count = repeats_[static_cast<size_t>(c.what.metric->metric)];
    if (count > 0) append_listed(names, fmt::format("{} ({} of {} rows)", c.name, count, rows_));
  }
  if (names.empty()) return "";
  return "values repeated because the device had no newer one: " + names +
         "; the field age_s shows how old a row's are";
}

void LogRows::keep(const Reading& reading) {
  values_.take(reading);
  shares_.fill({});
  for (const Sample& s : reading.samples) {
    Known& known = known_[reading.device][static_cast<size_t>(s.metric)];
    const auto& value = values_[s.metric];
    if (!value) continue;
    const auto passed_ns = static_cast<double>(s.time_ns - known.time_ns);
    if (known.time_ns != 0 && passed_ns > 0)
      shares_[static_cast<size_t>(s.metric)] = std::clamp(100 * (*value - known.value) / passed_ns, 0.0, 100.0);
    known = {*value, std::max(known.time_ns, s.time_ns)};
  }
}

std::string_view LogRows::row(const Reading& reading) {
  line_.clear();
  values_.take(reading);
  ++rows_;
  if (reading.failed) known_[reading.device].fill({});   // what it said before holds no longer
  if (options_.queried)
    for (const LogColumn& c : options_.columns) {
      if (c.what.kind != Kind::kMetric || c.what.metric->kind == MetricKind::kConstant) continue;
      const auto m = static_cast<size_t>(c.what.metric->metric);
      if (!values_[c.what.metric->metric]) repeats_[m] += known_[reading.device][m].time_ns != 0;
    }
  keep(reading);
  if (options_.format == LogFormat::kJson) {
    const auto style = options_.timestamps.value_or(TimestampStyle::kUnixNs);
    const std::string time = timestamp_text(reading.time_ns, style);
    const bool number = style == TimestampStyle::kUnixNs || style == TimestampStyle::kEpoch;
    line_ =
        fmt::format("{{\"{}\":{},", options_.timestamps ? "timestamp" : "time_ns", number ? time : json_quoted(time));
    if (options_.queried) {
      append_json(reading);
    } else {
      const std::string_view whole = writer_.row(reading);
      line_ += whole.substr(whole.find(',') + 1);   // behind its time
    }
    return line_;
  }
  const bool table = options_.format == LogFormat::kTable;
  for (size_t i = 0; i < (table ? widths_.size() : options_.columns.size()); ++i) {
    std::string cell = text(options_.columns[i], reading);
    if (table) {
      std::replace(cell.begin(), cell.end(), '\n', ' ');   // which printable() lets through
      append_table_cell(line_, i, cell.empty() ? "-" : printable(cell));
      continue;
    }
    if (i > 0) line_ += separator();
    const bool absent = cell.empty() && options_.columns[i].smi && options_.units == LogUnits::kValues;
    if (options_.columns[i].what.kind == Kind::kMetric) append_csv(line_, absent ? "[N/A]" : cell);
    else append_csv_text(line_, absent ? "[N/A]" : cell);
  }
  return line_ += '\n';
}

}  // namespace profgpu
