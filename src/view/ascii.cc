#include "view/ascii.h"

#include <bit>
#include <cstdint>
#include <map>

#include "analyse/report/text.h"
#include "base/text.h"

namespace profgpu {
namespace {

// A cell of braille dots, by how many there are.
std::string_view likeness_of_dots(uint32_t dots) {
  static constexpr std::string_view kFillings[] = {" ", ".", ".", ":", ":", "=", "+", "*", "#"};
  return kFillings[std::popcount(dots)];
}

std::string_view likeness(uint32_t c) {
  if (c >= 0x2800 && c < 0x2900) return likeness_of_dots(c - 0x2800);
  static const std::map<uint32_t, std::string_view> kAscii = {
      {U'█', "#"}, {U'▉', "#"}, {U'▊', "#"}, {U'▋', "#"}, {U'▌', "="}, {U'▍', "="}, {U'▎', "-"}, {U'▏', "-"},
      {U'▁', "."}, {U'▂', ":"}, {U'▃', "-"}, {U'▄', "="}, {U'▅', "+"}, {U'▆', "*"}, {U'▇', "%"}, {U'·', "-"},
      {U'–', "-"}, {U'…', "~"}, {U'°', "'"}, {U'×', "x"}, {U'↑', "^"}, {U'↓', "v"}, {U'→', ">"}, {U'←', "<"},
      {U'▲', "^"}, {U'▼', "v"}, {U'├', "|"}, {U'┴', "+"}, {U'└', "`"}, {U'─', "-"}, {U'│', "|"}, {U'µ', "u"},
      {U'●', "*"}, {U'○', "o"}, {U'░', "."}, {U'◆', "#"}, {U'✓', "+"}, {U'✗', "x"}, {U'−', "-"}, {U'≥', ">"}, {U'≤', "<"},
      {U'‹', "<"}, {U'›', ">"}, {U'’', "'"}, {U'“', "\""}, {U'”', "\""}, {U'≈', "~"}, {U'±', "~"}, {U'²', "2"}, {U'³', "3"},
  };
  const auto it = kAscii.find(c);
  return it == kAscii.end() ? "?" : it->second;
}

// "DataLoader(…, num_workers=4)" is to be typed; "a_long_na…" was cut, and keeps its width. `before`: what was read.
bool is_in_code(std::string_view before, std::string_view after) {
  const bool begins = before.ends_with('(') || before.ends_with('=') || before.ends_with(", ");
  return begins && (after.starts_with(',') || after.starts_with(')'));
}

}  // namespace

std::string ascii_text(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const Character c = first_character(text);
    if (c.code_point < 0x80 && c.valid) {
      out += static_cast<char>(c.code_point);
    } else if (c.code_point == U'…' && is_in_code(out, text.substr(c.bytes))) {
      out += "...";
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
