#include "analyse/rank/kernels.h"

#include <algorithm>
#include <array>
#include <string>

#include "analyse/rank/averaged_time.h"
#include "analyse/rank/names.h"
#include "analyse/rank/work.h"
#include "base/statistics.h"
#include "base/text.h"
#include "trace/radix_sort.h"

namespace profgpu {
namespace {

// One name and kind of a device's activities.
struct Bucket {
  KernelRow row;
  std::vector<int64_t> durations;
};

void finish(Bucket& b, int64_t kernel_total) {
  KernelRow& r = b.row;
  radix_sort(b.durations);
  r.count = static_cast<int64_t>(b.durations.size());
  r.total_ns = sum_of(b.durations);
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
  const Intervals left_out = facts.get<AveragedTime>().left_out;
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
      const int64_t duration_ns = trace.activity.duration_ns[i];
      buckets[at].durations.push_back(duration_ns);
      if (!contains(left_out, trace.launched_ns(ActivityId(i))))
        buckets[at].row.steady_ns += duration_ns, ++buckets[at].row.steady_count;
      kernel_total += duration_ns;
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

// A kernel's name tells its kind of work, and whether tensor cores do it. The names are those of PyTorch, cuBLAS,
// cuDNN, CUTLASS, FBGEMM, Apex, Triton and Inductor, vLLM, Tensile, Composable Kernel and MIOpen.

namespace {

using std::string_view;
using enum KernelCategory;

// Lower case, without the parameter list, whose types say nothing about the work, and without library names that look
// like work. The parameter list is the last bracket at depth 0, other than "(anonymous namespace)" and operator().
std::string work_text(string_view name) {
  constexpr size_t kTelling = 600;   // the operation comes first among the template arguments
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
  for (const string_view library : {"fbgemm_gpu", "fbgemm", "flashinfer"})
    for (size_t at = text.find(library); at != text.npos; at = text.find(library))
      text.replace(at, library.size(), "fb");
  return text;
}

struct Group {
  KernelCategory category;
  std::vector<string_view> parts;   // lower case
};

// The first group with a part that the name contains decides, so special names come before general ones.
const std::vector<Group>& groups() {
  static const std::vector<Group> all = {
      {kCopy, {"reshape_and_cache", "copy_blocks", "swap_blocks", "marlin_repack"}},
      {kElementwise, {"rotary_emb", "apply_rope", "applyrotary", "fused_rope", "qk_rope", "opcachedfwd", "subtensorop"}},
      // Attention; in parts, of which the second adds up the first's
      {kAttention,
       {"flash", "fmha", "attn", "attention", "_sdpa", "mha_fwd", "mha_bwd", "batchprefillwith", "batchdecodewith",
        "sage_fwd", "mla_a16w", "mla_a8w", "mla_dec", "mla_pfl", "mla_reduce", "_fwd_grouped_kernel_stage",
        "_fwd_kernel_stage", "pa_decode", "pa_bf16", "pa_fp16", "reduce_segments", "bwd_kernel_dk_dv", "bwd_kernel_dkdv",
        "bwd_kernel_dq",
        "bwd_kernel_fuse", "bwd_preprocess"}},
      // What surrounds products: the choice of experts, and sums of split products
      {kReduction, {"moesorting", "topkgating", "postgsu"}},
      // Embedding tables, and the bookkeeping of their indices
      {kEmbedding,
       {"embedding", "indexselect", "vectorized_gather", "pooled_embs", "bucketize_sparse", "permute_2d_",
        "permute_1d_", "permute_indices", "bounds_check_indices", "linearize_index", "find_long_segments",
        "_offsets_range"}},
      // Optimizers: multi-tensor kernels are told by their functor
      {kOptimizer,
       {"adamfunctor", "adammathfunctor", "adamcapturable", "fusedadam", "fused_adam", "adam_cuda", "adam_kernel",
        "multi_tensor_adam", "sgdfunctor", "sgdmathfunctor", "fusedsgd", "lambfunctor", "lambstage", "lamb_cuda",
        "novogradfunctor", "adagradfunctor", "adagradmathfunctor", "lionfunctor", "larcfunctor", "koptimizer",
        "kpreconditionoptimizer", "fusedoptimizer"}},
      // Convolution, with what cuDNN and MIOpen run before and after it
      {kCopy, {"nchwtonhwc", "nhwctonchw"}},
      {kConvolution,
       {"dgrad", "wgrad", "fprop", "scudnn", "884cudnn", "1688cudnn", "16816cudnn", "hcudnn", "convolve", "winograd",
        "convolution", "conv1d", "conv2d", "conv3d", "conv_", "depthwise", "asmconv", "bwd_weight", "im2col",
        "im2d2col", "col2im", "miopenconv", "igemm_fwd_", "igemm_bwd_", "igemm_wrw_", "fft2d_", "cask_cudnn", "cutlass_cudnn"}},
      // Matrix products
      {kGemm,
       {"gemm", "gemv", "cijk_", "matmul", "nvjet", "splitkreduce", "cublaslt", "epilogue::impl", "wvsplitk",
        "wv_splitk", "fused_moe", "fusedmoe", "fmoe", "moe1_", "moe2_", "grouped_mm", "scaled_mm", "bmm_", "flatmm",
        "marlin", "cutlass_80", "cutlass3x"}},
      // Normalization
      {kNormalization,
       {"batch_norm", "batchnorm", "layer_norm", "layernorm", "rms_norm", "rmsnorm", "group_norm", "groupnorm",
        "instance_norm", "rowwisemoments", "bn_bw_", "bn_fw_", "gammabeta", "welford", "softmax",
        "computeinternalgradients", "computefusedparams"}},
      // Moving data without changing it
      {kCopy,
       {"direct_copy", "catarraybatchedcopy", "copy_kernel", "copy_async", "copy_device_to_device", "transpose",
        "index_elementwise", "scatter_gather", "indexfunc", "memcpy", "memset", "triton_poi_fused_clone"}},
      // Reductions, scans, sorts
      {kReduction,
       {"reduce", "l2norm", "lpnorm", "devicescan", "scankernel", "cumsum", "radixsort", "mergesort", "bitonicsort",
        "devicecompact", "deviceselect", "histogram", "topk", "gathertop", "sum_bitmatrix", "max_pool", "avg_pool",
        "maxpool", "average_pool", "nll_loss", "nllcriterion", "cross_entropy", "argmax", "argmin", "dot_kernel"}},
      {kElementwise,
       {"elementwise", "triton_poi_", "multi_tensor_apply", "pointwise", "dropout", "activation", "act_and_mul",
        "gelu", "swiglu", "quant", "fp8rowwise_to", "fp8_qparam", "scalepackedtensor", "scal_kernel", "upsample",
        "fillfunctor"}},
  };
  return all;
}

// Inductor names a kernel by its kind and the ops fused into it; the names of fused ops must not decide.
KernelCategory inductor_category(string_view text) {
  if (text.starts_with("triton_tem_"))
    return contains(text, "attention") ? kAttention : contains(text, "conv") ? kConvolution : kGemm;
  if (text.starts_with("triton_mm") || text.starts_with("triton_bmm")) return kGemm;
  if (text.starts_with("triton_poi_fused_clone_") || text.starts_with("triton_poi_fused__to_copy_")) {
    const string_view rest = text.substr(text.find('_', 22) + 1);
    if (all_digits(rest)) return kCopy;   // nothing but a copy
  }
  if (text.starts_with("triton_red_") || text.starts_with("triton_per_") || text.starts_with("triton_spl_") ||
      text.starts_with("triton_mix_")) {
    constexpr string_view kNorms[] = {"_norm", "softmax"};
    // Inductor splits a root mean square into these.
    const bool root_mean_square = contains(text, "_mean") && contains(text, "rsqrt");
    return contains_any(text, kNorms) || root_mean_square ? kNormalization : kReduction;
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
  return std::ranges::count(kShapes, digits) > 0;
}

bool has_instruction(string_view text) {
  constexpr string_view kWords[] = {"hmma", "imma", "bmma", "dmma", "wmma", "wgmma", "mfma", "umma", "xdl"};
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find_first_of("_<: ", at), text.size());
    const string_view token = text.substr(at, end - at);
    if (is_instruction(token) || starts_with_any(token, kWords)) return true;
    at = end + 1;
  }
  return false;
}

bool is_bare(string_view name) { return name.find_first_of(" <(") == string_view::npos; }

bool attention_on_tensor_cores(string_view text) {
  constexpr string_view kAround[] = {"combine",    "dot_do_o",        "convert_dq",   "preprocess", "paged_attention",
                                     "mla_reduce", "reduce_segments", "kernel_stage2"};
  if (contains_any(text, kAround)) return false;
  // Memory-efficient attention falls back to plain arithmetic for float on old devices.
  constexpr string_view kOldDevices[] = {"sm50", "sm60", "sm70"};
  return !(contains(text, "cutlass") && contains(text, "_f32_") && contains_any(text, kOldDevices));
}

// AMD's matrix instructions multiply FP32 at a fraction of the rate of bf16: these are no tensor cores in the sense in
// which they are asked for.
bool is_amd_fp32(string_view name, string_view text) {
  if (contains(text, "cijk_")) return precision_in_kernel_name(name) == Precision::kFp32;
  constexpr string_view kMatrix[] = {"gtcx", "xdlops", "mfma"}, kNarrower[] = {"bf16", "fp16", "fp8", "int8"};
  return contains_any(text, kMatrix) && contains(text, "fp32") && !contains_any(text, kNarrower);
}

// Tensile: a matrix instruction, MI16x16x1, or none. Nothing else multiplies FP8, nor do those written by hand use
// anything else for narrow types.
bool tensile_on_matrix_cores(string_view name, string_view text) {
  const size_t at = text.find("_mi");
  if (at != text.npos && at + 3 < text.size() && is_digit(text[at + 3])) return true;
  const Precision precision = precision_in_kernel_name(name);
  const bool narrow = precision == Precision::kBf16 || precision == Precision::kFp16;
  return precision == Precision::kFp8 || (narrow && text.starts_with("custom_"));
}

// Triton's names are bare, and its tl.dot runs on tensor cores for every type but float64.
bool is_triton_product(string_view name, string_view text) {
  if (!is_bare(name) || name.starts_with("_Z") || contains(text, "finalize") || contains(text, "reduce")) return false;
  constexpr string_view kProducts[] = {"matmul", "fused_moe_kernel", "scaled_mm"};
  const bool private_name = text.starts_with('_') && (contains(text, "gemm") || contains(text, "grouped_mm"));
  return private_name || contains_any(text, kProducts);
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
  if (text.starts_with("dma")) return kCopy;   // of Meta's accelerators
  const Group* found = first_where(groups(), [&](const Group& g) { return contains_any(text, g.parts); });
  return found != nullptr ? found->category : kOther;
}

int64_t block_count(const Trace& trace, ActivityId kernel) {
  const ActivityArgsId args = trace.activity.args[kernel.value];
  if (!args.valid()) return 0;
  const int32_t(&grid)[3] = trace.activity_args[args.value].grid;
  return int64_t{grid[0]} * grid[1] * grid[2];
}

bool uses_tensor_cores(string_view name, KernelCategory category) {
  if (category != kGemm && category != kConvolution && category != kAttention) return false;
  const std::string text = lower_case(name);
  if (is_amd_fp32(name, text)) return false;
  if (contains(text, "cijk_")) return tensile_on_matrix_cores(name, text);
  if (contains(text, "simt") || contains(text, "ffma")) return false;
  if (category == kAttention && attention_on_tensor_cores(text)) return true;
  if (contains(text, "xmma_")) return true;     // those without are named ffma
  constexpr string_view kParts[] = {"tensorop", "tfloat32", "tf32", "nvjet", "gmma", "_xdl", "xdlops", "gtcx",
                                    "tcgen05", "triton_tem_", "triton_mm", "triton_bmm", "cooperative_tensor",
                                    // DeepGEMM, Marlin, TensorRT-LLM, AITER and Composable Kernel
                                    "deep_gemm", "marlin", "bmm_e2m1", "bmm_e4m3", "bmm_bfloat16", "fmoe", "bf16gemm",
                                    "f4gemm", "flatmm", "moe_gemm", "quantgemmkernel"};
  return contains_any(text, kParts) || has_instruction(text) || is_triton_product(name, text);
}

}  // namespace profgpu
