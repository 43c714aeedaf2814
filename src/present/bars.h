// Bars drawn in eighths of a cell, and panels of them.
#pragma once

#include <string>
#include <vector>

#include "present/line.h"

namespace profgpu {

/// `share` (0 to 1) of `cells`, to the nearest eighth; anything over 0 shows at least "▏". Never longer than `cells`.
std::string bar(double share, int cells);

/// The course of values over time in at most `cells` cells, from 0 to their largest; blank where one is negative, which
/// says that it is not known.
std::string curve(const std::vector<double>& values, size_t cells);

struct BarRow {
  std::string label;      ///< leading blanks indent
  double pct = 0;         ///< how long the bar is
  std::string value;      ///< right of it
  Style style = Style::kPlain;
};

struct Panel {
  std::string title;
  std::vector<BarRow> rows;
  std::vector<std::string> notes;  ///< below the rows; kept whole, as many on a line as fit
};

/// The panels beside each other where `width` has room for two, else below each other. All bars have one scale.
/// Panels without rows are left out.
Lines panels_lines(const std::vector<Panel>& panels, int width);

}  // namespace profgpu
