// RankReport: all that is said of one rank, typed: what presenters, SQL and the JSON document are made from. It
// outlives the trace.
//
// A section is a member, of a type that names its fields (report/document.h), and a line in rank_report.cc.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analyse/rank/collectives.h"
#include "analyse/rank/facts.h"
#include "analyse/rank/idle.h"
#include "analyse/rank/kernels.h"
#include "analyse/rank/launch.h"
#include "analyse/rank/measured.h"
#include "analyse/rank/memory.h"
#include "analyse/rank/ops.h"
#include "analyse/rank/phases.h"
#include "analyse/rank/steps.h"
#include "analyse/rank/threads.h"

namespace profgpu {

// What is missing or wrong in a trace, as far as the tables can tell. Text damage is the importer's to say.

struct Quality {
  std::vector<TraceIssue> issues;
  /// Device time of activity whose launch is not in the file, as a share of busy time, 0..100.
  double unlaunched_pct = 0;
  static Quality compute(const Facts& facts);
};

struct RankReport {
  int rank = 0;
  std::optional<int> world_size;
  std::string host;                        ///< empty: unknown
  std::vector<std::string> device_names;   ///< for headings

  std::vector<DeviceRow> devices;          ///< by id
  Steps steps;
  std::vector<PhaseRow> phases;            ///< all of them
  std::optional<AverageStep> average_step; ///< none without steps
  std::vector<IdleRow> idle;
  std::vector<KernelRow> kernels;
  std::vector<OpRow> ops;
  Launch launch;
  std::vector<CollectiveRow> collectives;
  Memory memory;
  MeasuredSteps measured;
  std::vector<ThreadTime> threads;

  /// The device that sets the pace, that is busy most of its span; null: there is none.
  [[nodiscard]] const DeviceRow* busiest() const;
};

struct Section {
  std::string_view name;      ///< JSON key and --section name
  std::string_view title;     ///< heading
  std::string_view summary;   ///< one line for help
  bool of_job;                ///< what other ranks tell is in it: a report's is made when all of them are known
  void (*make)(const Facts& facts, RankReport& rank);
  Value (*value)(const RankReport& rank);
};
/// In the order of the document.
std::span<const Section> sections();
/// Null if there is none of that name.
const Section* find_section(std::string_view name);

/// All sections but what only the other ranks tell (see Section::of_job), made on two threads, from both ends of the
/// list.
RankReport rank_report(const Facts& facts);

}  // namespace profgpu
