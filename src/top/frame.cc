#include "top/frame.h"

#include <map>

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

}  // namespace profgpu
