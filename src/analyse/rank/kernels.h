// Kernels, copies and sets by device and name.
#pragma once

#include <string>
#include <string_view>

#include "analyse/rank/devices.h"

namespace profgpu {

enum class KernelCategory : uint8_t {
  kGemm, kConvolution, kAttention, kNormalization, kElementwise, kReduction, kEmbedding, kOptimizer, kCopy,
  kCommunication, kOther,
};
std::string_view kernel_category_name(KernelCategory category);
KernelCategory kernel_category(std::string_view name);
/// Products, convolutions and attention: kernels that have FLOPs.
constexpr bool multiplies(KernelCategory category) {
  return category == KernelCategory::kGemm || category == KernelCategory::kConvolution ||
         category == KernelCategory::kAttention;
}
/// Without return type, template arguments, parameters and hash: "vectorized_elementwise add".
std::string short_kernel_name(std::string_view name);
/// "CUDA graph 12": the replay of a graph of which only the whole was recorded, not its kernels.
inline bool is_whole_graph(std::string_view name) { return name.starts_with("CUDA graph "); }
/// The same of each name, with the first parts that tell names apart whose short names are equal: "sgemm (128 6)".
std::vector<std::string> distinct_short_names(const std::vector<std::string_view>& names);
/// Whether the name shows tensor cores (matrix cores on AMD): s16816, tensorop, hmma, xmma, wgmma, MI16x16 ... Those of
/// AMD reach in FP32 a fraction of the rate of bf16: for it they don't count.
bool uses_tensor_cores(std::string_view name, KernelCategory category);

/// Blocks of a kernel's grid; 0: unknown.
int64_t block_count(const Trace& trace, ActivityId kernel);

struct KernelRow {
  int32_t device = 0;
  StringId name;
  std::string text, short_name;   ///< the name, and short_kernel_name() of it
  WorkKind kind = WorkKind::kCompute;
  KernelCategory category = KernelCategory::kOther;
  bool tensor_cores = false;
  int64_t count = 0, total_ns = 0, min_ns = 0, max_ns = 0;
  double mean_ns = 0, median_ns = 0, p95_ns = 0, stddev_ns = 0;
  double kernel_pct = 0;     ///< of the sum of all kernels' durations on the device
  int64_t steady_ns = 0, steady_count = 0;   ///< of those not launched in a warm-up step

  void fields(auto&& v) const {
    v("device", device), v("name", text), v("short_name", short_name), v("kind", work_kind_name(kind));
    v("category", kernel_category_name(category)), v("count", count), v("total_ns", total_ns);
    v("mean_ns", whole_ns(mean_ns)), v("min_ns", min_ns), v("median_ns", whole_ns(median_ns));
    v("p95_ns", whole_ns(p95_ns)), v("max_ns", max_ns), v("stddev_ns", whole_ns(stddev_ns));
    v("kernel_pct", kernel_pct), v("tensor_cores", tensor_cores);
  }
  static std::vector<KernelRow> rows(const Facts& facts);
};

struct Kernels {
  std::vector<KernelRow> rows;               ///< by device, then total, longest first, then name
  std::vector<KernelCategory> category;      ///< by StringId, for names of activities
  std::vector<bool> tensor_cores;            ///< likewise
  static Kernels compute(const Facts& facts);
};

/// The operation of an elementwise or reduction kernel of PyTorch: "add" of "4, at::native::CUDAFunctor_add<float>,
/// ...".
std::string functor_name(std::string_view template_arguments);

}  // namespace profgpu
