#include "watch/top/frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "analyse/report/text.h"
#include "base/clock.h"
#include "base/text.h"
#include "watch/top/model.h"
#include "watch/top/pages.h"

namespace profgpu {
std::string frame_text(const Frame& frame, int width, bool colour) {
  Lines lines;
  for (const FrameLine& l : frame.lines) lines.push_back(l.line);
  return rendered(lines, width, colour);
}

namespace {

struct ScreenCell {
  std::string_view text = " ";   // empty: the right half of the character before
  Style style = Style::kPlain;
  friend bool operator==(const ScreenCell&, const ScreenCell&) = default;
};

std::vector<ScreenCell> cells_of(const Line& line, int width) {
  std::vector<ScreenCell> cells;
  cells.reserve(static_cast<size_t>(width));
  for (const Line::Span& span : line.spans()) {
    size_t last = static_cast<size_t>(width);
    for (std::string_view text = span.text; !text.empty();) {
      const Character c = first_character(text);
      const auto wide = static_cast<size_t>(char_width(c.code_point));
      if (cells.size() + wide > static_cast<size_t>(width)) break;
      if (wide > 0) {
        last = cells.size();
        cells.push_back({text.substr(0, c.bytes), span.style});
      } else if (last < cells.size()) {   // a mark stands on what is before it, in the same text
        cells[last].text = {cells[last].text.data(), cells[last].text.size() + c.bytes};
      }
      if (wide == 2) cells.push_back({"", span.style});
      text.remove_prefix(c.bytes);
    }
  }
  cells.resize(static_cast<size_t>(width));
  return cells;
}

}  // namespace

std::vector<CellRun> changed_cells(const FrameLine& before, const FrameLine& after, int width) {
  const std::vector<ScreenCell> old = cells_of(before.line, width), fresh = cells_of(after.line, width);
  const bool all = before.reversed != after.reversed;
  std::vector<CellRun> runs;
  bool open = false;
  for (size_t x = 0; x < fresh.size(); ++x) {
    if (!all && old[x] == fresh[x]) {
      open = false;
      continue;
    }
    if (!open || runs.back().style != fresh[x].style) runs.push_back({static_cast<int>(x), fresh[x].style, ""});
    runs.back().text += fresh[x].text;
    open = true;
  }
  return runs;
}

namespace {

constexpr int kMinWidth = 30, kMinHeight = 6;   // below, there is no room for anything useful
constexpr int kMinHostHeight = 16;
constexpr int kMaxAdviceLines = 4, kMaxLines = 3;

// "8 × NVIDIA H100 80GB HBM3"; of several models only how many.
std::string devices_text(const LiveView& view) {
  if (view.devices.empty()) return "no GPU";
  size_t whole = 0;
  const std::string* name = nullptr;
  bool same = true;
  for (const LiveDevice& d : view.devices) {
    if (d.info->parent) continue;
    ++whole;
    same = same && (!name || *name == d.info->name);
    if (!name) name = &d.info->name;
  }
  if (!name) return fmt::format("{} MIG instances", view.devices.size());
  if (!same) return fmt::format("{} GPUs", whole);
  return whole == 1 ? *name : fmt::format("{} × {}", whole, *name);
}

// `printed`: nothing will follow.
void add_title(Frame& frame, const TopModel& model, int width, bool printed) {
  const LiveView& view = model.view();
  std::string right = clock_time(view.time_ns);
  if (model.paused()) right = "paused (space)";
  if (!printed) right += fmt::format(", every {:g} s", static_cast<double>(model.interval_ns()) * 1e-9);
  if (view.ended && !model.paused()) right = "the recording has ended";
  Line line;
  if (view.hosts.size() == 1) {
    line.add(view.hosts[0].name, Style::kStrong).skip(2).add(devices_text(view));
    if (!view.hosts[0].driver.empty()) line.add("  driver " + view.hosts[0].driver, Style::kFaint);
  } else {
    line.add(fmt::format("{} hosts", view.hosts.size()), Style::kStrong).skip(2).add(devices_text(view));
  }
  // The time stays where it is, whatever comes before it.
  const int room = width - display_width(right) - 2;
  Line cut;
  if (line.width() > room) {
    std::string text;
    line.append_to(text, room, false);
    cut.add(text, Style::kStrong);
  } else {
    cut = std::move(line);
  }
  frame.add(std::move(cut.to_column(room + 2).add(right, model.paused() ? Style::kWarn : Style::kFaint)));
}

/// Which figures of the host there is room for.
struct HostCells {
  bool swap = false, averages = false, load = false;
  int bar = 0, curve = 0;
};

std::string load_average(const HostLoad& load, bool all) {
  std::string text = fmt::format("load {:.2f}", *load.load_1);
  if (all && load.load_5 && load.load_15) text += fmt::format(" {:.2f} {:.2f}", *load.load_5, *load.load_15);
  return load.cpus ? text + fmt::format(" of {} CPUs", *load.cpus) : text;
}

// The host's CPUs and memory, as much of it as fits: bars first.
void add_host(Frame& frame, const TopModel& model, int width) {
  constexpr int kMinBars = 20, kMaxBar = 24, kMinCurve = 16, kMaxCurve = 60, kApart = 2;
  const HostLoad& load = model.view().hosts[0].load;
  const std::string memory = gib_pair(load.memory_used_bytes, load.memory_bytes);
  const std::string swap = load.swap_bytes.value_or(0) > 0 ? gib_pair(load.swap_used_bytes, load.swap_bytes) : "";
  const auto texts = [&](const HostCells& c) {
    int used = display_width("CPU   100 %  memory  ") + display_width(memory);
    if (c.swap) used += kApart + display_width("swap ") + display_width(swap);
    if (c.load) used += kApart + display_width(load_average(load, c.averages));
    return used;
  };
  HostCells cells;
  for (const HostCells& c : {HostCells{true, true, true, 0, 0}, {true, false, true, 0, 0}, {false, true, true, 0, 0},
                             {false, false, true, 0, 0}, {false, false, false, 0, 0}}) {
    cells = {c.swap && !swap.empty(), c.averages, c.load && load.load_1, 0, 0};
    if (texts(cells) + (c.swap || c.averages ? kMinBars : 0) <= width) break;
  }
  const int spare = std::max(width - texts(cells), 0);
  cells.bar = spare / 2 < 3 ? 0 : std::min(spare / 2, kMaxBar);
  if (spare - 2 * cells.bar - kApart >= kMinCurve) cells.curve = std::min(spare - 2 * cells.bar - kApart, kMaxCurve);
  Line line("CPU ", Style::kFaint);
  const auto cpu = ratio(load.cpu_pct, 100);
  add_bar(line, cpu, cells.bar, limit_look);
  line.add(padded_left(rounded(load.cpu_pct, " %"), 5), heat(cpu, 0.95, 2)).skip(kApart);
  if (cells.curve > 0) {
    const HostHistory& h = model.histories().host();
    add_curve(line, columns(h.cpu, h.seconds, model.interval_ns(), cells.curve), 100, limit_look);
    line.skip(kApart);
  }
  line.add("memory ", Style::kFaint);
  const auto used = ratio(load.memory_used_bytes, load.memory_bytes);
  add_bar(line, used, cells.bar, full_look);
  line.add(memory, heat(used, 0.9, 0.97));
  const Style swapping = heat(ratio(load.swap_used_bytes, load.swap_bytes), 0.5, 0.9);
  if (cells.swap) line.skip(kApart).add("swap ", Style::kFaint).add(swap, swapping);
  if (cells.load) {
    const bool over = load.cpus && *load.load_1 > static_cast<double>(*load.cpus);
    line.skip(kApart).add(load_average(load, cells.averages), over ? Style::kWarn : Style::kPlain);
  }
  frame.add(line.cut_to(width));
}

void add_host_troubles(Frame& frame, const LiveView& view) {
  for (const LiveHost& host : view.hosts)
    if (!host.trouble.empty()) frame.add(Line(host.name + ": " + host.trouble, Style::kStrongBad));
}

/// A key and what it does, in the lowest line.
struct KeyHint {
  std::string_view key, says;
  KeyPress press;
};

const std::vector<KeyHint>& overview_keys() {
  using Kind = KeyPress::Kind;
  static const std::vector<KeyHint> kKeys = {
      {"h", "help", {Kind::kCharacter, 'h'}},     {"q", "quit", {Kind::kCharacter, 'q'}},
      {"d", "device", {Kind::kCharacter, 'd'}},   {"/", "filter", {Kind::kCharacter, '/'}},
      {"k", "signal", {Kind::kCharacter, 'k'}},   {"t", "tree", {Kind::kCharacter, 't'}},
      {">", "sort", {Kind::kCharacter, '>'}},     {"u", "users", {Kind::kCharacter, 'u'}},
      {"l", "links", {Kind::kCharacter, 'l'}},    {"n", "nice", {Kind::kCharacter, 'n'}},
      {"s", "interval", {Kind::kCharacter, 's'}},
  };
  return kKeys;
}

const std::vector<KeyHint>& page_keys() {
  using Kind = KeyPress::Kind;
  static const std::vector<KeyHint> kKeys = {
      {"Esc", "back", {Kind::kEscape}},
      {"h", "help", {Kind::kCharacter, 'h'}},
      {"q", "quit", {Kind::kCharacter, 'q'}},
      {"← →", "device", {Kind::kRight}},
  };
  return kKeys;
}

void add_keys(Frame& frame, const TopModel& model, int width) {
  Line line;
  const int y = frame.next();
  if (!model.order().filter.empty())
    line.add("filter: " + truncated(sanitised(model.order().filter), width / 3), Style::kWarn).skip(2);
  for (const KeyHint& hint : model.page() == TopPage::kOverview ? overview_keys() : page_keys()) {
    const int from = line.width();
    if (from + display_width(hint.key) + 1 + display_width(hint.says) > width) break;
    line.add(hint.key, Style::kStrong).skip(1).add(hint.says, Style::kFaint);
    frame.hits.push_back({y, from, line.width(), Hit::What::kKey, 0, {}, {}, hint.press});
    line.skip(2);
  }
  frame.add(std::move(line));
}

Line question_line(const TopModel& model) {
  const std::string& what = model.command().what;
  switch (model.question()) {
    case Question::kFilter: return Line("filter: ", Style::kStrong).add(model.typed());
    case Question::kInterval: return Line("interval, in seconds or as 100ms: ", Style::kStrong).add(model.typed());
    case Question::kNice: return Line("nice value, -20 to 19, for " + what + ": ", Style::kStrong).add(model.typed());
    case Question::kSure:
      return Line(what + ": sure? ", Style::kWarn).add("y", Style::kStrong).add(" yes, anything else no");
    case Question::kSignal: {
      Line line("signal: ", Style::kStrong);
      for (const SignalChoice& s : signal_choices())
        line.add(std::string(1, s.letter), Style::kStrong).skip(1).add(s.name, Style::kFaint).skip(2);
      return line.add("Esc none  ").add("to " + what, Style::kWarn);
    }
    case Question::kNone: break;
  }
  return {};
}

void add_lowest_line(Frame& frame, const TopModel& model, int width) {
  if (model.question() == Question::kNone) {
    if (model.message().empty()) return add_keys(frame, model, width);
    return frame.add(Line(model.message(), Style::kWarn));
  }
  Line line = question_line(model);
  if (model.question() == Question::kFilter || model.question() == Question::kInterval ||
      model.question() == Question::kNice) {
    frame.cursor_x = std::min(line.width(), width - 1);
    frame.cursor_y = frame.next();
  }
  frame.add(std::move(line));
}

void add_overview(Frame& frame, const TopModel& model, int width, int rows) {
  const bool printed = rows == 0;
  const int above = frame.next();
  const auto devices = static_cast<int>(model.view().devices.size());
  const int all_advice = static_cast<int>(model.advice().size()),
            all_lines = static_cast<int>(model.view().lines.size());
  // Two headings, and a line that keeps devices and processes apart.
  const auto processes = static_cast<int>(model.processes().size());
  const int lines = std::min(all_lines, printed ? all_lines : kMaxLines);
  const int spare = rows - 2 - lines - devices - processes;
  const int advice = printed ? all_advice : std::min({all_advice, kMaxAdviceLines, std::max({rows / 12, spare, 1})});
  const int free = rows - 2 - lines - std::max(advice, 1);
  const int least_processes = std::min(std::max(processes, 1), std::max(free / 3, 3));
  const int device_rows =
      printed ? 0 : std::max(std::min(useful_device_rows(model), free - least_processes), std::min(devices, 1));
  add_devices(frame, model, width, device_rows);
  for (int i = 0; i < advice; ++i) {
    Line line = advice_line(model.view(), model.advice()[static_cast<size_t>(i)], width);
    if (i + 1 == advice && all_advice > advice) {
      const std::string more = fmt::format("  +{}", all_advice - advice);
      line = advice_line(model.view(), model.advice()[static_cast<size_t>(i)], width - display_width(more));
      line.add(more, Style::kFaint);
    }
    frame.hits.push_back({frame.next(), 0, width, Hit::What::kDevice, model.advice()[static_cast<size_t>(i)].device});
    frame.add(std::move(line));
  }
  if (advice == 0) frame.add(Line());
  for (int i = 0; i < lines; ++i) frame.add(Line(model.view().lines[static_cast<size_t>(i)], Style::kNote));
  add_processes(frame, model, width, printed ? 0 : std::max(above + rows - frame.next() - 1, 1));
}

}  // namespace

Frame top_frame(const TopModel& model, int width, int height) {
  Frame frame;
  if (height > 0 && (width < kMinWidth || height < kMinHeight)) {
    frame.add(Line(truncated("too small", width)));
    return frame;
  }
  add_title(frame, model, width, height == 0);
  const std::vector<LiveHost>& hosts = model.view().hosts;
  if (hosts.size() == 1 && hosts[0].load.time_ns != 0 && (height == 0 || height >= kMinHostHeight))
    add_host(frame, model, width);
  add_host_troubles(frame, model.view());
  const int above = frame.next();
  const int rows = height > 0 ? height - above - 1 : 0;
  switch (model.page()) {
    case TopPage::kOverview: add_overview(frame, model, width, rows); break;
    case TopPage::kDevice: add_device_page(frame, model, width, rows); break;
    case TopPage::kTopology: add_topology_page(frame, model, width, rows); break;
    case TopPage::kUsers: add_users_page(frame, model, width, rows); break;
    case TopPage::kHelp: add_help_page(frame, width, rows); break;
  }
  if (height == 0) return frame;
  frame.lines.resize(static_cast<size_t>(height - 1));
  add_lowest_line(frame, model, width);
  return frame;
}

}  // namespace profgpu
