// A rule asks one question of the facts and answers with at most one finding.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyse/facts.h"
#include "analyse/telemetry.h"
#include "diagnose/rank_measure.h"
#include "job/job.h"
#include "report/report.h"

namespace profgpu {

class Measured;
struct Rule;

/// --threshold rule=value
class Thresholds {
 public:
  void set(std::string rule, double value) { values_[std::move(rule)] = value; }
  [[nodiscard]] double of(const Rule& rule) const;

 private:
  std::map<std::string, double, std::less<>> values_;
};

/// What a rule sees of one rank.
struct RankEvidence {
  const Measured& measured;
  const Thresholds& thresholds;
};

/// What rules say of one rank by itself, and the figures that are said beside them. The rank's trace may go after it.
struct RankDiagnosis {
  RankMeasure measure;
  std::vector<Finding> findings;
};

/// What a rule sees of the whole: every rank, the job, the devices' samples.
struct Evidence {
  std::vector<RankDiagnosis> ranks;        ///< by rank; none: samples alone
  const Job* job = nullptr;                ///< null for one rank
  std::vector<DeviceTelemetry> telemetry;  ///< what samples say of each device, where there are samples
  Thresholds thresholds;

  [[nodiscard]] bool has_device_activity() const;
  /// Null: not in hand.
  [[nodiscard]] const RankMeasure* measure(int rank) const;
};

/// What a rule asks. A rank is asked first; of several that answer the worst stands for all. If none does the job is
/// asked, then the samples.
struct Checks {
  std::optional<Finding> (*rank)(const Rule& rule, const RankEvidence& evidence) = nullptr;
  std::optional<Finding> (*whole)(const Rule& rule, const Evidence& evidence) = nullptr;
  /// Puts right what a rank said by itself once the job is known; false: it no longer holds.
  bool (*settle)(const Rule& rule, const Evidence& evidence, const RankMeasure& measure, Finding& finding) = nullptr;
  bool below = false;   ///< fires below the threshold, not above it
};

struct Rule {
  std::string_view id;
  std::string_view summary;       ///< one line for `profgpu rules`
  std::string_view unit;          ///< of value and threshold
  double threshold = 0;           ///< default; the finding fires beyond it
  std::string_view meaning;       ///< what it says about the job
  std::string_view computation;   ///< how value and cost are computed
  std::vector<std::string_view> advice;  ///< every change worth trying, best first, with the call or setting
  Checks checks;

  [[nodiscard]] bool beyond(double value, double limit) const { return checks.below ? value < limit : value > limit; }
};

inline double Thresholds::of(const Rule& rule) const {
  const auto it = values_.find(rule.id);
  return it == values_.end() ? rule.threshold : it->second;
}

const std::vector<const Rule*>& rules();
const Rule* find_rule(std::string_view id);
/// What is to be said of one rank, with nothing known of the others.
RankDiagnosis diagnose_rank(const RankFacts& rank, const Thresholds& thresholds);
/// All findings, dearest first; null costs last, by severity then.
std::vector<Finding> diagnose(const Evidence& evidence);
/// The same from samples alone, and what they say in a sentence.
std::vector<Finding> telemetry_findings(const std::vector<DeviceTelemetry>& telemetry);
std::string telemetry_verdict(const std::vector<DeviceTelemetry>& telemetry, const std::vector<Finding>& findings);
std::vector<Check> checklist(const Evidence& evidence, const std::vector<Finding>& findings);
/// One or two sentences: where the time goes, what it costs.
std::string verdict(const Evidence& evidence, const std::vector<Finding>& findings);

}  // namespace profgpu
