// One rank, diagnosed by all rules.
#pragma once

#include <string_view>
#include <vector>

#include "analyse/rules/rule.h"
#include "base/tasks.h"

namespace profgpu {

inline RankDiagnosis diagnose_rank(const RankFacts& rank, const Thresholds& thresholds) {
  RankDiagnosis out;
  Tasks tasks;
  add_rank_diagnosis(rank, thresholds, out, tasks);
  tasks.run(1);
  return out;
}

/// Of nothing but this rank.
inline Diagnosis diagnosed(const Facts& facts) {
  Evidence evidence;
  evidence.ranks.push_back(diagnose_rank({0, &facts}, {}));
  return diagnose(evidence);
}

inline Diagnosis diagnosed(const Trace& trace) { return diagnosed(Facts(trace, {})); }

/// Null: the rule found nothing.
inline const Finding* finding(const std::vector<Finding>& all, std::string_view rule) {
  return first_where(all, [&](const Finding& f) { return f.rule == rule; });
}

}  // namespace profgpu
