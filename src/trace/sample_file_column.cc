#include "trace/sample_file_column.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>

#include "base/decimal.h"
#include "base/text.h"

namespace profgpu {
namespace {

constexpr double kLargest = 1e20;   // more than any counter of 64 bits; its square is still a number

struct Scale {
  std::string_view of, unit;   // the metric's unit, and another for the same
  double factor;
};
constexpr Scale kScales[] = {
    {"B", "B", 1},           {"B", "KiB", 1024},      {"B", "MiB", 1 << 20}, {"B", "GiB", 1 << 30},
    {"B", "kB", 1e3},        {"B", "KB", 1e3},        {"B", "MB", 1e6},      {"B", "GB", 1e9},
    {"B/s", "B/s", 1},       {"B/s", "KiB/s", 1024},  {"B/s", "MiB/s", 1 << 20},
    {"B/s", "KB/s", 1e3},    {"B/s", "MB/s", 1e6},    {"B/s", "GB/s", 1e9},  {"W", "W", 1},
    {"W", "mW", 1e-3},       {"W", "kW", 1e3},        {"J", "J", 1},         {"J", "mJ", 1e-3},
    {"J", "kJ", 1e3},        {"ns", "ns", 1},         {"ns", "us", 1e3},     {"ns", "µs", 1e3},
    {"ns", "ms", 1e6},       {"ns", "s", 1e9},        {"MHz", "MHz", 1},     {"MHz", "kHz", 1e-3},
    {"MHz", "GHz", 1e3},     {"%", "%", 1},           {"°C", "°C", 1},       {"°C", "C", 1},
};

std::optional<double> scale_of(std::string_view metric_unit, std::string_view unit) {
  for (const Scale& s : kScales)
    if (s.of == metric_unit && s.unit == unit) return s.factor;
  return std::nullopt;
}

struct Name {
  std::string_view name;
  SampleColumn::Kind kind;
  std::string DeviceInfo::*text = nullptr;
};
using enum SampleColumn::Kind;
constexpr Name kNames[] = {
    {"time_ns", kUnixNs},     {"timestamp", kTime},      {"device", kDevice}, {"index", kDevice},
    {"numa_node", kNumaNode}, {"processes", kProcesses}, {"mark", kMark},     {"alert", kAlert},
    {"gpu_name", kDeviceText, &DeviceInfo::name},
    {"gpu_uuid", kDeviceText, &DeviceInfo::uuid},
    {"pci.bus_id", kDeviceText, &DeviceInfo::pci_bus_id},
    {"gpu_bus_id", kDeviceText, &DeviceInfo::pci_bus_id},
};

constexpr std::string_view kAbsent[] = {"", "null", "N/A", "ERR!", "nan", "NaN"};

struct Word {
  std::string_view text;
  double value;
};
// The last five: gpu_recovery_action, in the order of nvmlDeviceGpuRecoveryAction_t.
constexpr Word kStates[] = {
    {"Active", 1}, {"Not Active", 0}, {"Yes", 1},    {"No", 0},        {"Enabled", 1}, {"Disabled", 0},
    {"None", 0},   {"Reset", 1},      {"Reboot", 2}, {"Drain P2P", 3}, {"Drain and Reset", 4},
};

// Fans may turn faster than their 100 %, and margins fall below 0 °C.
bool is_possible(double value, const MetricInfo& metric) {
  if (metric.unit == "%" && metric.metric != Metric::kFanSpeed && value > 100.5) return false;
  return value >= 0 || metric.unit == "°C" || metric.unit.empty();
}

SampleCell word_cell(std::string_view text, const SampleColumn& column) {
  if (std::find(std::begin(kAbsent), std::end(kAbsent), text) != std::end(kAbsent)) return {};
  // "[Not Supported]", "[GPU is lost]" and the like.
  if (text.starts_with('[') && text.ends_with(']')) return {};
  if (const auto state = state_number(text)) return {state, false};
  if (text.starts_with('P') && column.metric->metric == Metric::kPerformanceState)
    return sample_cell(text.substr(1), column);
  return {std::nullopt, true};
}

}  // namespace

std::optional<double> state_number(std::string_view text) {
  for (const Word& w : kStates)
    if (text == w.text) return w.value;
  const auto bits = text.starts_with("0x") ? hex_number(text.substr(2)) : std::nullopt;
  return bits ? std::optional(static_cast<double>(*bits)) : std::nullopt;
}

SampleColumn sample_column(std::string_view name) {
  name = without_blanks(name);
  std::string_view unit;
  if (const size_t bracket = name.rfind(" ["); bracket != name.npos && name.ends_with(']')) {
    unit = name.substr(bracket + 2, name.size() - bracket - 3);
    name = without_blanks(name.substr(0, bracket));
  }
  for (const Name& n : kNames)
    if (name == n.name) return {n.kind, nullptr, 1, n.text};
  for (const auto& [key, text] : kDeviceTexts)
    if (name == key) return {kDeviceText, nullptr, 1, text};
  const MetricInfo* metric = find_metric(name);
  if (metric == nullptr) return {};
  const double scale = name == metric->name ? 1 : metric->smi_scale;
  return {kMetric, metric, scale_of(metric->unit, unit).value_or(scale)};
}

SampleCell sample_cell(std::string_view text, const SampleColumn& column) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  // from_chars takes "nan" and "inf" for numbers, and the 0 of "0x4".
  const bool number = error == std::errc() && std::isfinite(value) && (rest == end || *rest != 'x');
  if (!number) return error == std::errc::result_out_of_range ? SampleCell{{}, true} : word_cell(text, column);
  double scale = column.scale;
  if (rest != end) {
    const auto stated = scale_of(column.metric->unit, without_blanks({rest, static_cast<size_t>(end - rest)}));
    if (!stated) return {std::nullopt, true};
    scale = *stated;
  }
  value *= scale;
  if (std::abs(value) > kLargest || !is_possible(value, *column.metric)) return {std::nullopt, true};
  return {value, false};
}

}  // namespace profgpu
