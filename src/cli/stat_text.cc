#include "cli/stat_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/timestamp.h"
#include "present/grid.h"
#include "report/quantity.h"
#include "report/text.h"
#include "trace/health.h"

namespace profgpu {
namespace {

constexpr int kLeastName = 14;        // cells of a device's name that stay
constexpr int kLeastProcesses = 30;   // cells that processes want behind a device, else they go below

std::string whole(const std::optional<double>& x, std::string_view unit, int width) {
  const std::string number = x ? fmt::format("{:.0f}", std::round(*x)) : std::string(kUnknownText);
  return padded_left(number, width) + std::string(unit);
}

// Shares of a limit: fine, near it, at it.
Style heat(const std::optional<double>& share, double warn, double bad) {
  if (!share) return Style::kFaint;
  return *share >= bad ? Style::kStrongBad : *share >= warn ? Style::kWarn : Style::kPlain;
}

std::optional<double> share(const std::optional<double>& part, const std::optional<double>& all) {
  return part && all && *all > 0 ? std::optional(*part / *all) : std::nullopt;
}

Cell temperature_cell(const StatDevice& d) {
  const auto celsius = d.value(Metric::kTemperature);
  const double limit = d.value(Metric::kTemperatureSlowdown).value_or(90);
  return {whole(celsius, "°C", 3), heat(share(celsius, limit), 0.88, 0.97)};
}

Cell utilization_cell(const StatDevice& d, Metric metric) {
  const auto pct = d.value(metric);
  return {whole(pct, " %", 3), !pct || *pct < kIdlePct.said ? Style::kFaint : *pct >= 50 ? Style::kGood : Style::kPlain};
}

Cell power_cell(const StatDevice& d) {
  const auto watts = d.value(Metric::kPower), limit = d.value(Metric::kPowerLimit);
  const std::string of = limit ? " / " + whole(limit, " W", 3) : " W";
  return {whole(watts ? watts : d.value(Metric::kPowerInstant), of, 3), heat(share(watts, limit), 0.9, 0.98)};
}

std::string gibibytes(const std::optional<double>& bytes) {
  return bytes ? fmt::format("{:.1f}", *bytes / (1 << 30)) : std::string(kUnknownText);
}

Cell memory_cell(const StatDevice& d) {
  const auto used = d.value(Metric::kMemoryUsed), total = d.value(Metric::kMemoryTotal);
  return {padded_left(gibibytes(used), 5) + " / " + padded_left(gibibytes(total), 5) + " GiB",
          heat(share(used, total), 0.9, 0.97)};
}

std::string name_of(const StatDevice& d) {
  return d.info->mig_profile.empty() ? d.info->name : "  MIG " + d.info->mig_profile;
}

bool any_has(const StatView& view, Metric metric) {
  return std::any_of(view.devices.begin(), view.devices.end(), [&](const StatDevice& d) { return d.value(metric); });
}

// Behind a device's name, one cell a column.
std::vector<Cell> cells_of(const StatDevice& d, const StatView& view, const StatStyle& style) {
  std::vector<Cell> cells = {temperature_cell(d)};
  if (style.fan || any_has(view, Metric::kFanSpeed)) cells.push_back({whole(d.value(Metric::kFanSpeed), " % fan", 3)});
  cells.push_back(utilization_cell(d, Metric::kUtilization));
  if (style.codec) {
    cells.push_back(utilization_cell(d, Metric::kEncoderUtilization));
    cells.back().text = "enc " + cells.back().text;
    cells.push_back(utilization_cell(d, Metric::kDecoderUtilization));
    cells.back().text = "dec " + cells.back().text;
  }
  if (style.power) cells.push_back(power_cell(d));
  cells.push_back(memory_cell(d));
  return cells;
}

std::string program_of(const StatProcess& p) {
  const std::string known = p.host.command();
  if (!known.empty()) return known;
  const std::string path = p.sample.name.substr(0, p.sample.name.find(' '));  // some tools name the whole command line
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

std::string memory_of(const StatProcess& p) {
  return p.sample.memory_bytes ? format_bytes(static_cast<double>(*p.sample.memory_bytes)) : std::string(kUnknownText);
}

// "alice:python/4711(61 GiB)", of that what the style asks for.
std::string process_text(const StatProcess& p, const StatStyle& style) {
  std::string text = style.user ? p.host.user : "";
  const std::string program = style.command ? program_of(p) : "";
  if (!program.empty()) text += (text.empty() ? "" : ":") + program;
  if (style.pid || text.empty()) text += (text.empty() ? "" : "/") + std::to_string(p.sample.pid);
  return sanitised(text) + "(" + memory_of(p) + ")";
}

Line trouble_line(const StatDevice& d, int64_t now_ns) {
  Line line;
  line.add(d.look.message, Style::kStrongBad);
  if (d.look.since_ns > 0 && now_ns - d.look.since_ns >= 1'000'000'000)
    line.add(fmt::format(", since {} ({})", clock_time(d.look.since_ns),
                         format_duration(static_cast<double>(now_ns - d.look.since_ns), 2)), Style::kBad);
  return line;
}

Line head_of(const StatDevice& d, int label, int name) {
  Line line;
  line.add("[" + padded_left(d.info->label(), label) + "] ", Style::kNote);
  return line.add(padded_right(truncated(sanitised(name_of(d)), name), name), Style::kStrong);
}

void add_processes(Lines& lines, Line line, const StatDevice& d, const StatStyle& style, int width) {
  if (!style.processes || d.processes.empty()) return lines.push_back(std::move(line));
  std::string text;
  for (const StatProcess& p : d.processes) text += (text.empty() ? "" : "  ") + process_text(p, style);
  const int room = width - line.width() - 3;
  if (width > 0 && room < kLeastProcesses && room < display_width(text)) {
    lines.push_back(std::move(line));
    return append(lines, wrapped_after(Line().skip(6), text, width));
  }
  line.add(" | ", Style::kFaint);
  append(lines, wrapped_after(std::move(line), text, width));
}

// What is not known of processes, each reason once.
void add_notes(Lines& lines, const StatView& view) {
  std::vector<std::pair<std::string, std::string>> notes;
  for (const StatDevice& d : view.devices)
    for (const StatProcess& p : d.processes) {
      const std::string why = p.host.inferred ? "concluded: the only program here that has a GPU open" : p.host.unknown;
      if (why.empty()) continue;
      auto it = std::find_if(notes.begin(), notes.end(), [&](const auto& n) { return n.first == why; });
      if (it == notes.end()) it = notes.insert(notes.end(), {why, ""});
      it->second += (it->second.empty() ? "" : ", ") + std::to_string(p.sample.pid);
    }
  for (const auto& [why, pids] : notes)
    lines.push_back(Line("? ", Style::kWarn).add(fmt::format("{}: {}", pids, why), Style::kFaint));
}

std::string command_line(const StatProcess& p) {
  const std::string known = p.host.command_line();
  return known.empty() ? p.sample.name : known;
}

Lines process_table(const StatView& view, int width) {
  Grid grid;
  grid.add_column("GPU");
  for (const std::string_view title : {"pid", "GPU memory", "SM", "CPU", "memory", "threads", "running for"})
    grid.add_column(std::string(title), true);
  for (const std::string_view title : {"user", "where", "command"}) grid.add_column(std::string(title));
  for (const StatDevice& d : view.devices)
    for (const StatProcess& p : d.processes) {
      const auto pct = [](const std::optional<double>& x) {
        return x ? fmt::format("{:.0f} %", *x) : std::string(kUnknownText);
      };
      const auto& h = p.host;
      const auto age = h.start_ns ? std::optional(static_cast<double>(view.time_ns - *h.start_ns)) : std::nullopt;
      grid.add_row({{d.info->label()},
                    {std::to_string(p.sample.pid)},
                    {memory_of(p)},
                    {pct(p.sample.utilization_pct)},
                    {pct(h.cpu_pct)},
                    {h.memory_bytes ? format_bytes(static_cast<double>(*h.memory_bytes)) : std::string(kUnknownText)},
                    {h.threads ? std::to_string(*h.threads) : std::string(kUnknownText)},
                    {age ? format_duration(*age) : std::string(kUnknownText)},
                    {h.user},
                    {h.place()},
                    {command_line(p)}});
    }
  return grid.empty() ? Lines{} : grid.lines(width);
}

}  // namespace

Lines stat_lines(const StatView& view, const StatStyle& style, int width) {
  Lines lines;
  if (style.header) {
    Line head(view.host, Style::kStrong);
    head.add("  " + iso_time(view.time_ns).substr(0, 19).replace(10, 1, " "));
    if (!view.driver.empty()) head.add("  driver " + view.driver, Style::kFaint);
    lines.push_back(std::move(head));
  }
  int label = 1, name = 0, rest = 0;
  std::vector<std::vector<Cell>> rows;
  std::vector<int> widths;
  for (const StatDevice& d : view.devices) {
    label = std::max(label, display_width(d.info->label()));
    name = std::max(name, display_width(sanitised(name_of(d))));
    rows.push_back(cells_of(d, view, style));
    widths.resize(rows.back().size());
    for (size_t c = 0; c < widths.size(); ++c) widths[c] = std::max(widths[c], display_width(rows.back()[c].text));
  }
  for (const int w : widths) rest += 3 + w;
  if (width > 0) name = std::clamp(width - (label + 3) - rest, std::min(name, kLeastName), name);
  for (size_t i = 0; i < rows.size(); ++i) {
    const StatDevice& d = view.devices[i];
    Line line = head_of(d, label, name);
    if (d.look.state != DeviceState::kOk) {
      lines.push_back(std::move(line.add(" | ", Style::kFaint).add(trouble_line(d, view.time_ns))));
      continue;
    }
    for (size_t c = 0; c < widths.size(); ++c) {
      const bool fits = width <= 0 || line.width() + 3 + widths[c] <= width;
      if (fits) line.add(" | ", Style::kFaint);
      else lines.push_back(std::exchange(line, Line().skip(label + 3)));   // half a figure is none
      line.add(padded_left(rows[i][c].text, widths[c]), rows[i][c].style);
    }
    add_processes(lines, std::move(line), d, style, width);
  }
  if (style.table) append(lines, {Line()}), append(lines, process_table(view, width));
  if (style.processes) add_notes(lines, view);
  return lines;
}

}  // namespace profgpu
