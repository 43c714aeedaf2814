#include <fmt/format.h>

#include "analyse/kernels.h"
#include "diagnose/measure.h"

namespace profgpu {
namespace {

struct Top {
  const KernelRow* row = nullptr;
  int64_t ns = 0;           // of it, as counted
  int64_t compute_ns = 0;   // sum of all compute kernels' durations, likewise
};

Top top_of(const Measured& m) {
  Top top;
  for (const KernelRow& k : m.facts().get<Kernels>().rows) {
    if (k.device != m.device().id || k.kind != WorkKind::kCompute) continue;
    const int64_t ns = m.counted(k.total_ns, k.steady_ns);
    top.compute_ns += ns;
    if (ns > top.ns) top.row = &k, top.ns = ns;
  }
  return top;
}

std::optional<double> dominant_kernel_value(const Measured& m) {
  const Top top = top_of(m);
  if (top.row == nullptr) return std::nullopt;
  return 100.0 * static_cast<double>(top.ns) / static_cast<double>(top.compute_ns);
}

void say_dominant_kernel(const Measured& m, Finding& f) {
  const KernelRow& k = *top_of(m).row;
  const std::string name = short_kernel_name(m.trace().strings[k.name]);
  f.what = fmt::format("one kernel takes {:.0f} % of compute: {}", *f.value, shortened(name, 48));
  f.why = fmt::format("{} calls of {} each ({}). Whatever makes it faster makes the job faster.", k.count,
                      duration_text(k.mean_ns), kernel_category_name(k.category));
  f.fix = {"look inside it: ncu --set full --kernel-name regex:… --launch-count 5 python train.py"};
}

}  // namespace

extern const Rule kDominantKernel;
const Rule kDominantKernel = {
    .id = "dominant-kernel",
    .summary = "one kernel takes over half of compute",
    .unit = "%",
    .threshold = 50,
    .severity = Severity::kInfo,
    .meaning =
        "One kernel dominates. That is where kernel-level work pays: its algorithm, its shapes, its memory layout.",
    .computation =
        "Value: the kernel's total duration over that of all compute kernels on the device. No cost: how much faster "
        "it could be is not in the trace.",
    .advice = {
        "Nsight Compute (ncu) on that kernel: is it bound by memory, by compute, or by latency?",
        "gemm, convolution: bf16 or fp16, dimensions in multiples of 8 or 16, channels_last, cudnn.benchmark=True",
        "attention: scaled_dot_product_attention with the flash back end",
        "elementwise: fuse it with its neighbours (torch.compile)",
        "embedding, scatter: sort indices, larger rows, fused table lookups (FBGEMM)",
    },
    .seen = {Locator::At::kLongestKernel, "compute"},
    .rank = {.value = dominant_kernel_value, .say = say_dominant_kernel},
};

}  // namespace profgpu
