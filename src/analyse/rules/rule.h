// A rule evaluates one condition and reports at most one finding. A Rule holds everything about it: its inputs, texts,
// cost, location in the timeline, checklist entries, and advice in `top`.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyse/job/job.h"
#include "analyse/rank/facts.h"
#include "analyse/rank/frameworks.h"
#include "analyse/rank/mpi.h"
#include "analyse/rank/idle.h"
#include "analyse/rank/phases.h"
#include "analyse/rank/telemetry.h"
#include "analyse/report/report.h"
#include "analyse/run/flight_report.h"
#include "analyse/run/log_report.h"

namespace profgpu {

class Tasks;

/// Of collectives whose size is known.
struct SizedCollectives {
  int64_t exposed_ns = 0;
  int64_t min_wait_ns = 0;     ///< part of it that even a slow network does not explain: waiting for other ranks
  /// Part of it beyond what the shortest call of the same size takes: waiting, or transfers that vary.
  int64_t beyond_shortest_ns = 0;
  int64_t shortest_ns = 0, longest_ns = 0;   ///< calls of the row with most of that
};

/// What a memory snapshot says.
struct SnapshotMeasure {
  std::string peak;              ///< in a sentence; empty: there is none
  int64_t peak_bytes = 0;        ///< allocated
  bool peak_known = true;        ///< false: no history was recorded, and this is what was held when it was taken
  bool alone = false;            ///< nothing else is known of the rank
};

/// The busiest device of a rank.
struct DeviceMeasure {
  std::string label, name;               ///< "GPU 0"; empty: unknown name
  int64_t window_ns = 0;                 ///< its whole window
  int64_t waiting_ns = 0;                ///< idle or exposed in these steps: upper bound of all costs together
  double utilization_pct = 0;
  double known_utilization_pct = 0;      ///< without time for unrecorded work, and without requests
  double least_utilization_pct = 100;    ///< the lowest of all devices that the rank works on
  std::array<double, kIdleCauses> idle_pct{};
  IdleCause largest_idle_cause = IdleCause::kUnknown;   ///< not untraced work, not a lack of requests
  std::string largest_idle_words = {};   ///< "host bound"
  std::optional<double> times_limit;     ///< Distance, if the work of enough kernels is known
  std::optional<double> memory_headroom_pct;   ///< of its memory at the reserved peak
  int64_t activities = 0;                ///< kernels, copies and sets of the whole trace
  bool captures = false;                 ///< a graph is captured for most of the time
  bool on_tensor_cores = false;          ///< matrix kernels whose names or data show it

  [[nodiscard]] double largest_idle_pct() const { return idle_pct[static_cast<size_t>(largest_idle_cause)]; }
};

/// The host of a rank; what is only known or needed without a device.
struct HostMeasure {
  std::vector<Place> places;             ///< without a device: where the step's thread spends most time
  bool python_frames = false;            ///< Python functions were recorded
  bool launches = false;                 ///< launches of work on a device were recorded
  std::optional<MpiTime> mpi;            ///< of a program that calls MPI
  bool collectives = false;              ///< without a device: calls of gloo were recorded
  int64_t backward_ns = 0;               ///< without a device: in the backward pass
};

/// Figures of one rank for verdict and checklist; they outlive its trace. Percentages and times are over the measured
/// steps, as in the rules.
struct RankMeasure {
  int rank = 0;
  int64_t wall_ns = 0, steps = 0;        ///< of the measured steps
  bool annotated = false;                ///< steps come from the program's ranges
  bool of_log = false;                   ///< there is nothing of it but a log
  std::string mostly;                    ///< "most GPU time goes into the backward pass (52 %)"; of the host without
  /// Of the time, the device waits for data; without one, the host loads it. None: no phase was recognized.
  std::optional<double> loading_pct = {};
  bool loads_in_own_code = false;        ///< most of that is where the host prepares inputs in code that no range marks
  /// That no compute hides; without a device, that the host waits for collectives.
  double exposed_communication_pct = 0;
  SizedCollectives collectives;
  double mpi_wait_pct = 0;               ///< of the device's window: idle while the launching thread is in MPI
  bool accumulates = false;              ///< more backward passes than optimizer steps
  bool infers = false;                   ///< operators, and none of training's
  Frameworks with = {};
  Verdict fused_optimizer = Verdict::kUnknown;
  Recorder recorder = Recorder::kOther;
  bool cut_off = false;                  ///< a file of it ends early
  double unread_pct = 0;                 ///< Trace::unread_pct
  std::string no_evidence;               ///< why its times say little about the program, in sentences; empty: they do
  SnapshotMeasure snapshot;

  HostMeasure host;
  bool has_device = false;
  DeviceMeasure device;                  ///< only with has_device

  /// Findings about so few activities would be chance.
  [[nodiscard]] bool is_too_little() const { return has_device && device.activities < 10; }
  /// Whether its times say little about the program.
  [[nodiscard]] bool is_no_evidence() const { return !no_evidence.empty() || is_too_little(); }
};

class Measured;
RankMeasure rank_measure(const Measured& measured);

struct Rule;

/// --threshold rule=value
class Thresholds {
 public:
  void set(std::string rule, double value) { values_[std::move(rule)] = value; }
  [[nodiscard]] double of(const Rule& rule) const;

 private:
  std::map<std::string, double, std::less<>> values_;
};

/// Findings and figures of one rank by itself. Does not need the rank's trace any more.
struct RankDiagnosis {
  RankMeasure measure;
  std::vector<std::optional<Finding>> findings;   ///< by index in rules()
  bool of_several = false;                        ///< its job has more ranks, whether they are here or not
};

/// Input of rules about the whole: every rank, the job, the devices' samples.
struct Evidence {
  std::vector<RankDiagnosis> ranks;        ///< by rank; empty: samples alone
  const Job* job = nullptr;                ///< null for one rank
  std::vector<DeviceTelemetry> telemetry;  ///< by device; empty: no samples
  std::vector<LogReport> logs;             ///< from what the job printed
  std::optional<FlightReport> flight;      ///< from dumps of NCCL's flight recorder
  MeasuredMachine machine;                 ///< what was measured of the traces' own machine; empty: nothing
  Thresholds thresholds;

  /// Of the first rank with device activity; null: none.
  [[nodiscard]] const RankMeasure* first_device() const;
  /// One rank of a job that has more.
  [[nodiscard]] bool lacks_ranks() const { return ranks.size() == 1 && ranks.front().of_several; }
  /// The same, or the first rank where none has device activity; null: no ranks.
  [[nodiscard]] const RankMeasure* main_rank() const {
    const RankMeasure* with_device = first_device();
    return with_device != nullptr || ranks.empty() ? with_device : &ranks.front().measure;
  }
  /// Null: no trace of that rank.
  [[nodiscard]] const RankMeasure* measure(int rank) const;
  /// Of the rank that the finding's figures are of.
  [[nodiscard]] const RankMeasure* measure(const Finding& f) const {
    if (f.seen.rank) return measure(*f.seen.rank);
    return f.ranks.empty() ? nullptr : measure(f.ranks.front());
  }
  /// Of the rank's time, it waits in collectives for late ranks, as far as the job knows.
  [[nodiscard]] double waited_pct(const RankMeasure& measure) const;
  /// Where the job hangs; null: it does not, or that is unknown.
  [[nodiscard]] const MissingCalls* hang() const { return job != nullptr ? first_hang(job->missing) : nullptr; }
};

/// Checks one rank, one device at a time. The worst device represents the rank, the worst rank all of them.
struct RankCheck {
  /// The rule fires beyond its threshold. Null with a Rule::cause: the cause's idle time, percent of the device's
  /// window.
  std::optional<double> (*value)(const Measured&) = nullptr;
  /// Sets what, why, evidence and cost of a finding that has its value; also fix, if not the first few of Rule::advice.
  void (*describe)(const Measured&, Finding&) = nullptr;
  bool host_alone = false;   ///< also for ranks without a device
  bool of_capture = false;   ///< also while a graph is captured
};

/// Checks the samples of each device, if no rank has a finding. The worst device represents all of them.
struct SampleCheck {
  std::optional<double> (*value)(const DeviceTelemetry&) = nullptr;
  void (*describe)(const DeviceTelemetry&, Finding&) = nullptr;
  bool without_trace = false;   ///< only without traces, which are more precise
};

/// Checks what the job printed, if nothing else has a finding. The worst log represents all of them.
struct LogCheck {
  std::optional<double> (*value)(const LogReport&) = nullptr;
  void (*describe)(const LogReport&, Finding&) = nullptr;   ///< sets what, why, fix and evidence; a cost if known
};

/// Cost from the job's what-ifs.
struct JobCost {
  std::string_view change = {};   ///< WhatIf::change
  bool required = false;          ///< without that what-if the cost is unknown
  /// Selects the what-if instead. Costs of other causes come on top of it.
  const WhatIf* (*first)(const Job&) = nullptr;
};

/// A checklist question that the rule answers.
struct ChecklistEntry {
  int order = 0;              ///< position in the list
  std::string_view id, question, label;
  /// What the rank's program makes of the label; null: the same.
  std::string_view (*label_of)(const RankMeasure&) = nullptr;
  /// Either the value of the worst rank with a device, compared with the limit ...
  std::optional<double> (*value)(const Evidence&, const RankMeasure&) = nullptr;
  double limit = 0;
  bool above = false;         ///< passes above the limit, not below it
  bool of_several = false;    ///< needs several ranks
  bool of_training = false;   ///< means nothing to a program that does not train
  bool host_alone = false;    ///< also answered of a rank without a device
  /// ... or a judgment of the first such rank. `found`: the rule has a finding.
  Verdict (*judge)(const RankMeasure&, bool found) = nullptr;
  std::string_view record = {};   ///< what to record where GPU activity is not the answer
};

/// A device's newest values, and the last minute.
struct DeviceNow {
  std::string label;
  std::array<std::optional<double>, kMetricCount> values;
  std::optional<double> busy_pct, held_by_heat_pct, held_by_power_pct;   ///< of the last minute
  std::optional<ProcessSample> largest;   ///< the process that holds most memory
  std::string user;                       ///< its user; empty: unknown

  [[nodiscard]] std::optional<double> value(Metric metric) const { return values[static_cast<size_t>(metric)]; }
};

/// Advice of `top` for a device.
struct Advice {
  Severity severity = Severity::kWarning;   ///< kInfo: not a fault, but worth knowing
  std::string what;           ///< "clocks reduced by the power limit, 62 % of the last minute"
  std::string fix;
};

/// A change in terms of a framework or an inference engine.
struct FrameworkFix {
  Framework of;
  std::string_view fix;
  std::optional<Framework> unless = {};   ///< already done if this is seen
  bool also = false;                      ///< after the general changes, not before them
};

struct Rule {
  std::string_view id = {};
  std::string_view summary = {};       ///< one line for `profgpu rules`
  std::string_view unit = {};          ///< of value and threshold
  double threshold = 0;           ///< default; the rule fires beyond it
  std::string_view threshold_words = {};   ///< "1.3x the median"; empty: number and unit say it
  bool below = false;             ///< fires below the threshold, not above it
  Severity severity = Severity::kWarning;
  std::optional<double> severe = {};   ///< one level more severe from here on
  bool symptom = false;           ///< of other findings, which it refers to
  bool of_kernels = false;        ///< about the time of kernels, which depends on the clock
  std::string_view meaning = {};       ///< what it means for the job
  std::string_view computation = {};   ///< how value and cost are computed
  std::vector<std::string_view> advice = {};  ///< every change worth trying, best first, with the call or setting
  std::vector<FrameworkFix> by_framework = {};
  /// Of programs that use CUDA or HIP by themselves: what to do instead of changes in terms of PyTorch.
  std::vector<std::string_view> native_advice = {};
  /// The report's first sentence if this is the most expensive; "{}": the value, in percent. Or a function that makes
  /// it.
  std::string_view verdict = {};
  std::string (*verdict_of)(const Finding&, const Job*) = nullptr;
  /// The idle time it is about: its longest gap is the location, and its saving the cost for a rank alone.
  std::optional<IdleCause> cause = {};
  Locator seen = {};                   ///< location in the timeline, without a cause

  // Checks in this order, until one has a finding.
  RankCheck rank = {};
  std::optional<Finding> (*job)(const Rule&, const Evidence&) = nullptr;
  SampleCheck samples = {};
  LogCheck log = {};
  /// Corrects a rank's own finding once the job is known; false: it no longer holds.
  bool (*settle)(const Rule&, const Evidence&, const RankMeasure&, Finding&) = nullptr;

  JobCost job_cost = {};
  std::vector<ChecklistEntry> checklist = {};
  std::optional<Advice> (*now)(const Rule&, const DeviceNow&) = nullptr;

  [[nodiscard]] bool beyond(double value, double limit) const { return below ? value < limit : value > limit; }
  [[nodiscard]] Severity severity_at(double value) const;
  /// With value, threshold, severity and location.
  [[nodiscard]] Finding finding(double value, double limit) const;
};

inline double Thresholds::of(const Rule& rule) const {
  const auto it = values_.find(rule.id);
  return it == values_.end() ? rule.threshold : it->second;
}

const std::vector<const Rule*>& rules();
const Rule* find_rule(std::string_view id);
/// Of one rank, without the others, once the tasks are done; all but `tasks` must last so long.
void add_rank_diagnosis(const RankFacts& rank, const Thresholds& thresholds, RankDiagnosis& out, Tasks& tasks);

/// The report's first sentence.
struct ReportVerdict {
  std::string text;   ///< one or two sentences: where the time goes, and the cost
  VerdictKind kind = VerdictKind::kInconclusive;
  std::optional<StepSaving> saving = {};
  std::string_view rule = {};   ///< of the finding that it names; empty: none
};

/// For the job's replay: of each rule with a cost in the ranks' lanes. `ranks`: in the order of the job's.
std::vector<OwnSavings> own_savings(std::span<const RankDiagnosis* const> ranks);

struct Diagnosis {
  std::vector<Finding> findings;   ///< most expensive first; unknown costs last, by severity
  std::vector<Check> checklist;    ///< empty for samples alone
  ReportVerdict verdict;
};
Diagnosis diagnose(const Evidence& evidence);
/// Findings of samples alone.
std::vector<Finding> telemetry_findings(const std::vector<DeviceTelemetry>& telemetry);

/// How much faster kernels could be at the full clock, if there are samples of a device that is busy most of the time:
/// "the SM clock averages 1410 of 1980 MHz: ...". Empty: by less than a twentieth, or unknown.
std::string clock_loss(const Evidence& evidence, const RankMeasure& measure);

/// A finding and its rule.
struct RuleFinding {
  const Rule* rule = nullptr;
  Finding finding;
};
std::vector<Check> checklist(const Evidence& evidence, const std::vector<RuleFinding>& findings);
ReportVerdict verdict(const Evidence& evidence, const std::vector<RuleFinding>& findings);
/// Of a job with nothing but what it printed.
ReportVerdict verdict_of_logs(const std::vector<LogReport>& logs, const std::vector<RuleFinding>& findings);

}  // namespace profgpu
