#include <fmt/format.h>

#include <algorithm>

#include "diagnose/rule.h"

namespace profgpu {
namespace {

Verdict passed(bool ok) { return ok ? Verdict::kPass : Verdict::kFail; }

// The lowest (or highest) value over the ranks that have one.
template <class Read>
std::optional<double> worst(const Evidence& evidence, bool lowest, Read&& read) {
  std::optional<double> result;
  for (const RankDiagnosis& r : evidence.ranks) {
    const std::optional<double> v = r.measure.has_device ? std::optional<double>(read(r.measure)) : std::nullopt;
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

std::vector<Check> measured_checks(const Evidence& evidence) {
  const bool several = evidence.ranks.size() > 1;
  std::vector<Check> list;
  list.push_back(measured_check("gpu-utilization", "Is the GPU busy over 80 % of the time?", "GPU busy",
                                worst(evidence, true, [](const RankMeasure& m) { return m.least_utilization_pct; }), 80, true));
  list.push_back(measured_check(
      "data-loading", "Is data loading under 10 % of the step?", "data loading",
      worst(evidence, false, [](const RankMeasure& m) { return m.phase_pct[static_cast<size_t>(Phase::kDataLoading)]; }),
      10, false));
  list.push_back(measured_check("memory-headroom", "Is over 10 % of the device's memory free at the peak?",
                                "memory headroom",
                                worst(evidence, true, [](const RankMeasure& m) { return m.memory_headroom_pct; }), 10, true));
  std::optional<double> exposed;
  if (several) exposed = worst(evidence, false, [](const RankMeasure& m) { return m.exposed_communication_pct; });
  list.push_back(measured_check("communication", "Is exposed communication under 20 % of the span?", "communication",
                                exposed, 20, false));
  if (!several) list.back().brief = "communication (one rank)";
  return list;
}

}  // namespace

std::vector<Check> checklist(const Evidence& evidence, const std::vector<Finding>& findings) {
  std::vector<Check> list = measured_checks(evidence);
  const auto first = std::find_if(evidence.ranks.begin(), evidence.ranks.end(),
                                  [](const RankDiagnosis& r) { return r.measure.has_device; });
  const RankMeasure* m = first == evidence.ranks.end() ? nullptr : &first->measure;
  const auto add = [&](const char* id, const char* question, const char* label, Verdict verdict) {
    list.push_back({id, question, m == nullptr ? Verdict::kUnknown : verdict, {}, {}, label});
  };
  const bool full_precision = std::any_of(findings.begin(), findings.end(),
                                          [](const Finding& f) { return f.rule == "full-precision-gemm"; });
  add("mixed-precision", "Do matrix kernels use tensor cores?", "mixed precision",
      full_precision ? Verdict::kFail : m != nullptr && m->matrix_work ? Verdict::kPass : Verdict::kUnknown);
  add("compiled", "Is torch.compile, Triton or a CUDA graph in use?", "torch.compile", passed(m != nullptr && m->compiled));
  add("fused-optimizer", "Does the optimizer use fused or multi-tensor kernels?", "fused optimizer",
      m != nullptr ? m->fused_optimizer : Verdict::kUnknown);
  add("gradient-accumulation", "Are there more backward passes than optimizer steps?", "gradient accumulation",
      m != nullptr && m->accumulates ? Verdict::kPass : Verdict::kUnknown);
  return list;
}

}  // namespace profgpu
