// What a report says, in words, shares and tables that each presenter lays out. What is not known is absent, never 0.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyse/job/report.h"

namespace profgpu {

struct Share {
  std::string name;             ///< as a person says it: "data loading"
  std::optional<double> ns;
  double pct = 0;
};

/// The mean step, or the whole trace where it has no steps. Shares are of the time in its title.
struct StepOverview {
  std::string title;            ///< "A step of 176 ms"
  std::vector<Share> phases;    ///< those that take time, in the order they have in a step
};

struct DeviceOverview {
  std::string title;            ///< "GPU 0 over 6 steps (1.05 s)"
  std::string name;             ///< "GPU 0"
  std::optional<double> busy_pct, idle_pct;
  double unrecorded_pct = 0;    ///< it runs work that the recording lacks: neither busy nor idle
  std::vector<Share> causes;    ///< of idle time, longest first
  std::vector<std::string> notes;  ///< communication and copies
};

/// What several files are called together: the folder that all of them lie in, or "". Not for one or two of them.
std::string folder_of_inputs(const Report& report);

/// Whether nothing marks steps, so that costs are of the whole trace.
bool is_whole_trace(const Report& report);
StepOverview step_overview(const RankReport& rank);
/// By id.
std::vector<DeviceOverview> device_overviews(const RankReport& rank);
/// A time of all the steps that a finding's figures are of, per step.
double per_step(const Report& report, const Finding& finding, int64_t ns);
/// What a finding costs one step, or the whole trace if that is what there is.
std::optional<double> cost_of_step(const Report& report, const Finding& finding);

/// "rank 3", "ranks 0–3, 7"; empty if it concerns all ranks of the report, there is one, or the finding names them
/// itself.
std::string ranks_concerned(const Report& report, const Finding& finding);

/// Whether anything was recorded that takes time: a memory snapshot alone has none.
bool has_times(const RankReport& rank);

struct JobOverview {
  std::string title;                  ///< "8 ranks on 2 hosts: data parallel (DDP), 87 % of communication hidden"
  std::vector<std::string> missing;   ///< collectives that ranks never came to, or have no record of
  std::vector<std::string> notes;     ///< what keeps ranks from being compared
  /// What a step would take otherwise: "A step of 24.2 ms would take 18.6 ms with input always ready"; and clocks
  /// apart.
  std::vector<std::string> remarks;
};

/// Empty for one rank.
JobOverview job_overview(const Report& report);

/// "late by 3.10 ms a step (12 %): slow input"; empty for a rank that is not late.
std::string late_text(const RankStanding& rank);
/// Of a code of `stragglers`: "slow input".
std::string straggler_words(std::string_view kind);
/// "data parallel (DDP)"
std::string parallelism_name(const Parallelism& way);
/// "with rank 3 like the others"
std::string change_words(const WhatIf& change);

/// With a last column for why a rank is late.
Table rank_table(const std::vector<RankStanding>& ranks);

struct ReportPart {
  std::string title;
  std::vector<std::string> sentences;
  Table table;   ///< may be empty; columns are named as in a report, so that their units follow; texts are words
  size_t left_out = 0;         ///< rows that the table lacks, which this section of the report has
  std::string_view section = {};
};

/// "The hardware could run this step 3.4x as fast (MFU 29 %). What keeps it from that: 31 % GEMMs below peak, 14 %
/// idle."; empty where that is not known.
std::string distance_sentence(const Report& report, const RankReport& rank);
/// Wall time over the limit. Of a larger ratio the times are said: it is no speedup that anyone gets.
constexpr double kMaxTimesLimit = 9.95;

/// "GEMMs below peak" for a part of the distance from the limit.
std::string distance_part_words(std::string_view part);
/// The rank's distance from its device's limits, and its operators and kernels beside theirs; `most`: rows of a table.
std::vector<ReportPart> roofline_parts(const Report& report, const RankReport& rank, size_t most);
/// What its measured steps drew, by phase and by what its device did.
std::vector<ReportPart> energy_parts(const Report& report, const RankReport& rank);
ReportPart job_energy_part(const JobEnergy& job);
/// Of every rank, for sections that are told in sentences and tables of their own: roofline, model, energy. None:
/// another section.
std::vector<ReportPart> section_parts(const Report& report, std::string_view section, size_t most);
/// Steps of an inference engine by kind, and what there is to say of tokens and of the time between steps.
ReportPart serving_part(const Serving& serving);
/// Who waits in which collective.
ReportPart flight_part(const FlightReport& flight, size_t most);
/// Rates of collectives by size; what NCCL says of its way.
ReportPart link_part(const LogReport& log, size_t most);
ReportPart copy_part(const LogReport& log, size_t most);
ReportPart nccl_part(const NcclReport& nccl);
/// What tells of the job as a whole: its hang, and what its own logs say, one part each; `most`: rows of a table.
std::vector<ReportPart> run_parts(const Report& report, size_t most);

/// Who holds the memory at the peak: categories, then the lines of the program, at most `lines` of them.
struct SnapshotParts {
  std::string sentence;
  ReportPart devices;   ///< without rows: one device alone
  ReportPart categories, holders;
  ReportPart savings;   ///< a sentence for each
};
/// What would lower the peak, the best `most` of them; `reasons`: with what that assumes.
ReportPart savings_part(const SnapshotSection& snapshot, size_t most, bool reasons);
SnapshotParts snapshot_parts(const SnapshotSection& snapshot, std::optional<int64_t> capacity_bytes, size_t lines);

/// Those that have something to say; none for one rank. `most`: late ranks that have a part of their own, and calls
/// named that lack ranks (0: all).
std::vector<ReportPart> cluster_parts(const Report& report, size_t most);

}  // namespace profgpu
