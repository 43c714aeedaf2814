#include <fmt/format.h>

#include "analyse/rules/measure.h"

namespace profgpu {
namespace {

bool is_amd(const DeviceProperties& d) {
  return d.name.find("AMD") != std::string::npos || d.name.find("Instinct") != std::string::npos;
}

// Volta and newer, but for Turing's GTX 16; Instinct MI100 and newer (their names say MI, or the trace's kernels use
// matrix instructions).
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
  return only_if(s.matrix_ns != 0, percent_of(s.without_ns, s.matrix_ns));
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

constexpr int64_t kSmallNs = 20'000;
constexpr double kKernelsAStep = 100;

double small_kernels_a_step(const Measured& m) {
  const Trace& trace = m.trace();
  const auto& phase = m.facts().get<Phases>().of_activity;
  int64_t count = 0;
  for (uint32_t i = 0; i < trace.activity.size(); ++i) {
    if (phase[i] != Phase::kOptimizer || trace.activity.kind[i] != ActivityKind::kKernel) continue;
    const HostId launch = trace.activity.launch[i];
    const int64_t time = launch.valid() ? trace.host.start_ns[launch.value] : trace.activity.start_ns[i];
    count += trace.activity.duration_ns[i] < kSmallNs && m.in_measured_step(time);
  }
  return m.steps() > 0 ? static_cast<double>(count) / static_cast<double>(m.steps()) : 0;
}

// "SGD" of "Optimizer.step#SGD.step".
std::string optimizer_name(const Trace& trace) {
  for (size_t i = 0; i < trace.strings.size(); ++i) {
    const std::string_view name = trace.strings[StringId(i)];
    constexpr std::string_view kPrefix = "Optimizer.step#";
    if (name.starts_with(kPrefix))
      return std::string(name.substr(kPrefix.size(), name.find('.', kPrefix.size()) - kPrefix.size()));
  }
  return "";
}

void say_unfused_optimizer(const Measured& m, Finding& f) {
  const double kernels = small_kernels_a_step(m);
  std::string name = optimizer_name(m.trace());
  f.what = fmt::format("{:.0f} small kernels a step in the optimizer", kernels);
  f.why = fmt::format("The optimizer takes {} of the step, launched parameter by parameter.", percent_text(*f.value));
  const bool known = name == "SGD" || name == "Adam" || name == "AdamW" || name == "Adagrad";
  if (known)
    f.fix = {fmt::format("torch.optim.{}(…, fused=True)", name), "foreach=True where there is no fused version"};
  else f.fix = {"foreach=True, where the optimizer takes it", "torch.compile around optimizer.step()"};
}

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
  return only_if(top.row != nullptr, percent_of(top.ns, top.compute_ns));
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

extern const Rule kFullPrecisionGemm = {
    .id = "full-precision-gemm",
    .summary = "matrix work without tensor cores on a device that has them",
    .unit = "%",
    .threshold = 50,
    .of_kernels = true,
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
    .by_framework =
        {
            {Framework::kTrainer, "TrainingArguments(bf16=True); fp16=True on devices before Ampere"},
            {Framework::kAccelerate, "Accelerator(mixed_precision=\"bf16\"); \"fp16\" on devices before Ampere"},
            {Framework::kLightning, "Trainer(precision=\"bf16-mixed\"); \"16-mixed\" on devices before Ampere"},
            {Framework::kDeepSpeed, "\"bf16\": {\"enabled\": true}; \"fp16\" on devices before Ampere"},
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

extern const Rule kUnfusedOptimizer = {
    .id = "unfused-optimizer",
    .summary = "the optimizer launches many small kernels",
    .unit = "%",
    .threshold = 5,
    .severity = Severity::kInfo,
    .meaning =
        "The optimizer updates each parameter with kernels of its own. A fused one updates all of them with a few.",
    .computation =
        "Value: the optimizer's share of the measured steps' wall time, where it launches over 100 kernels a step "
        "that are shorter than 20 µs. No cost: a fused kernel's time is not in the trace.",
    .advice = {
        "fused=True for Adam, AdamW, SGD and Adagrad of torch.optim",
        "foreach=True for the others",
        "torch.compile around optimizer.step()",
        "DeepSpeed: FusedAdam, DeepSpeedCPUAdam when offloading; Apex: FusedAdam, FusedLAMB",
        "optimizer.zero_grad(set_to_none=True)",
        "gradient accumulation: fewer optimizer steps",
    },
    .by_framework =
        {
            {Framework::kTrainer, "TrainingArguments(optim=\"adamw_torch_fused\")"},
            {Framework::kDeepSpeed, "\"optimizer\": {\"type\": \"AdamW\"} uses FusedAdam; not \"torch_adam\": true"},
        },
    .seen = {Locator::At::kLongestPhase, "optimizer"},
    .rank = {.value = [](const Measured& m) {
               return only_if(small_kernels_a_step(m) > kKernelsAStep, m.phase_pct(Phase::kOptimizer));
             },
             .say = say_unfused_optimizer},
    .checklist = {{.place = 7,
                   .id = "fused-optimizer",
                   .question = "Does the optimizer use fused or multi-tensor kernels?",
                   .label = "fused optimizer",
                   .judge = [](const RankMeasure& m, bool) { return m.fused_optimizer; }}},
};

extern const Rule kDominantKernel = {
    .id = "dominant-kernel",
    .summary = "one kernel takes over half of compute",
    .unit = "%",
    .threshold = 50,
    .severity = Severity::kInfo,
    .of_kernels = true,
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
