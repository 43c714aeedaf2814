#include "cli/glossary.h"

#include <algorithm>
#include <vector>

#include "base/text.h"

extern "C" const char profgpu_glossary_begin[], profgpu_glossary_end[];   // docs/glossary.md, by cmake/embed.cmake

namespace profgpu {
namespace {

// As a terminal shows it: marks of Markdown are left out.
std::string plain(std::string_view text) {
  std::string out(without_blanks(text));
  std::erase_if(out, [](char c) { return c == '`' || c == '*'; });
  return out;
}

std::string comparable(std::string_view term) {
  std::string out = lower_case(plain(term));
  std::ranges::replace_if(out, [](char c) { return c == '-' || c == '_'; }, ' ');
  return out;
}

// Rows of its table: "| term | meaning |".
std::vector<GlossaryEntry> read_glossary() {
  std::string_view text(profgpu_glossary_begin, static_cast<size_t>(profgpu_glossary_end - profgpu_glossary_begin));
  std::vector<GlossaryEntry> entries;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t middle = line.find(" | ");
    if (!line.starts_with("| ") || !line.ends_with(" |") || middle == line.npos || line.starts_with("| term |") ||
        line.starts_with("| ---"))
      continue;
    entries.push_back({plain(line.substr(2, middle - 2)), plain(line.substr(middle + 3, line.size() - middle - 5))});
  }
  return entries;
}

}  // namespace

const std::vector<GlossaryEntry>& glossary() {
  static const std::vector<GlossaryEntry> kEntries = read_glossary();
  return kEntries;
}

const GlossaryEntry* find_in_glossary(std::string_view term) {
  const std::string wanted = comparable(term);
  for (const GlossaryEntry& entry : glossary())
    for (std::string_view rest = entry.terms; !rest.empty();) {
      const size_t end = std::min(rest.find(", "), rest.size());
      if (comparable(rest.substr(0, end)) == wanted) return &entry;
      rest.remove_prefix(std::min(end + 2, rest.size()));
    }
  return nullptr;
}

}  // namespace profgpu
