#include "top/pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "present/grid.h"
#include "report/quantity.h"
#include "report/text.h"
#include "top/device_panel.h"

namespace profgpu {
namespace {

constexpr int kLeastFix = 16;   // cells: less of what to do says nothing

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
    if (device_text(view, i) == std::to_string(view.devices[i].info->index)) indices.push_back(static_cast<int>(view.devices[i].info->index));
  if (indices.size() == devices.size()) return number_ranges(indices);
  for (const size_t i : devices) text += (text.empty() ? "" : ", ") + device_text(view, i);
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
  if (!advice.fix.empty() && left >= kLeastFix) line.add(" · ", Style::kFaint).add(truncated(sanitised(advice.fix), left));
  return line;
}

void add_users_page(Frame& frame, const TopModel& model, int width, int rows) {
  const auto users = users_of(model.view());
  std::vector<std::pair<std::string, UserSum>> sorted(users.begin(), users.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second.memory_bytes > b.second.memory_bytes; });
  Grid grid;
  grid.add_column("USER");
  for (const std::string_view title : {"processes", "GPU memory", "SM, all GPUs", "CPU", "host memory"}) grid.add_column(std::string(title), true);
  grid.add_column("GPUs");
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
  if (links.size() != view.devices.size()) return frame.add(Line("how devices are connected is not known here, or not yet", Style::kFaint));
  Grid grid;
  grid.add_column("");
  for (size_t i = 0; i < links.size(); ++i) grid.add_column("GPU " + device_text(view, i));
  for (size_t i = 0; i < links.size(); ++i) {
    std::vector<Cell> cells = {{"GPU " + device_text(view, i), Style::kStrong}};
    for (const std::string& kind : links[i])
      cells.push_back({kind, kind.starts_with("NV") ? Style::kGood : kind == "SYS" ? Style::kWarn : Style::kPlain});
    grid.add_row(std::move(cells));
  }
  Lines lines = grid.lines(width);
  lines.emplace_back();
  lines.emplace_back("NV#: that many NVLinks · PIX: one PCIe switch · PXB: several · PHB: the processor's host bridge", Style::kFaint);
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

}  // namespace profgpu
