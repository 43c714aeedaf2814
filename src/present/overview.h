// What a first screen says, picked out of a Report by section and column names, so that each presenter only lays it
// out. What the Report does not say is absent here, never 0.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/report.h"

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

struct StragglerOverview {
  double excess_ns = 0;         ///< a step
  double excess_pct = 0;
  std::string kind;             ///< a code
};

struct RankOverview {
  int rank = 0;
  std::string host;
  std::optional<double> step_ns;
  std::optional<double> busy_pct;  ///< of its busiest device
  std::optional<StragglerOverview> straggler;
};

/// The rank that the first screen looks into: the latest straggler, else of those with device activity and whole records
/// the one with the longest steps, else the first. Null if there is none.
const RankReport* rank_in_focus(const Report& report);

/// What several files are called together: the folder that all of them lie in, or "". Not for one or two of them.
std::string folder_of_inputs(const Report& report);

StepOverview step_overview(const Report& report, const RankReport& rank);
/// By id.
std::vector<DeviceOverview> device_overviews(const RankReport& rank);
/// Index of the busiest device, -1 if the rank has none.
int busiest_device(const std::vector<DeviceOverview>& devices);
/// Every rank, those that make others wait first, then by length of step where that differs; empty for one rank.
std::vector<RankOverview> rank_overviews(const Report& report);

/// Whether the trace marks steps; else its one step is all of it.
bool has_steps(const RankReport& rank);
/// What a finding costs one step, or the whole trace if that is what there is.
std::optional<double> cost_of_step(const Report& report, const Finding& finding);

/// "rank 3", "ranks 0–3, 7"; empty if it concerns all ranks of the report, there is one, or the finding begins with it.
std::string ranks_concerned(const Report& report, const Finding& finding);

/// The section's table, null if the rank has none.
const Table* table_of(const RankReport& rank, std::string_view section);
/// A field of the report's `cluster`, null if there is none.
const Value& cluster_field(const Report& report, std::string_view name);
/// The same where it is a table; empty where it is not.
const Table& cluster_table(const Report& report, std::string_view name);
/// What a cell holds, empty if it is not text.
std::string_view text_at(const Table& table, size_t row, std::string_view column);

}  // namespace profgpu
