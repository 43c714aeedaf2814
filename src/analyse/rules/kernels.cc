#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analyse/rank/ops.h"
#include "analyse/rank/roofline.h"
#include "analyse/rank/work.h"
#include "analyse/rules/measure.h"
#include "analyse/work/device_limits.h"
#include "base/text.h"
#include "trace/kernel_profile.h"

namespace profgpu {
namespace {

using enum Framework;

bool multiplies_faster_in_half(const DeviceLimits& d) {
  return d.operations_per_ns(Precision::kFp16) > d.operations_per_ns(Precision::kFp32);
}

std::string_view first_word(std::string_view name) {
  const auto end = std::ranges::find_if_not(name, [](char c) { return is_letter(c) || is_digit(c); });
  return name.substr(0, static_cast<size_t>(end - name.begin()));
}

// Of a variant that the table of devices lacks, such as "Tesla V100-DGXS-32GB": all "V100 …" of the table.
bool is_of_such_a_family(std::string_view name) {
  for (; !name.empty(); name.remove_prefix(std::max<size_t>(first_word(name).size(), 1))) {
    const std::string_view word = first_word(name);
    bool some = false, all = true;
    for (const DeviceLimits& d : known_limits())
      if (!word.empty() && first_word(d.name) == word) some = true, all &= multiplies_faster_in_half(d);
    if (some) return all;
  }
  return false;
}

// As the table of devices tells: those that it lacks may have none. Radeons' units are no matrix cores.
bool has_tensor_cores(const DeviceProperties& d) {
  if (is_amd(d) ? !contains(d.name, "MI") : d.compute_major < 7) return false;
  const std::optional<DeviceLimits> limits = find_limits({d.name, d.memory_bytes, d.multiprocessors}).limits;
  return limits ? multiplies_faster_in_half(*limits) : is_of_such_a_family(d.name);
}

/// Time of some of a device's compute kernels.
struct KernelTime {
  int64_t ns = 0, longest_ns = 0;
  const KernelRow* longest = nullptr;
};

KernelTime time_of(const Measured& m, bool (*wanted)(const KernelRow&)) {
  KernelTime time;
  for (const KernelRow& k : m.facts().get<Kernels>().rows) {
    if (k.device != m.device().id || k.kind != WorkKind::kCompute || !wanted(k)) continue;
    const int64_t ns = m.counted(k.total_ns, k.steady_ns);
    time.ns += ns;
    if (ns > time.longest_ns) time.longest = &k, time.longest_ns = ns;
  }
  return time;
}

bool is_matrix_kernel(const KernelRow& k) { return multiplies(k.category); }
bool is_any(const KernelRow&) { return true; }

constexpr std::string_view kOrdinaryUnits[] = {"simt", "ffma", "sgemm", "scudnn"};

// What the name of a kernel that shows no tensor cores says of its data. Kernels of engines, libraries and compilers
// may use tensor cores and not say so: without a word of float they are unknown.
Precision shown_precision(std::string_view name) {
  const Precision shown = precision_in_kernel_name(name);
  if (shown != Precision::kUnknown) return shown;
  constexpr std::string_view kFloat[] = {"fp32", "<float", "float,", "float>"};
  return contains_any(name, kOrdinaryUnits) || contains_any(name, kFloat) ? Precision::kFp32 : Precision::kUnknown;
}

/// Whether tensor cores would help kernels whose names show none: their data are in full precision, or in half
/// precision on the ordinary units, and memory does not limit them.
class WantsTensorCores {
 public:
  explicit WantsTensorCores(const Measured& m)
      : work_(m.facts().get<DeviceWork>()),
        limits_(m.facts().get<RunLimits>()),
        kernels_(m.facts().get<Kernels>()),
        ops_(m.facts().get<Ops>().of_activity),
        trace_(m.trace()),
        amd_(is_amd(m.trace(), m.device().id)) {}

  bool operator()(ActivityId a) {
    const WorkRun* run = work_.run(a);
    if (run != nullptr && limits_.bound[work_.run_of[a.value]] == Bound::kMemory) return false;
    if (run == nullptr && is_depthwise(a)) return false;
    const Precision of_data = run != nullptr ? run->work->precision : Precision::kUnknown;
    // In FP32, AMD's matrix instructions reach a fraction of the rate of bf16.
    if (on_tensor_cores(a)) return amd_ && of_data == Precision::kFp32;
    const Precision precision = of_data != Precision::kUnknown ? of_data : shown(trace_.activity.name[a.value]);
    if (precision == Precision::kFp32) return true;
    return (precision == Precision::kBf16 || precision == Precision::kFp16) &&
           contains_any(trace_.name(a), kOrdinaryUnits);
  }

 private:
  [[nodiscard]] bool on_tensor_cores(ActivityId a) const {
    return kernels_.tensor_cores[trace_.activity.name[a.value].value];
  }
  // Convolutions that compute little for what they move.
  [[nodiscard]] bool is_depthwise(ActivityId a) const {
    const HostId op = ops_[a.value];
    return contains(trace_.name(a), "epthwise") || (op.valid() && contains(trace_.name(op), "epthwise"));
  }
  Precision shown(StringId name) {
    const auto [it, added] = shown_.try_emplace(name, Precision::kUnknown);
    if (added) it->second = shown_precision(trace_.strings[name]);
    return it->second;
  }

  const DeviceWork& work_;
  const RunLimits& limits_;
  const Kernels& kernels_;
  const std::vector<HostId>& ops_;
  const Trace& trace_;
  const bool amd_;
  std::map<StringId, Precision> shown_;
};

// In measured steps.
std::vector<ActivityId> full_precision_kernels(const Measured& m) {
  const Kernels& kernels = m.facts().get<Kernels>();
  WantsTensorCores wants(m);
  std::vector<ActivityId> all;
  for (ActivityId a = m.device().begin; a < m.device().end; ++a) {
    const StringId name = m.trace().activity.name[a.value];
    if (multiplies(kernels.category[name.value]) &&
        m.counted(1, m.in_measured_step(m.trace().launched_ns(a))) != 0 && wants(a))
      all.push_back(a);
  }
  return all;
}

int64_t total_ns(const Measured& m, const std::vector<ActivityId>& kernels) {
  return sum_of(kernels, [&](ActivityId a) { return m.trace().activity.duration_ns[a.value]; });
}

// The name that takes the most time of these.
std::string_view longest_name(const Measured& m, const std::vector<ActivityId>& kernels) {
  std::map<std::string_view, int64_t> by_name;
  for (const ActivityId a : kernels) by_name[m.trace().name(a)] += m.trace().activity.duration_ns[a.value];
  return std::ranges::max_element(by_name, {}, [](const auto& named) { return named.second; })->first;
}

std::optional<double> full_precision_gemm_value(const Measured& m) {
  if (!has_tensor_cores(m.trace().properties(m.device().id))) return std::nullopt;
  const int64_t all_ns = time_of(m, is_matrix_kernel).ns;
  return only_if(all_ns != 0, percent_of(total_ns(m, full_precision_kernels(m)), all_ns));
}

// Tensor cores before Ampere take fp16 alone.
struct HalfFix {
  Framework of;
  std::string_view fix;
};
constexpr HalfFix kHalfFixes[] = {{kVllm, "--dtype half"},
                                  {kSglang, "--dtype half"},
                                  {kTrainer, "TrainingArguments(fp16=True)"},
                                  {kAccelerate, "Accelerator(mixed_precision=\"fp16\")"},
                                  {kLightning, "Trainer(precision=\"16-mixed\")"},
                                  {kDeepSpeed, "\"fp16\": {\"enabled\": true}"},
                                  {kDiffusers, "from_pretrained(…, torch_dtype=torch.float16)"}};

void advise_half(const Frameworks& with, Finding& f) {
  f.own_fixes = true;
  for (const HalfFix& half : kHalfFixes)
    if (with.has(half.of)) f.fix.push_back(fmt::format("{}: {}", framework_name(half.of), half.fix));
  f.fix.emplace_back(with.has(kOldTorch)
                         ? "torch.cuda.amp.autocast() around forward and loss, with torch.cuda.amp.GradScaler()"
                         : "torch.autocast(\"cuda\", dtype=torch.float16) around forward and loss, with torch.amp.GradScaler");
}

// Matrix cores of AMD take float32 as well, at the rate of its other units.
void describe_float32_on_amd(const Measured& m, Finding& f) {
  const DeviceProperties d = m.trace().properties(m.device().id);
  f.what = fmt::format("{:.0f} % of matrix and convolution time runs in float32", *f.value);
  f.why = fmt::format("The matrix cores of {} are several times as fast in bf16 or fp16.", d.name);
  const std::optional<DeviceLimits>& limits = m.facts().get<Limits>().device;
  const double full = limits ? limits->operations_per_ns(Precision::kFp32) : 0;
  const double half = limits ? limits->operations_per_ns(Precision::kBf16) : 0;
  if (full > 0 && half > full)
    f.why = fmt::format("{} multiplies {} TFLOP/s at most in float32, {} in bf16.", d.name, format_number(full / 1e3),
                        format_number(half / 1e3));
}

void describe_full_precision_gemm(const Measured& m, Finding& f) {
  const DeviceProperties d = m.trace().properties(m.device().id);
  const bool half_alone = !is_amd(d) && d.compute_major < 8;
  f.what = fmt::format("{:.0f} % of matrix and convolution time runs without tensor cores", *f.value);
  f.why = fmt::format("{} has tensor cores, several times as fast at matrix multiplications in {}.", d.name,
                      half_alone ? "fp16" : "bf16, fp16 or TF32");
  if (is_amd(d)) describe_float32_on_amd(m, f);
  if (half_alone) advise_half(m.facts().get<Frameworks>(), f);
  else f.fix = {"with torch.autocast(\"cuda\", dtype=torch.bfloat16): …"};
  if (!half_alone && !is_amd(d))
    f.fix.emplace_back("torch.set_float32_matmul_precision(\"high\")   # TF32 for what stays in float32");
  const std::vector<ActivityId> kernels = full_precision_kernels(m);
  show_kernels(m, kernels, f);
  const std::string_view name = longest_name(m, kernels);
  f.evidence.push_back(fmt::format("longest: {}", short_kernel_name(name)));
  f.seen = {Locator::At::kLongestKernel, std::string(name)};
  demote_on_idle_device(m, f);
}

constexpr int64_t kMaxSmall_ns = 20'000;
constexpr double kMinKernelsPerStep = 100;

std::vector<ActivityId> small_kernels(const Measured& m) {
  const Trace& trace = m.trace();
  const auto& phase = m.facts().get<Phases>().of_activity;
  std::vector<ActivityId> small;
  for (uint32_t i = 0; i < trace.activity.size(); ++i)
    if (phase[i] == Phase::kOptimizer && trace.activity.kind[i] == ActivityKind::kKernel &&
        trace.activity.duration_ns[i] < kMaxSmall_ns && m.in_measured_step(trace.launched_ns(ActivityId(i))))
      small.emplace_back(i);
  return small;
}

double small_kernels_per_step(const Measured& m) {
  return m.steps() > 0 ? static_cast<double>(small_kernels(m).size()) / static_cast<double>(m.steps()) : 0;
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

void describe_unfused_optimizer(const Measured& m, Finding& f) {
  f.what = fmt::format("the optimizer launches {:.0f} small kernels{}", small_kernels_per_step(m),
                       m.facts().get<Steps>().marked() ? " per step" : "");
  f.why = fmt::format("The optimizer takes {} of the step, launched parameter by parameter.", format_percent(*f.value));
  show_kernels(m, small_kernels(m), f);
  const std::string name = optimizer_name(m.trace());
  if (name == "SGD" || name == "Adam" || name == "AdamW" || name == "Adagrad")
    f.fix = {fmt::format("torch.optim.{}(…, fused=True)", name), "foreach=True where there is no fused version"};
  else
    f.fix = {"foreach=True, if the optimizer supports it", "torch.compile around optimizer.step()"};
}

std::optional<double> dominant_kernel_value(const Measured& m) {
  const KernelTime time = time_of(m, is_any);
  // A graph that was recorded as a whole hides its kernels.
  if (time.longest == nullptr || is_whole_graph(m.trace().strings[time.longest->name])) return std::nullopt;
  return percent_of(time.longest_ns, time.ns);
}

constexpr size_t kLongestWord = 60;

// Of letters, digits and underscores: it is pasted into a shell. A part is enough, as profilers match parts of names.
std::string_view longest_word(std::string_view name) {
  std::string_view longest;
  for (size_t at = 0; at < name.size();) {
    const auto is_part = [](char c) { return is_letter(c) || is_digit(c) || c == '_'; };
    const size_t begin = std::ranges::find_if(name.substr(at), is_part) - name.begin();
    const size_t end = std::ranges::find_if_not(name.substr(begin), is_part) - name.begin();
    if (end - begin > longest.size()) longest = name.substr(begin, end - begin);
    at = std::max(end, at + 1);
  }
  if (longest.size() <= kLongestWord) return longest;
  const size_t cut = longest.rfind('_', kLongestWord);
  return longest.substr(0, cut == 0 || cut == longest.npos ? kLongestWord : cut);
}

// With the tool of the device's vendor.
std::string profile_kernel(const Measured& m, std::string_view function) {
  const std::string_view word = longest_word(function), command = program_command(m.facts());
  switch (contains(m.device().name, "TPU") ? Vendor::kGoogle : vendor(m.trace(), m.device().id)) {
    case Vendor::kNvidia:
      if (word.empty()) return fmt::format("profile it: ncu --set full --launch-count 5 {}", command);
      return fmt::format("profile it: ncu --set full --kernel-name {}{} --launch-count 5 {}",
                         word.size() == function.size() ? "" : "regex:", word, command);
    case Vendor::kAmd:
      if (word.empty()) break;
      return fmt::format("profile it: rocprof-compute profile -n {} -k {} -- {}", trains(m.facts()) ? "train" : "run",
                         word, command);
    case Vendor::kIntel: return fmt::format("profile it: vtune -collect gpu-hotspots -- {}", command);
    case Vendor::kGoogle: return "see what it computes: HLO Op Profile in XProf";
    case Vendor::kMeta:
    case Vendor::kUnknown: break;
  }
  return "profile it with the kernel profiler of the device's vendor: is it bound by memory, compute or latency?";
}

void describe_dominant_kernel(const Measured& m, Finding& f) {
  const KernelRow& k = *time_of(m, is_any).longest;
  std::vector<ActivityId> calls;
  for (ActivityId a = m.device().begin; a < m.device().end; ++a)
    if (m.trace().activity.name[a.value] == k.name && m.counted(1, m.in_measured_step(m.trace().launched_ns(a))) != 0)
      calls.push_back(a);
  show_kernels(m, calls, f);
  const std::string name = short_kernel_name(m.trace().strings[k.name]);
  f.what = fmt::format("one kernel takes {:.0f} % of compute: {}", *f.value, shortened(name, 48));
  const int64_t count = m.counted(k.count, k.steady_count);
  const std::string each = format_duration(static_cast<double>(m.counted(k.total_ns, k.steady_ns)) /
                                           static_cast<double>(std::max<int64_t>(count, 1)));
  const std::string calls_text =
      count == 1 ? "One call of " + each : fmt::format("{} calls of {} each", format_count(count), each);
  f.why = fmt::format("{} ({}). Making it faster makes the job faster.", calls_text, kernel_category_name(k.category));
  f.fix = {profile_kernel(m, kernel_function(m.trace().strings[k.name]))};
}

}  // namespace

extern const Rule kFullPrecisionGemm = {
    .id = "full-precision-gemm",
    .summary = "matrix work without tensor cores on a device that has them",
    .unit = "%",
    .threshold = 50,
    .of_kernels = true,
    .meaning =
        "Matrix multiplications, convolutions and attention run in full float32 on the ordinary units. With tensor cores, "
        "reduced precision does the same work 3 to 16 times as fast and halves memory traffic.",
    .computation =
        "Value: share of the time of gemm, convolution and attention kernels whose names show no tensor-core "
        "instruction, and whose inputs, or else names, are of full precision, or of half precision on the ordinary "
        "units; on AMD, also those whose matrix instructions multiply FP32, at a fraction of the rate of bf16. Those "
        "that memory limits, and depthwise convolutions of unknown work, do not count. Silent for devices whose family is "
        "not in the table of limits: they may have no such units. No cost: the trace does not show "
        "how much faster a kernel would be.",
    .advice = {
        "torch.autocast(\"cuda\", dtype=torch.bfloat16) around forward and loss (Ampere, MI200 and newer)",
        "torch.autocast with float16 and torch.amp.GradScaler (Volta, Turing)",
        "torch.set_float32_matmul_precision(\"high\"); torch.backends.cudnn.allow_tf32 = True (Ampere and newer)",
        "FSDP: MixedPrecisionPolicy(param_dtype=torch.bfloat16); DeepSpeed: \"bf16\": {\"enabled\": true}",
        "dimensions that are multiples of 8 (fp16, bf16) or 16 (int8, fp8), channels_last for convolutions",
    },
    .by_framework = {
        {kVllm, "--dtype bfloat16, or a quantized checkpoint"},
        {kSglang, "--dtype bfloat16, or a quantized checkpoint"},
        {kTrainer, "TrainingArguments(bf16=True); fp16=True on devices before Ampere"},
        {kAccelerate, "Accelerator(mixed_precision=\"bf16\"); \"fp16\" on devices before Ampere"},
        {kLightning, "Trainer(precision=\"bf16-mixed\"); \"16-mixed\" on devices before Ampere"},
        {kDeepSpeed, "\"bf16\": {\"enabled\": true}; \"fp16\" on devices before Ampere"},
        {kDiffusers, "from_pretrained(…, torch_dtype=torch.bfloat16)"},
        {kTransformers, "for inference from_pretrained(…, torch_dtype=torch.bfloat16)", {}, true},
    },
    .native_advice =
        {"matrix products of 16-bit inputs (cublasGemmEx, cublasLtMatmul)",
         "for float32: TF32 on Ampere and newer, cublasSetMathMode(handle, CUBLAS_TF32_TENSOR_OP_MATH)"},
    .rank = {.value = full_precision_gemm_value, .describe = describe_full_precision_gemm},
    .checklist = {{.order = 5,
                   .id = "mixed-precision",
                   .question = "Do matrix kernels use tensor cores?",
                   .label = "mixed precision",
                   .judge = [](const RankMeasure& m, bool found) {
                     // Of a device that the trace does not name it is not known whether it has tensor cores.
                     const bool known = m.device.on_tensor_cores && !m.device.name.empty();
                     return found ? Verdict::kFail : known ? Verdict::kPass : Verdict::kUnknown;
                   },
                   .record = "a step with matrix work, by a profiler that names the device"}},
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
        "Value: the optimizer's share of the measured steps' wall time, if it launches over 100 kernels per step that "
        "are shorter than 20 µs. No cost: the trace does not show how long a fused kernel takes.",
    .advice = {
        "fused=True for Adam, AdamW, SGD and Adagrad of torch.optim",
        "foreach=True for the others",
        "torch.compile around optimizer.step()",
        "DeepSpeed: FusedAdam, DeepSpeedCPUAdam when offloading; Apex: FusedAdam, FusedLAMB",
        "optimizer.zero_grad(set_to_none=True)",
        "gradient accumulation: fewer optimizer steps",
    },
    .by_framework = {
        {kTrainer, "TrainingArguments(optim=\"adamw_torch_fused\")"},
        {kDeepSpeed, "\"optimizer\": {\"type\": \"AdamW\"} uses FusedAdam; not \"torch_adam\": true"},
    },
    .seen = {Locator::At::kLongestPhase, "optimizer"},
    .rank = {.value = [](const Measured& m) {
               return only_if(small_kernels_per_step(m) > kMinKernelsPerStep, m.phase_pct(Phase::kOptimizer));
             },
             .describe = describe_unfused_optimizer},
    .checklist = {{.order = 7,
                   .id = "fused-optimizer",
                   .question = "Does the optimizer use fused or multi-tensor kernels?",
                   .label = "fused optimizer",
                   .label_of = [](const RankMeasure& m) -> std::string_view {
                     return m.with.has(kOldTorch) ? "fused optimizer (needs PyTorch 2)" : "fused optimizer";
                   },
                   .of_training = true,
                   .judge = [](const RankMeasure& m, bool found) { return found ? Verdict::kFail : m.fused_optimizer; },
                   .record = "whole training steps, with the optimizer's"}},
};

extern const Rule kDominantKernel = {
    .id = "dominant-kernel",
    .summary = "one kernel takes over half of compute",
    .unit = "%",
    .threshold = 50,
    .severity = Severity::kInfo,
    .of_kernels = true,
    .meaning = "One kernel dominates. Kernel-level work pays there: its algorithm, its shapes, its memory layout.",
    .computation =
        "Value: the kernel's total duration as a share of all compute kernels' on the device. No cost: the trace does "
        "not show how much faster it could be.",
    .advice = {
        "Nsight Compute (ncu), on AMD GPUs rocprof-compute, on that kernel: is it bound by memory, compute or latency?",
        "gemm, convolution: bf16 or fp16, dimensions in multiples of 8 or 16, channels_last, cudnn.benchmark=True",
        "attention: scaled_dot_product_attention with the flash backend",
        "elementwise: fuse it with its neighbors (torch.compile)",
        "embedding, scatter: sort indices, larger rows, fused table lookups (FBGEMM)",
    },
    .seen = {Locator::At::kLongestKernel, "compute"},
    .rank = {.value = dominant_kernel_value, .describe = describe_dominant_kernel},
};

void name_full_precision_kernels(const Measured& measured, std::vector<bool>& named) {
  if (full_precision_gemm_value(measured).value_or(0) <= measured.threshold(kFullPrecisionGemm)) return;
  // Far below the limit of their precision, they have other reasons.
  constexpr double kOtherReasons = 0.3;
  const DeviceWork& work = measured.facts().get<DeviceWork>();
  const RunLimits& limits = measured.facts().get<RunLimits>();
  for (const ActivityId a : full_precision_kernels(measured))
    if (limits.needed_part(work, a).value_or(1) >= kOtherReasons) named[a.value] = true;
}

void name_unfused_optimizer(const Measured& measured, std::vector<bool>& named) {
  if (kUnfusedOptimizer.rank.value(measured).value_or(0) <= measured.threshold(kUnfusedOptimizer)) return;
  for (const ActivityId a : small_kernels(measured)) named[a.value] = true;
}

}  // namespace profgpu
