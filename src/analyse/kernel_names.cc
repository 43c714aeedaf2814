// What the name of a kernel tells: kind of work, tensor cores, and a name that people can read.
#include <algorithm>
#include <array>
#include <cctype>

#include "analyse/kernels.h"
#include "analyse/names.h"

namespace profgpu {
namespace {

using std::string_view;

constexpr size_t kLongestShortName = 60;

std::string lower(string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return out;
}

template <size_t N>
bool has_any(string_view text, const string_view (&parts)[N]) {
  return std::any_of(std::begin(parts), std::end(parts), [&](string_view p) { return text.find(p) != text.npos; });
}

struct Group {
  KernelCategory category;
  string_view part;   // lower case
};

// The first part that a name contains decides, so the special stands before the general.
constexpr Group kGroups[] = {
    {KernelCategory::kAttention, "flash"}, {KernelCategory::kAttention, "fmha"},
    {KernelCategory::kAttention, "attn"}, {KernelCategory::kAttention, "attention"},
    {KernelCategory::kAttention, "_sdpa"},
    {KernelCategory::kOptimizer, "adamfunctor"}, {KernelCategory::kOptimizer, "fusedadam"},
    {KernelCategory::kOptimizer, "fused_adam"}, {KernelCategory::kOptimizer, "adam_kernel"},
    {KernelCategory::kOptimizer, "fusedsgd"}, {KernelCategory::kOptimizer, "sgdmathfunctor"},
    {KernelCategory::kOptimizer, "sgdfunctor"}, {KernelCategory::kOptimizer, "lambfunctor"},
    {KernelCategory::kOptimizer, "lambstage"}, {KernelCategory::kOptimizer, "fusedoptimizer"},
    {KernelCategory::kOptimizer, "adagradfunctor"},
    {KernelCategory::kEmbedding, "embedding"}, {KernelCategory::kEmbedding, "embeddingbag"},
    {KernelCategory::kEmbedding, "permute_pooled_embs"}, {KernelCategory::kEmbedding, "indexselect"},
    {KernelCategory::kConvolution, "dgrad"}, {KernelCategory::kConvolution, "wgrad"},
    {KernelCategory::kConvolution, "fprop"}, {KernelCategory::kConvolution, "scudnn"},
    {KernelCategory::kConvolution, "convolve"}, {KernelCategory::kConvolution, "winograd"},
    {KernelCategory::kConvolution, "conv2d"}, {KernelCategory::kConvolution, "conv3d"},
    {KernelCategory::kConvolution, "conv1d"}, {KernelCategory::kConvolution, "convolution"},
    {KernelCategory::kConvolution, "_conv_"}, {KernelCategory::kConvolution, "conv_depthwise"},
    {KernelCategory::kConvolution, "miopensp3asmconv"}, {KernelCategory::kConvolution, "im2col"},
    {KernelCategory::kConvolution, "igemm"}, {KernelCategory::kConvolution, "h884cudnn"},
    {KernelCategory::kGemm, "gemm"}, {KernelCategory::kGemm, "gemv"}, {KernelCategory::kGemm, "cijk_"},
    {KernelCategory::kGemm, "matmul"}, {KernelCategory::kGemm, "nvjet"}, {KernelCategory::kGemm, "splitkreduce"},
    {KernelCategory::kGemm, "cublaslt"}, {KernelCategory::kGemm, "triton_tem_"}, {KernelCategory::kGemm, "_mm_"},
    {KernelCategory::kGemm, "wvsplitk"}, {KernelCategory::kGemm, "dot_kernel"},
    {KernelCategory::kNormalization, "batch_norm"}, {KernelCategory::kNormalization, "batchnorm"},
    {KernelCategory::kNormalization, "layer_norm"}, {KernelCategory::kNormalization, "layernorm"},
    {KernelCategory::kNormalization, "rms_norm"}, {KernelCategory::kNormalization, "rmsnorm"},
    {KernelCategory::kNormalization, "group_norm"}, {KernelCategory::kNormalization, "groupnorm"},
    {KernelCategory::kNormalization, "rowwisemoments"}, {KernelCategory::kNormalization, "bn_bw_"},
    {KernelCategory::kNormalization, "bn_fw_"}, {KernelCategory::kNormalization, "gammabeta"},
    {KernelCategory::kNormalization, "softmax"},
    {KernelCategory::kCopy, "direct_copy"}, {KernelCategory::kCopy, "catarraybatchedcopy"},
    {KernelCategory::kCopy, "copy_kernel"}, {KernelCategory::kCopy, "copy_device_to_device"},
    {KernelCategory::kCopy, "nchwtonhwc"}, {KernelCategory::kCopy, "nhwctonchw"},
    {KernelCategory::kCopy, "transpose"}, {KernelCategory::kCopy, "memcpy"},
    {KernelCategory::kReduction, "reduce"}, {KernelCategory::kReduction, "triton_red_"},
    {KernelCategory::kReduction, "triton_per_"}, {KernelCategory::kReduction, "scankernel"},
    {KernelCategory::kReduction, "radixsort"}, {KernelCategory::kReduction, "topk"},
    {KernelCategory::kReduction, "max_pool"}, {KernelCategory::kReduction, "avg_pool"},
    {KernelCategory::kReduction, "nll_loss"}, {KernelCategory::kReduction, "argm"},
    {KernelCategory::kElementwise, "elementwise"}, {KernelCategory::kElementwise, "triton_poi_"},
    {KernelCategory::kElementwise, "multi_tensor_apply"}, {KernelCategory::kElementwise, "fillfunctor"},
    {KernelCategory::kElementwise, "pointwise"}, {KernelCategory::kElementwise, "dropout"},
};

bool is_identifier(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Without what stands in brackets of any depth; "operator()" and "(anonymous namespace)" go too.
std::string without_brackets(string_view name) {
  std::string out;
  int depth = 0;
  for (const char c : name) {
    if (c == '<' || c == '(' || c == '[' || c == '{') ++depth;
    if (depth == 0) out.push_back(c);
    if ((c == '>' || c == ')' || c == ']' || c == '}') && depth > 0) --depth;
  }
  return out;
}

string_view last_part(string_view qualified) {
  const size_t at = qualified.rfind("::");
  return at == qualified.npos ? qualified : qualified.substr(at + 2);
}

bool ends_with_dropped(std::string& text, string_view ending) {
  if (!string_view(text).ends_with(ending) || text.size() == ending.size()) return false;
  text.resize(text.size() - ending.size());
  return true;
}

// What an elementwise or reduction kernel of PyTorch computes: the functor or *_kernel_cuda inside its arguments.
std::string functor_of(string_view name) {
  std::string best;
  for (size_t i = 0; i < name.size();) {
    if (!is_identifier(name[i])) {
      ++i;
      continue;
    }
    size_t end = i;
    while (end < name.size() && is_identifier(name[end])) ++end;
    std::string word(name.substr(i, end - i));
    i = end;
    static constexpr string_view kGeneral[] = {"BinaryFunctor", "AUnaryFunctor", "BUnaryFunctor", "UnaryFunctor",
                                               "CompareFunctor"};
    if (std::find(std::begin(kGeneral), std::end(kGeneral), word) != std::end(kGeneral)) continue;
    bool named = false;
    for (const string_view ending : {"_kernel_cuda", "_kernel_impl", "_scalar_kernel_impl", "_functor", "Functor"})
      if (ends_with_dropped(word, ending)) {
        named = true;
        break;
      }
    if (word.starts_with("CUDAFunctor_")) word = word.substr(12), named = true;
    if (word.starts_with("CUDAFunctorOnSelf_")) word = word.substr(18), named = true;
    if (word.starts_with("launch_clamp_scalar")) word = "clamp", named = true;
    if (!named || word == "gpu" || word.empty() || word == "Functor") continue;
    best = lower(word);
    break;
  }
  return best;
}

// Tensile names a GEMM by two hundred switches: the types and the tile matter to people.
std::string tensile_name(string_view name) {
  const size_t tile = name.find("_MT");
  std::string out = "Cijk";
  if (tile == name.npos) return out;
  const size_t end = name.find('_', tile + 1);
  out += " " + std::string(name.substr(tile + 1, end == name.npos ? name.npos : end - tile - 1));
  const size_t instruction = name.find("_MI");
  if (instruction != name.npos && instruction + 3 < name.size() &&
      std::isdigit(static_cast<unsigned char>(name[instruction + 3])) != 0) {
    const size_t stop = name.find('_', instruction + 1);
    out += " " + std::string(name.substr(instruction + 1, stop == name.npos ? name.npos : stop - instruction - 1));
  }
  return out;
}

// "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x64_nn_align4>(...)" is known by its argument.
string_view first_argument(string_view name) {
  const size_t open = name.find('<');
  if (open == name.npos) return {};
  size_t end = open + 1;
  while (end < name.size() && is_identifier(name[end])) ++end;
  return name.substr(open + 1, end - open - 1);
}

std::string clipped(std::string text) {
  if (text.size() <= kLongestShortName) return text;
  size_t keep = kLongestShortName - 3;
  while (keep > 0 && (static_cast<unsigned char>(text[keep]) & 0xC0) == 0x80) --keep;
  text.resize(keep);
  return text + "…";
}

}  // namespace

string_view kernel_category_name(KernelCategory category) {
  constexpr std::array<string_view, 11> kNames = {"gemm",      "convolution", "attention", "normalization",
                                                  "elementwise", "reduction",   "embedding", "optimizer",
                                                  "copy",      "communication", "other"};
  return kNames[static_cast<size_t>(category)];
}

KernelCategory kernel_category(string_view name) {
  if (is_communication_kernel(name)) return KernelCategory::kCommunication;
  if (name.starts_with("Memcpy") || name.starts_with("Memset")) return KernelCategory::kCopy;
  std::string text = lower(name);
  for (size_t at = text.find("fbgemm"); at != text.npos; at = text.find("fbgemm")) text.erase(at, 6);  // a library
  for (const Group& g : kGroups)
    if (text.find(g.part) != text.npos) return g.category;
  return KernelCategory::kOther;
}

bool uses_tensor_cores(string_view name) {
  const std::string text = lower(name);
  if (text.starts_with("cijk_")) {
    const size_t at = text.find("_mi");
    return at != text.npos && at + 3 < text.size() && std::isdigit(static_cast<unsigned char>(text[at + 3])) != 0;
  }
  static constexpr string_view kParts[] = {
      "tensorop", "884", "1688", "16816", "16832", "hmma", "imma", "bmma", "wmma", "wgmma", "mfma", "xdl", "nvjet",
      "sm90_xmma", "sm100_", "xmma_gemm_bf16", "xmma_gemm_f16", "xmma_fprop_implicit_gemm_f16", "tf32f32", "_tf32_",
      "flash", "fmha", "gtcx", "_h16816", "tcgen05", "tensor_core", "umma", "gmma"};
  return has_any(text, kParts);
}

std::string short_kernel_name(string_view name) {
  if (name.starts_with("Cijk_")) return tensile_name(name);
  if (name.starts_with("Memcpy") || name.starts_with("Memset")) return clipped(std::string(name));
  std::string base = without_brackets(name);
  // "(anonymous namespace)" leaves an empty part behind.
  const size_t space = base.find_last_of(' ');
  string_view plain = base;
  if (plain.starts_with("void ") || space != base.npos) plain = plain.substr(plain.rfind(' ') + 1);
  plain = last_part(plain);
  if (plain.empty() || plain == "Kernel" || plain == "Kernel2" || plain == "device_kernel") {
    const string_view argument = first_argument(name);
    if (!argument.empty()) plain = argument;
  }
  std::string out(plain);
  if (out.empty()) {
    out = std::string(name.substr(0, kLongestShortName));
    return out.empty() ? "(no name)" : clipped(out);
  }
  ends_with_dropped(out, "_kernel");
  const std::string folded = lower(out);
  if (folded.find("elementwise") != folded.npos || folded.find("reduce") != folded.npos ||
      folded.find("multi_tensor_apply") != folded.npos) {
    const std::string functor = functor_of(name.substr(std::min(name.size(), name.find(out))));
    if (!functor.empty() && functor != folded) out += ": " + functor;
  }
  return clipped(out);
}

}  // namespace profgpu
