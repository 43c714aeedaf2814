// A kernel's name as a narrow table shows it: what it does first, then how, without namespaces, template arguments,
// parameters and the switches of generated libraries. Different kernels may share one.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analyse/rank/kernels.h"
#include "base/text.h"
#include "trace/kernel_parts.h"

namespace profgpu {
namespace {

using std::string_view;

// Names that libraries generate by rule, token by token.

void add(std::string& text, string_view part, string_view separator = " ") {
  if (!part.empty()) append_listed(text, part, separator);
}

/// "128x64", "16x4": numbers with an x between.
bool is_extent(string_view token) {
  const size_t x = token.find('x');
  return x != 0 && x != token.npos && x + 1 < token.size() &&
         std::all_of(token.begin(), token.end(), [](char c) { return is_digit(c) || c == 'x'; });
}

bool is_layout(string_view token) {
  return is_any_of(token, {"nn", "nt", "tn", "tt", "ntn", "tnn", "nhwc", "nchw"});
}

// The first part that starts with `prefix` and goes on as `fits`; empty: none.
string_view part_with(const std::vector<string_view>& parts, string_view prefix, bool (*fits)(string_view)) {
  const auto* found = first_where(
      parts, [&](string_view p) { return p.starts_with(prefix) && fits(p.substr(prefix.size())); });
  return found != nullptr ? *found : "";
}

bool starts_with_digit(string_view text) { return !text.empty() && is_digit(text.front()); }

// ncclKernel_AllReduce_RING_LL_Sum_float and ncclDevKernel_AllReduce_Sum_f32_RING_LL are the same kernel.
std::string nccl_name(string_view base) {
  const std::vector<string_view> parts = pieces_of(base, '_');
  std::string out = "nccl", how, rest;
  for (size_t i = 1; i < parts.size(); ++i) {
    const std::string part = i == 1 ? std::string(parts[i]) : lower_case(parts[i]);
    const bool is_how = is_any_of(parts[i], {"RING", "TREE", "COLLNET", "CollNet", "COLLNETDIRECT", "COLLNETCHAIN",
                                             "NVLS", "NVLSTREE", "PAT", "LL", "LL128", "SIMPLE"});
    const bool type_end = part == "t" && !rest.empty();   // int8_t
    add(i == 1 ? out : is_how ? how : rest, part, i > 1 && (is_how || type_end) ? "_" : " ");
  }
  add(out, how);
  add(out, rest);
  return out;
}

// Tensile names a GEMM by a hundred switches: Cijk_<A>_<B>_<types>_..._MT<tile>_MI<instruction>_...; what adds up the
// parts of one that splits its inner size is Cijk_B_PostGSU2.
std::string tensile_name(string_view name) {
  const std::vector<string_view> parts = pieces_of(name, '_');
  if (std::ranges::any_of(parts, [](string_view part) { return part.starts_with("PostGSU"); }))
    return "Tensile split-K sum";
  std::string out = "Tensile gemm";
  if (parts.size() > 3) {
    static constexpr std::pair<char, string_view> kTypes[] = {
        {'B', "bf16"}, {'H', "f16"}, {'S', "f32"}, {'D', "f64"}, {'C', "c32"}, {'Z', "c64"}, {'I', "i8"}, {'F', "f8"}};
    for (const auto& [letter, type] : kTypes)
      if (parts[3].front() == letter) add(out, type);
    add(out, std::string(parts[1] == "Ailk" ? "N" : "T") + (parts[2] == "Bljk" ? "N" : "T"));
  }
  for (const string_view part : parts)
    if (part.starts_with("MT") && starts_with_digit(part.substr(2))) add(out, part);
  add(out, part_with(parts, "MI", starts_with_digit));
  return out;
}

// cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_64x6_tn_align8: "cutlass gemm 80_tensorop_bf16_s16816 relu
// 64x64_64x6 tn"; empty if it is not of that form.
std::string cutlass_name(string_view base) {
  std::string kind, how, what, extents, layout;
  const std::vector<string_view> parts = pieces_of(base, '_');
  for (size_t i = 1; i < parts.size(); ++i) {
    const string_view part = parts[i];
    if (kind.empty()) {
      for (const string_view k : {"gemm", "fprop", "dgrad", "wgrad", "deconv"})
        if (part.ends_with(k)) kind = k;
      add(how, part.substr(0, part.size() - kind.size()), "_");
    } else if (is_layout(part)) {
      layout = part;
    } else if (is_extent(part)) {
      add(extents, part, "_");
    } else if (part == "tf32") {
      add(how, part, "_");
    } else if (is_any_of(part, {"relu", "gelu", "silu", "bias"})) {
      add(what, part, "_");
    }
  }
  if (kind.empty()) return {};
  std::string out = "cutlass " + kind;
  for (const std::string& part : {how, what, extents, layout}) add(out, part);
  return out;
}

// sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16_stage4_...:
// "sm80_xmma fprop tf32f32 128x128x16".
std::string xmma_name(string_view base) {
  const std::vector<string_view> parts = pieces_of(base, '_');
  if (parts.size() < 4) return std::string(base);
  std::string out = std::string(parts[0]) + "_xmma " + std::string(parts[2]);
  size_t i = 3;
  while (i < parts.size() && is_any_of(parts[i], {"implicit", "gemm", "indexed", "warp", "specialized"})) ++i;
  if (i < parts.size()) add(out, parts[i]);
  for (const string_view part : parts)
    if (part.starts_with("tilesize")) add(out, part.substr(8));
  if (parts[2] == "gemm") add(out, part_with({parts.begin() + static_cast<ptrdiff_t>(i), parts.end()}, "", is_layout));
  return out;
}

// MIOpen's igemm_bwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x64x32_wt...: direction, layout, type, block tile.
std::string igemm_name(string_view base) {
  const std::vector<string_view> parts = pieces_of(base, '_');
  std::string out;
  for (size_t i = 0; i < std::min<size_t>(parts.size(), 5); ++i) add(out, parts[i], "_");
  for (const string_view part : parts)
    if (part.starts_with("bt") && is_extent(part.substr(2))) add(out, part.substr(2));
  return out;
}

// NCCL, Tensile, CUTLASS, XMMA, MIOpen's igemm. `bare` has no brackets. Empty: none of these.
std::string ruled_kernel_name(string_view bare) {
  if (bare.starts_with("nccl") && contains(bare, "Kernel_")) return nccl_name(bare);
  if (bare.starts_with("Cijk_")) return tensile_name(bare);
  if (bare.starts_with("cutlass")) return cutlass_name(bare);
  if (bare.starts_with("sm") && contains(bare, "_xmma_")) return xmma_name(bare);
  if (bare.starts_with("igemm_") && contains(bare, "_bt")) return igemm_name(bare);
  return {};
}

// Itanium-mangled names are read without demangling: current libstdc++ does not know every type that kernels use
// (DF16b).

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

// A wrapper's name says nothing about the kernel.
bool is_wrapper_name(string_view base) {
  return is_any_of(base, {"Kernel", "Kernel2", "kernel", "device_kernel", "kentry", "globalKernel", "run",
                          "kernel_impl", "_kernel_agent", "main_kernel"});
}

// "_ZN...": library and function, or what a wrapper runs.
std::string mangled_kernel_name(string_view name) {
  const Mangled m = mangled_words(name);
  if (m.qualified == 0) return std::string(name);
  const string_view base = m.words[m.qualified - 1];
  std::string out(m.qualified > 1 ? m.words.front() : "");
  if (!is_wrapper_name(base)) {
    append_listed(out, base, " ");
    return out;
  }
  // A wrapper's first argument that is a type says what runs.
  for (size_t i = m.qualified; i < m.words.size(); ++i) {
    if (!is_upper(m.words[i].front())) continue;
    append_listed(out, m.words[i], " ");
    break;
  }
  for (const string_view pass : {"Wgrad", "Dgrad", "Fprop"})
    if (contains(name, pass)) {
      append_listed(out, pass, " ");
      break;
    }
  return out;
}

// Elementwise and reduction kernels have their operation among their template arguments.

bool is_word(char c) { return is_letter(c) || is_digit(c) || c == '_'; }

// Wrappers, types and C++ words, which are not the operation.
bool is_wrapper(string_view word) {
  return word.starts_with("TensorList") || word.starts_with("FusedOptimizerTensorList") ||
         word.starts_with("Float8_") ||
         is_any_of(word, {"gpu_kernel_impl", "gpu_kernel_impl_nocast", "gpu_index_kernel", "gpu_kernel_with_index",
                          "BinaryFunctor", "AUnaryFunctor", "BUnaryFunctor", "UnaryFunctor", "ReduceOp",
                          "func_wrapper_t", "OpaqueType", "Array", "array", "_cuda_scatter_gather_internal_kernel",
                          "anonymous", "namespace", "lambda", "operator", "const", "void", "bool", "char", "short",
                          "int", "long", "float", "double", "unsigned", "signed", "BFloat16", "Half", "complex",
                          "int8_t", "uint8_t", "int16_t", "int32_t", "int64_t", "__half", "__nv_bfloat16",
                          "__hip_bfloat16", "true", "false", "DepthToType", "TrivialOffsetCalculator",
                          "OffsetCalculator"});
}

// "CompareEq" to "compare_eq".
std::string snake(string_view word) {
  std::string out;
  for (size_t i = 0; i < word.size(); ++i) {
    if (i > 0 && is_upper(word[i]) && is_lower(word[i - 1])) out.push_back('_');
    out.push_back(lower(word[i]));
  }
  return out;
}

std::string plain(string_view word) {
  for (const string_view start : {"CUDAFunctor_", "CUDAFunctorOnSelf_", "CUDAFunctorOnOther_", "launch_", "_"})
    if (word.starts_with(start) && word.size() > start.size()) word.remove_prefix(start.size());
  for (bool again = true; again;) {
    again = false;
    for (const string_view end : {"_cuda", "_cuda_out", "_gpu", "_kernel", "_impl", "_scalar", "_functor",
                                  "MathFunctor", "Functor", "CUDAKernelImpl", "KernelImpl", "CUDAKernel", "Ops"})
      if (word.ends_with(end) && word.size() > end.size()) word.remove_suffix(end.size()), again = true;
  }
  return snake(word);
}

// The next word of `text` from `at` that is neither a scope nor a wrapper.
string_view next_word(string_view text, size_t& at) {
  while (at < text.size()) {
    while (at < text.size() && !is_word(text[at])) ++at;
    const size_t start = at;
    while (at < text.size() && is_word(text[at])) ++at;
    const string_view word = text.substr(start, at - start);
    if (word.empty() || is_digit(word.front()) || text.substr(at).starts_with("::") || is_wrapper(word)) continue;
    return word;
  }
  return {};
}

}  // namespace

std::string functor_name(string_view arguments) {
  size_t at = 0;
  const string_view word = next_word(arguments, at);
  if (word.empty()) return {};
  std::string out = plain(word);
  // Foreach kernels take their operation as a second functor: BinaryOpScalarFunctor<float, 1, 1, 0>, std::plus<float>.
  if (word.starts_with("BinaryOp") || word.starts_with("PointwiseOp") || word.starts_with("UnaryOp"))
    if (const string_view operation = next_word(arguments, at); !operation.empty()) out += " " + plain(operation);
  return out;
}

namespace {

constexpr size_t kLongest = 60;   // bytes

std::string clipped(const std::string& text) {
  return text.size() <= kLongest ? text : shortened(text, kLongest - 3);
}

void drop(std::string& text, string_view part) {
  for (size_t at = text.find(part); at != text.npos && text.size() > part.size(); at = text.find(part))
    text.erase(at, part.size());
}

// "_kernel" adds nothing in a list of kernels.
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
std::string wrapped_name(const KernelParts& d) {
  string_view argument = d.arguments.substr(0, d.arguments.find_first_of("<,( "));
  if (const size_t scope = argument.rfind("::"); scope != argument.npos) argument.remove_prefix(scope + 2);
  if (std::string ruled = ruled_kernel_name(argument); !ruled.empty()) return ruled;
  std::string out;
  if (!d.scopes.empty()) out = d.scopes.back() == "impl" && d.scopes.size() > 1 ? d.scopes.end()[-2] : d.scopes.back();
  const bool type = !argument.empty() && is_upper(argument.front());
  if (type || out.empty()) append_listed(out, std::string(type ? argument : d.base), " ");
  return out;
}

std::string demangled_name(string_view name) {
  const KernelParts d = kernel_parts(name);
  if (d.base.empty()) return {};
  if (is_wrapper_name(d.base)) return wrapped_name(d);
  std::string out = plain_base(d.base);
  constexpr string_view kGeneric[] = {"elementwise", "reduce_kernel", "multi_tensor_apply"};
  if (contains_any(d.base, kGeneric))
    if (const std::string functor = functor_name(d.arguments); !functor.empty()) out += " " + functor;
  return out;
}

}  // namespace

std::string short_kernel_name(string_view name) {
  name = without_blanks(name);
  if (name.empty()) return "(no name)";
  if (name.starts_with("Memcpy") || name.starts_with("Memset") || is_whole_graph(name)) return clipped(std::string(name));
  std::string out = ruled_kernel_name(name.substr(0, name.find_first_of("(< ")));
  if (out.empty()) out = name.starts_with("_Z") ? mangled_kernel_name(name) : demangled_name(name);
  if (out.empty()) out = name;
  return clipped(out);
}

namespace {

constexpr size_t kMaxTelling = 4, kLongWord = 16;   // words that tell names apart, characters of one

// Letters and digits.
std::vector<std::string> name_words(string_view name) {
  std::vector<std::string> words(1);
  for (const char c : name) {
    if (is_letter(c) || is_digit(c)) words.back() += c;
    else if (!words.back().empty()) words.emplace_back();
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

size_t common_length(const std::vector<std::string>& texts) {
  const auto differs_at = [&](size_t i) {
    return std::ranges::any_of(texts, [&](const std::string& t) { return i >= t.size() || t[i] != texts.front()[i]; });
  };
  size_t i = 0;
  while (!differs_at(i)) ++i;
  return i;
}

// Of each of several different names, the words from where they first differ that make it unlike the others; numbers
// where a few do not.
std::vector<std::string> telling_words(const std::vector<string_view>& names) {
  std::vector<std::vector<std::string>> words;
  size_t longest = 0;
  for (const string_view name : names) longest = std::max(longest, words.emplace_back(name_words(name)).size());
  const auto word = [&](size_t name, size_t i) { return i < words[name].size() ? words[name][i] : std::string(); };
  size_t first = 0;
  const auto equal_at = [&](size_t i) {
    for (size_t n = 1; n < names.size(); ++n)
      if (word(n, i) != word(0, i)) return false;
    return true;
  };
  while (first < longest && equal_at(first)) ++first;
  std::vector<std::string> telling(names.size());
  for (size_t i = first; i < std::min(longest, first + kMaxTelling); ++i) {
    std::vector<std::string> next;
    for (size_t n = 0; n < names.size(); ++n) next.push_back(word(n, i));
    const bool long_words = std::ranges::any_of(next, [](const std::string& w) { return w.size() > kLongWord; });
    const size_t skipped = long_words ? common_length(next) : 0;
    for (size_t n = 0; n < names.size(); ++n)
      if (const std::string part = next[n].substr(skipped, kLongWord); !part.empty())
        telling[n] += (telling[n].empty() ? "" : " ") + part;
    if (std::set<std::string>(telling.begin(), telling.end()).size() == names.size()) return telling;
  }
  for (size_t n = 0; n < names.size(); ++n) telling[n] = fmt::format("#{}", n + 1);
  return telling;
}

}  // namespace

std::vector<std::string> distinct_short_names(const std::vector<string_view>& names) {
  std::map<std::string, std::vector<string_view>> by_short;   // different names, in order
  std::set<string_view> seen;
  for (const string_view name : names)
    if (seen.insert(name).second) by_short[short_kernel_name(name)].push_back(name);
  std::map<string_view, std::string> shown;
  for (const auto& [short_name, alike] : by_short) {
    const std::vector<std::string> telling = alike.size() > 1 ? telling_words(alike) : std::vector<std::string>(1);
    for (size_t n = 0; n < alike.size(); ++n)
      shown[alike[n]] = alike.size() > 1 ? fmt::format("{} ({})", short_name, telling[n]) : short_name;
  }
  std::vector<std::string> out;
  for (const string_view name : names) out.push_back(shown[name]);
  return out;
}

}  // namespace profgpu
