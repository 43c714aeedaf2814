#include "diagnose/rank_measure.h"

#include <algorithm>

#include "analyse/kernels.h"
#include "analyse/memory.h"
#include "diagnose/measure.h"

namespace profgpu {
namespace {

bool contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

// Inductor's or Triton's kernels, or graph launches.
bool is_compiled(const Measured& m) {
  const Trace& trace = m.trace();
  for (const StringId name : trace.activity.name)
    if (trace.strings[name].starts_with("triton_")) return true;
  for (size_t i = 0; i < trace.strings.size(); ++i) {
    const std::string_view name = trace.strings[StringId(i)];
    if (contains(name, "GraphLaunch") || name.starts_with("Torch-Compiled Region") ||
        name.starts_with("## Call CompiledFxGraph"))
      return true;
  }
  return false;
}

Verdict fused_optimizer(const Measured& m) {
  const Trace& trace = m.trace();
  const auto& phase = m.facts().get<Phases>().of_activity;
  bool any = false;
  for (uint32_t i = 0; i < trace.activity.size(); ++i) {
    if (phase[i] != Phase::kOptimizer || trace.activity.kind[i] != ActivityKind::kKernel) continue;
    any = true;
    const std::string_view name = trace.name(ActivityId(i));
    if (contains(name, "multi_tensor") || contains(name, "fused") || contains(name, "Fused")) return Verdict::kPass;
  }
  return any ? Verdict::kFail : Verdict::kUnknown;
}

bool has_matrix_work(const Measured& m) {
  const auto& rows = m.facts().get<Kernels>().rows;
  return std::any_of(rows.begin(), rows.end(), [](const KernelRow& k) {
    return k.category == KernelCategory::kGemm || k.category == KernelCategory::kConvolution ||
           k.category == KernelCategory::kAttention;
  });
}

void measure_device(const Measured& m, RankMeasure& out) {
  const DeviceTime& device = m.device();
  out.has_device = true;
  out.device_label = m.device_label();
  out.device_name = device.name;
  out.span_ns = device.span_ns;
  out.waiting_ns = m.waiting_ns();
  out.utilization_pct = m.utilization_pct();
  out.exposed_communication_pct = m.exposed_communication_pct();
  out.busy_wall_pct = m.wall_pct(total_length(intersect(device.busy, m.measured_time())));
  for (size_t c = 0; c < kIdleCauses; ++c) out.idle_pct[c] = m.idle_pct(static_cast<IdleCause>(c));
  out.largest_idle_cause = m.largest_idle_cause();
  out.matrix_work = has_matrix_work(m);
  out.compiled = is_compiled(m);
  out.fused_optimizer = fused_optimizer(m);
}

}  // namespace

Phase RankMeasure::largest_phase() const {
  return static_cast<Phase>(std::max_element(phase_pct.begin(), phase_pct.end()) - phase_pct.begin());
}

RankMeasure rank_measure(const Measured& m) {
  RankMeasure out;
  out.rank = m.rank();
  out.wall_ns = m.wall_ns();
  out.steps = m.steps();
  out.annotated = m.facts().get<Steps>().annotated;
  for (size_t p = 0; p < kPhases; ++p) out.phase_pct[p] = m.phase_pct(static_cast<Phase>(p));
  const Phases& phases = m.facts().get<Phases>();
  out.accumulates = phases.optimizer_steps > 0 && phases.backward_passes > phases.optimizer_steps;
  const Memory& memory = m.facts().get<Memory>();
  if (m.has_device() && memory.peak_reserved_bytes && memory.capacity_bytes)
    out.memory_headroom_pct = 100.0 - 100.0 * static_cast<double>(*memory.peak_reserved_bytes) /
                                          static_cast<double>(*memory.capacity_bytes);
  if (m.has_device()) measure_device(m, out);
  return out;
}

void set_cost(Finding& finding, const RankMeasure& measure, int64_t cost_ns) {
  finding.cost_ns = cost_ns;
  finding.cost_pct = measure.wall_ns > 0 ? 100.0 * static_cast<double>(cost_ns) / static_cast<double>(measure.wall_ns) : 0;
}

}  // namespace profgpu
