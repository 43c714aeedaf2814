#include "view/layout.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "analyse/report/text.h"

namespace profgpu {
namespace {

// By style; the sixteen colors of the user's own theme.
constexpr std::string_view kEscapes[] = {"",          "\x1b[1m",  "\x1b[2m",  "\x1b[32m", "\x1b[33m",  "\x1b[31m",
                                         "\x1b[36m", "\x1b[36m", "\x1b[32m", "\x1b[33m", "\x1b[1;31m"};
constexpr std::string_view kReset = "\x1b[0m";

bool is_blank(std::string_view text) { return text.find_first_not_of(' ') == std::string_view::npos; }

}  // namespace

Style severity_style(Severity severity) {
  if (severity == Severity::kCritical) return Style::kStrongBad;
  return severity == Severity::kWarning ? Style::kWarn : Style::kNote;
}

Style heat(const std::optional<double>& share, double warn, double bad) {
  if (!share) return Style::kFaint;
  return *share >= bad ? Style::kStrongBad : *share >= warn ? Style::kWarn : Style::kPlain;
}

std::optional<double> ratio(const std::optional<double>& part, const std::optional<double>& all) {
  return part && all && *all > 0 ? std::optional(*part / *all) : std::nullopt;
}

Line& Line::add(std::string_view text, Style style) {
  if (text.empty()) return *this;
  spans_.push_back({sanitised(text), style});
  width_ += display_width(spans_.back().text);
  return *this;
}

Line& Line::add(const Line& other) {
  spans_.insert(spans_.end(), other.spans_.begin(), other.spans_.end());
  width_ += other.width_;
  return *this;
}

Line& Line::skip(int cells) { return cells > 0 ? add(std::string(static_cast<size_t>(cells), ' ')) : *this; }

Line& Line::whole() {
  whole_ = true;
  return *this;
}

Line& Line::to_column(int column) { return skip(std::max(column - width_, width_ > 0 ? 1 : 0)); }

Line Line::cut_to(int width) const {
  if (width_ <= width) return *this;
  size_t end = spans_.size();
  while (end > 0 && is_blank(spans_[end - 1].text)) --end;
  Line out;
  for (size_t i = 0; i < end && out.width_ < width; ++i) {
    // If nothing after this fits, the mark of the cut must be here.
    const bool more = i + 1 < end;
    const int left = width - out.width_, cells = display_width(spans_[i].text);
    const bool cut = cells > left || (more && cells == left);
    out.add(cut ? truncated(spans_[i].text + (more ? "…" : ""), left) : spans_[i].text, spans_[i].style);
  }
  return out;
}

void Line::append_to(std::string& out, int width, bool colour) const {
  if (width > 0 && width_ > width && !whole_) return cut_to(width).append_to(out, 0, colour);
  size_t end = spans_.size();
  while (end > 0 && is_blank(spans_[end - 1].text)) --end;
  for (size_t i = 0; i < end; ++i) {
    std::string_view text = spans_[i].text;
    if (i + 1 == end) text = text.substr(0, text.find_last_not_of(' ') + 1);
    const std::string_view escape = colour ? kEscapes[static_cast<size_t>(spans_[i].style)] : "";
    out.append(escape).append(text).append(escape.empty() ? "" : kReset);
  }
}

void append(Lines& to, Lines lines) {
  to.insert(to.end(), std::make_move_iterator(lines.begin()), std::make_move_iterator(lines.end()));
}

void append_apart(Lines& to, Lines lines) {
  to.emplace_back();
  append(to, std::move(lines));
}

Lines wrapped_after(Line first, std::string_view text, int width, Style style, int most) {
  const int indent = first.width();
  Lines out;
  for (const std::string_view paragraph : lines_of(text)) {
    // Beside a very long `first`, text would be one character wide.
    const int room = width > 0 ? std::max(width - indent, 12) : 0;
    std::vector<std::string> pieces = wrapped(sanitised(paragraph), room);
    if (pieces.size() > static_cast<size_t>(most)) {
      pieces.resize(static_cast<size_t>(most));
      std::string& last = pieces.back();   // at the end of a word, if there are several
      if (display_width(last) >= room) last.resize(std::min(last.size(), last.rfind(' ')));
      last = truncated(last + "…", room);
    }
    for (const std::string& piece : pieces) {
      Line line = out.empty() ? std::move(first) : Line().skip(indent);
      out.push_back(std::move(line.add(piece, style)));
    }
  }
  if (out.empty()) out.push_back(std::move(first));
  return out;
}

Lines next_lines(const std::vector<std::string>& commands, int width) {
  if (commands.empty()) return {};
  Lines out = {Line("Next: ", Style::kStrong).whole()};
  const int indent = out.back().width();
  for (const std::string& command : commands) {
    const int cells = display_width(sanitised(command));
    if (width > 0 && out.back().width() > indent && out.back().width() + 5 + cells > width)
      out.push_back(Line().skip(indent).whole());
    if (out.back().width() > indent) out.back().add("  ·  ", Style::kFaint);
    out.back().add(command);
  }
  return out;
}

Lines beside(Lines left, const Lines& right, int column) {
  if (left.size() < right.size()) left.resize(right.size());
  for (size_t i = 0; i < right.size(); ++i)
    if (right[i].width() > 0) left[i].to_column(column).add(right[i]);
  return left;
}

std::string rendered(const Lines& lines, int width, bool colour) {
  std::string out;
  bool blank_due = false;
  for (const Line& line : lines) {
    if (line.width() == 0) {
      blank_due = !out.empty();
      continue;
    }
    if (blank_due) out += '\n';
    blank_due = false;
    line.append_to(out, width, colour);
    out += '\n';
  }
  return out;
}

namespace {

constexpr int kColumnGap = 2;
constexpr int kMinText = 24;  // a name cut shorter is useless

using Indices = std::vector<size_t>;
using Widths = std::vector<int>;

int total(const Indices& columns, const Widths& widths) {
  int sum = columns.empty() ? 0 : kColumnGap * (static_cast<int>(columns.size()) - 1);
  for (const size_t c : columns) sum += widths[c];
  return sum;
}

class GridLayout {
 public:
  GridLayout(const Grid& grid, int width) : grid_(grid), width_(width) {
    for (const GridColumn& column : grid.columns()) {
      int cells = display_width(column.header);
      for (const auto& row : grid.rows()) cells = std::max(cells, display_width(row[natural_.size()].text));
      natural_.push_back(cells);
      least_.push_back(column.right ? cells : std::min(cells, kMinText));
    }
  }

  [[nodiscard]] Lines lines(size_t key) const {
    Indices columns(natural_.size());
    std::iota(columns.begin(), columns.end(), size_t{0});
    const Widths widths = width_ > 0 ? shared_out(columns) : natural_;
    return width_ <= 0 || total(columns, widths) <= width_ ? block(columns, widths) : blocks(columns, key);
  }

 private:
  // Each gets what it needs; if the line is too short, shortens the widest ones first.
  [[nodiscard]] Widths shared_out(const Indices& columns) const {
    Widths widths = natural_;
    for (int excess = total(columns, widths) - width_; excess > 0;) {
      size_t widest = widths.size();
      for (const size_t c : columns)
        if (widths[c] > least_[c] && (widest == widths.size() || widths[c] > widths[widest])) widest = c;
      if (widest == widths.size()) break;
      // Small steps are fast enough: names have at most some thousand cells.
      const int step = std::clamp(excess, 1, std::max(1, (widths[widest] - kMinText) / 8));
      widths[widest] -= step;
      excess -= step;
    }
    return widths;
  }

  [[nodiscard]] Lines block(const Indices& columns, const Widths& widths) const {
    Lines out;
    const auto add_cell = [&](Line& line, size_t c, const std::string& cell, Style style) {
      const std::string text = truncated(cell, widths[c]);
      if (c != columns.front()) line.skip(kColumnGap);
      line.add(grid_.columns()[c].right ? padded_left(text, widths[c]) : padded_right(text, widths[c]), style);
    };
    Line& head = out.emplace_back();
    for (const size_t c : columns)
      add_cell(head, c, grid_.columns()[c].header, c == columns.front() ? Style::kStrong : Style::kFaint);
    for (const auto& row : grid_.rows()) {
      Line& line = out.emplace_back();
      for (const size_t c : columns) add_cell(line, c, row[c].text, row[c].style);
    }
    return out;
  }

  [[nodiscard]] Lines blocks(Indices order, size_t key) const {
    // Long texts last: between short columns they would be cut, alone they get the whole line.
    std::stable_partition(order.begin(), order.end(), [&](size_t c) { return least_[c] == natural_[c]; });
    Lines out;
    Indices columns{key};
    for (const size_t c : order) {
      if (c == key) continue;
      columns.push_back(c);
      if (total(columns, least_) <= width_ || columns.size() == 2) continue;
      columns.pop_back();
      append_apart(out, block(columns, shared_out(columns)));
      columns = {key, c};
    }
    append_apart(out, block(columns, shared_out(columns)));
    return out;
  }

  const Grid& grid_;
  const int width_;
  Widths natural_, least_;
};

}  // namespace

Grid::Grid(std::vector<GridColumn> columns) {
  for (const GridColumn& c : columns) add_column(c.header, c.right);
}

void Grid::add_column(std::string_view header, bool right) { columns_.push_back({sanitised(header), right}); }

void Grid::add_row(std::vector<Cell> cells) {
  cells.resize(columns_.size());
  for (Cell& cell : cells) cell.text = sanitised(cell.text);
  rows_.push_back(std::move(cells));
}

Lines Grid::lines(int width, size_t key) const {
  return columns_.empty() ? Lines{} : GridLayout(*this, width).lines(key);
}

namespace {

constexpr int kSideBySide = 100;  // narrower screens have no room for two panels
constexpr int kLongestBar = 40;   // longer ones are hard to follow
constexpr int kShortestBar = 8;
constexpr int kShortestStacked = 4;
constexpr int kIndent = 2;
constexpr int kBetween = 2;       // label to bar, bar to value
constexpr int kGap = 4;           // panel to panel
constexpr int kLongestLabel = 28;
constexpr int kShortestLabel = 6;

struct Columns {
  int label = 0;
  int value = 0;
  [[nodiscard]] int around_bar() const { return kIndent + label + kBetween + kBetween + value; }
};

std::string label_of(const BarRow& row) { return truncated(sanitised(row.label), kLongestLabel); }

Columns columns_of(const Panel& panel) {
  Columns c;
  for (const BarRow& row : panel.rows) {
    c.label = std::max(c.label, display_width(label_of(row)));
    c.value = std::max(c.value, display_width(row.value));
  }
  return c;
}

Lines note_lines(const Panel& panel, int width) {
  Lines out;
  for (const std::string& note : panel.notes) {
    if (!out.empty() && out.back().width() + 3 + display_width(note) <= width)
      out.back().add("   ").add(note);
    else
      out.push_back(Line().skip(kIndent).add(note));
  }
  return out;
}

Lines panel_lines(const Panel& panel, const Columns& columns, int bar_cells, double full_pct) {
  Lines out{Line(panel.title, Style::kStrong)};
  for (const BarRow& row : panel.rows) {
    Line line;
    line.skip(kIndent).add(padded_right(truncated(label_of(row), columns.label), columns.label)).skip(kBetween);
    if (bar_cells > 0) line.add(padded_right(bar(row.pct / full_pct, bar_cells), bar_cells), row.style).skip(kBetween);
    out.push_back(std::move(line.add(padded_left(row.value, columns.value))));
  }
  append(out, note_lines(panel, columns.around_bar() + bar_cells));
  return out;
}

double longest(const std::vector<const Panel*>& panels) {
  double pct = 0;
  for (const Panel* panel : panels)
    for (const BarRow& row : panel->rows) pct = std::max(pct, row.pct);
  return pct > 0 ? pct : 100;
}

Lines stacked(const std::vector<const Panel*>& panels, int width) {
  Columns columns;
  for (const Panel* panel : panels) {
    const Columns c = columns_of(*panel);
    columns = {std::max(columns.label, c.label), std::max(columns.value, c.value)};
  }
  // Without room for both, figures rather than bars.
  const int room = width - columns.around_bar();
  const int cells = room < kShortestStacked ? 0 : std::min(room, kLongestBar);
  const int label = width - kIndent - kBetween - columns.value;
  if (cells == 0) columns.label = std::min(columns.label, std::max(label, kShortestLabel));
  Lines out;
  for (const Panel* panel : panels) append_apart(out, panel_lines(*panel, columns, cells, longest(panels)));
  return out;
}

}  // namespace

std::string bar(double share, int cells) {
  static constexpr std::string_view kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  if (!(share > 0) || cells <= 0) return {};
  const int eighths = std::clamp(static_cast<int>(std::lround(std::min(share, 1.0) * cells * 8)), 1, cells * 8);
  std::string out;
  for (int i = 0; i < eighths / 8; ++i) out += "█";
  return out.append(kEighths[eighths % 8]);
}

std::string curve(const std::vector<double>& values, size_t cells) {
  static constexpr std::string_view kHeights[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  cells = std::min(cells, values.size());
  std::vector<double> peaks(cells, -1);
  double most = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    double& peak = peaks[i * cells / values.size()];
    if (std::isfinite(values[i])) peak = std::max(peak, values[i]);
    most = std::max(most, peak);
  }
  std::string out;
  for (const double peak : peaks)
    out += peak < 0 ? " " : kHeights[most > 0 ? static_cast<size_t>(std::lround(peak / most * 7)) : 0];
  return out;
}

Lines panels_lines(const std::vector<Panel>& all, int width) {
  std::vector<const Panel*> panels;
  for (const Panel& panel : all)
    if (!panel.rows.empty()) panels.push_back(&panel);
  if (panels.size() != 2 || width < kSideBySide) return stacked(panels, width);
  const Columns left = columns_of(*panels[0]);
  const Columns right = columns_of(*panels[1]);
  const int room = (width - left.around_bar() - right.around_bar() - kGap) / 2;
  if (room < kShortestBar) return stacked(panels, width);
  const int cells = std::min(room, kLongestBar);
  const double full = longest(panels);
  return beside(panel_lines(*panels[0], left, cells, full), panel_lines(*panels[1], right, cells, full),
                left.around_bar() + cells + kGap);
}

}  // namespace profgpu
