// A name for a kernel that people can read in a narrow table: what it does first, then how, without namespaces,
// template arguments, parameters, and the switches of generated libraries. Different kernels may share one.
#include <algorithm>
#include <string>
#include <vector>

#include "analyse/kernel_name_forms.h"
#include "analyse/kernels.h"
#include "base/text.h"

namespace profgpu {
namespace {

using std::string_view;

constexpr size_t kLongest = 60;

std::string clipped(std::string text) {
  if (text.size() <= kLongest) return text;
  size_t keep = kLongest - 3;
  while (keep > 0 && (static_cast<unsigned char>(text[keep]) & 0xC0) == 0x80) --keep;
  text.resize(keep);
  return text + "…";
}

/// The parts of "ret a::b<c>::base<args>(parameters)".
struct Demangled {
  std::vector<string_view> scopes;   ///< a, b
  string_view base;
  string_view arguments;             ///< of the base, without the brackets
};

// The end of the bracket that opens at `at`; the end of the text if it never closes. "->" closes nothing.
size_t closing(string_view name, size_t at) {
  int depth = 0;
  for (; at < name.size(); ++at) {
    depth += name[at] == '<';
    depth -= name[at] == '>' && name[at - 1] != '-';
    if (depth == 0) return at;
  }
  return at;
}

// One walk from the left; template arguments are skipped whole.
Demangled demangled(string_view name) {
  constexpr string_view kAnonymous = "(anonymous namespace)";
  Demangled d;
  size_t word = 0, bracket = 0;   // bracket: where the word's template arguments open; 0: it has none
  const auto part = [&](size_t end) { return name.substr(word, (bracket > 0 ? bracket : end) - word); };
  size_t i = 0;
  for (; i < name.size() && name[i] != '('; ++i) {
    if (name[i] == '<' && i > 0) {
      const size_t end = closing(name, i);
      bracket = i;
      d.arguments = name.substr(i + 1, end - i - 1);
      i = std::min(end, name.size() - 1);
    } else if (name[i] == ' ') {   // what came before was a return type
      d = {};
      word = i + 1, bracket = 0;
    } else if (name.substr(i).starts_with("::")) {
      d.scopes.push_back(part(i));
      d.arguments = {};
      word = i + 2, bracket = 0;
      ++i;
    }
    if (name.substr(word).starts_with(kAnonymous)) {   // a scope without a name
      word = std::min(word + kAnonymous.size() + 2, name.size());
      i = word - 1;
    }
  }
  d.base = part(i);
  return d;
}

void drop(std::string& text, string_view part) {
  for (size_t at = text.find(part); at != text.npos && text.size() > part.size(); at = text.find(part))
    text.erase(at, part.size());
}

// "_kernel" in the middle or at the end says nothing in a list of kernels.
std::string plain_base(string_view base) {
  std::string out(base);
  for (size_t at = out.find("_kernel"); at != out.npos; at = out.find("_kernel", at + 1)) {
    const size_t end = at + 7;
    if (at > 0 && (end == out.size() || out[end] == '_')) out.erase(at--, 7);
  }
  drop(out, "_codegen");
  if (out.starts_with("split_embedding")) out.erase(0, 6);
  for (const string_view ending : {"CUDAKernel", "Kernel", "_v1"})
    if (string_view(out).ends_with(ending) && out.size() > ending.size()) out.resize(out.size() - ending.size());
  for (const string_view start : {"cudnn_infer_", "cudnn_train_", "cudnn_"})
    if (out.starts_with(start)) out.erase(0, start.size());
  return out;
}

// "Kernel2<cutlass_80_...>" is its argument; "gemvx::kernel" is its scope.
std::string wrapped_name(const Demangled& d) {
  string_view argument = d.arguments.substr(0, d.arguments.find_first_of("<,( "));
  if (const size_t scope = argument.rfind("::"); scope != argument.npos) argument.remove_prefix(scope + 2);
  if (std::string ruled = ruled_kernel_name(argument); !ruled.empty()) return ruled;
  std::string out;
  if (!d.scopes.empty()) out = d.scopes.back() == "impl" && d.scopes.size() > 1 ? d.scopes.end()[-2] : d.scopes.back();
  const bool type = !argument.empty() && argument.front() >= 'A' && argument.front() <= 'Z';
  if (type || out.empty()) append_listed(out, std::string(type ? argument : d.base), " ");
  return out;
}

std::string demangled_name(string_view name) {
  const Demangled d = demangled(name);
  if (d.base.empty()) return {};
  if (is_wrapper_name(d.base)) return wrapped_name(d);
  std::string out = plain_base(d.base);
  const auto base_has = [&](string_view part) { return d.base.find(part) != d.base.npos; };
  if (base_has("elementwise") || base_has("reduce_kernel") || base_has("multi_tensor_apply"))
    if (const std::string functor = functor_name(d.arguments); !functor.empty()) out += " " + functor;
  return out;
}

}  // namespace

std::string short_kernel_name(string_view name) {
  while (!name.empty() && name.front() == ' ') name.remove_prefix(1);
  if (name.empty()) return "(no name)";
  if (name.starts_with("Memcpy") || name.starts_with("Memset")) return clipped(std::string(name));
  std::string out = ruled_kernel_name(name.substr(0, name.find_first_of("(< ")));
  if (out.empty()) out = name.starts_with("_Z") ? mangled_kernel_name(name) : demangled_name(name);
  if (out.empty()) out = name;
  return clipped(out);
}

}  // namespace profgpu
