// Charts: curves of braille dots, two points beside each other in a cell and four above each other, with labels, a time
// axis, and colors by value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "view/layout.h"

namespace profgpu {

/// How a value looks, by its share of what fills the chart.
using Look = Style (*)(double share);
Style busy_look(double share);      ///< idle, in use, busy
Style full_look(double share);      ///< of memory
Style limit_look(double share);     ///< near a limit, such as power's
Style heat_look(double share);      ///< of the temperature at which a device slows down
Style slowed_look(double share);    ///< of time with lowered clocks
Style plain_look(double share);

constexpr int kPointsPerCell = 2;

struct Chart {
  std::vector<std::string> labels;  ///< left of it, one a row, from the top
  std::vector<float> points;        ///< two a cell, the newest last; NaN: not known
  double most = 100;                ///< what fills it
  Look look = plain_look;
};

/// `rows` lines: labels in `gutter` cells, then the curve. What is 0 has the lowest dots; what is not known has none.
Lines chart_lines(const Chart& chart, int gutter, int rows);
/// In one line, of blocks: a cell for each of `columns`.
void add_curve(Line& line, const std::vector<float>& columns, double most, Look look);
/// For below charts of `cells` cells whose points are `point_ns` apart: "┴60 s─────┴30 s─────now".
std::string time_axis(int64_t point_ns, int cells);

/// Blocks of one cell for each of `columns`; `most` fills it. Blank where it is NaN; what is 0 has the lowest block.
std::string graph(const std::vector<float>& columns, double most);
/// The largest that is known; 0 if there is none.
double largest(const std::vector<float>& columns);

}  // namespace profgpu
