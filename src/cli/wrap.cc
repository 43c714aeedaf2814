#include "cli/wrap.h"

#include <algorithm>

namespace profgpu {

int columns(std::string_view text) {
  return static_cast<int>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string wrap(std::string_view text, int width, std::string_view indent) {
  std::string out(indent);
  const std::string blanks(static_cast<size_t>(columns(indent)), ' ');
  int at = columns(indent);
  bool line_empty = true;
  while (!text.empty()) {
    if (text.front() == ' ' || text.front() == '\n') {
      const bool broken = text.front() == '\n';
      text.remove_prefix(1);
      if (!broken) continue;
      out += "\n" + blanks;
      at = columns(blanks);
      line_empty = true;
      continue;
    }
    const std::string_view word = text.substr(0, text.find_first_of(" \n"));
    text.remove_prefix(word.size());
    if (!line_empty && at + 1 + columns(word) > width) {
      out += "\n" + blanks;
      at = columns(blanks);
      line_empty = true;
    }
    if (!line_empty) out += ' ';
    out += word;
    at += columns(word) + (line_empty ? 0 : 1);
    line_empty = false;
  }
  return out + "\n";
}

}  // namespace profgpu
