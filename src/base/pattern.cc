#include "base/pattern.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "base/saturated.h"
#include "base/text.h"

namespace profgpu {
namespace {

// The larger number of "{2,5}", "{2,}" or "{2}"; 1: the text begins with no such thing.
int64_t repetitions(std::string_view text) {
  int64_t most = 1;
  for (size_t i = 1; i < text.size() && text[i] != '}';) {
    int64_t n = 0;
    const auto [end, error] = std::from_chars(text.data() + i, text.data() + text.size(), n);
    if (error == std::errc::result_out_of_range) return INT64_MAX;
    if (error == std::errc()) most = std::max(most, n);
    i = std::max(static_cast<size_t>(end - text.data()), i + 1);
  }
  return most;
}

// Where "[...]" ends that begins at `at`: a "]" at its start belongs to it, as do "[:alpha:]" and its like.
size_t bracket_end(std::string_view pattern, size_t at) {
  size_t i = at + 1;
  if (pattern.substr(i).starts_with('^')) ++i;
  if (pattern.substr(i).starts_with(']')) ++i;
  for (; i < pattern.size() && pattern[i] != ']'; ++i)
    if (pattern[i] == '[' && i + 1 < pattern.size() && contains(":.=", pattern.substr(i + 1, 1))) {
      const char close[] = {pattern[i + 1], ']'};
      i = std::min(pattern.find(std::string_view(close, 2), i + 2), pattern.size() - 2) + 1;
    }
  return i;
}

}  // namespace

int64_t pattern_size(std::string_view pattern) {
  std::vector<int64_t> outer;   // sizes before each "(" that is open
  int64_t size = 0, last = 0;   // of what is written so far, and of what a repetition behind it repeats
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '(') {
      outer.push_back(size);
      size = last = 0;
    } else if (pattern[i] == ')' && !outer.empty()) {
      last = size;
      size = saturated_add(outer.back(), last);
      outer.pop_back();
    } else if (pattern[i] == '{') {
      const int64_t more = saturated_product(last, repetitions(pattern.substr(i)) - 1);
      size = saturated_add(size, more);
      last = saturated_add(last, more);
      i = std::min(pattern.find('}', i), pattern.size());
    } else {
      if (pattern[i] == '[') i = bracket_end(pattern, i);
      else if (pattern[i] == '\\') ++i;
      last = 1;
      size = saturated_add(size, 1);
    }
  }
  for (const int64_t before : outer) size = saturated_add(size, before);
  return size;
}

}  // namespace profgpu
