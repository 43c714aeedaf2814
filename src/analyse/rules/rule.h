// A rule asks one question and answers with at most one finding. All that the program knows of a rule is here: what it
// reads, what it says, what it costs, where that is seen, what the checklist and the screen say of it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyse/job/job.h"
#include "analyse/rank/facts.h"
#include "analyse/rank/frameworks.h"
#include "analyse/rank/idle.h"
#include "analyse/rank/phases.h"
#include "analyse/rank/telemetry.h"
#include "analyse/report/report.h"

namespace profgpu {

// RankMeasure: the figures of one rank that are said beside findings. They outlive its trace.

/// Of collectives whose size is known.
struct SizedCollectives {
  int64_t exposed_ns = 0;
  int64_t least_wait_ns = 0;   ///< of it, what not even a slow network explains: waiting for other ranks
};

/// Percentages and times are over the measured steps, as the rules take them.
struct RankMeasure {
  int rank = 0;
  int64_t wall_ns = 0, steps = 0;        ///< of the measured steps
  bool annotated = false;                ///< steps come from ranges of the program
  std::vector<PhaseShare> phases;        ///< of wall_ns
  bool accumulates = false;              ///< more backward passes than optimizer steps
  std::optional<double> memory_headroom_pct;   ///< of the device's memory at the reserved peak

  std::vector<Place> host_places;        ///< without a device: where the steps' thread spends most time
  bool cut_off = false;                  ///< a file of it ends early

  bool has_device = false;               ///< what follows is of the busiest device
  std::string device_label, device_name; ///< "GPU 0"; the name may be unknown
  int64_t window_ns = 0;                 ///< the whole of it
  int64_t waiting_ns = 0;                ///< idle or exposed, in these steps: what all causes together can cost
  double utilization_pct = 0, exposed_communication_pct = 0;
  double known_utilization_pct = 0;      ///< leaves out what the device spent on work that is not in the recording
  double least_utilization_pct = 100;    ///< the same, of all devices that the rank works on
  std::array<double, kIdleCauses> idle_pct{};
  SizedCollectives collectives;
  int64_t activities = 0;                ///< kernels, copies and sets of the whole trace
  bool captures = false;                 ///< a graph is captured for most of the time
  bool matrix_work = false, compiled = false;
  Verdict fused_optimizer = Verdict::kUnknown;

  [[nodiscard]] double phase_pct(Phase phase) const;
  /// Fewer activities are no run: findings about them would be about chance.
  [[nodiscard]] bool is_too_little() const { return has_device && activities < 10; }
  /// Of what the device idles; untraced work is none of it.
  [[nodiscard]] IdleCause largest_idle_cause() const;
  [[nodiscard]] double largest_idle_pct() const { return idle_pct[static_cast<size_t>(largest_idle_cause())]; }
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

/// What rules say of one rank by itself, and the figures that are said beside them. The rank's trace may go after it.
struct RankDiagnosis {
  RankMeasure measure;
  std::vector<std::optional<Finding>> findings;   ///< by place in rules()
};

/// What a rule sees of the whole: every rank, the job, the devices' samples.
struct Evidence {
  std::vector<RankDiagnosis> ranks;        ///< by rank; none: samples alone
  const Job* job = nullptr;                ///< null for one rank
  std::vector<DeviceTelemetry> telemetry;  ///< what samples say of each device, where there are samples
  Thresholds thresholds;

  /// Of the first rank with device activity; null: there is none.
  [[nodiscard]] const RankMeasure* first_device() const;
  /// Null: not in hand.
  [[nodiscard]] const RankMeasure* measure(int rank) const;
  /// Of the first rank that the finding names.
  [[nodiscard]] const RankMeasure* measure(const Finding& f) const {
    return f.ranks.empty() ? nullptr : measure(f.ranks.front());
  }
  /// Where the job hangs; null: it does not, as far as is known.
  [[nodiscard]] const MissingCalls* hang() const { return job != nullptr ? first_hang(job->missing) : nullptr; }
};

/// Asks one rank, with one device at a time; the worst device stands for the rank, the worst rank for all.
struct RankCheck {
  /// The rule fires beyond its threshold. Null beside a Rule::cause: percent of the device's span that it idles for it.
  std::optional<double> (*value)(const Measured&) = nullptr;
  void (*say)(const Measured&, Finding&) = nullptr;            ///< what, why, fix, evidence, cost; the value is there
  bool host_alone = false;                                     ///< asked of ranks without a device, too
  bool of_capture = false;   ///< asked where a graph is captured, which the others do not judge
};

/// Asks the samples of each device where no rank answers; the worst device stands for all.
struct SampleCheck {
  std::optional<double> (*value)(const DeviceTelemetry&) = nullptr;
  void (*say)(const DeviceTelemetry&, Finding&) = nullptr;
  bool without_trace = false;   ///< only where no trace tells better
};

/// What the job's steps would take without the cause.
struct JobCost {
  std::string_view change = {};   ///< WhatIf::change
  bool required = false;          ///< without it the cost is open
  /// Instead, which one. What the other causes cost comes on top of it.
  const WhatIf* (*first)(const Job&) = nullptr;
};

/// A question of the checklist that the rule answers.
struct ChecklistEntry {
  int place = 0;              ///< the list is in this order
  std::string_view id, question, label;
  /// The value of the worst rank with a device, against the limit ...
  std::optional<double> (*value)(const RankMeasure&) = nullptr;
  double limit = 0;
  bool above = false;         ///< passes above the limit, not below it
  bool of_several = false;    ///< one rank alone does not tell
  /// ... or a judgement of the first such rank. `found`: there is a finding of the rule.
  Verdict (*judge)(const RankMeasure&, bool found) = nullptr;
};

/// What is known of a device that runs: its newest values, and the last minute.
struct DeviceNow {
  std::string label;
  std::array<std::optional<double>, kMetricCount> values;
  std::optional<double> busy_pct, held_by_heat_pct, held_by_power_pct;   ///< of the last minute
  std::optional<ProcessSample> largest;   ///< the process that holds most memory
  std::string user;                       ///< whose it is; empty: not known

  [[nodiscard]] std::optional<double> value(Metric metric) const { return values[static_cast<size_t>(metric)]; }
};

/// What `top` says of a device.
struct Advice {
  Severity severity = Severity::kWarning;   ///< kInfo: no fault, but worth knowing
  std::string what;           ///< "the power limit holds the clocks back, 62 % of the last minute"
  std::string fix;            ///< what to do
};

/// What to change, in the words of a framework or an inference engine.
struct FrameworkFix {
  Framework of;
  std::string_view fix;
  std::optional<Framework> unless = {};   ///< where this is seen, it is done already
  bool also = false;                      ///< behind what holds for all, not before it
};

struct Rule {
  std::string_view id = {};
  std::string_view summary = {};       ///< one line for `profgpu rules`
  std::string_view unit = {};          ///< of value and threshold
  double threshold = 0;           ///< default; the finding fires beyond it
  bool below = false;             ///< fires below the threshold, not above it
  Severity severity = Severity::kWarning;
  std::optional<double> grave = {};    ///< one severity more from here on
  bool symptom = false;           ///< of other findings, which it names
  bool of_kernels = false;        ///< about the time that kernels take, which depends on the clock
  std::string_view part_of = {};  ///< the more general rule that would count this one's cost as well
  std::string_view meaning = {};       ///< what it says about the job
  std::string_view computation = {};   ///< how value and cost are computed
  std::vector<std::string_view> advice = {};  ///< every change worth trying, best first, with the call or setting
  std::vector<FrameworkFix> by_framework = {};
  /// The report's first sentence where this costs most; "{}": the value, in percent. Or what makes it.
  std::string_view verdict = {};
  std::string (*verdict_of)(const Finding&, const Job*) = nullptr;
  /// Of the idle time that it is about: the longest such gap shows it, and a rank alone would save what that costs.
  std::optional<IdleCause> cause = {};
  Locator seen = {};                   ///< where a page goes to show it, without a cause

  // Who is asked, in this order, until one answers.
  RankCheck rank = {};
  std::optional<Finding> (*job)(const Rule&, const Evidence&) = nullptr;
  SampleCheck samples = {};
  /// Puts right what a rank said by itself once the job is known; false: it no longer holds.
  bool (*settle)(const Rule&, const Evidence&, const RankMeasure&, Finding&) = nullptr;

  JobCost job_cost = {};
  std::vector<ChecklistEntry> checklist = {};
  std::optional<Advice> (*now)(const Rule&, const DeviceNow&) = nullptr;

  [[nodiscard]] bool beyond(double value, double limit) const { return below ? value < limit : value > limit; }
  [[nodiscard]] Severity severity_at(double value) const;
  /// With value, threshold and severity; the rest is the rule's to say.
  [[nodiscard]] Finding finding(double value, double limit) const;
};

inline double Thresholds::of(const Rule& rule) const {
  const auto it = values_.find(rule.id);
  return it == values_.end() ? rule.threshold : it->second;
}

const std::vector<const Rule*>& rules();
const Rule* find_rule(std::string_view id);
/// What is to be said of one rank, with nothing known of the others.
RankDiagnosis diagnose_rank(const RankFacts& rank, const Thresholds& thresholds);

/// What a report begins with.
struct FirstSentence {
  std::string text;   ///< one or two sentences: where the time goes, what it costs
  VerdictKind kind = VerdictKind::kInconclusive;
};

/// What is said of the whole.
struct Diagnosis {
  std::vector<Finding> findings;   ///< the largest cost first; unknown costs last, by severity then
  std::vector<Check> checklist;    ///< of ranks; empty for samples alone
  FirstSentence verdict;
};
Diagnosis diagnose(const Evidence& evidence);
/// The findings of samples alone.
std::vector<Finding> telemetry_findings(const std::vector<DeviceTelemetry>& telemetry);

/// How much of the time of kernels a clock below the device's highest may explain, where samples say so of a device
/// that works most of the time: "the SM clock averages 1410 of 1980 MHz: at most 29 % of ...". Empty where it explains
/// under a twentieth.
std::string clock_loss(const Evidence& evidence, const RankMeasure& measure);

/// A finding, and the rule that made it.
struct Answer {
  const Rule* rule = nullptr;
  Finding finding;
};
std::vector<Check> checklist(const Evidence& evidence, const std::vector<Answer>& answers);
FirstSentence verdict(const Evidence& evidence, const std::vector<Answer>& answers);

}  // namespace profgpu
