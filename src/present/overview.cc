#include "present/overview.h"

#include <algorithm>
#include <cmath>

#include "present/wording.h"
#include "report/quantity.h"

namespace profgpu {
namespace {

constexpr double kVisiblePct = 0.05;  // less would read 0.0 %
constexpr double kNotablePct = 1;     // whether less than that hides behind compute does not matter

std::vector<Share> causes_of(const RankReport& rank, const DeviceRow& device) {
  std::vector<Share> out;
  for (const IdleRow& idle : rank.idle)
    if (idle.device == device.id && idle.span_pct >= kVisiblePct)
      out.push_back({words(idle_cause_name(idle.cause)), static_cast<double>(idle.total_ns), idle.span_pct});
  std::stable_sort(out.begin(), out.end(), [](const Share& a, const Share& b) { return a.pct > b.pct; });
  return out;
}

void add_note(DeviceOverview& device, const char* name, double pct, double exposed) {
  if (pct < kVisiblePct) return;
  std::string note = std::string(name) + " " + format_percent(pct);
  if (exposed >= kVisiblePct && pct >= kNotablePct)
    note += std::abs(exposed - pct) < kVisiblePct ? ", all exposed" : ", " + format_percent(exposed) + " exposed";
  device.notes.push_back(std::move(note));
}

DeviceOverview device_overview(const RankReport& rank, const DeviceRow& device) {
  DeviceOverview out;
  out.name = "GPU " + format_count(device.id);
  out.title = out.name + ", " + format_duration(static_cast<double>(device.span_ns));
  out.causes = causes_of(rank, device);
  if (device.span_ns <= 0) return out;
  const auto share = [&](int64_t ns) { return 100 * static_cast<double>(ns) / static_cast<double>(device.span_ns); };
  out.busy_pct = device.utilization_pct();
  out.idle_pct = share(device.idle_ns);
  add_note(out, "communication", share(device.communication_ns), share(device.exposed_communication_ns));
  add_note(out, "copies", share(device.memory_ns), share(device.exposed_memory_ns));
  return out;
}

}  // namespace

std::string folder_of_inputs(const Report& report) {
  constexpr size_t kNamedEach = 2;
  if (report.inputs.size() <= kNamedEach) return {};
  const auto folder = [](const InputFile& input) { return input.path.substr(0, input.path.rfind('/') + 1); };
  std::string common = folder(report.inputs.front());
  for (const InputFile& input : report.inputs)
    if (folder(input) != common) return {};
  if (common.size() > 1) common.pop_back();
  return common;
}

StepOverview step_overview(const RankReport& rank) {
  const bool steps = rank.steps.marked();
  StepOverview out{steps ? "A step" : "The whole trace", {}};
  if (!rank.average_step) return out;
  const auto mean_ns = static_cast<double>(rank.average_step->duration_ns);
  out.title += (steps ? " of " : ", ") + format_duration(mean_ns);
  if (rank.average_step->includes_hang) out.title += " with the one that hangs";
  for (const PhaseShare& phase : rank.average_step->phases)
    if (phase.wall_pct >= kVisiblePct)
      out.phases.push_back({words(phase_name(phase.phase)), mean_ns * phase.wall_pct / 100, phase.wall_pct});
  return out;
}

std::vector<DeviceOverview> device_overviews(const RankReport& rank) {
  std::vector<DeviceOverview> out;
  for (const DeviceRow& device : rank.devices) out.push_back(device_overview(rank, device));
  return out;
}

std::optional<double> cost_of_step(const Report& report, const Finding& finding) {
  if (!finding.cost_ns) return std::nullopt;
  return static_cast<double>(*finding.cost_ns) / static_cast<double>(std::max<int64_t>(report.measured_steps, 1));
}

std::string ranks_concerned(const Report& report, const Finding& finding) {
  const std::vector<int>& ranks = finding.ranks;
  if (report.ranks.size() < 2 || ranks.empty() || ranks.size() >= report.ranks.size()) return {};
  return finding.names_ranks ? "" : ranks_text(ranks);
}

}  // namespace profgpu
