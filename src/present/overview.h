// What a first screen says, in the words and shares that each presenter lays out. What is not known is absent here, never 0.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "job/report.h"

namespace profgpu {

struct Share {
  std::string name;             ///< as a person says it: "data loading"
  std::optional<double> ns;
  double pct = 0;
};

/// The mean step, or the whole trace where it has no steps.
struct StepOverview {
  std::string title;            ///< "A step of 176 ms"
  std::vector<Share> phases;    ///< those that take time, in the order they have in a step
};

struct DeviceOverview {
  std::string title;            ///< "GPU 0, 1.05 s"
  std::string name;             ///< "GPU 0"
  std::optional<double> busy_pct, idle_pct;
  std::vector<Share> causes;    ///< of idle time, longest first
  std::vector<std::string> notes;  ///< communication and copies
};

/// What several files are called together: the folder that all of them lie in, or "". Not for one or two of them.
std::string folder_of_inputs(const Report& report);

StepOverview step_overview(const RankReport& rank);
/// By id.
std::vector<DeviceOverview> device_overviews(const RankReport& rank);
/// What a finding costs one step, or the whole trace if that is what there is.
std::optional<double> cost_of_step(const Report& report, const Finding& finding);

/// "rank 3", "ranks 0–3, 7"; empty if it concerns all ranks of the report, there is one, or the finding names them itself.
std::string ranks_concerned(const Report& report, const Finding& finding);

}  // namespace profgpu
