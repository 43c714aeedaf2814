#include "watch/top/pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "analyse/report/quantity.h"
#include "analyse/report/text.h"
#include "base/text.h"
#include "trace/health.h"
#include "view/layout.h"
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
      {"clocks held", "time that a limit lowered clocks: power, heat, or others"},
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

constexpr int kTitle = 15, kValue = 25;   // cells before a curve
constexpr int kMaxCurveRows = 4;
constexpr int kMaxAdvice = 3;

// "lowered: the power limit".
std::string reasons_text(const LiveDevice& d) {
  const auto bits = reason_bits(d.value(Metric::kClockEventReasons));
  if (!bits) return "";
  std::string words;
  for (const ClockReasonInfo& r : clock_reasons())
    if ((*bits & static_cast<uint32_t>(r.reason)) != 0) append_listed(words, r.words);
  return words.empty() ? "not lowered" : "lowered: " + words;
}

// What the device reports about itself, in lines "title  facts". Unknown facts are left out.
Lines device_facts(const LiveDevice& d, int width) {
  Lines lines;
  const auto named = [](std::string_view name, const std::string& text) {
    return name.empty() || text.empty() ? text : std::string(name) + " " + text;
  };
  const auto fact = [&](std::string_view name, Metric m, std::string_view unit = "") {
    return d.value(m) ? named(name, rounded(d.value(m), unit)) : "";
  };
  // "SM 1755 of 1980 MHz"
  const auto of = [&](std::string_view name, Metric m, Metric most, std::string_view unit) {
    const std::string limit = d.value(most) ? " of " + rounded(d.value(most), "") : "";
    return d.value(m) ? fact(name, m) + limit + std::string(unit) : "";
  };
  const auto bytes = [&](std::string_view name, Metric m) { return d.value(m) ? named(name, format_bytes(*d.value(m))) : ""; };
  const auto sum = [&](std::string_view name, Metric a, Metric b) {
    const auto x = d.value(a), y = d.value(b);
    return x || y ? named(name, rounded(x.value_or(0) + y.value_or(0), "")) : "";
  };
  const auto line = [&](std::string_view title, std::initializer_list<std::string> facts) {
    std::string text;
    for (const std::string& f : facts)
      if (!f.empty()) append_listed(text, f, "  ·  ");
    if (!text.empty())
      append(lines, wrapped_after(Line(padded_right(std::string(title), 10), Style::kNote), text, width));
  };
  const bool averaged = d.value(Metric::kPower).has_value();
  const auto lowest = d.value(Metric::kPowerLimitMin), highest = d.value(Metric::kPowerLimitMax);
  const auto joules = d.value(Metric::kEnergy);
  line("clocks", {of("SM", Metric::kSmClock, Metric::kSmClockMax, " MHz"),
                  of("memory", Metric::kMemoryClock, Metric::kMemoryClockMax, " MHz"),
                  of("video", Metric::kVideoClock, Metric::kVideoClockMax, " MHz"),
                  fact("state P", Metric::kPerformanceState), reasons_text(d)});
  line("power", {of("", averaged ? Metric::kPower : Metric::kPowerInstant, Metric::kPowerLimit, " W"),
                 fact("default", Metric::kPowerLimitDefault, " W"),
                 lowest && highest ? "range " + rounded(lowest, "") + " to " + rounded(highest, " W") : "",
                 joules ? fmt::format("since the driver was loaded {:.2f} kWh", *joules / 3.6e6) : ""});
  line("heat", {fact("core", Metric::kTemperature, " °C"), fact("slows at", Metric::kTemperatureSlowdown, " °C"),
                fact("degrees left", Metric::kTemperatureMargin), fact("memory", Metric::kMemoryTemperature, " °C"),
                fact("fan", Metric::kFanSpeed, " %")});
  line("memory", {d.value(Metric::kMemoryTotal) ? memory_pair(d) : "",
                  bytes("reserved by the driver", Metric::kMemoryReserved), bytes("BAR1 in use", Metric::kBar1Used),
                  fact("read or written", Metric::kMemoryUtilization, " % of the time")});
  line("PCIe", {of("generation", Metric::kPcieGeneration, Metric::kPcieGenerationMax, ""),
                of("lanes", Metric::kPcieWidth, Metric::kPcieWidthMax, ""), fact("replays", Metric::kPcieReplays),
                fact("NVLink errors", Metric::kNvlinkErrors)});
  line("errors", {fact("memory errors corrected", Metric::kEccCorrected), fact("not corrected", Metric::kEccUncorrected),
                  sum("rows remapped", Metric::kRemappedRowsCorrected, Metric::kRemappedRowsUncorrected),
                  sum("pages retired", Metric::kRetiredPagesSingleBit, Metric::kRetiredPagesDoubleBit),
                  fact("Xid since the start", Metric::kXidErrors), fact("the last", Metric::kXidLast)});
  line("engines", {fact("encoder", Metric::kEncoderUtilization, " %"), fact("decoder", Metric::kDecoderUtilization, " %"),
                   fact("JPEG", Metric::kJpegUtilization, " %"), fact("optical flow", Metric::kOfaUtilization, " %"),
                   fact("FP64", Metric::kFp64Active, " %"), fact("FP32", Metric::kFp32Active, " %"),
                   fact("FP16", Metric::kFp16Active, " %")});
  return lines;
}

/// A curve of the device page.
struct CurveRow {
  std::string_view title;
  std::string value;
  double most;          ///< what fills it
  std::vector<float> columns;
  Style style;
};

// `most` 0 below: the largest value shown.
std::vector<CurveRow> curve_rows(const LiveDevice& d, const DeviceHistory& h, int64_t interval_ns, int cells) {
  std::vector<CurveRow> rows;
  const auto add = [&](Track track, std::string_view title, std::string value, double most, Style style) {
    std::vector<float> columns = h.columns(track, interval_ns, cells);
    const double top = largest(columns);
    if (h.latest(track) || top > 0)
      rows.push_back({title, std::move(value), most > 0 ? most : top, std::move(columns), style});
  };
  const auto percent = [&](Track track, std::string_view title, Style style) {
    add(track, title, rounded(h.latest(track), " %"), 100, style);
  };
  const auto limited = [&](Track track, std::string_view title, std::string_view unit, std::optional<double> limit,
                           double otherwise) {
    const std::string of = limit ? " of " + rounded(limit, "") : "";
    add(track, title, rounded(h.latest(track), "") + of + std::string(unit), limit.value_or(otherwise), Style::kNote);
  };
  const auto held = [&](Track track, std::string_view title) {
    const auto mean = h.mean(track, 60'000'000'000);
    add(track, title, rounded(h.latest(track), " %") + (mean ? fmt::format(", 1 min {:.0f} %", *mean) : ""), 100,
        Style::kWarn);
  };
  const auto speed = [&](Track track, std::string_view title) {
    const double top = largest(h.columns(track, interval_ns, cells));
    add(track, title, speed_text(h.latest(track)) + (top > 0 ? ", top " + speed_text(top) : ""), 0, Style::kPlain);
  };
  percent(Track::kUtilization, "busy", Style::kGood);
  percent(Track::kMemory, "memory", Style::kNote);
  limited(Track::kPower, "power", " W", d.value(Metric::kPowerLimit), 0);
  limited(Track::kSmClock, "SM clock", " MHz", d.value(Metric::kSmClockMax), 0);
  limited(Track::kTemperature, "temperature", " °C", d.value(Metric::kTemperatureSlowdown), 100);
  held(Track::kHeldByPower, "held by power");
  held(Track::kHeldByHeat, "held by heat");
  held(Track::kHeldByOther, "held by others");
  percent(Track::kSmActive, "SM active", Style::kGood);
  percent(Track::kTensorActive, "tensor cores", Style::kGood);
  percent(Track::kDramActive, "memory traffic", Style::kGood);
  percent(Track::kSmOccupancy, "occupancy", Style::kGood);
  speed(Track::kPcieRx, "PCIe in");
  speed(Track::kPcieTx, "PCIe out");
  speed(Track::kLinkRx, "NVLink in");
  speed(Track::kLinkTx, "NVLink out");
  return rows;
}

void add_curves(Frame& frame, const TopModel& model, int width, int rows) {
  const int cells = std::max(width - kTitle - kValue - 2, 0);
  std::vector<CurveRow> all = curve_rows(model.view().devices[model.device()], model.histories().device(model.device()),
                                         model.interval_ns(), cells);
  if (static_cast<int>(all.size()) > rows) all.resize(static_cast<size_t>(std::max(rows, 0)));
  // The first is the most important: it gets the spare rows.
  int high = 1 + std::max(std::min(rows - static_cast<int>(all.size()), kMaxCurveRows - 1), 0);
  for (const CurveRow& row : all) {
    const auto drawn = graph(row.columns, row.most, std::exchange(high, 1));
    for (size_t r = 0; r < drawn.size(); ++r) {
      Line line;
      line.add(padded_right(r == 0 ? std::string(row.title) : "", kTitle), Style::kNote);
      line.add(padded_right(r == 0 ? truncated(row.value, kValue) : "", kValue)).skip(2).add(drawn[r], row.style);
      frame.add(std::move(line));
    }
  }
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
  for (Line& line : device_facts(d, width)) frame.add(std::move(line));
  const int processes = std::clamp(static_cast<int>(model.processes().size()), 1, std::max(rows / 4, 2));
  const int left = above + rows - frame.next() - processes - 1;
  add_curves(frame, model, width, left);
  add_processes(frame, model, width, std::max(above + rows - frame.next() - 1, 1));
}

}  // namespace profgpu
