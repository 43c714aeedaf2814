// Itanium-mangled names, read without demangling: libstdc++ of the time knows not every type that kernels use (DF16b).
#include <algorithm>
#include <vector>

#include "analyse/kernel_name_forms.h"
#include "base/text.h"

namespace profgpu {
namespace {

using std::string_view;


/// Identifiers of an Itanium-mangled name, in order; the first `qualified` of them are the entity's own.
struct Mangled {
  std::vector<string_view> words;
  size_t qualified = 0;
};

Mangled mangled_words(string_view name) {
  Mangled m;
  bool own = true;
  for (size_t i = 2; i < name.size();) {
    if (!is_digit(name[i])) {
      if (name[i] == 'I' || name[i] == 'E') own = false;
      // A literal: Li128E, Lb0E. Its digits are no length.
      if (name[i] == 'L' && i + 2 < name.size() && !is_digit(name[i + 1]) && name[i + 1] != 'N') {
        const size_t end = name.find('E', i);
        i = end == name.npos ? name.size() : end + 1;
      } else {
        ++i;
      }
      continue;
    }
    size_t length = 0;
    for (; i < name.size() && is_digit(name[i]) && length < name.size(); ++i)
      length = length * 10 + static_cast<size_t>(name[i] - '0');
    if (length == 0 || i + length > name.size()) break;
    m.words.push_back(name.substr(i, length));
    if (own) m.qualified = m.words.size();
    i += length;
  }
  return m;
}

}  // namespace

bool is_wrapper_name(string_view base) {
  static constexpr string_view kNames[] = {"Kernel", "Kernel2", "kernel", "device_kernel", "kentry",
                                           "globalKernel", "run", "kernel_impl", "_kernel_agent", "main_kernel"};
  return std::find(std::begin(kNames), std::end(kNames), base) != std::end(kNames);
}

std::string mangled_kernel_name(string_view name) {
  const Mangled m = mangled_words(name);
  if (m.qualified == 0) return std::string(name);
  const string_view space = m.words.front();
  const string_view base = m.words[m.qualified - 1];
  std::string out;
  if (m.qualified > 1) out = space;
  const auto add = [&](string_view part) { append_listed(out, part, " "); };
  if (!is_wrapper_name(base)) {
    add(base);
    return out;
  }
  // A wrapper: its first argument that is a type says what runs.
  for (size_t i = m.qualified; i < m.words.size(); ++i) {
    if (m.words[i].front() < 'A' || m.words[i].front() > 'Z') continue;
    add(m.words[i]);
    break;
  }
  for (const string_view pass : {"Wgrad", "Dgrad", "Fprop"})
    if (name.find(pass) != name.npos) {
      add(pass);
      break;
    }
  return out;
}

}  // namespace profgpu
