// Kernels, copies and sets by device and name.
#pragma once

#include "analyse/devices.h"

namespace profgpu {

enum class KernelCategory : uint8_t {
  kGemm, kConvolution, kAttention, kNormalization, kElementwise, kReduction, kEmbedding, kOptimizer, kCopy,
  kCommunication, kOther,
};
std::string_view kernel_category_name(KernelCategory category);
KernelCategory kernel_category(std::string_view name);
/// What a person calls the kernel: no return type, template arguments, parameters or hash; "vectorized_elementwise: Add".
std::string short_kernel_name(std::string_view name);
/// The name of a kernel that uses tensor cores (matrix cores on AMD): s16816, tensorop, hmma, xmma, wgmma, MI16x16 ...
bool uses_tensor_cores(std::string_view name);
/// The same where its category is known already.
bool uses_tensor_cores(std::string_view name, KernelCategory category);

struct KernelRow {
  int32_t device = 0;
  StringId name;
  WorkKind kind = WorkKind::kCompute;
  KernelCategory category = KernelCategory::kOther;
  bool tensor_cores = false;
  int64_t count = 0, total_ns = 0, min_ns = 0, max_ns = 0;
  double mean_ns = 0, median_ns = 0, p95_ns = 0, stddev_ns = 0;
  double kernel_pct = 0;     ///< of the sum of all kernels' durations on the device
  int64_t steady_ns = 0;     ///< of total_ns, what no warm-up step launched
};

struct Kernels {
  std::vector<KernelRow> rows;               ///< by device, then total, longest first, then name
  std::vector<KernelCategory> category;      ///< of every string of the trace that names an activity
  std::vector<bool> tensor_cores;            ///< likewise
  static Kernels compute(const Facts& facts);
};

}  // namespace profgpu
