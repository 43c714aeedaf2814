// Frame: one screenful as styled text, and what a click on it means. No terminal in it, so that tests can read it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "view/layout.h"
#include "watch/top/history.h"
#include "watch/top/process_list.h"

namespace profgpu {

/// What the user does.
struct KeyPress {
  enum class Kind : uint8_t {
    kCharacter, kUp, kDown, kLeft, kRight, kPageUp, kPageDown, kHome, kEnd, kEnter, kEscape, kBackspace,
    kClick, kWheelUp, kWheelDown,
  };
  Kind kind = Kind::kCharacter;
  uint32_t character = 0;       ///< code point
  int x = 0, y = 0;             ///< cell of a click
};

/// What a click on some cells of a line means.
struct Hit {
  enum class What : uint8_t { kDevice, kProcess, kColumn, kKey };
  int y = 0, from = 0, to = 0;  ///< cells [from, to)
  What what = What::kDevice;
  size_t device = 0;
  ProcessKey process = {};
  ProcessColumn column = {};
  KeyPress key = {};
};

struct FrameLine {
  Line line;
  bool reversed = false;        ///< dark on light, over the whole width
  friend bool operator==(const FrameLine&, const FrameLine&) = default;
};

struct Frame {
  std::vector<FrameLine> lines;
  std::vector<Hit> hits;
  int cursor_x = -1, cursor_y = -1;   ///< where text is typed; -1: nowhere

  void add(Line line, bool reversed = false) { lines.push_back({std::move(line), reversed}); }
  /// The line that is added next.
  [[nodiscard]] int next() const { return static_cast<int>(lines.size()); }
  [[nodiscard]] const Hit* hit(int x, int y) const {
    for (const Hit& h : hits)
      if (h.y == y && x >= h.from && x < h.to) return &h;
    return nullptr;
  }
};

/// The frame as lines of text of at most `width` cells.
std::string frame_text(const Frame& frame, int width, bool colour);

// What of a screen's line has to be drawn anew. A terminal library takes hundreds of instructions for each character
// that it is given, and of most lines a few cells change.

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
