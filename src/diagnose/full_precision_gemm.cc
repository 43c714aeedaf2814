#include <fmt/format.h>

#include "analyse/kernels.h"
#include "diagnose/measure.h"

namespace profgpu {
namespace {

bool is_matrix_work(KernelCategory c) {
  return c == KernelCategory::kGemm || c == KernelCategory::kConvolution || c == KernelCategory::kAttention;
}

bool is_amd(const DeviceProperties& d) {
  return d.name.find("AMD") != std::string::npos || d.name.find("Instinct") != std::string::npos;
}

// Volta and newer, but for Turing's GTX 16; Instinct MI100 and newer (their names say MI, or the trace's kernels use matrix
// instructions).
bool has_tensor_cores(const DeviceProperties& d) {
  if (is_amd(d)) return d.name.find("MI") != std::string::npos;
  return d.compute_major >= 7 && d.name.find("GTX 16") == std::string::npos;
}

struct Share {
  int64_t matrix_ns = 0, without_ns = 0, longest_ns = 0;
  const KernelRow* longest = nullptr;
};

Share share_of(const Measured& m) {
  Share s;
  for (const KernelRow& k : m.facts().get<Kernels>().rows) {
    if (k.device != m.device().id || k.kind != WorkKind::kCompute || !is_matrix_work(k.category)) continue;
    const int64_t ns = m.counted(k.total_ns, k.steady_ns);
    s.matrix_ns += ns;
    if (k.tensor_cores) continue;
    s.without_ns += ns;
    if (ns > s.longest_ns) s.longest = &k, s.longest_ns = ns;
  }
  return s;
}

std::optional<double> full_precision_gemm_value(const Measured& m) {
  if (!has_tensor_cores(m.trace().properties(m.device().id))) return std::nullopt;
  const Share s = share_of(m);
  if (s.matrix_ns == 0) return std::nullopt;
  return 100.0 * static_cast<double>(s.without_ns) / static_cast<double>(s.matrix_ns);
}

void say_full_precision_gemm(const Measured& m, Finding& f) {
  const Share s = share_of(m);
  const DeviceProperties d = m.trace().properties(m.device().id);
  f.what = fmt::format("{:.0f} % of matrix and convolution time runs without tensor cores", *f.value);
  f.why = fmt::format("{} has units that multiply matrices several times as fast in bf16, fp16 or TF32.", d.name);
  if (is_amd(d) || d.compute_major >= 8)
    f.fix = {"with torch.autocast(\"cuda\", dtype=torch.bfloat16): …",
             "torch.set_float32_matmul_precision(\"high\")   # TF32 for what stays in float32"};
  else
    f.fix = {"with torch.autocast(\"cuda\", dtype=torch.float16): … with torch.amp.GradScaler()"};
  if (s.longest == nullptr) return;
  const std::string_view name = m.trace().strings[s.longest->name];
  f.evidence.push_back(fmt::format("longest: {}", short_kernel_name(name)));
  f.seen = {Locator::At::kLongestKernel, std::string(name)};
}

}  // namespace

extern const Rule kFullPrecisionGemm;
const Rule kFullPrecisionGemm = {
    .id = "full-precision-gemm",
    .summary = "matrix work without tensor cores on a device that has them",
    .unit = "%",
    .threshold = 50,
    .meaning =
        "Matrix products, convolutions and attention run in full float32 on the ordinary units. On devices with "
        "tensor cores, reduced precision is 3 to 16 times as fast for the same work and halves memory traffic.",
    .computation =
        "Value: share of the time of gemm, convolution and attention kernels whose names show no tensor-core "
        "instruction. No cost: how much faster a kernel would be is not in the trace.",
    .advice = {
        "torch.autocast(\"cuda\", dtype=torch.bfloat16) around forward and loss (Ampere, MI200 and newer)",
        "torch.autocast with float16 and torch.amp.GradScaler (Volta, Turing)",
        "torch.set_float32_matmul_precision(\"high\"); torch.backends.cudnn.allow_tf32 = True (Ampere and newer)",
        "FSDP: MixedPrecisionPolicy(param_dtype=torch.bfloat16); DeepSpeed: \"bf16\": {\"enabled\": true}",
        "dimensions that are multiples of 8 (fp16, bf16) or 16 (int8, fp8), channels_last for convolutions",
    },
    .rank = {.value = full_precision_gemm_value, .say = say_full_precision_gemm},
    .checklist = {{.place = 5,
                   .id = "mixed-precision",
                   .question = "Do matrix kernels use tensor cores?",
                   .label = "mixed precision",
                   .judge = [](const RankMeasure& m, bool found) {
                     return found ? Verdict::kFail : m.matrix_work ? Verdict::kPass : Verdict::kUnknown;
                   }}},
};

}  // namespace profgpu
