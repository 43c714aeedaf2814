#include "present/bars.h"

#include <algorithm>
#include <cmath>

#include "report/text.h"

namespace profgpu {
namespace {

constexpr int kSideBySide = 100;  // narrower screens have no room for two panels
constexpr int kLongestBar = 40;   // beyond that the eye loses the line
constexpr int kShortestBar = 8;
constexpr int kShortestStacked = 4;
constexpr int kIndent = 2;
constexpr int kBetween = 2;       // label to bar, bar to value
constexpr int kGap = 4;           // panel to panel
constexpr int kLongestLabel = 28;

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
    line.skip(kIndent).add(padded_right(label_of(row), columns.label)).skip(kBetween);
    line.add(padded_right(bar(row.pct / full_pct, bar_cells), bar_cells), row.style);
    out.push_back(std::move(line.skip(kBetween).add(padded_left(row.value, columns.value))));
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
  // Figures before bars where there is no room for both.
  const int room = width - columns.around_bar();
  const int cells = room < kShortestStacked ? 0 : std::min(room, kLongestBar);
  Lines out;
  for (const Panel* panel : panels) {
    append(out, {Line()});
    append(out, panel_lines(*panel, columns, cells, longest(panels)));
  }
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
