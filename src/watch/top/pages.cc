#include "watch/top/pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "analyse/report/quantity.h"
#include "analyse/report/text.h"
#include "base/text.h"
#include "trace/health.h"
#include "view/layout.h"
#include "watch/top/device_charts.h"
#include "watch/top/frame.h"

namespace profgpu {
namespace {

constexpr int kMinFix = 16;   // cells; a shorter piece of advice is useless

struct UserSum {
  size_t processes = 0;
  std::set<size_t> devices;
  double memory_bytes = 0, sm_pct = 0, cpu_pct = 0, host_bytes = 0;
  std::set<std::pair<size_t, int64_t>> counted;   // host and pid: a process on several devices is one
};

std::map<std::string, UserSum> users_of(const LiveView& view) {
  std::map<std::string, UserSum> users;
  for (size_t i = 0; i < view.devices.size(); ++i)
    for (const LiveProcess& p : view.devices[i].processes) {
      UserSum& sum = users[p.host.user.empty() ? "(not known)" : p.host.user];
      sum.devices.insert(i);
      sum.memory_bytes += static_cast<double>(p.sample.memory_bytes.value_or(0));
      sum.sm_pct += p.sample.utilization_pct.value_or(0);
      if (!sum.counted.insert({view.devices[i].host, p.sample.pid}).second) continue;
      ++sum.processes;
      sum.cpu_pct += p.host.cpu_pct.value_or(0);
      sum.host_bytes += static_cast<double>(p.host.memory_bytes.value_or(0));
    }
  return users;
}

std::string devices_list(const LiveView& view, const std::set<size_t>& devices) {
  std::string text;
  std::vector<int> indices;
  for (const size_t i : devices)
    if (device_text(view, i) == std::to_string(view.devices[i].info->index))
      indices.push_back(static_cast<int>(view.devices[i].info->index));
  if (indices.size() == devices.size()) return number_ranges(indices);
  for (const size_t i : devices) append_listed(text, device_text(view, i));
  return text;
}

void add_lines(Frame& frame, const Lines& lines, int rows) {
  for (int i = 0; i < std::min(rows, static_cast<int>(lines.size())); ++i) frame.add(lines[static_cast<size_t>(i)]);
}

}  // namespace

Line advice_line(const LiveView& view, const DeviceAdvice& advice, int width) {
  const Style style = severity_style(advice.severity);
  Line line("GPU " + device_text(view, advice.device) + ": ", style);
  const int room = width - line.width();
  line.add(truncated(sanitised(advice.what), std::max(room, 1)), style);
  const int left = width - line.width() - 3;
  if (!advice.fix.empty() && left >= kMinFix)
    line.add(" · ", Style::kFaint).add(truncated(sanitised(advice.fix), left));
  return line;
}

void add_users_page(Frame& frame, const TopModel& model, int width, int rows) {
  const auto users = users_of(model.view());
  std::vector<std::pair<std::string, UserSum>> sorted(users.begin(), users.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.memory_bytes > b.second.memory_bytes; });
  Grid grid({{"USER"},
             {"processes", true},
             {"GPU memory", true},
             {"SM, all GPUs", true},
             {"CPU", true},
             {"host memory", true},
             {"GPUs"}});
  for (const auto& [name, sum] : sorted)
    grid.add_row({{name},
                  {std::to_string(sum.processes)},
                  {format_bytes(sum.memory_bytes)},
                  {fmt::format("{:.0f} %", sum.sm_pct)},
                  {fmt::format("{:.0f} %", sum.cpu_pct)},
                  {format_bytes(sum.host_bytes)},
                  {devices_list(model.view(), sum.devices)}});
  if (grid.empty()) return frame.add(Line("no process is on a device", Style::kFaint));
  add_lines(frame, grid.lines(width), rows);
}

void add_topology_page(Frame& frame, const TopModel& model, int width, int rows) {
  const LiveTopology& links = model.topology();
  const LiveView& view = model.view();
  if (links.size() != view.devices.size())
    return frame.add(Line("no topology available", Style::kFaint));
  Grid grid({{""}});
  for (size_t i = 0; i < links.size(); ++i) grid.add_column("GPU " + device_text(view, i));
  for (size_t i = 0; i < links.size(); ++i) {
    std::vector<Cell> cells = {{"GPU " + device_text(view, i), Style::kStrong}};
    for (const std::string& kind : links[i])
      cells.push_back({kind, kind.starts_with("NV") ? Style::kGood : kind == "SYS" ? Style::kWarn : Style::kPlain});
    grid.add_row(std::move(cells));
  }
  Lines lines = grid.lines(width);
  lines.emplace_back();
  lines.emplace_back("NV#: that many NVLinks · PIX: one PCIe switch · PXB: several · PHB: the CPU's host bridge",
                     Style::kFaint);
  lines.emplace_back("NODE: bridges of one NUMA node · SYS: across NUMA nodes · X: itself", Style::kFaint);
  add_lines(frame, lines, rows);
}

void add_help_page(Frame& frame, int width, int rows) {
  static constexpr std::pair<std::string_view, std::string_view> kHelp[] = {
      {"↑ ↓  PgUp PgDn", "select a process (also: a click, the wheel)"},
      {"← →", "select a device"},
      {"Enter d", "one device: clocks, limits, links, errors, curves; again: back"},
      {"u  l", "users; how devices are linked"},
      {"/", "only processes with this text, or \"gpu 3\"; Esc removes it"},
      {"t", "processes below the programs that started them"},
      {"<  >  r", "order by the column left or right; reverse the order"},
      {"M S C P T U G", "order by GPU memory, SM, CPU, pid, time, user, GPU"},
      {"k", "send a signal to the selected process, after a question"},
      {"n", "change its nice value, after a question"},
      {"+  -  s", "sample less often, more often; any interval"},
      {"space", "freeze the screen; curves continue meanwhile"},
      {"q  Ctrl-C", "quit"},
      {"", ""},
      {"SM", "time that its work was on multiprocessors, by the driver"},
      {"slowed by", "what lowered clocks, and for how much of the time: power, heat"},
      {"↓ ↑", "received and sent over PCIe"},
      {"–", "not reported by the device or driver"},
      {"!", "this GPU has a warning below"},
  };
  Lines lines;
  for (const auto& [key, says] : kHelp)
    append(lines, wrapped_after(Line().skip(2).add(padded_right(std::string(key), 16), Style::kStrong), says, width));
  add_lines(frame, lines, rows);
}

// One device: its limits and state in words, and its last minutes as curves.

namespace {

constexpr int kTitle = 16, kValue = 25;   // cells before a curve in a line
constexpr int kMinChartRows = 3, kMaxChartRows = 10;
constexpr int kMinCurves = 7;             // rows, before facts are cut for them
constexpr int kTwoCharts = 100, kThreeCharts = 180;   // cells for so many charts beside each other
constexpr size_t kMaxCharts = 16;
constexpr int kMaxAdvice = 3;

// "lowered by the power limit".
std::string reasons_text(const LiveDevice& d) {
  const auto bits = reason_bits(d.value(Metric::kClockEventReasons));
  if (!bits) return "";
  std::string words;
  for (const ClockReasonInfo& r : clock_reasons())
    if ((*bits & static_cast<uint32_t>(r.reason)) != 0) append_listed(words, r.words);
  return words.empty() ? "not lowered" : "lowered by " + words;
}

/// Facts of one subject, in words. What is not known is left out.
class FactLine {
 public:
  explicit FactLine(const LiveDevice& device) : device_(device) {}

  // "highest 1980 MHz"
  FactLine& number(std::string_view before, Metric m, std::string_view unit = "", std::string_view after = "") {
    const auto value = device_.value(m);
    return value ? text(std::string(before) + rounded(value, unit) + std::string(after)) : *this;
  }
  // "SM 1305 of 1980 MHz"
  FactLine& of(std::string_view before, Metric m, Metric most, std::string_view unit) {
    const std::string limit = device_.value(most) ? " of " + rounded(device_.value(most), "") : "";
    return number(before, m, limit + std::string(unit));
  }
  FactLine& bytes(std::string_view before, Metric m, std::string_view after = "") {
    const auto value = device_.value(m);
    return value ? text(std::string(before) + format_bytes(*value) + std::string(after)) : *this;
  }
  FactLine& sum(std::string_view before, Metric a, Metric b) {
    const auto x = device_.value(a), y = device_.value(b);
    if (!x && !y) return *this;
    return text(std::string(before) + rounded(x.value_or(0) + y.value_or(0), ""));
  }
  FactLine& text(const std::string& fact) {
    if (!fact.empty()) facts_.push_back(fact);
    return *this;
  }
  // No fact is broken between lines; `width` 0: all in one.
  void add_to(Lines& lines, std::string_view title, int width) const {
    constexpr int kSubject = 13;
    for (size_t i = 0; i < facts_.size(); ++i) {
      const bool fits = i > 0 && (width == 0 || lines.back().width() + 3 + display_width(facts_[i]) <= width);
      if (fits) lines.back().add(" · ", Style::kFaint);
      else lines.emplace_back(padded_right(i == 0 ? std::string(title) : "", kSubject), Style::kNote);
      lines.back().add(facts_[i]);
    }
  }

 private:
  const LiveDevice& device_;
  std::vector<std::string> facts_;
};

std::string power_range(const LiveDevice& d) {
  const auto lowest = d.value(Metric::kPowerLimitMin), highest = d.value(Metric::kPowerLimitMax);
  return lowest && highest ? "limit can be " + rounded(lowest, "") + " to " + rounded(highest, " W") : "";
}

std::string energy_text(const LiveDevice& d) {
  const auto joules = d.value(Metric::kEnergy);
  return joules ? fmt::format("{:.2f} kWh since the driver was loaded", *joules / 3.6e6) : "";
}

std::string left_text(const LiveDevice& d) {
  const auto left = to_slowdown_c(d.value(Metric::kTemperature), d.value(Metric::kTemperatureSlowdown),
                                  d.value(Metric::kTemperatureMargin));
  if (!left) return "";
  return *left < 0 ? rounded(-*left, " °C") + " too hot" : rounded(left, " °C") + " below the slowdown";
}

// What the device reports about itself, in lines "title  facts".
Lines device_facts(const LiveDevice& d, int width) {
  using M = Metric;
  Lines lines;
  const auto facts = [&] { return FactLine(d); };
  const M power = d.value(M::kPower) ? M::kPower : M::kPowerInstant;
  facts().of("SM ", M::kSmClock, M::kSmClockMax, " MHz").of("memory ", M::kMemoryClock, M::kMemoryClockMax, " MHz")
      .of("video ", M::kVideoClock, M::kVideoClockMax, " MHz").text(reasons_text(d))
      .number("performance state P", M::kPerformanceState, "", " (P0 is the fastest)").add_to(lines, "clocks", width);
  facts().of("", power, M::kPowerLimit, " W").number("usual limit ", M::kPowerLimitDefault, " W").text(power_range(d))
      .text(energy_text(d)).add_to(lines, "power", width);
  facts().number("GPU ", M::kTemperature, " °C").number("clocks go down at ", M::kTemperatureSlowdown, " °C")
      .text(left_text(d)).number("memory ", M::kMemoryTemperature, " °C").number("fan ", M::kFanSpeed, " %")
      .add_to(lines, "temperature", width);
  facts().text(d.value(M::kMemoryTotal) ? memory_pair(d) + " in use" : "")
      .bytes("", M::kMemoryReserved, " kept by the driver").bytes("", M::kBar1Used, " mapped for the CPU (BAR1)")
      .number("read or written ", M::kMemoryUtilization, " % of the time").add_to(lines, "memory", width);
  facts().of("generation ", M::kPcieGeneration, M::kPcieGenerationMax, "")
      .of("", M::kPcieWidth, M::kPcieWidthMax, " lanes").number("packets sent again: ", M::kPcieReplays)
      .number("NVLink errors: ", M::kNvlinkErrors).add_to(lines, "PCIe", width);
  facts().number("memory errors corrected: ", M::kEccCorrected).number("not corrected: ", M::kEccUncorrected)
      .sum("memory rows replaced: ", M::kRemappedRowsCorrected, M::kRemappedRowsUncorrected)
      .sum("memory pages retired: ", M::kRetiredPagesSingleBit, M::kRetiredPagesDoubleBit)
      .number("driver errors (Xid) since the start: ", M::kXidErrors).number("the last: Xid ", M::kXidLast)
      .add_to(lines, "errors", width);
  facts().number("video encoder ", M::kEncoderUtilization, " %").number("video decoder ", M::kDecoderUtilization, " %")
      .number("JPEG ", M::kJpegUtilization, " %").number("optical flow ", M::kOfaUtilization, " %")
      .number("FP64 ", M::kFp64Active, " %").number("FP32 ", M::kFp32Active, " %").number("FP16 ", M::kFp16Active, " %")
      .add_to(lines, "units", width);
  return lines;
}

// One line each; the first, which is the most important, gets the spare rows.
void add_curves(Frame& frame, std::vector<DeviceChart> charts, const ChartBands& axis, int width, int rows,
                int64_t interval_ns) {
  const bool timed = rows > static_cast<int>(charts.size());
  if (timed) --rows;
  if (static_cast<int>(charts.size()) > rows) charts.resize(static_cast<size_t>(std::max(rows, 0)));
  if (charts.empty()) return;
  const int high = 1 + std::clamp(rows - static_cast<int>(charts.size()), 0, kMaxChartRows - 1);
  for (size_t i = 0; i < charts.size(); ++i) {
    const DeviceChart& c = charts[i];
    const std::string value = c.more.empty() ? c.value : c.value + ", " + c.more;
    Lines lines = chart_lines({{}, c.points, c.most, c.look}, 0, i == 0 ? high : 1);
    for (size_t r = 0; r < lines.size(); ++r) {
      Line line(padded_right(r == 0 ? std::string(c.title) : "", kTitle), Style::kNote);
      line.add(padded_right(r == 0 ? truncated(value, kValue) : "", kValue)).skip(2);
      frame.add(std::move(line.add(lines[r])));
    }
  }
  if (timed) frame.add(axis_line(axis, width, interval_ns));
}

// As charts where there is room, else as curves in a line.
void add_history(Frame& frame, const TopModel& model, int width, int rows) {
  const LiveDevice& device = model.view().devices[model.device()];
  const DeviceHistory& history = model.histories().device(model.device());
  const auto drawn = [&](const ChartBands& bands) {
    return device_charts(device, history, model.interval_ns(), bands.points(width), kMaxCharts);
  };
  ChartBands bands;
  bands.gutter = kTitle + 2;
  bands.values = true;
  bands.beside = width >= kThreeCharts ? 3 : width >= kTwoCharts ? 2 : 1;
  std::vector<DeviceChart> charts = drawn(bands);
  const int below = std::max((static_cast<int>(charts.size()) + bands.beside - 1) / bands.beside, 1);
  bands.rows = std::min(rows / below - 1, kMaxChartRows);
  if (bands.rows < kMinChartRows || charts.empty()) {
    bands = {.indent = 0, .gutter = kTitle + kValue + 2, .beside = 1, .rows = 1, .values = true};
    return add_curves(frame, drawn(bands), bands, width, rows, model.interval_ns());
  }
  for (Line& line : chart_bands(charts, bands, axis_line(bands, width, model.interval_ns())))
    frame.add(std::move(line));
}

}  // namespace

void add_device_page(Frame& frame, const TopModel& model, int width, int rows) {
  const LiveView& view = model.view();
  if (view.devices.empty()) return;
  const int above = frame.next();
  const LiveDevice& d = view.devices[model.device()];
  Line head("GPU " + device_text(view, model.device()), Style::kStrong);
  head.skip(2).add(d.info->name, Style::kStrong);
  if (!d.info->mig_profile.empty()) head.add("  MIG " + d.info->mig_profile);
  frame.hits.push_back({frame.next(), 0, width, Hit::What::kDevice, model.device()});
  frame.add(std::move(head.add("  " + d.info->pci_bus_id + "  " + d.info->uuid, Style::kFaint)), true);
  if (d.state != DeviceState::kOk) frame.add(Line(trouble_text(d, view.time_ns), Style::kStrongBad));
  int said = 0;
  for (const DeviceAdvice& a : model.advice())
    if (a.device == model.device() && said++ < kMaxAdvice) frame.add(advice_line(view, a, width));
  Lines facts = device_facts(d, width);
  const int processes = std::clamp(static_cast<int>(model.processes().size()), 1, std::max(rows / 4, 2));
  const int room = above + rows - frame.next() - processes - 1;
  if (room - static_cast<int>(facts.size()) < kMinCurves) facts = device_facts(d, 0);
  for (const Line& line : facts) frame.add(line.cut_to(width));
  const int left = above + rows - frame.next() - processes - 1;
  add_history(frame, model, width, left);
  add_processes(frame, model, width, std::max(above + rows - frame.next() - 1, 1));
}

}  // namespace profgpu
