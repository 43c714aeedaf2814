// What of a screen's line has to be drawn anew. A terminal library takes hundreds of instructions for each character that it
// is given, and of most lines a few cells change.
#pragma once

#include <string>
#include <vector>

#include "top/frame.h"

namespace profgpu {

/// Cells next to each other that look alike.
struct CellRun {
  int x = 0;
  Style style = Style::kPlain;
  std::string text;
  friend bool operator==(const CellRun&, const CellRun&) = default;
};

/// Where `after` differs from `before` on a screen of `width` cells; what is behind a line's end is blank.
std::vector<CellRun> changed_cells(const FrameLine& before, const FrameLine& after, int width);

}  // namespace profgpu
