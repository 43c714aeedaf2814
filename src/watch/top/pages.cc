#include "watch/top/pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "analyse/report/quantity.h"
#include "analyse/report/text.h"
#include "base/text.h"
#include "view/layout.h"
#include "watch/top/frame.h"

namespace profgpu {
namespace {

constexpr int kMinFix = 16;   // cells: less of what to do says nothing

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
  const Style style = advice.severity == Severity::kCritical ? Style::kStrongBad
                      : advice.severity == Severity::kWarning ? Style::kWarn
                                                           : Style::kNote;
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
    return frame.add(Line("how devices are connected is not known here, or not yet", Style::kFaint));
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
  lines.emplace_back("NV#: that many NVLinks · PIX: one PCIe switch · PXB: several · PHB: the processor's host bridge",
                     Style::kFaint);
  lines.emplace_back("NODE: bridges of one NUMA node · SYS: across processors · X: itself", Style::kFaint);
  add_lines(frame, lines, rows);
}

void add_help_page(Frame& frame, int width, int rows) {
  static constexpr std::pair<std::string_view, std::string_view> kHelp[] = {
      {"↑ ↓  PgUp PgDn", "choose a process (also: a click, the wheel)"},
      {"← →", "choose a device"},
      {"Enter d", "one device: clocks, limits, links, errors, curves; again: back"},
      {"u  l", "users; how devices are linked"},
      {"/", "only processes with these letters, or \"gpu 3\"; Esc drops it"},
      {"t", "processes below the programs that started them"},
      {"<  >  r", "order by the column left or right; the other way round"},
      {"M S C P T U G", "order by GPU memory, SM, CPU, pid, time, user, GPU"},
      {"k", "send a signal to the chosen process, after a question"},
      {"n", "change its nice value, after a question"},
      {"+  -  s", "sample less often, more often; any interval"},
      {"space", "hold the screen; what happens meanwhile is in the curves"},
      {"q  Ctrl-C", "leave"},
      {"", ""},
      {"SM", "time that its work was on multiprocessors, as the driver says"},
      {"clocks held", "time that a limit kept clocks down: power, heat, or others"},
      {"↓ ↑", "what the device received and sent over PCIe"},
      {"–", "the device or driver does not say it"},
      {"!", "something is said of this device below, with what to do"},
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

/// What a device says of itself, in lines "title  words".
class DeviceFacts {
 public:
  DeviceFacts(const LiveDevice& device, int width) : device_(device), width_(width) {}
  Lines lines();

 private:
  [[nodiscard]] std::optional<double> value(Metric m) const { return device_.value(m); }
  // "1755 of 1980 MHz"
  [[nodiscard]] std::string of(Metric now, Metric most, std::string_view unit) const {
    if (!value(now)) return "";
    return rounded(value(now), "") + (value(most) ? " of " + rounded(value(most), "") : "") + std::string(unit);
  }
  // " name 12 unit" where it is known
  void part(std::string& text, std::string_view name, const std::string& words) const {
    if (words.empty()) return;
    if (!text.empty()) text += "  ·  ";
    text += std::string(name) + (name.empty() ? "" : " ") + words;
  }
  void part(std::string& text, std::string_view name, Metric metric, std::string_view unit) const {
    if (value(metric)) part(text, name, rounded(value(metric), unit));
  }
  void line(std::string_view title, const std::string& text) {
    if (!text.empty())
      append(lines_, wrapped_after(Line(padded_right(std::string(title), 10), Style::kNote), text, width_));
  }
  void clocks();
  void power();
  void heat();
  void memory();
  void pcie();
  void errors();
  void engines();

  const LiveDevice& device_;
  const int width_;
  Lines lines_;
};

void DeviceFacts::clocks() {
  std::string text;
  part(text, "SM", of(Metric::kSmClock, Metric::kSmClockMax, " MHz"));
  part(text, "memory", of(Metric::kMemoryClock, Metric::kMemoryClockMax, " MHz"));
  part(text, "video", of(Metric::kVideoClock, Metric::kVideoClockMax, " MHz"));
  part(text, "state P", Metric::kPerformanceState, "");
  if (const auto bits = value(Metric::kClockEventReasons); bits && *bits >= 0 && *bits < 4e9) {
    std::string words;
    for (const ClockReasonInfo& r : clock_reasons())
      if ((static_cast<uint32_t>(*bits) & static_cast<uint32_t>(r.reason)) != 0) append_listed(words, r.words);
    part(text, words.empty() ? "" : "not higher for", words.empty() ? "nothing holds them back" : words);
  }
  line("clocks", text);
}

void DeviceFacts::power() {
  std::string text;
  part(text, "", of(Metric::kPower, Metric::kPowerLimit, " W"));
  if (!value(Metric::kPower)) part(text, "", of(Metric::kPowerInstant, Metric::kPowerLimit, " W"));
  part(text, "default", Metric::kPowerLimitDefault, " W");
  if (value(Metric::kPowerLimitMin) && value(Metric::kPowerLimitMax))
    part(text, "can be",
         rounded(value(Metric::kPowerLimitMin), "") + " to " + rounded(value(Metric::kPowerLimitMax), " W"));
  if (const auto j = value(Metric::kEnergy))
    part(text, "since the driver was loaded", fmt::format("{:.2f} kWh", *j / 3.6e6));
  line("power", text);
}

void DeviceFacts::heat() {
  std::string text;
  part(text, "core", Metric::kTemperature, " °C");
  part(text, "slows at", Metric::kTemperatureSlowdown, " °C");
  part(text, "degrees left", Metric::kTemperatureMargin, "");
  part(text, "memory", Metric::kMemoryTemperature, " °C");
  part(text, "fan", Metric::kFanSpeed, " %");
  line("heat", text);
}

void DeviceFacts::memory() {
  std::string text;
  if (value(Metric::kMemoryTotal)) part(text, "", memory_pair(device_));
  const auto bytes = [&](std::string_view name, Metric m) {
    if (const auto b = value(m)) part(text, name, format_bytes(*b));
  };
  bytes("kept by the driver", Metric::kMemoryReserved);
  bytes("BAR1 in use", Metric::kBar1Used);
  part(text, "read or written", Metric::kMemoryUtilization, " % of the time");
  line("memory", text);
}

void DeviceFacts::pcie() {
  std::string text;
  part(text, "generation", of(Metric::kPcieGeneration, Metric::kPcieGenerationMax, ""));
  part(text, "lanes", of(Metric::kPcieWidth, Metric::kPcieWidthMax, ""));
  part(text, "packets sent again", Metric::kPcieReplays, "");
  part(text, "NVLink errors", Metric::kNvlinkErrors, "");
  line("PCIe", text);
}

void DeviceFacts::errors() {
  std::string text;
  part(text, "memory errors corrected", Metric::kEccCorrected, "");
  part(text, "not corrected", Metric::kEccUncorrected, "");
  const auto rows = value(Metric::kRemappedRowsCorrected), worse = value(Metric::kRemappedRowsUncorrected);
  if (rows || worse) part(text, "rows remapped", rounded(rows.value_or(0) + worse.value_or(0), ""));
  const auto single = value(Metric::kRetiredPagesSingleBit), pages = value(Metric::kRetiredPagesDoubleBit);
  if (single || pages) part(text, "pages retired", rounded(single.value_or(0) + pages.value_or(0), ""));
  part(text, "Xid since we watch", Metric::kXidErrors, "");
  part(text, "the last", Metric::kXidLast, "");
  line("errors", text);
}

void DeviceFacts::engines() {
  std::string text;
  for (const auto& [name, metric] : {std::pair{"encoder", Metric::kEncoderUtilization},
                                     {"decoder", Metric::kDecoderUtilization},
                                     {"JPEG", Metric::kJpegUtilization},
                                     {"optical flow", Metric::kOfaUtilization},
                                     {"FP64", Metric::kFp64Active},
                                     {"FP32", Metric::kFp32Active},
                                     {"FP16", Metric::kFp16Active}})
    part(text, name, metric, " %");
  line("engines", text);
}

Lines DeviceFacts::lines() {
  clocks();
  power();
  heat();
  memory();
  pcie();
  errors();
  engines();
  return std::move(lines_);
}

/// A curve of the device page.
struct CurveRow {
  std::string_view title;
  std::string value;
  double most;          ///< what fills it
  std::vector<float> columns;
  Style style;
};

// `most` 0 below: the largest that is shown.
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
  if (all.empty()) return;
  // The first is what counts most: it has what is left over.
  int spare = std::min(rows - static_cast<int>(all.size()), kMaxCurveRows - 1);
  for (const CurveRow& row : all) {
    const int high = 1 + std::max(spare, 0);
    spare = 0;
    const auto drawn = graph(row.columns, row.most, high);
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
  for (Line& line : DeviceFacts(d, width).lines()) frame.add(std::move(line));
  const int processes = std::clamp(static_cast<int>(model.processes().size()), 1, std::max(rows / 4, 2));
  const int left = above + rows - frame.next() - processes - 1;
  add_curves(frame, model, width, left);
  add_processes(frame, model, width, std::max(above + rows - frame.next() - 1, 1));
}

}  // namespace profgpu
