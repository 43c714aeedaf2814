// RankMeasure: the figures of one rank that are said beside findings. They outlive its trace.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "analyse/idle.h"
#include "analyse/names.h"
#include "report/report.h"

namespace profgpu {

/// Percentages and times are over the measured steps, as the rules take them.
struct RankMeasure {
  int rank = 0;
  int64_t wall_ns = 0, steps = 0;        ///< of the measured steps
  bool annotated = false;                ///< steps come from ranges of the program
  std::array<double, kPhases> phase_pct{};   ///< of wall_ns
  bool accumulates = false;              ///< more backward passes than optimizer steps
  std::optional<double> memory_headroom_pct;   ///< of the device's memory at the reserved peak

  bool has_device = false;               ///< what follows is of the busiest device
  std::string device_label, device_name; ///< "GPU 0"; the name may be unknown
  int64_t span_ns = 0;                   ///< the whole of it
  int64_t waiting_ns = 0;                ///< idle or exposed, over the whole span: what all causes together can cost
  double utilization_pct = 0, exposed_communication_pct = 0;
  double least_utilization_pct = 100;    ///< of all devices that the rank works on
  double busy_wall_pct = 0;              ///< busy time within the measured steps, of wall_ns
  std::array<double, kIdleCauses> idle_pct{};
  IdleCause largest_idle_cause = IdleCause::kUnknown;
  bool matrix_work = false, compiled = false;
  Verdict fused_optimizer = Verdict::kUnknown;

  [[nodiscard]] Phase largest_phase() const;
  [[nodiscard]] double largest_idle_pct() const { return idle_pct[static_cast<size_t>(largest_idle_cause)]; }
};

class Measured;
RankMeasure rank_measure(const Measured& measured);

/// Sets the cost, and its share of the rank's measured steps.
void set_cost(Finding& finding, const RankMeasure& measure, int64_t cost_ns);

}  // namespace profgpu
