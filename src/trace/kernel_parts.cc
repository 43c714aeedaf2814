#include "trace/kernel_parts.h"

#include <algorithm>

namespace profgpu {
namespace {

using std::string_view;

// The end of the bracket that opens at `at`; the text's end if it never closes. The ">" of "->" is no bracket.
size_t closing(string_view name, size_t at) {
  int depth = 0;
  for (; at < name.size(); ++at) {
    depth += name[at] == '<';
    depth -= name[at] == '>' && name[at - 1] != '-';
    if (depth == 0) return at;
  }
  return at;
}

// Where the first word from `word` on starts that is no scope without a name.
size_t named_word(string_view name, size_t word) {
  for (const string_view anonymous : {"(anonymous namespace)", "<unnamed>"})
    if (name.substr(word).starts_with(anonymous)) return std::min(word + anonymous.size() + 2, name.size());
  return word;
}

}  // namespace

// One pass from the left that skips template arguments.
KernelParts kernel_parts(string_view name) {
  KernelParts parts;
  size_t word = named_word(name, 0), bracket = 0;   // bracket: where the word's arguments open; 0: it has none
  const auto part = [&](size_t end) { return name.substr(word, (bracket > 0 ? bracket : end) - word); };
  size_t i = word;
  for (; i < name.size() && name[i] != '('; ++i) {
    if (name[i] == '<' && i > 0) {
      const size_t end = closing(name, i);
      bracket = i;
      parts.arguments = name.substr(i + 1, end - i - 1);
      i = std::min(end, name.size() - 1);
      continue;
    }
    size_t next = 0;
    if (name[i] == ' ') {   // what came before was a return type
      parts = {};
      next = i + 1;
    } else if (name.substr(i).starts_with("::")) {
      parts.scopes.push_back(part(i));
      parts.arguments = {};
      next = i + 2;
    } else {
      continue;
    }
    word = named_word(name, next), bracket = 0;
    i = word - 1;
  }
  parts.base = part(i);
  return parts;
}

}  // namespace profgpu
