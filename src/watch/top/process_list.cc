#include "watch/top/process_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "analyse/report/quantity.h"
#include "analyse/report/text.h"
#include "base/text.h"
#include "watch/top/frame.h"
#include "watch/top/pages.h"

namespace profgpu {
namespace {

bool matches(const LiveView& view, const ProcessEntry& entry, const std::string& wanted) {
  if (wanted.empty()) return true;
  const HostProcess& host = entry.process->host;
  for (const std::string& text : {command_text(entry), host.user, std::to_string(entry.process->sample.pid),
                                  host.place(), "gpu " + device_text(view, entry.device)})
    if (lower_case(text).find(wanted) != std::string::npos) return true;
  return false;
}

// What a column orders by: a number, or a text. Unknown values come last in descending order.
std::pair<double, std::string> sort_key(const ProcessEntry& e, ProcessColumn column) {
  constexpr double kNone = -1;
  const auto of = [](const auto& x) { return std::pair(x ? static_cast<double>(*x) : kNone, std::string()); };
  const ProcessSample& sample = e.process->sample;
  const HostProcess& host = e.process->host;
  switch (column) {
    case ProcessColumn::kDevice: return {static_cast<double>(e.device), ""};
    case ProcessColumn::kPid: return {static_cast<double>(sample.pid), ""};
    case ProcessColumn::kUser: return {0, host.user};
    case ProcessColumn::kMemory: return of(sample.memory_bytes);
    case ProcessColumn::kSm: return of(sample.utilization_pct);
    case ProcessColumn::kCpu: return of(host.cpu_pct);
    case ProcessColumn::kHostMemory: return of(host.memory_bytes);
    case ProcessColumn::kTime: return {host.start_ns ? -static_cast<double>(*host.start_ns) : -1e19, ""};
    case ProcessColumn::kPlace: return {0, host.place()};
    case ProcessColumn::kCommand: return {0, command_text(e)};
  }
  return {};
}

void sort(std::vector<ProcessEntry>& entries, const ProcessOrder& order) {
  std::stable_sort(entries.begin(), entries.end(), [&](const ProcessEntry& a, const ProcessEntry& b) {
    const auto x = sort_key(a, order.column), y = sort_key(b, order.column);
    if (x != y) return order.descending ? x > y : x < y;
    return a.key() < b.key();
  });
}

/// Puts each process below its parent, if that is shown or known.
class ProcessTree {
 public:
  ProcessTree(const LiveView& view, std::vector<ProcessEntry> sorted) : sorted_(std::move(sorted)) {
    for (const ProcessEntry& e : sorted_)
      if (const int64_t pid = e.process->host.visible_pid; pid != 0) shown_.insert(pid);
    for (const HostProcess& p : view.parents)
      if (p.visible_pid != 0) parents_[p.visible_pid] = &p;
    for (const ProcessEntry& e : sorted_) below_[above(e)].push_back(e);
  }

  std::vector<ProcessEntry> entries() {
    for (const ProcessEntry& e : sorted_) {
      const int64_t up = above(e);
      if (up == 0) {
        add(e, 0);
      } else if (const auto it = parents_.find(up); it != parents_.end() && done_.insert(up).second) {
        out_.push_back({e.device, nullptr, it->second, 0});
        add_below(up, 1);
      }
    }
    return std::move(out_);
  }

 private:
  // The pid of the process that it goes below; 0: none.
  [[nodiscard]] int64_t above(const ProcessEntry& e) const {
    const int64_t parent = e.process->host.parent;
    return parent != e.process->host.visible_pid && (shown_.contains(parent) || parents_.contains(parent)) ? parent : 0;
  }
  void add(const ProcessEntry& e, int depth) {
    out_.push_back(e);
    out_.back().depth = depth;
    // Of a process on several devices, the children are listed once.
    if (const int64_t pid = e.process->host.visible_pid; pid != 0 && done_.insert(pid).second)
      add_below(pid, depth + 1);
  }
  void add_below(int64_t pid, int depth) {
    const auto it = below_.find(pid);
    if (it == below_.end() || depth > kDeepest) return;
    for (const ProcessEntry& e : it->second) add(e, depth);
  }

  static constexpr int kDeepest = 64;
  std::vector<ProcessEntry> sorted_, out_;
  std::set<int64_t> shown_, done_;
  std::map<int64_t, const HostProcess*> parents_;
  std::map<int64_t, std::vector<ProcessEntry>> below_;
};

}  // namespace

std::string command_text(const ProcessEntry& entry) {
  const std::string known = entry.parent ? entry.parent->command_line() : entry.process->host.command_line();
  return known.empty() && entry.process ? entry.process->sample.name : known;
}

std::string device_text(const LiveView& view, size_t device) {
  const LiveDevice& d = view.devices[device];
  const std::string label = d.info->label();
  for (const LiveDevice& other : view.devices)
    if (other.info->label() == label && other.host == d.host && other.info->vendor != d.info->vendor)
      return d.info->vendor + " " + label;
  return view.hosts.size() > 1 ? view.hosts[d.host].name + " " + label : label;
}

std::vector<ProcessEntry> process_list(const LiveView& view, const ProcessOrder& order, std::optional<size_t> only) {
  std::vector<ProcessEntry> entries;
  const std::string wanted = lower_case(order.filter);
  for (size_t d = 0; d < view.devices.size(); ++d) {
    if (only && *only != d) continue;
    for (const LiveProcess& p : view.devices[d].processes) {
      const ProcessEntry entry{d, &p, nullptr, 0};
      if (matches(view, entry, wanted)) entries.push_back(entry);
    }
  }
  sort(entries, order);
  return order.tree ? ProcessTree(view, std::move(entries)).entries() : entries;
}

namespace {

constexpr int kColumnGap = 1;
constexpr int kMinCommand = 18;

struct TableColumn {
  ProcessColumn column;
  std::string_view title;
  int width;
  bool right;
};
// From left to right; the command gets the remaining width.
constexpr std::array<TableColumn, kProcessColumnCount> kColumns = {{
    {ProcessColumn::kDevice, "GPU", 3, true},
    {ProcessColumn::kPid, "PID", 7, true},
    {ProcessColumn::kUser, "USER", 8, false},
    {ProcessColumn::kMemory, "GPU MEM", 8, true},
    {ProcessColumn::kSm, "SM", 5, true},
    {ProcessColumn::kCpu, "CPU", 6, true},
    {ProcessColumn::kHostMemory, "HOST MEM", 8, true},
    {ProcessColumn::kTime, "TIME", 8, true},
    {ProcessColumn::kPlace, "WHERE", 24, false},
    {ProcessColumn::kCommand, "COMMAND", 0, false},
}};

struct TableLayout {
  std::array<int, kProcessColumnCount> width = {};   // 0: left out
  int curve = 0;                                     // cells of the curve of SM use
  [[nodiscard]] int of(ProcessColumn c) const { return width[static_cast<size_t>(c)]; }
};

TableLayout layout_for(const TopModel& model, int width, bool curves) {
  TableLayout out;
  int left = width - kMinCommand - kColumnGap;
  for (const TableColumn& c : kColumns) out.width[static_cast<size_t>(c.column)] = c.width;
  int& device = out.width[static_cast<size_t>(ProcessColumn::kDevice)];
  for (size_t i = 0; i < model.view().devices.size(); ++i)
    device = std::max(device, std::min(display_width(sanitised(device_text(model.view(), i))), 16));
  const bool anywhere = std::any_of(model.processes().begin(), model.processes().end(), [](const ProcessEntry& e) {
    return e.process && !e.process->host.place().empty();
  });
  if (!anywhere) out.width[static_cast<size_t>(ProcessColumn::kPlace)] = 0;
  const auto sum = [&] {
    return std::accumulate(out.width.begin(), out.width.end(), 0,
                           [](int n, int w) { return w > 0 ? n + w + kColumnGap : n; });
  };
  // Dropped on a narrow screen, in this order.
  for (const ProcessColumn c : {ProcessColumn::kPlace, ProcessColumn::kHostMemory, ProcessColumn::kCpu,
                                ProcessColumn::kTime, ProcessColumn::kUser, ProcessColumn::kSm})
    if (sum() > left) out.width[static_cast<size_t>(c)] = 0;
  left -= sum();
  if (curves && left >= 34) out.curve = std::min(20, left - 20), left -= out.curve + kColumnGap;
  out.width[static_cast<size_t>(ProcessColumn::kCommand)] = std::max(left + kMinCommand + kColumnGap, 1);
  return out;
}

std::string percent(const std::optional<double>& x) { return rounded(x, " %"); }

// "3:07:12", "12:05" (minutes and seconds), "5 d 03 h".
std::string running_time(int64_t ns) {
  const int64_t s = std::max<int64_t>(ns / 1'000'000'000, 0);
  if (s >= 86400) return fmt::format("{} d {:02} h", s / 86400, s / 3600 % 24);
  if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

std::string bytes_text(const std::optional<int64_t>& bytes) {
  return bytes ? format_bytes(static_cast<double>(*bytes)) : std::string(kUnknownText);
}

// The folders of a program matter little, and the screen is narrow.
std::string without_folders(std::string words) {
  const size_t slash = words.rfind('/', words.find(' '));
  return slash == words.npos || slash + 1 == words.size() ? words : words.substr(slash + 1);
}

std::string cell_text(const TopModel& model, const ProcessEntry& e, ProcessColumn column) {
  const HostProcess& host = e.parent ? *e.parent : e.process->host;
  const std::string unknown(kUnknownText);
  switch (column) {
    case ProcessColumn::kDevice: return e.parent ? "" : device_text(model.view(), e.device);
    case ProcessColumn::kPid: return std::to_string(e.parent ? e.parent->visible_pid : e.process->sample.pid);
    case ProcessColumn::kUser: return host.user.empty() ? unknown : host.user;
    case ProcessColumn::kMemory: return e.parent ? "" : bytes_text(e.process->sample.memory_bytes);
    case ProcessColumn::kSm: return e.parent ? "" : percent(e.process->sample.utilization_pct);
    case ProcessColumn::kCpu: return percent(host.cpu_pct);
    case ProcessColumn::kHostMemory: return bytes_text(host.memory_bytes);
    case ProcessColumn::kTime: return host.start_ns ? running_time(model.view().time_ns - *host.start_ns) : unknown;
    case ProcessColumn::kPlace: return host.place();
    case ProcessColumn::kCommand: {
      const std::string words = without_folders(command_text(e));
      return (e.depth > 0 ? std::string(2 * static_cast<size_t>(e.depth - 1), ' ') + "└ " : "") +
             (words.empty() ? host.unknown : words);
    }
  }
  return "";
}

void add_heading(Frame& frame, const TopModel& model, const TableLayout& layout) {
  Line line;
  const ProcessOrder& order = model.order();
  for (const TableColumn& c : kColumns) {
    const int width = layout.of(c.column);
    if (width == 0) continue;
    std::string title(c.title);
    if (order.column == c.column) title = truncated(title, width - 1) + (order.descending ? "▼" : "▲");
    frame.hits.push_back({frame.next(), line.width(), line.width() + width, Hit::What::kColumn, 0, {}, c.column});
    line.add(c.right ? padded_left(title, width) : padded_right(title, width))
        .skip(c.column == ProcessColumn::kCommand ? 0 : kColumnGap);
    if (c.column == ProcessColumn::kSm && layout.curve > 0) line.add(padded_right("", layout.curve)).skip(kColumnGap);
  }
  frame.add(std::move(line), true);
}

Line process_line(const TopModel& model, const ProcessEntry& e, const TableLayout& layout) {
  Line line;
  for (const TableColumn& c : kColumns) {
    const int width = layout.of(c.column);
    if (width == 0) continue;
    const std::string text = truncated(sanitised(cell_text(model, e, c.column)), width);
    // Values of a device that does not answer may be out of date.
    const bool faint = e.parent || text == kUnknownText || model.view().devices[e.device].state != DeviceState::kOk;
    const bool last = c.column == ProcessColumn::kCommand;
    line.add(c.right ? padded_left(text, width) : padded_right(text, last ? 0 : width),
             faint ? Style::kFaint : Style::kPlain)
        .skip(last ? 0 : kColumnGap);
    if (c.column != ProcessColumn::kSm || layout.curve == 0) continue;
    const ProcessHistory* h = e.process ? model.histories().process(e.key()) : nullptr;
    const int before = line.width();
    if (h) add_curve(line, columns(h->utilization, h->seconds, model.interval_ns(), layout.curve), 100, busy_look);
    line.skip(before + layout.curve - line.width() + kColumnGap);
  }
  return line;
}

// Why there is nothing in the table.
std::string empty_text(const TopModel& model) {
  if (!model.order().filter.empty()) return "no process matches \"" + model.order().filter + "\"";
  bool known = false;
  for (const LiveDevice& d : model.view().devices) known |= d.has_processes;
  return known ? "no process is on a device" : "no process data yet";
}

}  // namespace

std::string_view column_title(ProcessColumn column) { return kColumns[static_cast<size_t>(column)].title; }

void add_processes(Frame& frame, const TopModel& model, int width, int rows) {
  const auto& entries = model.processes();
  const TableLayout layout = layout_for(model, width, rows > 0);
  add_heading(frame, model, layout);
  if (entries.empty()) return frame.add(Line(empty_text(model), Style::kFaint));
  const size_t room = rows > 0 ? static_cast<size_t>(rows) : entries.size();
  const auto selected = model.selected();
  const size_t first = selected && *selected >= room ? *selected - room + 1 : 0;
  for (size_t i = first; i < std::min(first + room, entries.size()); ++i) {
    frame.hits.push_back({frame.next(), 0, width, Hit::What::kProcess, entries[i].device, entries[i].key()});
    frame.add(process_line(model, entries[i], layout), selected == i);
  }
}

}  // namespace profgpu
