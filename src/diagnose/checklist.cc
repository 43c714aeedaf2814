#include <fmt/format.h>

#include <algorithm>

#include "analyse/kernels.h"
#include "analyse/memory.h"
#include "diagnose/measure.h"

namespace profgpu {
namespace {

Verdict passed(bool ok) { return ok ? Verdict::kPass : Verdict::kFail; }

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

// The lowest (or highest) value over the ranks that have one.
template <class Read>
std::optional<double> worst(const std::vector<Measured>& ranks, bool lowest, Read&& read) {
  std::optional<double> result;
  for (const Measured& m : ranks) {
    const std::optional<double> v = m.has_device() ? read(m) : std::nullopt;
    if (v && (!result || (lowest ? *v < *result : *v > *result))) result = v;
  }
  return result;
}

Check measured_check(const char* id, const char* question, const char* label, std::optional<double> value,
                     double threshold, bool above) {
  Check c{id, question, Verdict::kUnknown, value, threshold, label};
  if (!value) return c;
  c.verdict = passed(above ? *value > threshold : *value < threshold);
  c.brief = fmt::format("{} {:.1f} % ({} {:.0f})", label, *value, above ? "over" : "under", threshold);
  return c;
}

}  // namespace

std::vector<Check> checklist(const Evidence& evidence, const std::vector<Finding>& findings) {
  std::vector<Measured> ranks;
  for (const RankFacts& r : evidence.ranks) ranks.emplace_back(r.rank, *r.facts);
  const auto with_device = std::find_if(ranks.begin(), ranks.end(), [](const Measured& m) { return m.has_device(); });
  std::vector<Check> list;
  list.push_back(measured_check("gpu-utilization", "Is the GPU busy over 80 % of the time?", "GPU busy",
                                worst(ranks, true, [](const Measured& m) { return std::optional(m.utilization_pct()); }),
                                80, true));
  list.push_back(measured_check(
      "data-loading", "Is data loading under 10 % of the step?", "data loading",
      worst(ranks, false, [](const Measured& m) { return std::optional(m.phase_pct(Phase::kDataLoading)); }), 10, false));
  list.push_back(measured_check(
      "memory-headroom", "Is over 10 % of the device's memory free at the peak?", "memory headroom",
      worst(ranks, true, [](const Measured& m) -> std::optional<double> {
        const Memory& memory = m.facts().get<Memory>();
        if (!memory.peak_reserved_bytes || !memory.capacity_bytes) return std::nullopt;
        return 100.0 - 100.0 * static_cast<double>(*memory.peak_reserved_bytes) /
                           static_cast<double>(*memory.capacity_bytes);
      }),
      10, true));
  std::optional<double> exposed;
  if (ranks.size() > 1)
    exposed = worst(ranks, false, [](const Measured& m) { return std::optional(m.exposed_communication_pct()); });
  list.push_back(measured_check("communication", "Is exposed communication under 20 % of the span?", "communication",
                                exposed, 20, false));
  if (ranks.size() == 1) list.back().brief = "communication (one rank)";

  const auto add = [&](const char* id, const char* question, const char* label, Verdict verdict) {
    list.push_back({id, question, with_device == ranks.end() ? Verdict::kUnknown : verdict, {}, {}, label});
  };
  const bool full_precision = std::any_of(findings.begin(), findings.end(),
                                          [](const Finding& f) { return f.rule == "full-precision-gemm"; });
  const bool device = with_device != ranks.end();
  add("mixed-precision", "Do matrix kernels use tensor cores?", "mixed precision",
      full_precision ? Verdict::kFail : device && has_matrix_work(*with_device) ? Verdict::kPass : Verdict::kUnknown);
  add("compiled", "Is torch.compile, Triton or a CUDA graph in use?", "torch.compile",
      device ? passed(is_compiled(*with_device)) : Verdict::kUnknown);
  add("fused-optimizer", "Does the optimizer use fused or multi-tensor kernels?", "fused optimizer",
      device ? fused_optimizer(*with_device) : Verdict::kUnknown);
  const Phases* phases = device ? &with_device->facts().get<Phases>() : nullptr;
  const bool accumulates = phases != nullptr && phases->optimizer_steps > 0 &&
                           phases->backward_passes > phases->optimizer_steps;
  add("gradient-accumulation", "Are there more backward passes than optimizer steps?", "gradient accumulation",
      accumulates ? Verdict::kPass : Verdict::kUnknown);
  return list;
}

}  // namespace profgpu
