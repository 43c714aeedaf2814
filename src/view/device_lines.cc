#include "view/device_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "analyse/rank/telemetry.h"
#include "analyse/report/document.h"
#include "analyse/report/quantity.h"
#include "analyse/report/text.h"
#include "base/text.h"
#include "view/layout.h"
#include "view/wording.h"

namespace profgpu {
namespace {

constexpr int kReadable = 120;  // what is set at the right stays near what it belongs to
constexpr size_t kMaxBlocks = 4;
constexpr int kLabel = 15;      // "  temperature  "
constexpr size_t kMaxProcesses = 6, kMaxReasons = 3;
constexpr double kShown_pct = 0.5;  // shares below that are nothing
constexpr double kMiB = 1 << 20, kGiB = 1 << 30, kSecond = 1e9;

// "1,755"
std::string whole_text(double x) { return format_count(std::llround(x)); }

// A line of the block: its label, then text that wraps below itself. Nothing for an empty text.
void add(Lines& lines, std::string_view label, const std::string& said, int width, Style style = Style::kPlain) {
  if (said.empty()) return;
  Line first = Line().skip(2).add(label, Style::kFaint).to_column(kLabel);
  append(lines, wrapped_after(std::move(first), said, width, style));
}

void join(std::string& to, const std::string& part, std::string_view separator = "; ") {
  if (!part.empty()) append_listed(to, part, separator);
}

std::string busy_text(const DeviceTelemetry& t) {
  const SeriesSummary busy = t.summary(Metric::kUtilization);
  if (!busy.mean) {
    for (const auto& [metric, words] :
         {std::pair{Metric::kGraphicsActive, "by the chip's counters"}, {Metric::kSmActive, "of the multiprocessors"}})
      if (const auto active = t.summary(metric).mean) return fmt::format("{} {}", format_percent(*active), words);
    const auto why = t.why_absent.find(Metric::kUtilization);
    return "not known" + (why == t.why_absent.end() ? "" : ": " + why->second);
  }
  std::string out = format_percent(*busy.mean);
  if (t.utilization_p5 && t.utilization_p50 && t.utilization_p95 && busy.max.value_or(0) > 0)
    out += fmt::format("   p5 {} %   p50 {} %   p95 {} %", whole_text(*t.utilization_p5),
                       whole_text(*t.utilization_p50), whole_text(*t.utilization_p95));
  if (t.idle_pct && *t.idle_pct >= kShown_pct)
    out += fmt::format("   idle (<5 %) {} of the time", format_percent(*t.idle_pct, 0));
  return out;
}

void add_course(Lines& lines, const DeviceTelemetry& t, int width) {
  const std::string course = sparkline(t.trace);
  const auto column_ns = t.trace_column_ns();
  if (course.find_first_not_of(' ') == std::string::npos || !column_ns || *column_ns <= 0) return;
  if (t.summary(Metric::kUtilization).max.value_or(0) <= 0) return;
  Line line = Line().to_column(kLabel).add(course, Style::kBusy);
  const std::string scale = "   one column = " + format_duration(static_cast<double>(*column_ns), 2);
  if (width <= 0 || line.width() + display_width(scale) <= width) line.add(scale, Style::kFaint);
  lines.push_back(std::move(line));
}

// What the chip's own counters say of the work.
std::string activity_text(const DeviceTelemetry& t) {
  std::string out;
  bool any = false;
  for (const auto& [metric, words] : {std::pair{Metric::kSmActive, "multiprocessors"},
                                    {Metric::kSmOccupancy, "occupancy"},
                                    {Metric::kTensorActive, "tensor cores"},
                                    {Metric::kDramActive, "memory"}})
    if (const auto mean = t.summary(metric).mean) {
      join(out, fmt::format("{} {}", words, format_percent(*mean, 0)), ", ");
      any = any || *mean > 0;
    }
  return any ? out : "";
}

std::string memory_text(const DeviceTelemetry& t) {
  const SeriesSummary used = t.summary(Metric::kMemoryUsed);
  const auto total = t.limit(Metric::kMemoryTotal);
  if (!used.max) return {};
  std::string out = format_bytes(*used.max);
  if (total && *total > 0) {
    out = *total >= kGiB ? fmt::format("{:.1f} of {:.1f} GiB", *used.max / kGiB, *total / kGiB)
                         : out + " of " + format_bytes(*total);
    out += fmt::format(" ({})", format_percent(100 * *used.max / *total, 0));
  }
  out = "peak " + out;
  if (used.mean) out += ", mean " + format_bytes(*used.mean);
  if (const auto growth = t.memory_growth_bytes_per_s; growth && total && *growth * 3600 > *total / 100)
    out += fmt::format("; grows by {} a minute", format_bytes(*growth * 60));
  return out;
}

std::string power_text(const DeviceTelemetry& t) {
  const SeriesSummary power = t.power();
  std::string out;
  if (power.mean) out = "mean " + format_watts(*power.mean);
  if (power.mean && power.max) out += ", max " + format_watts(*power.max);
  const auto constant = t.constants.find(Metric::kPowerLimit);
  const auto limit =
      constant != t.constants.end() ? std::optional(constant->second) : t.summary(Metric::kPowerLimit).last;
  if (limit && power.mean) out += " of " + format_watts(*limit);
  if (!t.energy_j) return out;
  std::string said = format_energy(*t.energy_j) +
                     (t.energy_method == "counter" ? " by the board's counter" : " from the power over time");
  if (const auto busy = t.energy_per_busy_second_j(); busy && t.busy_ns && *t.busy_ns >= kSecond)
    said += fmt::format(" ({} for each busy second)", format_energy(*busy));
  join(out, said);
  return t.energy_note.empty() ? out : out + " (" + t.energy_note + ")";
}

std::string temperature_text(const DeviceTelemetry& t) {
  const SeriesSummary core = t.summary(Metric::kTemperature);
  if (!core.mean || !core.max) return {};
  std::string out = fmt::format("mean {} °C, max {}", whole_text(*core.mean), whole_text(*core.max));
  if (const auto limit = t.constants.find(Metric::kTemperatureSlowdown); limit != t.constants.end())
    out += fmt::format(" (throttles at {})", whole_text(limit->second));
  if (const auto memory = t.summary(Metric::kMemoryTemperature).max)
    out += fmt::format("; memory max {}", whole_text(*memory));
  return out;
}

std::string throttle_text(const DeviceTelemetry& t) {
  std::string out;
  size_t shown = 0;
  for (const ThrottleTime& held : t.throttle) {
    if (shown == kMaxReasons) break;
    if (held.pct < kShown_pct) continue;
    const std::string share = format_percent(held.pct, 0) + (shown++ == 0 ? " of the time by " : " by ") + held.words;
    join(out, out.empty() ? "held back " + share : share, ", ");
  }
  return out;
}

std::string clocks_text(const DeviceTelemetry& t) {
  std::string out;
  if (const auto mean = t.summary(Metric::kSmClock).mean) {
    out = fmt::format("SM {} MHz mean", whole_text(*mean));
    if (const auto most = t.constants.find(Metric::kSmClockMax); most != t.constants.end())
      out += " of " + whole_text(most->second);
  }
  join(out, throttle_text(t));
  return out;
}

std::string links_text(const DeviceTelemetry& t) {
  std::string out;
  const double seconds = static_cast<double>(t.duration_ns()) / kSecond;
  for (const auto& [name, in, from] : {std::tuple{"PCIe", Metric::kPcieRx, Metric::kPcieTx},
                                       {"NVLink", Metric::kNvlinkRx, Metric::kNvlinkTx},
                                       {"XGMI", Metric::kXgmiRx, Metric::kXgmiTx}}) {
    const auto rx = t.growth(in), tx = t.growth(from);
    if (!rx || !tx || *rx + *tx < kMiB) continue;
    join(out, fmt::format("{} {} in, {} out", name, format_bytes(*rx), format_bytes(*tx)));
    if (seconds >= 1) out += fmt::format(" ({}/s)", format_bytes((*rx + *tx) / seconds));
  }
  return out;
}

void add_processes(Lines& lines, const DeviceTelemetry& t, int width) {
  const size_t count = t.processes.size(), shown = count > kMaxProcesses ? kMaxProcesses - 1 : count;
  int pid_width = 0, name_width = 0;
  const auto pid_of = [&](size_t row) { return std::to_string(t.processes[row].process.pid); };
  const auto name_of = [&](size_t row) { return sanitised(t.processes[row].process.name); };
  for (size_t i = 0; i < shown; ++i) {
    pid_width = std::max(pid_width, display_width(pid_of(i)));
    name_width = std::max(name_width, display_width(name_of(i)));
  }
  const int room = (width > 0 ? std::min(width, kReadable) : kReadable) - kLabel - pid_width - 24;
  name_width = std::clamp(name_width, 0, std::max(room, 10));
  for (size_t i = 0; i < shown; ++i) {
    Line line = Line().skip(2).add(i == 0 ? "processes" : "", Style::kFaint).to_column(kLabel);
    line.add(padded_left(pid_of(i), pid_width)).skip(1);
    line.add(padded_right(truncated(name_of(i), name_width), name_width));
    if (const auto peak = t.processes[i].memory_peak_bytes)
      line.skip(3).add("peak " + format_bytes(static_cast<double>(*peak)));
    lines.push_back(std::move(line));
  }
  if (count > shown)
    lines.push_back(Line().to_column(kLabel).add(fmt::format("… and {} more", count - shown), Style::kFaint));
}

// Right of the first line if there is room, else above it.
void add_about(Lines& lines, const std::string& about, int width) {
  const int cells = display_width(sanitised(about)), end = std::min(width > 0 ? width : kReadable, kReadable);
  if (!lines.empty() && lines.front().width() + 3 + cells <= end) {
    lines.front().to_column(end - cells).add(about, Style::kStrong);
    return;
  }
  lines.insert(lines.begin(), Line(truncated(sanitised(about), width > 0 ? width : kReadable), Style::kStrong));
}

std::vector<std::string> cells_of(const DeviceTelemetry& t) {
  const auto cell = [](const std::optional<double>& x, auto show) { return x ? show(*x) : std::string(kUnknownText); };
  const auto pct = [](double x) { return format_percent(x, 0); };
  const auto held = only_if(t.throttle_known, t.throttle.empty() ? 0.0 : t.throttle.front().pct);
  return {t.device_label(),
          device_name(t),
          cell(t.summary(Metric::kUtilization).mean, [](double x) { return format_percent(x); }),
          cell(t.idle_pct, pct),
          cell(t.summary(Metric::kMemoryUsed).max, format_bytes),
          cell(t.power().mean, format_watts),
          cell(t.energy_j, format_energy),
          cell(t.summary(Metric::kTemperature).max, [](double x) { return whole_text(x) + " °C"; }),
          cell(held, pct)};
}

Lines device_table(const std::vector<DeviceTelemetry>& devices, int width) {
  Lines lines = device_grid(devices).lines(width);
  for (const DeviceTelemetry& t : devices)
    for (const auto& [said, style] : {std::pair{errors_text(t), Style::kBad}, {t.notes_text(), Style::kPlain}})
      if (!said.empty())
        append(lines,
               wrapped_after(Line("! ", Style::kWarn).add("GPU " + t.device_label() + "  "), said, width, style));
  return lines;
}

}  // namespace

Lines device_block(const DeviceTelemetry& t, int width) {
  Lines lines{Line(t.label(), Style::kStrong).skip(2).add(device_name(t))};
  if (t.ticks == 0) {
    add(lines, "", "no sample came", width, Style::kWarn);
  } else if (t.used() || !t.summary(Metric::kUtilization).mean) {
    add(lines, "busy", busy_text(t), width);
    add_course(lines, t, width);
    add(lines, "activity", activity_text(t), width);
    add(lines, "memory", memory_text(t), width);
    add(lines, "power", power_text(t), width);
    add(lines, "temperature", temperature_text(t), width);
    add(lines, "clocks", clocks_text(t), width);
    add(lines, "links", links_text(t), width);
    add_processes(lines, t, width);
  } else {
    std::string said = "not used";
    if (t.memory_peak_pct().value_or(0) >= 1) join(said, "memory " + memory_text(t));
    join(said, power_text(t));
    add(lines, "", said, width);
  }
  add(lines, "errors", errors_text(t), width, Style::kBad);
  if (const std::string notes = t.notes_text(); !notes.empty()) add(lines, "note", notes, width, Style::kWarn);
  return lines;
}

Lines device_lines(const std::vector<DeviceTelemetry>& devices, const std::string& about, int width) {
  Lines lines;
  if (devices.size() > kMaxBlocks) {
    lines = device_table(devices, width);
    add_about(lines, about, width);
    return lines;
  }
  for (const DeviceTelemetry& t : devices) {
    Lines block = device_block(t, width);
    if (lines.empty()) add_about(block, about, width);
    append(lines, std::move(block));
  }
  if (lines.empty()) add_about(lines, about, width);
  return lines;
}

std::string format_watts(double watts) { return (watts < 10 ? format_number(watts) : whole_text(watts)) + " W"; }

std::string format_energy(double joules) {
  if (std::abs(joules) >= 999.5e3) return format_number(joules / 1e6) + " MJ";
  return std::abs(joules) >= 999.5 ? format_number(joules / 1e3) + " kJ" : format_number(joules) + " J";
}

std::string device_name(const DeviceTelemetry& t) {
  std::string out = t.device.name;
  if (!t.device.mig_profile.empty()) append_listed(out, "MIG " + t.device.mig_profile);
  if (!t.device.driver_version.empty()) append_listed(out, "driver " + t.device.driver_version);
  return out;
}

std::string errors_text(const DeviceTelemetry& t) {
  std::string out;
  for (const auto& [metric, one, many] :
       {std::tuple{Metric::kXidErrors, "driver error (Xid)", "driver errors (Xid)"},
        {Metric::kEccUncorrected, "memory error not corrected", "memory errors not corrected"},
        {Metric::kEccCorrected, "memory error corrected", "memory errors corrected"},
        {Metric::kNvlinkErrors, "NVLink error", "NVLink errors"},
        {Metric::kPcieReplays, "PCIe replay", "PCIe replays"}}) {
    const double n = t.growth(metric).value_or(0);
    if (n <= 0) continue;
    append_listed(out, plural(std::llround(n), one, many));
    if (const auto code = t.summary(Metric::kXidLast).last; code && metric == Metric::kXidErrors)
      out += (n == 1 ? ": " : ", the last ") + whole_text(*code);
  }
  return out;
}

Grid device_grid(const std::vector<DeviceTelemetry>& devices) {
  constexpr size_t kTexts = 2;
  Grid grid({{"GPU"}, {""}});
  for (const char* column : {"busy", "idle", "memory peak", "power", "energy", "hottest", "held back"})
    grid.add_column(column, true);
  for (const DeviceTelemetry& t : devices) {
    std::vector<Cell> cells;
    for (const std::string& text : cells_of(t))
      cells.push_back({text, cells.empty() ? Style::kStrong : text == kUnknownText ? Style::kFaint : Style::kPlain,
                       cells.size() < kTexts ? Holds::kWords : Holds::kOurs});
    grid.add_row(std::move(cells));
  }
  return grid;
}

}  // namespace profgpu
