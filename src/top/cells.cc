#include "top/cells.h"

#include "report/character.h"

namespace profgpu {
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

}  // namespace profgpu
