#include "cli/words.h"

#include <algorithm>

namespace profgpu {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  // A third of the letters may be wrong; beyond that a guess confuses more than it helps.
  constexpr size_t kLongest = 64;
  if (word.size() > kLongest) return {};
  std::string best;
  size_t best_distance = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    if (word.size() >= 3 && candidate.starts_with(word)) return candidate;
    const size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string shell_line(const std::vector<std::string>& words) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  std::string line;
  for (const std::string& word : words) {
    if (!line.empty()) line += ' ';
    if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) {
      line += word;
      continue;
    }
    line += '\'';
    for (const char c : word) line += c == '\'' ? std::string("'\\''") : std::string(1, c);
    line += '\'';
  }
  return line;
}

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
