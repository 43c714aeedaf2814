#include "top/frame.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "base/utf8.h"
#include "report/character.h"

namespace profgpu {
namespace {

std::string_view likeness(uint32_t c) {
  static const std::map<uint32_t, std::string_view> kAscii = {
      {U'█', "#"}, {U'▉', "#"}, {U'▊', "#"}, {U'▋', "#"}, {U'▌', "="}, {U'▍', "="}, {U'▎', "-"}, {U'▏', "-"},
      {U'▁', "."}, {U'▂', ":"}, {U'▃', "-"}, {U'▄', "="}, {U'▅', "+"}, {U'▆', "*"}, {U'▇', "%"},
      {U'·', "-"}, {U'–', "-"}, {U'…', "~"}, {U'°', " "}, {U'×', "x"}, {U'↑', "^"}, {U'↓', "v"}, {U'→', ">"},
      {U'▲', "^"}, {U'▼', "v"}, {U'├', "|"}, {U'└', "`"}, {U'─', "-"}, {U'│', "|"}, {U'µ', "u"}, {U'●', "*"}, {U'○', "o"},
  };
  const auto it = kAscii.find(c);
  return it == kAscii.end() ? "?" : it->second;
}

}  // namespace

std::string frame_text(const Frame& frame, int width, bool colour) {
  Lines lines;
  for (const FrameLine& l : frame.lines) lines.push_back(l.line);
  return rendered(lines, width, colour);
}

std::string ascii_text(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const Character c = first_character(text);
    if (c.code_point < 0x80 && c.valid) {
      out += static_cast<char>(c.code_point);
    } else {
      const std::string_view like = likeness(c.code_point);
      // As wide as it was.
      for (int i = char_width(c.code_point); i > 0; --i) out += like;
    }
    text.remove_prefix(c.bytes);
  }
  return out;
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

std::vector<std::string> graph(const std::vector<float>& columns, double most, int rows) {
  static constexpr std::string_view kHeights[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::vector<std::string> out(static_cast<size_t>(std::max(rows, 0)));
  for (const float value : columns) {
    const int eighths =
        std::isnan(value) ? 0 : std::clamp(static_cast<int>(std::lround(most > 0 ? value / most * rows * 8 : 0)), 1, rows * 8);
    for (int r = 0; r < rows; ++r) out[static_cast<size_t>(rows - 1 - r)] += kHeights[std::clamp(eighths - r * 8, 0, 8)];
  }
  return out;
}

double largest(const std::vector<float>& columns) {
  double most = 0;
  for (const float v : columns)
    if (!std::isnan(v)) most = std::max<double>(most, v);
  return most;
}

}  // namespace profgpu
