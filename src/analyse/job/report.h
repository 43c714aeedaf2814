// Report: a command's complete result as typed data, the only input of presenters.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "analyse/job/job.h"
#include "analyse/job/job_energy.h"
#include "analyse/rank/rank_report.h"
#include "analyse/rank/telemetry.h"
#include "analyse/report/report.h"
#include "analyse/run/flight_report.h"
#include "analyse/run/log_report.h"

namespace profgpu {

struct PageData;

/// A rank's standing among the others.
struct RankStanding {
  int rank = 0;
  std::string host;                       ///< empty: unknown
  std::optional<int64_t> step_ns;         ///< mean
  std::optional<double> busy_pct;         ///< of its busiest device
  std::optional<double> mpi_pct;          ///< in calls of MPI; none: it has a device, or does not call MPI
  std::string mpi_function;               ///< that takes most of that time; may be empty
  const Straggler* straggler = nullptr;   ///< of Report::job
};

struct Report {
  std::string schema = "profgpu.analysis.v1";
  std::vector<InputFile> inputs;
  std::vector<RankReport> ranks;
  std::shared_ptr<const Job> job;  ///< the `cluster` of the document; null for one rank
  std::vector<DeviceTelemetry> telemetry;   ///< from samples; empty: there are none
  std::optional<JobEnergy> energy;          ///< of all ranks' steps, the `job.energy` of the document
  std::vector<LogReport> logs;              ///< from what the job printed
  std::optional<FlightReport> flight;       ///< from dumps of NCCL's flight recorder
  std::vector<Finding> findings; ///< most expensive first
  std::vector<Check> checklist;
  std::string verdict;           ///< one or two sentences: where the time goes and what it costs
  VerdictKind verdict_kind = VerdictKind::kInconclusive;
  std::optional<StepSaving> saving;   ///< if the verdict names one
  std::string verdict_rule;           ///< of the finding that the verdict names; empty: none
  int64_t measured_steps = 0;    ///< steps that count for averages
  int64_t warmup_steps = 0, incomplete_steps = 0;   ///< left out of them
  std::vector<std::string> next; ///< commands worth running next
  std::shared_ptr<const PageData> page;  ///< additional data of an HTML page; null: not requested

  // Set by compare_ranks().
  /// Every rank: those that make others wait first, then by step duration if that differs; empty for one rank.
  std::vector<RankStanding> standings;
  int focus = -1;                ///< index of the rank to look at first; -1: none

  [[nodiscard]] const RankReport* rank_in_focus() const {
    return focus < 0 ? nullptr : &ranks[static_cast<size_t>(focus)];
  }
};

/// Needs the report's ranks, job and inputs. The rank in focus is the latest straggler, else the one with the longest
/// steps among those with device activity and complete records, else the first; of snapshots alone the one that ran out
/// of memory, or holds most.
void compare_ranks(Report& report);

}  // namespace profgpu
