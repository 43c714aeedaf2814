// Report: everything a command has to say, as typed data. Presenters turn it into bytes and know nothing else.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "analyse/job/job.h"
#include "analyse/rank/rank_report.h"
#include "analyse/rank/telemetry.h"
#include "analyse/report/report.h"

namespace profgpu {

struct PageData;

/// A rank beside the others.
struct RankStanding {
  int rank = 0;
  std::string host;                       ///< empty: unknown
  std::optional<int64_t> step_ns;         ///< mean
  std::optional<double> busy_pct;         ///< of its busiest device
  const Straggler* straggler = nullptr;   ///< of Report::job
};

struct Report {
  std::string schema = "profgpu.analysis.v1";
  std::vector<InputFile> inputs;
  std::vector<RankReport> ranks;
  std::shared_ptr<const Job> job;  ///< the `cluster` of the document; null for one rank
  std::vector<DeviceTelemetry> telemetry;   ///< what samples say of each device, where there are samples
  std::vector<Finding> findings; ///< dearest first
  std::vector<Check> checklist;
  std::string verdict;           ///< one or two sentences: where the time goes and what it costs
  VerdictKind verdict_kind = VerdictKind::kInconclusive;
  int64_t measured_steps = 0;    ///< steps that averages are over
  int64_t warmup_steps = 0, incomplete_steps = 0;   ///< left out of them
  std::vector<std::string> next; ///< commands worth running next
  std::shared_ptr<const PageData> page;  ///< what a page shows beside; null where none is asked for

  // What compare_ranks() sets.
  /// Every rank, those that make others wait first, then by length of step where that differs; empty for one rank.
  std::vector<RankStanding> standings;
  int focus = -1;                ///< place of the rank to look into first; -1: there is none

  [[nodiscard]] const RankReport* rank_in_focus() const {
    return focus < 0 ? nullptr : &ranks[static_cast<size_t>(focus)];
  }
};

/// Of a report that has its ranks, their job and inputs. The rank in focus is the latest straggler, else of those with
/// device activity and whole records the one with the longest steps, else the first.
void compare_ranks(Report& report);

}  // namespace profgpu
