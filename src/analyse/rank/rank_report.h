// RankReport: all that is said of one rank, typed: what presenters, SQL and the JSON document are made from. It
// outlives the trace.
//
// A section is a member, of a type that names its fields (report/document.h), and a line in RankReport::sections().
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
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
#include "analyse/rank/serving.h"
#include "analyse/rank/steps.h"
#include "analyse/rank/threads.h"
#include "analyse/report/document.h"

namespace profgpu {

// What is missing or wrong in a trace, as far as the tables can tell. Text damage is the importer's to say.

struct Quality {
  std::vector<TraceIssue> issues;
  /// Device time of activity whose launch is not in the file, as a share of busy time, 0..100.
  double unlaunched_pct = 0;
  static Quality compute(const Facts& facts);
};

struct Section {
  std::string_view name;      ///< JSON key and --section name
  std::string_view title;     ///< heading
  std::string_view summary;   ///< one line for help
  bool of_job = false;        ///< what other ranks tell is in it: a report's is made when all of them are known
};

struct RankReport {
  int rank = 0;
  std::optional<int> world_size;
  std::string host;                        ///< empty: unknown
  std::vector<std::string> device_names;   ///< for headings
  std::vector<std::string> frameworks;     ///< what the program is built with, see Frameworks

  std::vector<DeviceRow> devices;          ///< by id
  Steps steps;
  std::vector<PhaseRow> phases;            ///< all of them
  std::optional<AverageStep> average_step; ///< none without steps
  std::optional<Serving> serving;          ///< of an inference engine
  std::vector<IdleRow> idle;
  std::vector<KernelRow> kernels;
  std::vector<OpRow> ops;
  Launch launch;
  std::vector<CollectiveRow> collectives;
  Memory memory;
  MeasuredSteps measured;
  std::vector<ThreadTime> threads;

  /// Calls visit(Section, member) for each section, in the order of the document.
  template <class Self, class Visit>
  static void sections(Self&& self, Visit&& visit) {
    visit(Section{"devices", "Devices", "time on each device: busy, idle, by kind of work"}, self.devices);
    visit(Section{"steps", "Steps", "every step, with its device time"}, self.steps);
    visit(Section{"phases", "Phases", "wall time of all steps by phase of training"}, self.phases);
    visit(Section{"average_step", "Average step", "the mean of the measured steps, by phase"}, self.average_step);
    visit(Section{"serving", "Serving", "steps of an inference engine by kind, tokens, and what lies between steps"},
          self.serving);
    visit(Section{"idle", "Idle time by cause", "every gap on a device has one cause"}, self.idle);
    visit(Section{"kernels", "Kernels", "kernels, copies and sets by device and name"}, self.kernels);
    visit(Section{"ops", "Ops", "operators as PyTorch's key_averages counts them"}, self.ops);
    visit(Section{"launch", "Launches", "cost and latency of launches"}, self.launch);
    visit(Section{"collectives", "Collectives", "collectives by name, type, group and size", true}, self.collectives);
    visit(Section{"memory", "Memory", "device memory as the framework's allocator saw it"}, self.memory);
    visit(Section{"measured", "Measured steps", "what the measured steps are made of, for `profgpu diff`"},
          self.measured);
    visit(Section{"threads", "Threads",
                  "processor time of each thread, how long it was blocked, and in which system calls"},
          self.threads);
  }

  /// The device that sets the pace, that is busy most of its span; null: there is none.
  [[nodiscard]] const DeviceRow* busiest() const;
};

std::span<const Section> sections();
/// Null if there is none of that name.
const Section* find_section(std::string_view name);
/// A section's rows as the document has them.
Value section_value(const RankReport& rank, std::string_view name);
/// Of that section alone.
Value section_value(const Facts& facts, std::string_view name);

/// All sections but what only the other ranks tell (see Section::of_job).
RankReport rank_report(const Facts& facts);

}  // namespace profgpu
