// RankReport: everything reported of one rank, typed. Presenters, SQL and the JSON document are made from it. It
// outlives the trace.
//
// A section is a member whose type names its fields (report/document.h), and a line in RankReport::sections().
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyse/rank/collectives.h"
#include "analyse/rank/counters.h"
#include "analyse/rank/device_use.h"
#include "analyse/rank/distance.h"
#include "analyse/rank/energy.h"
#include "analyse/rank/facts.h"
#include "analyse/rank/idle.h"
#include "analyse/rank/kernels.h"
#include "analyse/rank/launch.h"
#include "analyse/rank/measured.h"
#include "analyse/rank/memory.h"
#include "analyse/rank/model.h"
#include "analyse/rank/mpi.h"
#include "analyse/rank/ops.h"
#include "analyse/rank/phases.h"
#include "analyse/rank/roofline.h"
#include "analyse/rank/serving.h"
#include "analyse/rank/snapshot.h"
#include "analyse/rank/steps.h"
#include "analyse/rank/threads.h"
#include "analyse/rank/work.h"
#include "analyse/report/document.h"

namespace profgpu {

class Tasks;

/// What is missing or wrong in a trace's tables. Importers report damaged text.
struct Quality {
  std::vector<TraceIssue> issues;
  static Quality compute(const Facts& facts);
};

struct Section {
  std::string_view name;      ///< JSON key and --section name
  std::string_view title;     ///< heading
  std::string_view summary;   ///< one line for help
  bool of_job = false;        ///< depends on other ranks: made when all of them are known
};

struct RankReport {
  int rank = 0;
  std::optional<int> world_size;
  std::string host;                        ///< empty: unknown
  std::vector<std::string> device_names;   ///< for headings
  std::vector<std::string> frameworks;     ///< that the program uses, see Frameworks

  std::vector<DeviceRow> devices;          ///< by id
  std::vector<DeviceUse> use;              ///< likewise
  Steps steps;
  std::vector<PhaseRow> phases;            ///< all of them
  std::optional<AverageStep> average_step; ///< none without steps
  std::optional<Serving> serving;          ///< of an inference engine
  std::vector<IdleRow> idle;
  std::vector<KernelRow> kernels;
  std::vector<OpRow> ops;
  std::optional<WorkSection> work; ///< none without kernels
  Limits limits;
  Roofline roofline;
  std::optional<Counters> counters;   ///< of single kernels, where a tool measured them
  Distance distance;
  std::optional<ModelSection> model;        ///< none without --model-config
  std::optional<EnergySection> energy;      ///< none without samples of devices
  Launch launch;
  std::vector<CollectiveRow> collectives;
  std::optional<MpiTime> mpi;               ///< none without calls of MPI
  Memory memory;
  std::optional<SnapshotSection> snapshot;  ///< of PyTorch's allocator, where one was taken
  MeasuredSteps measured;
  std::vector<ThreadTime> threads;

  /// Calls visit(Section, member) for each section, in the order of the document.
  template <class Self, class Visit>
  static void sections(Self&& self, Visit&& visit) {
    visit(Section{"devices", "Devices", "time on each device: busy, idle, by kind of work"}, self.devices);
    visit(Section{"use", "Use of devices", "how busy each device is, and why it idles, without warm-up"}, self.use);
    visit(Section{"steps", "Steps", "every step, with its device time"}, self.steps);
    visit(Section{"phases", "Phases", "wall time of all steps by phase of training"}, self.phases);
    visit(Section{"average_step", "Average step", "the mean of the measured steps, by phase"}, self.average_step);
    visit(Section{"serving", "Serving", "steps of an inference engine by kind, tokens, and the time between steps"},
          self.serving);
    visit(Section{"idle", "Idle time by cause", "every gap on a device has one cause"}, self.idle);
    visit(Section{"kernels", "Kernels", "kernels, copies and sets by device and name"}, self.kernels);
    visit(Section{"ops", "Ops", "operators, counted as in PyTorch's key_averages"}, self.ops);
    visit(Section{"work", "Work", "FLOPs and bytes of kernels by family of operators, and what is unknown"}, self.work);
    visit(Section{"limits", "Limits", "what the busiest device could do: peak rates and memory bandwidth"},
          self.limits);
    visit(Section{"roofline", "Roofline", "operators and kernels beside the limit that their work has on the device"},
          self.roofline);
    visit(Section{"counters", "Hardware counters",
                  "what Nsight Compute measured of kernels, beside the roofline's estimate"},
          self.counters);
    visit(Section{"distance", "Distance", "from the least time for the steps' work to their wall time"}, self.distance);
    visit(Section{"model", "Model", "FLOPs of the model that --model-config describes, and its MFU"}, self.model);
    visit(Section{"energy", "Energy", "energy of the measured steps, by phase and by what the device did", true},
          self.energy);
    visit(Section{"launch", "Launches", "cost and latency of launches"}, self.launch);
    visit(Section{"collectives", "Collectives", "collectives by name, dtype, group and size", true}, self.collectives);
    visit(Section{"mpi", "MPI", "time in calls of MPI, by function"}, self.mpi);
    visit(Section{"memory", "Memory", "device memory according to the framework's allocator"}, self.memory);
    visit(Section{"snapshot", "Memory snapshot", "memory at its peak by category and line; growth, out of memory"},
          self.snapshot);
    visit(Section{"measured", "Measured steps", "parts of the measured steps, for `profgpu diff`"}, self.measured);
    visit(Section{"threads", "Threads", "CPU time of each thread, time blocked, and the blocking system calls"},
          self.threads);
  }

  /// The device that is busy for most of its span; null: no devices.
  [[nodiscard]] const DeviceRow* busiest() const;
};

std::span<const Section> sections();
/// Null: unknown name.
const Section* find_section(std::string_view name);
/// A section's rows as in the document.
Value section_value(const RankReport& rank, std::string_view name);
/// Computes only that section.
Value section_value(const Facts& facts, std::string_view name);

/// All sections except those that need the other ranks (Section::of_job).
RankReport rank_report(const Facts& facts);
/// The same, once the tasks are done; `facts` and `report` must last so long.
void add_rank_report(const Facts& facts, RankReport& report, Tasks& tasks);

}  // namespace profgpu
