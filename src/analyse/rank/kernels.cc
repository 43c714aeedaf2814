#include "analyse/rank/kernels.h"

#include <algorithm>
#include <array>
#include <string>

#include "analyse/rank/names.h"
#include "analyse/rank/steps.h"
#include "base/statistics.h"
#include "base/text.h"
#include "trace/radix_sort.h"

namespace profgpu {
namespace {

// Durations of each (name, kind) of a device's activity.
struct Bucket {
  KernelRow row;
  std::vector<int64_t> durations;
};

void finish(Bucket& b, int64_t kernel_total) {
  KernelRow& r = b.row;
  radix_sort(b.durations);
  r.count = static_cast<int64_t>(b.durations.size());
  for (const int64_t d : b.durations) r.total_ns += d;
  r.min_ns = b.durations.front();
  r.max_ns = b.durations.back();
  r.mean_ns = static_cast<double>(r.total_ns) / static_cast<double>(r.count);
  r.median_ns = percentile_of_sorted(b.durations, 50);
  r.p95_ns = percentile_of_sorted(b.durations, 95);
  r.stddev_ns = standard_deviation(b.durations);
  r.kernel_pct = percent_of(r.total_ns, kernel_total);
}

}  // namespace

std::vector<KernelRow> KernelRow::rows(const Facts& facts) { return facts.get<Kernels>().rows; }

Kernels Kernels::compute(const Facts& facts) {
  const Trace& trace = facts.trace();
  const Devices& devices = facts.get<Devices>();
  const Intervals warmup = facts.get<Steps>().left_out_time();
  Kernels all;
  all.category.resize(trace.strings.size(), KernelCategory::kOther);
  all.tensor_cores.resize(trace.strings.size());
  std::vector<bool> known(trace.strings.size());
  for (const StringId name : trace.activity.name) {
    if (known[name.value]) continue;
    known[name.value] = true;
    all.category[name.value] = kernel_category(trace.strings[name]);
    all.tensor_cores[name.value] = uses_tensor_cores(trace.strings[name], all.category[name.value]);
  }
  for (const DeviceTime& device : devices.devices) {
    std::vector<uint32_t> bucket_of(trace.strings.size() * 3, UINT32_MAX);
    std::vector<Bucket> buckets;
    int64_t kernel_total = 0;
    for (uint32_t i = device.begin.value; i < device.end.value; ++i) {
      const StringId name = trace.activity.name[i];
      const WorkKind kind = devices.kind[i];
      uint32_t& at = bucket_of[name.value * 3 + static_cast<size_t>(kind)];
      if (at == UINT32_MAX) {
        at = static_cast<uint32_t>(buckets.size());
        Bucket& b = buckets.emplace_back();
        b.row.device = device.id;
        b.row.name = name;
        b.row.text = trace.strings[name];
        b.row.short_name = short_kernel_name(b.row.text);
        b.row.kind = kind;
        b.row.category = kind == WorkKind::kMemory ? KernelCategory::kCopy : all.category[name.value];
        b.row.tensor_cores = all.tensor_cores[name.value];
      }
      buckets[at].durations.push_back(trace.activity.duration_ns[i]);
      const HostId launch = trace.activity.launch[i];
      const int64_t asked_ns = launch.valid() ? trace.host.start_ns[launch.value] : trace.activity.start_ns[i];
      if (!contains(warmup, asked_ns)) buckets[at].row.steady_ns += trace.activity.duration_ns[i];
      kernel_total += trace.activity.duration_ns[i];
    }
    for (Bucket& b : buckets) {
      finish(b, kernel_total);
      all.rows.push_back(std::move(b.row));
    }
  }
  std::sort(all.rows.begin(), all.rows.end(), [&](const KernelRow& a, const KernelRow& b) {
    if (a.device != b.device) return a.device < b.device;
    if (a.total_ns != b.total_ns) return a.total_ns > b.total_ns;
    if (a.name != b.name) return trace.strings[a.name] < trace.strings[b.name];
    return a.kind < b.kind;
  });
  return all;
}

// What the name of a kernel tells about its work: the kind of it, and whether tensor cores do it. Names are those of
// PyTorch, cuBLAS, cuDNN, CUTLASS, FBGEMM, Apex, Triton and Inductor, vLLM, Tensile, Composable Kernel and MIOpen.

namespace {

using std::string_view;
using enum KernelCategory;

bool has(string_view text, string_view part) { return text.find(part) != text.npos; }

template <class Parts>
bool has_any(string_view text, const Parts& parts) {
  return std::any_of(std::begin(parts), std::end(parts), [&](string_view p) { return has(text, p); });
}

// Lower case, without the parameter list (types there say nothing of the work) and without library names that read
// like work. The parameter list is the last bracket at depth 0; "(anonymous namespace)" and operator() are not it.
std::string work_text(string_view name) {
  constexpr size_t kTelling = 600;   // what a kernel computes stands at the front of its arguments
  name = name.substr(0, kTelling);
  size_t end = name.size();
  int depth = 0;
  for (size_t i = 0; i < name.size() && end == name.size(); ++i) {
    if (name[i] == '<') ++depth;
    if (name[i] == '>' && depth > 0) --depth;
    if (name[i] == '(' && depth == 0 && i > 0 && !name.substr(i).starts_with("(anonymous")) end = i;
    if (name[i] == '(' && depth > 0) ++depth;
    if (name[i] == ')' && depth > 0) --depth;
  }
  std::string text = lower_case(name.substr(0, end));
  for (const string_view library : {"fbgemm_gpu", "fbgemm"})
    for (size_t at = text.find(library); at != text.npos; at = text.find(library))
      text.replace(at, library.size(), "fb");
  return text;
}

struct Group {
  KernelCategory category;
  string_view part;   // lower case
};

// The first part that a name contains decides, so the special stands before the general.
constexpr Group kGroups[] = {
    {kCopy, "reshape_and_cache"},
    {kCopy, "copy_blocks"},
    {kCopy, "swap_blocks"},
    {kElementwise, "rotary_emb"},
    {kElementwise, "apply_rope"},
    {kElementwise, "fused_rope"},
    {kElementwise, "subtensorop"},
    // Attention
    {kAttention, "flash"},
    {kAttention, "fmha"},
    {kAttention, "attn"},
    {kAttention, "attention"},
    {kAttention, "_sdpa"},
    {kAttention, "mha_fwd"},
    {kAttention, "mha_bwd"},
    {kAttention, "batchprefillwith"},
    {kAttention, "batchdecodewith"},
    // Embedding tables, and the bookkeeping of their indices
    {kEmbedding, "embedding"},
    {kEmbedding, "indexselect"},
    {kEmbedding, "vectorized_gather"},
    {kEmbedding, "pooled_embs"},
    {kEmbedding, "bucketize_sparse"},
    {kEmbedding, "permute_2d_"},
    {kEmbedding, "permute_1d_"},
    {kEmbedding, "permute_indices"},
    {kEmbedding, "bounds_check_indices"},
    {kEmbedding, "linearize_index"},
    {kEmbedding, "find_long_segments"},
    {kEmbedding, "_offsets_range"},
    // Optimizers: multi-tensor kernels are told by their functor
    {kOptimizer, "adamfunctor"},
    {kOptimizer, "adammathfunctor"},
    {kOptimizer, "adamcapturable"},
    {kOptimizer, "fusedadam"},
    {kOptimizer, "fused_adam"},
    {kOptimizer, "adam_cuda"},
    {kOptimizer, "adam_kernel"},
    {kOptimizer, "multi_tensor_adam"},
    {kOptimizer, "sgdfunctor"},
    {kOptimizer, "sgdmathfunctor"},
    {kOptimizer, "fusedsgd"},
    {kOptimizer, "lambfunctor"},
    {kOptimizer, "lambstage"},
    {kOptimizer, "lamb_cuda"},
    {kOptimizer, "novogradfunctor"},
    {kOptimizer, "adagradfunctor"},
    {kOptimizer, "adagradmathfunctor"},
    {kOptimizer, "lionfunctor"},
    {kOptimizer, "larcfunctor"},
    {kOptimizer, "koptimizer"},
    {kOptimizer, "kpreconditionoptimizer"},
    {kOptimizer, "fusedoptimizer"},
    // Convolution, with what cuDNN and MIOpen run before and after it
    {kCopy, "nchwtonhwc"},
    {kCopy, "nhwctonchw"},
    {kConvolution, "dgrad"},
    {kConvolution, "wgrad"},
    {kConvolution, "fprop"},
    {kConvolution, "scudnn"},
    {kConvolution, "884cudnn"},
    {kConvolution, "1688cudnn"},
    {kConvolution, "16816cudnn"},
    {kConvolution, "hcudnn"},
    {kConvolution, "convolve"},
    {kConvolution, "winograd"},
    {kConvolution, "convolution"},
    {kConvolution, "conv1d"},
    {kConvolution, "conv2d"},
    {kConvolution, "conv3d"},
    {kConvolution, "conv_"},
    {kConvolution, "depthwise"},
    {kConvolution, "asmconv"},
    {kConvolution, "bwd_weight"},
    {kConvolution, "im2col"},
    {kConvolution, "im2d2col"},
    {kConvolution, "col2im"},
    {kConvolution, "igemm_fwd_"},
    {kConvolution, "igemm_bwd_"},
    {kConvolution, "igemm_wrw_"},
    {kConvolution, "fft2d_"},
    {kConvolution, "cask_cudnn"},
    {kConvolution, "cutlass_cudnn"},
    // Matrix products
    {kGemm, "gemm"},
    {kGemm, "gemv"},
    {kGemm, "cijk_"},
    {kGemm, "matmul"},
    {kGemm, "nvjet"},
    {kGemm, "splitkreduce"},
    {kGemm, "cublaslt"},
    {kGemm, "epilogue::impl"},
    {kGemm, "wvsplitk"},
    {kGemm, "fused_moe"},
    {kGemm, "fusedmoe"},
    {kGemm, "cutlass_80"},
    {kGemm, "cutlass3x"},
    // Normalization
    {kNormalization, "batch_norm"},
    {kNormalization, "batchnorm"},
    {kNormalization, "layer_norm"},
    {kNormalization, "layernorm"},
    {kNormalization, "rms_norm"},
    {kNormalization, "rmsnorm"},
    {kNormalization, "group_norm"},
    {kNormalization, "groupnorm"},
    {kNormalization, "instance_norm"},
    {kNormalization, "rowwisemoments"},
    {kNormalization, "bn_bw_"},
    {kNormalization, "bn_fw_"},
    {kNormalization, "gammabeta"},
    {kNormalization, "welford"},
    {kNormalization, "softmax"},
    {kNormalization, "computeinternalgradients"},
    {kNormalization, "computefusedparams"},
    // Moving data without changing it
    {kCopy, "direct_copy"},
    {kCopy, "catarraybatchedcopy"},
    {kCopy, "copy_kernel"},
    {kCopy, "copy_async"},
    {kCopy, "copy_device_to_device"},
    {kCopy, "transpose"},
    {kCopy, "index_elementwise"},
    {kCopy, "scatter_gather"},
    {kCopy, "indexfunc"},
    {kCopy, "memcpy"},
    {kCopy, "memset"},
    {kCopy, "triton_poi_fused_clone"},
    // Reductions, scans, sorts
    {kReduction, "reduce"},
    {kReduction, "l2norm"},
    {kReduction, "lpnorm"},
    {kReduction, "devicescan"},
    {kReduction, "scankernel"},
    {kReduction, "cumsum"},
    {kReduction, "radixsort"},
    {kReduction, "mergesort"},
    {kReduction, "bitonicsort"},
    {kReduction, "devicecompact"},
    {kReduction, "deviceselect"},
    {kReduction, "histogram"},
    {kReduction, "topk"},
    {kReduction, "gathertop"},
    {kReduction, "sum_bitmatrix"},
    {kReduction, "max_pool"},
    {kReduction, "avg_pool"},
    {kReduction, "maxpool"},
    {kReduction, "average_pool"},
    {kReduction, "nll_loss"},
    {kReduction, "nllcriterion"},
    {kReduction, "cross_entropy"},
    {kReduction, "argmax"},
    {kReduction, "argmin"},
    {kReduction, "dot_kernel"},
    {kElementwise, "elementwise"},
    {kElementwise, "triton_poi_"},
    {kElementwise, "multi_tensor_apply"},
    {kElementwise, "pointwise"},
    {kElementwise, "dropout"},
    {kElementwise, "activation"},
    {kElementwise, "act_and_mul"},
    {kElementwise, "gelu"},
    {kElementwise, "swiglu"},
    {kElementwise, "quant"},
    {kElementwise, "fp8rowwise_to"},
    {kElementwise, "fp8_qparam"},
    {kElementwise, "scalepackedtensor"},
    {kElementwise, "scal_kernel"},
    {kElementwise, "upsample"},
    {kElementwise, "fillfunctor"},
};

// Inductor names a kernel by its kind and the ops that were fused into it; names of fused ops must not decide.
KernelCategory inductor_category(string_view text) {
  if (text.starts_with("triton_tem_"))
    return has(text, "attention") ? kAttention : has(text, "conv") ? kConvolution : kGemm;
  if (text.starts_with("triton_mm") || text.starts_with("triton_bmm")) return kGemm;
  if (text.starts_with("triton_poi_fused_clone_") || text.starts_with("triton_poi_fused__to_copy_")) {
    const string_view rest = text.substr(text.find('_', 22) + 1);
    if (!rest.empty() && std::all_of(rest.begin(), rest.end(), is_digit)) return kCopy;   // nothing but a copy
  }
  if (text.starts_with("triton_red_") || text.starts_with("triton_per_") || text.starts_with("triton_spl_") ||
      text.starts_with("triton_mix_")) {
    constexpr string_view kNorms[] = {"_norm", "softmax"};
    // A root mean square, which Inductor takes apart into these.
    const bool root_mean_square = has(text, "_mean") && has(text, "rsqrt");
    return has_any(text, kNorms) || root_mean_square ? kNormalization : kReduction;
  }
  return text.starts_with("triton_poi_") || text.starts_with("triton_for_") ? kElementwise : kOther;
}

// A token of a GEMM's name that states the matrix instruction: s1688gemm, h884, i8816, s16816fprop, s64x128x16gemm.
bool is_instruction(string_view token) {
  constexpr string_view kShapes[] = {"884", "8816", "8832", "1688", "16816", "16832", "16864", "161616", "81616"};
  if (token.size() < 4 || string_view("shidbcz").find(token.front()) == string_view::npos) return false;
  size_t end = 1;
  while (end < token.size() && is_digit(token[end])) ++end;
  const string_view digits = token.substr(1, end - 1);
  return std::find(std::begin(kShapes), std::end(kShapes), digits) != std::end(kShapes);
}

bool has_instruction(string_view text) {
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && text[end] != '_' && text[end] != '<' && text[end] != ':' && text[end] != ' ') ++end;
    const string_view token = text.substr(at, end - at);
    constexpr string_view kWords[] = {"hmma", "imma", "bmma", "dmma", "wmma", "wgmma", "mfma", "umma", "xdl"};
    if (is_instruction(token)) return true;
    for (const string_view word : kWords)
      if (token.starts_with(word)) return true;
    at = end + 1;
  }
  return false;
}

bool is_bare(string_view name) { return name.find_first_of(" <(") == string_view::npos; }

bool attention_on_tensor_cores(string_view text) {
  constexpr string_view kAround[] = {"combine", "dot_do_o", "convert_dq", "preprocess", "paged_attention"};
  if (has_any(text, kAround)) return false;
  // Memory-efficient attention falls back to plain arithmetic for float on old devices.
  return !(has(text, "cutlass") && has(text, "_f32_") && (has(text, "sm50") || has(text, "sm60") || has(text, "sm70")));
}

}  // namespace

string_view kernel_category_name(KernelCategory category) {
  constexpr std::array<string_view, 11> kNames = {"gemm",      "convolution", "attention", "normalization",
                                                  "elementwise", "reduction",   "embedding", "optimizer",
                                                  "copy",      "communication", "other"};
  return kNames[static_cast<size_t>(category)];
}

KernelCategory kernel_category(string_view name) {
  if (is_communication_kernel(name)) return kCommunication;
  const std::string text = work_text(name);
  if (text.starts_with("triton_")) return inductor_category(text);
  for (const Group& g : kGroups)
    if (has(text, g.part)) return g.category;
  return kOther;
}

bool uses_tensor_cores(string_view name) { return uses_tensor_cores(name, kernel_category(name)); }

bool uses_tensor_cores(string_view name, KernelCategory category) {
  if (category != kGemm && category != kConvolution && category != kAttention) return false;
  const std::string text = lower_case(name);
  if (text.starts_with("cijk_")) {   // Tensile: a matrix instruction, MI16x16x1, or none
    const size_t at = text.find("_mi");
    return at != text.npos && at + 3 < text.size() && is_digit(text[at + 3]);
  }
  if (has(text, "simt") || has(text, "ffma")) return false;
  if (category == kAttention && attention_on_tensor_cores(text)) return true;
  if (has(text, "xmma_")) return true;     // those without are named ffma
  constexpr string_view kParts[] = {"tensorop", "tfloat32", "tf32", "nvjet", "gmma", "_xdl", "xdlops", "gtcx",
                                    "tcgen05", "triton_tem_", "triton_mm", "triton_bmm", "cooperative_tensor"};
  if (has_any(text, kParts) || has_instruction(text)) return true;
  // A bare name is Triton's: tl.dot runs on tensor cores for every type but float64.
  return is_bare(name) && has(text, "matmul") && !has(text, "finalize");
}

}  // namespace profgpu
