// A rule asks one question of the facts and answers with at most one finding.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyse/facts.h"
#include "job/job.h"
#include "analyse/telemetry.h"
#include "report/report.h"

namespace profgpu {

/// What a rule sees: every rank's facts, the job's, the devices' samples, and the thresholds in force.
struct Evidence {
  std::vector<RankFacts> ranks;
  const Job* job = nullptr;            ///< null for one rank
  std::vector<DeviceTelemetry> telemetry;  ///< what samples say of each device, where there are samples
  std::map<std::string, double, std::less<>> thresholds;  ///< --threshold rule=value

  [[nodiscard]] double threshold(std::string_view rule, double otherwise) const {
    auto it = thresholds.find(rule);
    return it == thresholds.end() ? otherwise : it->second;
  }
};

struct Rule {
  std::string_view id;
  std::string_view summary;       ///< one line for `profgpu rules`
  std::string_view unit;          ///< of value and threshold
  double threshold = 0;           ///< default; the finding fires beyond it
  std::string_view meaning;       ///< what it says about the job
  std::string_view computation;   ///< how value and cost are computed
  std::vector<std::string_view> advice;  ///< every change worth trying, best first, with the call or setting
  std::optional<Finding> (*check)(const Rule& rule, const Evidence& evidence);
};

const std::vector<const Rule*>& rules();
const Rule* find_rule(std::string_view id);
/// All findings, dearest first; null costs last, by severity then.
std::vector<Finding> diagnose(const Evidence& evidence);
/// The same from samples alone, and what they say in a sentence.
std::vector<Finding> telemetry_findings(const std::vector<DeviceTelemetry>& telemetry);
std::string telemetry_verdict(const std::vector<DeviceTelemetry>& telemetry, const std::vector<Finding>& findings);
std::vector<Check> checklist(const Evidence& evidence, const std::vector<Finding>& findings);
/// One or two sentences: where the time goes, what it costs.
std::string verdict(const Evidence& evidence, const std::vector<Finding>& findings);

}  // namespace profgpu
