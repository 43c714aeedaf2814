// RankResult: all that a report needs of one rank. What it was made from may go after it.
#pragma once

#include <vector>

#include "analyse/rank_report.h"
#include "diagnose/rule.h"
#include "job/rank_digest.h"
#include "report/report.h"

namespace profgpu {

struct RankResult {
  RankReport report;
  RankDigest digest;
  RankDiagnosis diagnosis;
  std::vector<Issue> issues;   ///< of the trace as a whole

  /// A rank read before its number was known.
  void renumber(int rank);
};

RankResult reduced(const RankFacts& rank, RankDigest digest, const Thresholds& thresholds);

Issue issue_of(const TraceIssue& issue);

}  // namespace profgpu
