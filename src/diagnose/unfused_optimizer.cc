#include <fmt/format.h>

#include "diagnose/measure.h"

namespace profgpu {
namespace {

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
    if (name.starts_with(kPrefix)) return std::string(name.substr(kPrefix.size(), name.find('.', kPrefix.size()) - kPrefix.size()));
  }
  return "";
}

std::optional<double> unfused_optimizer_value(const Measured& m) {
  if (small_kernels_a_step(m) <= kKernelsAStep) return std::nullopt;
  return m.phase_pct(Phase::kOptimizer);
}

void say_unfused_optimizer(const Measured& m, Finding& f) {
  const double kernels = small_kernels_a_step(m);
  std::string name = optimizer_name(m.trace());
  f.what = fmt::format("{:.0f} small kernels a step in the optimizer", kernels);
  f.why = fmt::format("The optimizer takes {} of the step, launched parameter by parameter.", percent_text(*f.value));
  const bool known = name == "SGD" || name == "Adam" || name == "AdamW" || name == "Adagrad";
  if (known) f.fix = {fmt::format("torch.optim.{}(…, fused=True)", name), "foreach=True where there is no fused version"};
  else f.fix = {"foreach=True, where the optimizer takes it", "torch.compile around optimizer.step()"};
}

}  // namespace

extern const Rule kUnfusedOptimizer;
const Rule kUnfusedOptimizer = {
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
    .seen = {Locator::At::kLongestPhase, "optimizer"},
    .rank = {.value = unfused_optimizer_value, .say = say_unfused_optimizer},
    .checklist = {{.place = 7,
                   .id = "fused-optimizer",
                   .question = "Does the optimizer use fused or multi-tensor kernels?",
                   .label = "fused optimizer",
                   .judge = [](const RankMeasure& m, bool) { return m.fused_optimizer; }}},
};

}  // namespace profgpu
