// The phase of training at each instant of the steps, and the phase that launched each activity.
#pragma once

#include <array>

#include "analyse/rank/names.h"
#include "analyse/report/document.h"
#include "trace/intervals.h"

namespace profgpu {

struct PhaseSegment {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  Phase phase = Phase::kOther;
  uint32_t step = 0;           ///< index into Steps::steps
};

/// The interval in pieces of the painted phases, and kOther between them. `painted`: in time order, without overlap;
/// `at`: the first that may reach into it, moved on from interval to interval.
void add_partition(const Interval& step, uint32_t index, const std::vector<PhaseSegment>& painted, size_t& at,
                   std::vector<PhaseSegment>& out);

struct PhaseShare {
  std::string name;
  int64_t wall_ns = 0;
  double wall_pct = 0;

  void fields(auto&& v) const { v("name", name), v("wall_ns", wall_ns), v("wall_pct", wall_pct); }
};

/// One phase over all steps.
struct PhaseRow {
  PhaseShare share;
  std::optional<int64_t> device_busy_ns;   ///< none: no device was recorded

  void fields(auto&& v) const { share.fields(v), v("device_busy_ns", device_busy_ns); }
  static std::vector<PhaseRow> rows(const Facts& facts);
};

/// Mean over the measured steps.
struct AverageStep {
  int64_t steps = 0;
  int64_t duration_ns = 0;      ///< of the ranges on the host, which the phases partition
  int64_t elapsed_ns = 0;       ///< with the device work that they launched
  bool works_between = false;   ///< the loop does something between the ranges that it marks
  std::vector<PhaseShare> phases;
  bool includes_hang = false;   ///< the job hangs in one of them, which the job's mean step leaves out

  void fields(auto&& v) const {
    v("steps", steps), v("duration_ns", duration_ns), v("elapsed_ns", elapsed_ns);
    v("works_between", works_between), v("phases", phases);
    if (includes_hang) v("includes_hang", true);
  }
  static std::optional<AverageStep> compute(const Facts& facts);
};

struct Phases {
  std::vector<std::string> own;                  ///< names of the program's own phases; most time first
  std::vector<PhaseSegment> segments;            ///< partition of the steps, in time order
  std::array<int64_t, kMaxPhases> wall_ns{};    ///< over all steps
  std::array<int64_t, kMaxPhases> measured_wall_ns{};  ///< over measured steps
  std::array<int64_t, kMaxPhases> device_busy_ns{};
  std::vector<Phase> of_activity;                ///< phase of each activity's launch
  /// Ranges on the step's thread that mark data loading and checkpoints, merged, over the whole trace.
  Intervals data_loading, checkpoint;
  /// Backward passes, one per micro-batch: from the autograd engine's ops, else from ranges on the step's thread.
  Intervals backward;
  int64_t backward_passes = 0;   ///< micro-batches
  int64_t optimizer_steps = 0;

  [[nodiscard]] std::string_view name(Phase phase) const {
    const auto p = static_cast<size_t>(phase);
    return p < kPhases ? phase_name(phase) : own[p - kPhases];
  }
  /// The seven, with the program's own before kOther.
  [[nodiscard]] std::vector<Phase> all() const;
  static Phases compute(const Facts& facts);
};

}  // namespace profgpu
