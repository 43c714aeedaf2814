#include "watch/top/pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "analyse/report/quantity.h"
#include "analyse/report/text.h"
#include "base/clock.h"
#include "trace/health.h"
#include "view/layout.h"
#include "watch/top/device_charts.h"
#include "watch/top/frame.h"

namespace profgpu {
namespace {

constexpr int kMaxLabel = 24;
constexpr int kMaxChart = 12;       // rows of a chart
constexpr int kMinChart = 2;
constexpr int kRowsPerBand = 8;     // with more for each, there are more charts below each other
constexpr size_t kMaxBands = 4;
constexpr int kHalf = 78;           // cells of a column of devices, at least
constexpr int kBetween = 3;         // cells between two columns of devices
constexpr int64_t kSaySince_ns = 1'000'000'000;

/// Which cells a device's line has.
struct DeviceCells {
  int label = 1;
  int bar = 0, curve = 0, memory = 0;          // cells of bars and of the curve of utilization
  int name = 0;
  int power = 9;
  bool celsius = true, clock = true;           // left out on narrow screens, power too
  bool links = false, slowed = false, fan = false;
};

// Cells of the columns of every line: mark, percent, memory, power, temperature, clock.
constexpr int kMark = 2, kPercent = 5, kMemory = 15, kCelsius = 6, kClock = 8, kGap = 2;
constexpr int kLinks = 23, kSlowed = 12, kFan = 5;
constexpr int kAlways = kMark + 1 + kPercent + kGap + kMemory;

bool any_has(const LiveView& view, Metric metric) {
  return std::any_of(view.devices.begin(), view.devices.end(),
                     [&](const LiveDevice& d) { return d.value(metric).has_value(); });
}

std::string name_of(const LiveDevice& d) {
  return d.info->mig_profile.empty() ? d.info->name : "MIG " + d.info->mig_profile;
}

bool one_name(const LiveView& view) {
  return std::all_of(view.devices.begin(), view.devices.end(),
                     [&](const auto& d) { return name_of(d) == name_of(view.devices[0]); });
}

// Whether the columns of rates have values: a printed frame has almost none.
bool has_links(const TopModel& model, bool printed) {
  const LiveView& view = model.view();
  for (size_t i = 0; i < view.devices.size(); ++i)
    if (model.histories().device(i).latest(Track::kPcieRx)) return true;
  return !printed && (any_has(view, Metric::kPcieRx) || any_has(view, Metric::kPcieRxRate));
}

std::optional<double> power_now(const LiveDevice& d) {
  const auto watts = d.value(Metric::kPower);
  return watts ? watts : d.value(Metric::kPowerInstant);
}

std::string power_pair(const LiveDevice& d) {
  const auto limit = d.value(Metric::kPowerLimit);
  if (!limit && !power_now(d)) return std::string(kUnknownText);
  return rounded(power_now(d), "") + (limit ? "/" + rounded(limit, " W") : " W");
}

DeviceCells cells_for(const TopModel& model, int width, bool curves, bool printed) {
  const LiveView& view = model.view();
  DeviceCells cells;
  int name = 0;
  for (size_t i = 0; i < view.devices.size(); ++i) {
    const int most = std::min(kMaxLabel, std::max(width - kAlways, 1));
    cells.label = std::max(cells.label, std::min(display_width(sanitised(device_text(view, i))), most));
    cells.power = std::max(cells.power, display_width(power_pair(view.devices[i])));
    name = std::max(name, std::min(display_width(sanitised(name_of(view.devices[i]))), 28));
  }
  int left = width - kAlways - cells.label;
  const auto want = [&](int cost, int spare) {
    const bool fits = left >= cost + kGap + spare;
    if (fits) left -= cost + kGap;
    return fits;
  };
  if (!want(cells.power, 0)) cells.power = 0;
  cells.celsius = want(kCelsius, 0);
  cells.clock = want(kClock, 0);
  constexpr int kGraphs = 26;   // reserved for bars and curve
  cells.links = has_links(model, printed) && want(kLinks, kGraphs + 10);
  cells.slowed = want(kSlowed, kGraphs + 10);
  if (!one_name(view) && want(name, kGraphs)) cells.name = name;
  cells.fan = any_has(view, Metric::kFanSpeed) && want(kFan, kGraphs + 10);
  left = std::max(left - (curves ? kGap + 2 : 2), 0);   // between them
  cells.curve = curves && left >= 12 ? std::min(left * 2 / 5, 60) : 0;
  cells.bar = std::min((left - cells.curve) / 2, 40);
  cells.memory = std::min(left - cells.curve - cells.bar, 40);
  if (cells.bar < 3) cells.bar = cells.memory = 0;
  return cells;
}

std::string slowed_text(const DeviceHistory& history) {
  const auto power = history.latest(Track::kHeldByPower), heat = history.latest(Track::kHeldByHeat),
             other = history.latest(Track::kHeldByOther);
  std::string_view cause = "power";
  double most = power.value_or(0);
  if (heat.value_or(0) > most) cause = "heat", most = *heat;
  if (other.value_or(0) > most) cause = "limits", most = *other;
  return most >= 0.5              ? fmt::format("{} {:.0f} %", cause, most)
         : power || heat || other ? "no"
                                  : std::string(kUnknownText);
}

std::string links_text(const DeviceHistory& history) {
  return fmt::format("↓{:>10} ↑{:>10}", speed_text(history.latest(Track::kPcieRx)),
                     speed_text(history.latest(Track::kPcieTx)));
}

void add_heading(Frame& frame, const DeviceCells& c) {
  Line line;
  line.add(padded_right("GPU", c.label + kMark + 1));
  bool first = true;
  const auto title = [&](std::string_view text, int cells) {
    line.skip(std::exchange(first, false) ? 0 : kGap).add(padded_right(truncated(text, std::max(cells, 0)), cells));
  };
  if (c.name > 0) title("name", c.name);
  title("utilization", (c.bar > 0 ? c.bar + 1 : 0) + kPercent + (c.curve > 0 ? c.curve + kGap : 0));
  title("memory", (c.memory > 0 ? c.memory + 1 : 0) + kMemory);
  if (c.power > 0) title("power", c.power);
  if (c.celsius) title("temp", kCelsius);
  if (c.clock) title("SM clock", kClock);
  if (c.links) title("PCIe in, out", kLinks);
  if (c.slowed) title("slowed by", kSlowed);
  if (c.fan) title("fan", kFan);
  frame.add(std::move(line), true);
}

// The columns right of utilization.
void add_figures(Line& line, const LiveDevice& d, const DeviceHistory& history, const DeviceCells& c) {
  const auto used = ratio(d.value(Metric::kMemoryUsed), d.value(Metric::kMemoryTotal));
  const Style memory = heat(used, 0.9, 0.97);
  add_bar(line, used, c.memory, full_look);
  line.add(padded_left(memory_pair(d), kMemory), memory);
  const auto column = [&](const std::string& text, int cells, Style style) {
    line.skip(kGap).add(padded_left(text, cells), style);
  };
  if (c.power > 0)
    column(power_pair(d), c.power, heat(ratio(power_now(d), d.value(Metric::kPowerLimit)), 0.95, 1.02));
  const auto celsius = d.value(Metric::kTemperature);
  const double limit = d.value(Metric::kTemperatureSlowdown).value_or(90);
  if (c.celsius) column(rounded(celsius, " °C"), kCelsius, heat(ratio(celsius, limit), 0.88, 0.97));
  if (c.clock) column(rounded(history.latest(Track::kSmClock), " MHz"), kClock, Style::kPlain);
  if (c.links) line.skip(kGap).add(padded_right(links_text(history), kLinks));
  if (c.slowed) {
    const std::string slowed = slowed_text(history);
    const bool free = slowed == "no" || slowed == kUnknownText;
    line.skip(kGap).add(padded_right(slowed, kSlowed), free ? Style::kFaint : Style::kWarn);
  }
  if (c.fan) column(rounded(d.value(Metric::kFanSpeed), " %"), kFan, Style::kPlain);
}

Line device_line(const TopModel& model, size_t i, const DeviceCells& c, bool printed) {
  const LiveDevice& d = model.view().devices[i];
  const DeviceHistory& history = model.histories().device(i);
  const auto& advice = model.advice();
  const auto mine = std::find_if(advice.begin(), advice.end(), [&](const DeviceAdvice& a) { return a.device == i; });
  const bool selected = !printed && model.device() == i && model.view().devices.size() > 1;
  Line line;
  line.add(padded_left(truncated(sanitised(device_text(model.view(), i)), c.label), c.label),
           selected ? Style::kStrong : Style::kNote);
  const bool bad = mine != advice.end() && mine->severity == Severity::kCritical;
  line.add(mine == advice.end() || mine->severity == Severity::kInfo ? " " : "!",
           bad ? Style::kStrongBad : Style::kWarn);
  line.add(selected ? ">" : " ", Style::kStrong).skip(1);
  if (c.name > 0) line.add(padded_right(truncated(sanitised(name_of(d)), c.name), c.name)).skip(kGap);
  if (d.state != DeviceState::kOk) return line.add(trouble_text(d, model.view().time_ns), Style::kStrongBad), line;
  if (d.time_ns == 0) return line.add("has not answered yet", Style::kFaint), line;
  const auto busy = d.busy_pct();
  add_bar(line, ratio(busy, 100), c.bar, busy_look);
  const bool idle = !busy || *busy < kIdlePct.reported;
  line.add(padded_left(rounded(busy, " %"), kPercent), idle ? Style::kFaint : Style::kPlain).skip(kGap);
  if (c.curve > 0) {
    add_curve(line, history.columns(Track::kUtilization, model.interval_ns(), c.curve), 100, busy_look);
    line.skip(kGap);
  }
  add_figures(line, d, history, c);
  return line;
}

// The devices that fit, around the selected one.
std::pair<size_t, size_t> window(size_t count, size_t selected, size_t room) {
  if (count <= room) return {0, count};
  const size_t first = std::min(selected >= room / 2 ? selected - room / 2 : 0, count - room);
  return {first, first + room};
}

}  // namespace

std::string rounded(const std::optional<double>& x, std::string_view unit) {
  return x ? fmt::format("{:.0f}{}", std::round(*x), unit) : std::string(kUnknownText);
}

std::string speed_text(const std::optional<double>& bytes_per_second) {
  if (!bytes_per_second) return std::string(kUnknownText);
  const double b = *bytes_per_second;
  if (b < 1e6) return fmt::format("{:.0f} kB/s", b / 1e3);
  return b < 1e9 ? fmt::format("{:.0f} MB/s", b / 1e6) : fmt::format("{:.1f} GB/s", b / 1e9);
}

std::string gib_pair(const std::optional<double>& used, const std::optional<double>& all) {
  const auto gib = [](const std::optional<double>& x) {
    return x ? fmt::format("{:.1f}", *x / (1 << 30)) : std::string(kUnknownText);
  };
  return gib(used) + "/" + gib(all) + " GiB";
}

std::string memory_pair(const LiveDevice& d) {
  return gib_pair(d.value(Metric::kMemoryUsed), d.value(Metric::kMemoryTotal));
}

std::string trouble_text(const LiveDevice& d, int64_t now_ns) {
  std::string text = sanitised(d.trouble);
  if (d.since_ns > 0 && now_ns - d.since_ns >= kSaySince_ns)
    text += fmt::format(", since {} ({})", clock_time(d.since_ns),
                        format_duration(static_cast<double>(now_ns - d.since_ns), 2));
  return text;
}

void add_bar(Line& line, const std::optional<double>& share, int cells, Look look) {
  if (cells <= 0) return;
  const std::string filled = bar(share.value_or(0), cells);
  std::string trough;
  for (int i = display_width(filled); i < cells; ++i) trough += "░";
  line.add(filled, look(share.value_or(0))).add(trough, Style::kFaint).skip(1);
}

int useful_device_rows(const TopModel& model) {
  const auto count = static_cast<int>(model.view().devices.size());
  const int bands = count == 1 ? static_cast<int>(kMaxBands) : 1;
  return count * (1 + bands * kMaxChart) + 1;
}

namespace {

/// How the devices share their room.
struct DevicePlan {
  size_t columns = 1, per_column = 0;   // devices beside each other, below each other
  size_t first = 0, end = 0;            // those that are shown
  int chart = 0;                        // rows of charts below each device, all bands together
  bool cut = false;                     // not all are shown
};

DevicePlan plan_for(size_t count, size_t selected, int width, int rows) {
  DevicePlan plan;
  plan.per_column = plan.end = count;
  if (rows == 0 || count == 0) return plan;
  // One row is the time axis.
  const auto chart_rows = [&](size_t per_column) { return (rows - 1) / static_cast<int>(per_column) - 1; };
  const size_t half = (count + 1) / 2;
  const bool wide = count > 1 && width >= 2 * kHalf + kBetween;
  const bool low = chart_rows(count) < kMinChart + 1;
  if (wide && low && (chart_rows(half) >= kMinChart || count > static_cast<size_t>(rows)))
    plan.columns = 2, plan.per_column = half;
  if (const int chart = chart_rows(plan.per_column); chart >= kMinChart) plan.chart = chart;
  const auto room = static_cast<size_t>(rows);
  plan.cut = plan.per_column > room;
  if (!plan.cut) return plan;
  plan.per_column = std::max<size_t>(room - 1, 0);
  std::tie(plan.first, plan.end) = window(count, selected, plan.per_column * plan.columns);
  return plan;
}

/// Charts below each device.
ChartBands bands_for(const DevicePlan& plan, const DeviceCells& cells, size_t& charts) {
  const int bands = plan.columns * plan.per_column == 1
                        ? std::clamp(plan.chart / kRowsPerBand, 1, static_cast<int>(kMaxBands))
                        : 1;
  ChartBands out;
  out.indent = cells.label + kMark + 1;
  out.gutter = bands > 1 ? 15 : 7;
  // The time axis is below each band, or once below all devices.
  out.rows = std::min(bands > 1 ? (plan.chart + 1) / bands - 1 : plan.chart, kMaxChart);
  charts = static_cast<size_t>(bands * out.beside);
  return out;
}

// Devices `first` to `end`, below their heading.
Frame device_column(const TopModel& model, const DevicePlan& plan, size_t first, size_t end, int width, bool printed) {
  Frame frame;
  const DeviceCells cells = cells_for(model, width, !printed && plan.chart == 0, printed);
  size_t charts = 0;
  const ChartBands bands = bands_for(plan, cells, charts);
  const Line axis = plan.chart > 0 ? axis_line(bands, width, model.interval_ns()) : Line();
  const bool each = charts > static_cast<size_t>(bands.beside);
  add_heading(frame, cells);
  for (size_t i = first; i < end; ++i) {
    frame.hits.push_back({frame.next(), 0, width, Hit::What::kDevice, i});
    Line line = device_line(model, i, cells, printed);
    frame.add(printed ? std::move(line) : line.cut_to(width));
    if (plan.chart == 0) continue;
    Lines lines = chart_bands(device_charts(model.view().devices[i], model.histories().device(i), model.interval_ns(),
                                            bands.points(width), charts),
                              bands, each ? axis : Line());
    lines.resize(std::max(lines.size(), static_cast<size_t>(bands.rows)));   // nothing moves if a device is silent
    for (Line& chart : lines) frame.add(std::move(chart));
  }
  if (plan.chart > 0 && !each) frame.add(axis);
  return frame;
}

// `right` beside `left`, from cell `x` on.
Frame joined(Frame left, Frame right, int x) {
  left.lines.resize(std::max(left.lines.size(), right.lines.size()));
  for (size_t i = 0; i < left.lines.size(); ++i) {
    FrameLine& line = left.lines[i];
    if (i < right.lines.size()) line.line.to_column(x).add(right.lines[i].line);
    line.reversed = line.reversed || (i < right.lines.size() && right.lines[i].reversed);
  }
  for (Hit& hit : right.hits) {
    hit.from += x;
    hit.to += x;
    left.hits.push_back(hit);
  }
  return left;
}

}  // namespace

void add_devices(Frame& frame, const TopModel& model, int width, int rows) {
  const size_t count = model.view().devices.size();
  const DevicePlan plan = plan_for(count, model.device(), width, rows);
  Frame part;
  if (plan.columns == 2) {
    const int half = (width - kBetween) / 2;
    const size_t middle = std::min(plan.first + plan.per_column, plan.end);
    part = joined(device_column(model, plan, plan.first, middle, half, false),
                  device_column(model, plan, middle, plan.end, half, false), half + kBetween);
  } else {
    part = device_column(model, plan, plan.first, plan.end, width, rows == 0);
  }
  for (Hit hit : part.hits) {
    hit.y += frame.next();
    frame.hits.push_back(hit);
  }
  for (FrameLine& line : part.lines) frame.lines.push_back(std::move(line));
  if (plan.cut)
    frame.add(Line(fmt::format("{} more: ← → selects", count - (plan.end - plan.first)), Style::kFaint));
}

}  // namespace profgpu
