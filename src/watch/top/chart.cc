#include "watch/top/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "analyse/report/text.h"
#include "base/text.h"
#include "trace/health.h"

namespace profgpu {
namespace {

constexpr int kDotsPerCell = 4;       // above each other
constexpr int kMinTickCells = 12;

// Of `all` steps, which `most` fills; 0: not known.
int steps_of(float value, double most, int all) {
  if (std::isnan(value)) return 0;
  return std::clamp(static_cast<int>(std::lround(most > 0 ? static_cast<double>(value) / most * all : 0)), 1, all);
}

// The larger of two, of which each may be unknown.
float known_most(float a, float b) { return std::isnan(a) || b > a ? b : a; }

// "90 s", "5 min", "2 h", "0.5 s": all in the unit of the step between them.
std::string age_text(double seconds, double step) {
  if (step >= 3600) return fmt::format("{:g} h", seconds / 3600);
  if (step >= 60) return fmt::format("{:g} min", seconds / 60);
  return fmt::format("{:g} s", std::round(seconds * 1000) / 1000);
}

}  // namespace

Style busy_look(double share) {
  constexpr double kBusy = 0.75;
  return share * 100 < kIdlePct.reported ? Style::kWarn : share < kBusy ? Style::kNote : Style::kGood;
}

Style full_look(double share) {
  const Style style = heat(share, 0.9, kMemoryUsedPct.reported / 100);
  return style == Style::kPlain ? Style::kNote : style;
}

Style limit_look(double share) {
  const Style style = heat(share, 0.95, 1.02);
  return style == Style::kPlain ? Style::kNote : style;
}

Style heat_look(double share) {
  const Style style = heat(share, 0.88, 0.97);
  return style == Style::kPlain ? Style::kNote : style;
}

Style slowed_look(double share) { return share * 100 >= kHeldBackPct.reported ? Style::kWarn : Style::kFaint; }

Style plain_look(double) { return Style::kNote; }

Lines chart_lines(const Chart& chart, int gutter, int rows) {
  static constexpr uint32_t kBlank = 0x2800;
  static constexpr uint32_t kLeft[] = {0, 0x40, 0x44, 0x46, 0x47}, kRight[] = {0, 0x80, 0xA0, 0xB0, 0xB8};
  Lines lines(static_cast<size_t>(std::max(rows, 0)));
  for (size_t r = 0; r < lines.size(); ++r) {
    const std::string label = r < chart.labels.size() ? truncated(sanitised(chart.labels[r]), gutter) : "";
    lines[r].add(padded_right(label, gutter), Style::kFaint);
    const int below = (rows - 1 - static_cast<int>(r)) * kDotsPerCell;
    const auto dots = [&](float value) {
      return std::clamp(steps_of(value, chart.most, rows * kDotsPerCell) - below, 0, kDotsPerCell);
    };
    std::string run;
    Style style = Style::kPlain;
    for (size_t p = 0; p + 1 < chart.points.size(); p += kPointsPerCell) {
      const float left = chart.points[p], right = chart.points[p + 1];
      const uint32_t cell = kLeft[dots(left)] | kRight[dots(right)];
      const float most = known_most(left, right);
      const Style look = cell == 0 || std::isnan(most) || chart.most <= 0
                             ? style
                             : chart.look(static_cast<double>(most) / chart.most);
      if (look != style) lines[r].add(run, style), run.clear(), style = look;
      if (cell == 0) run += ' ';
      else append_utf8(run, kBlank + cell);
    }
    lines[r].add(run, style);
  }
  return lines;
}

void add_curve(Line& line, const std::vector<float>& columns, double most, Look look) {
  const auto style_of = [&](float v) {
    return std::isnan(v) || most <= 0 ? Style::kPlain : look(static_cast<double>(v) / most);
  };
  for (size_t begin = 0, end = 0; begin < columns.size(); begin = end) {
    const Style style = style_of(columns[begin]);
    while (end < columns.size() && style_of(columns[end]) == style) ++end;
    const auto at = [&](size_t i) { return columns.begin() + static_cast<ptrdiff_t>(i); };
    line.add(graph({at(begin), at(end)}, most), style);
  }
}

std::string time_axis(int64_t point_ns, int cells) {
  static constexpr double kSteps_s[] = {0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1,    2,    5,     10,    15,   30,
                                        60,   120,  300,  600, 900, 1800, 3600, 7200, 10800, 21600, 43200};
  if (cells <= 0) return "";
  const double cell_s = static_cast<double>(point_ns) * 1e-9 * kPointsPerCell;
  const auto fits = [&](double step) { return step >= cell_s * kMinTickCells; };
  const auto found = std::find_if(std::begin(kSteps_s), std::end(kSteps_s), fits);
  double step = found == std::end(kSteps_s) ? 86400 : *found;
  while (!fits(step)) step *= 2;
  constexpr std::string_view kNow = "now";
  std::vector<std::string> axis(static_cast<size_t>(cells), "─");
  const auto write = [&](int at, std::string_view text) {
    for (const char c : text)
      if (at >= 0 && at < cells) axis[static_cast<size_t>(at++)] = std::string(1, c);
  };
  for (int n = 1;; ++n) {
    const int at = cells - static_cast<int>(std::lround(step * n / cell_s));
    if (at < 0) break;
    axis[static_cast<size_t>(at)] = "┴";
    write(at + 1, age_text(step * n, step));
  }
  if (cells >= static_cast<int>(kNow.size())) write(cells - static_cast<int>(kNow.size()), kNow);
  std::string out;
  for (const std::string& cell : axis) out += cell;
  return out;
}

std::string graph(const std::vector<float>& columns, double most) {
  static constexpr std::string_view kHeights[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string out;
  for (const float value : columns) out += kHeights[steps_of(value, most, 8)];
  return out;
}

double largest(const std::vector<float>& columns) {
  double most = 0;
  for (const float v : columns)
    if (!std::isnan(v)) most = std::max<double>(most, v);
  return most;
}

}  // namespace profgpu
