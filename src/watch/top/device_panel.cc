#include "watch/top/pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "analyse/report/quantity.h"
#include "analyse/report/text.h"
#include "base/clock.h"
#include "trace/health.h"
#include "view/layout.h"
#include "watch/top/frame.h"

namespace profgpu {
namespace {

constexpr int kMaxLabel = 24;
constexpr int kMaxChart = 10;       // rows of a device's curves below its line
constexpr int kMinChart = 2;
constexpr int64_t kSaySince_ns = 1'000'000'000;

/// Which cells a device's line has.
struct DeviceCells {
  int label = 1;
  int bar = 0, curve = 0, memory = 0;          // cells of bars and of the curve of utilization
  int name = 0;
  bool links = false, held = false, fan = false;
};

// Cells of the columns of every line: mark, percent, memory, power, temperature, clock.
constexpr int kMark = 2, kPercent = 5, kMemory = 15, kPower = 9, kCelsius = 6, kClock = 8, kGap = 2;
constexpr int kLinks = 23, kHeld = 12, kFan = 5;
constexpr int kAlways = kMark + 1 + kPercent + kGap + kMemory + kGap + kPower + kGap + kCelsius + kGap + kClock;

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

DeviceCells cells_for(const TopModel& model, int width, bool curves, bool printed) {
  const LiveView& view = model.view();
  DeviceCells cells;
  int name = 0;
  for (size_t i = 0; i < view.devices.size(); ++i) {
    cells.label = std::max(cells.label, std::min(display_width(sanitised(device_text(view, i))), kMaxLabel));
    name = std::max(name, std::min(display_width(sanitised(name_of(view.devices[i]))), 28));
  }
  int left = width - kAlways - cells.label;
  const auto want = [&](int cost, int spare) {
    const bool fits = left >= cost + kGap + spare;
    if (fits) left -= cost + kGap;
    return fits;
  };
  constexpr int kGraphs = 26;   // reserved for bars and curve
  cells.links = has_links(model, printed) && want(kLinks, kGraphs + 10);
  cells.held = want(kHeld, kGraphs + 10);
  if (!one_name(view) && want(name, kGraphs)) cells.name = name;
  cells.fan = any_has(view, Metric::kFanSpeed) && want(kFan, kGraphs + 10);
  left = std::max(left - (curves ? kGap + 2 : 2), 0);   // between them
  cells.curve = curves && left >= 12 ? std::min(left * 2 / 5, 60) : 0;
  cells.bar = std::min((left - cells.curve) / 2, 40);
  cells.memory = std::min(left - cells.curve - cells.bar, 40);
  if (cells.bar < 3) cells.bar = cells.memory = 0;
  return cells;
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

std::string held_text(const DeviceHistory& history) {
  const auto power = history.latest(Track::kHeldByPower), heat = history.latest(Track::kHeldByHeat),
             other = history.latest(Track::kHeldByOther);
  std::string_view cause = "power";
  double most = power.value_or(0);
  if (heat.value_or(0) > most) cause = "heat", most = *heat;
  if (other.value_or(0) > most) cause = "limits", most = *other;
  return most >= 0.5              ? fmt::format("{} {:.0f} %", cause, most)
         : power || heat || other ? "not held"
                                  : std::string(kUnknownText);
}

std::string links_text(const DeviceHistory& history) {
  return fmt::format("↓{:>10} ↑{:>10}", speed_text(history.latest(Track::kPcieRx)),
                     speed_text(history.latest(Track::kPcieTx)));
}

// In a trough as long as the whole.
void add_bar(Line& line, const std::optional<double>& share, int cells, Style style) {
  if (cells <= 0) return;
  const std::string filled = bar(share.value_or(0), cells);
  std::string trough;
  for (int i = display_width(filled); i < cells; ++i) trough += "░";
  line.add(filled, style).add(trough, Style::kFaint).skip(1);
}

// By load: idle, in use, busy.
Style load_style(const std::optional<double>& busy_pct) {
  constexpr double kBusyPct = 75;
  return busy_pct.value_or(0) < kIdlePct.reported ? Style::kWarn : *busy_pct < kBusyPct ? Style::kNote : Style::kGood;
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
  title("power", kPower);
  title("temp", kCelsius);
  title("SM clock", kClock);
  if (c.links) title("PCIe in, out", kLinks);
  if (c.held) title("clocks held", kHeld);
  if (c.fan) title("fan", kFan);
  frame.add(std::move(line), true);
}

// The columns right of utilization.
void add_figures(Line& line, const LiveDevice& d, const DeviceHistory& history, const DeviceCells& c) {
  const auto used = ratio(d.value(Metric::kMemoryUsed), d.value(Metric::kMemoryTotal));
  const Style memory = heat(used, 0.9, 0.97);
  add_bar(line, used, c.memory, memory == Style::kPlain ? Style::kNote : memory);
  line.add(padded_left(memory_pair(d), kMemory), memory).skip(kGap);
  line.add(padded_left(power_pair(d), kPower), heat(ratio(power_now(d), d.value(Metric::kPowerLimit)), 0.95, 1.02))
      .skip(kGap);
  const auto celsius = d.value(Metric::kTemperature);
  const double limit = d.value(Metric::kTemperatureSlowdown).value_or(90);
  line.add(padded_left(rounded(celsius, " °C"), kCelsius), heat(ratio(celsius, limit), 0.88, 0.97)).skip(kGap);
  line.add(padded_left(rounded(history.latest(Track::kSmClock), " MHz"), kClock));
  if (c.links) line.skip(kGap).add(padded_right(links_text(history), kLinks));
  if (c.held) {
    const std::string held = held_text(history);
    line.skip(kGap).add(padded_right(held, kHeld), held == "not held" ? Style::kFaint : Style::kWarn);
  }
  if (c.fan) line.skip(kGap).add(padded_left(rounded(d.value(Metric::kFanSpeed), " %"), kFan));
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
  add_bar(line, ratio(busy, 100), c.bar, load_style(busy));
  const bool idle = !busy || *busy < kIdlePct.reported;
  line.add(padded_left(rounded(busy, " %"), kPercent), idle ? Style::kFaint : Style::kPlain).skip(kGap);
  if (c.curve > 0)
    line.add(graph(history.columns(Track::kUtilization, model.interval_ns(), c.curve), 100, 1).front(), Style::kGood)
        .skip(kGap);
  add_figures(line, d, history, c);
  return line;
}

// Utilization and memory side by side, below the device's line.
void add_chart(Frame& frame, const TopModel& model, size_t i, const DeviceCells& c, int width, int rows) {
  constexpr int kCurveTitle = 6;
  const int indent = c.label + kMark + 1;
  const int half = (width - indent - kGap) / 2, cells = std::max(half - kCurveTitle, 0);
  const auto drawn = [&](Track track) {
    return graph(model.histories().device(i).columns(track, model.interval_ns(), cells), 100, rows);
  };
  const auto busy = drawn(Track::kUtilization), memory = drawn(Track::kMemory);
  for (size_t r = 0; r < busy.size(); ++r) {
    const auto title = [&](const char* name) { return padded_right(r == 0 ? "100 %" : r == 1 ? name : "", kCurveTitle); };
    Line line;
    line.skip(indent).add(title("busy"), Style::kFaint).add(busy[r], Style::kGood).skip(kGap);
    frame.add(std::move(line.add(title("mem"), Style::kFaint).add(memory[r], Style::kNote)));
  }
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

std::string memory_pair(const LiveDevice& d) {
  const auto gib = [](const std::optional<double>& x) {
    return x ? fmt::format("{:.1f}", *x / (1 << 30)) : std::string(kUnknownText);
  };
  return gib(d.value(Metric::kMemoryUsed)) + "/" + gib(d.value(Metric::kMemoryTotal)) + " GiB";
}

std::string trouble_text(const LiveDevice& d, int64_t now_ns) {
  std::string text = sanitised(d.trouble);
  if (d.since_ns > 0 && now_ns - d.since_ns >= kSaySince_ns)
    text += fmt::format(", since {} ({})", clock_time(d.since_ns),
                        format_duration(static_cast<double>(now_ns - d.since_ns), 2));
  return text;
}

int useful_device_rows(const TopModel& model) {
  return static_cast<int>(model.view().devices.size()) * (1 + kMaxChart);
}

void add_devices(Frame& frame, const TopModel& model, int width, int rows) {
  const auto count = static_cast<int>(model.view().devices.size());
  const int lines = rows > 0 ? rows : count;
  const int chart = count > 0 && lines / count > kMinChart ? std::min(lines / count - 1, kMaxChart) : 0;
  const DeviceCells cells = cells_for(model, width, rows > 0 && chart == 0, rows == 0);
  add_heading(frame, cells);
  const bool cut = count > lines;
  const auto [first, end] =
      window(static_cast<size_t>(count), model.device(), static_cast<size_t>(std::max(cut ? lines - 1 : lines, 0)));
  for (size_t i = first; i < end; ++i) {
    frame.hits.push_back({frame.next(), 0, width, Hit::What::kDevice, i});
    frame.add(device_line(model, i, cells, rows == 0));
    if (chart > 0) add_chart(frame, model, i, cells, width, chart);
  }
  if (cut) frame.add(Line(fmt::format("{} more: ← → selects", count - static_cast<int>(end - first)), Style::kFaint));
}

}  // namespace profgpu
