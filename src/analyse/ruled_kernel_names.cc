// Names that libraries make by rule, token by token.
#include <algorithm>
#include <utility>
#include <vector>

#include "analyse/kernel_name_forms.h"
#include "base/text.h"

namespace profgpu {
namespace {

using std::string_view;


template <size_t N>
bool is_one_of(string_view text, const string_view (&list)[N]) {
  return std::find(std::begin(list), std::end(list), text) != std::end(list);
}

std::vector<string_view> tokens(string_view text) {
  std::vector<string_view> out;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('_', at), text.size());
    if (end > at) out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

void add(std::string& text, string_view part, char separator = ' ') {
  if (part.empty()) return;
  if (!text.empty()) text.push_back(separator);
  text += part;
}

/// "128x64", "16x4": numbers with an x between.
bool is_extent(string_view token) {
  const size_t x = token.find('x');
  return x != 0 && x != token.npos && x + 1 < token.size() &&
         std::all_of(token.begin(), token.end(), [](char c) { return is_digit(c) || c == 'x'; });
}

bool is_layout(string_view token) {
  static constexpr string_view kLayouts[] = {"nn", "nt", "tn", "tt", "ntn", "tnn", "nhwc", "nchw"};
  return is_one_of(token, kLayouts);
}

// ncclKernel_AllReduce_RING_LL_Sum_float and ncclDevKernel_AllReduce_Sum_f32_RING_LL are one thing.
std::string nccl_name(string_view base) {
  static constexpr string_view kHow[] = {"RING", "TREE", "COLLNET", "CollNet", "COLLNETDIRECT", "COLLNETCHAIN", "NVLS",
                                         "NVLSTREE", "PAT", "LL", "LL128", "SIMPLE"};
  const std::vector<string_view> parts = tokens(base);
  std::string out = "nccl", how, rest;
  for (size_t i = 1; i < parts.size(); ++i) {
    std::string part(parts[i]);
    if (i == 1) {
      add(out, part);
      continue;
    }
    for (char& c : part) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    const bool type_end = part == "t" && !rest.empty();   // int8_t
    add(is_one_of(parts[i], kHow) ? how : rest, part, is_one_of(parts[i], kHow) || type_end ? '_' : ' ');
  }
  add(out, how);
  add(out, rest);
  return out;
}

// Tensile names a GEMM by a hundred switches: Cijk_<A>_<B>_<types>_..._MT<tile>_MI<instruction>_...
std::string tensile_name(string_view name) {
  const std::vector<string_view> parts = tokens(name);
  std::string out = "Tensile gemm";
  if (parts.size() > 3) {
    static constexpr std::pair<char, string_view> kTypes[] = {
        {'B', "bf16"}, {'H', "f16"}, {'S', "f32"}, {'D', "f64"}, {'C', "c32"}, {'Z', "c64"}, {'I', "i8"}, {'F', "f8"}};
    for (const auto& [letter, type] : kTypes)
      if (parts[3].front() == letter) add(out, type);
    const string_view transposed = parts[1] == "Ailk" ? "N" : "T";
    add(out, std::string(transposed) + (parts[2] == "Bljk" ? "N" : "T"));
  }
  for (const string_view part : parts)
    if (part.starts_with("MT") && part.size() > 2 && is_digit(part[2])) add(out, part);
  for (const string_view part : parts)
    if (part.starts_with("MI") && part.size() > 2 && is_digit(part[2])) {
      add(out, part);
      break;
    }
  return out;
}

// cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_64x6_tn_align8: "cutlass gemm 80_tensorop_bf16_s16816 relu
// 64x64_64x6 tn"; empty if it is not of that form.
std::string cutlass_name(string_view base) {
  static constexpr string_view kKinds[] = {"gemm", "fprop", "dgrad", "wgrad", "deconv"};
  static constexpr string_view kActivations[] = {"relu", "gelu", "silu", "bias"};
  std::string kind, how, what, extents, layout;
  const std::vector<string_view> parts = tokens(base);
  for (size_t i = 1; i < parts.size(); ++i) {
    const string_view part = parts[i];
    if (kind.empty()) {
      for (const string_view k : kKinds)
        if (part.ends_with(k)) kind = k;
      add(how, kind.empty() ? part : part.substr(0, part.size() - kind.size()), '_');
    } else if (is_extent(part)) {
      add(extents, part, '_');
    } else if (is_layout(part)) {
      layout = part;
    } else if (part == "tf32") {
      add(how, part, '_');
    } else if (is_one_of(part, kActivations)) {
      add(what, part, '_');
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
  static constexpr string_view kWords[] = {"implicit", "gemm", "indexed", "warp", "specialized"};
  const std::vector<string_view> parts = tokens(base);
  if (parts.size() < 4) return std::string(base);
  std::string out = std::string(parts[0]) + "_xmma " + std::string(parts[2]);
  size_t i = 3;
  while (i < parts.size() && is_one_of(parts[i], kWords)) ++i;
  if (i < parts.size()) add(out, parts[i]);
  for (const string_view part : parts)
    if (part.starts_with("tilesize")) add(out, part.substr(8));
  for (; i < parts.size(); ++i)
    if (is_layout(parts[i]) && parts[2] == "gemm") {
      add(out, parts[i]);
      break;
    }
  return out;
}

// MIOpen's igemm_bwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x64x32_wt...: direction, layout, type, block tile.
std::string igemm_name(string_view base) {
  const std::vector<string_view> parts = tokens(base);
  std::string out;
  for (size_t i = 0; i < std::min<size_t>(parts.size(), 5); ++i) add(out, parts[i], '_');
  for (const string_view part : parts)
    if (part.starts_with("bt") && is_extent(part.substr(2))) add(out, part.substr(2));
  return out;
}

}  // namespace

std::string ruled_kernel_name(string_view bare) {
  if (bare.starts_with("nccl") && bare.find("Kernel_") != bare.npos) return nccl_name(bare);
  if (bare.starts_with("Cijk_")) return tensile_name(bare);
  if (bare.starts_with("cutlass")) return cutlass_name(bare);
  if (bare.starts_with("sm") && bare.find("_xmma_") != bare.npos) return xmma_name(bare);
  if (bare.starts_with("igemm_") && bare.find("_bt") != bare.npos) return igemm_name(bare);
  return {};
}

}  // namespace profgpu
