#include "gather/rank_result.h"

#include <algorithm>

#include "analyse/quality.h"

namespace profgpu {
namespace {

Severity severity_of(TraceIssueKind kind) {
  switch (kind) {
    case TraceIssueKind::kNoSteps:
    case TraceIssueKind::kNote:
    case TraceIssueKind::kUnknownRows:
    case TraceIssueKind::kInvalidText:
    case TraceIssueKind::kDuplicateCorrelation: return Severity::kInfo;
    default: return Severity::kWarning;
  }
}

}  // namespace

Issue issue_of(const TraceIssue& i) {
  return {std::string(trace_issue_name(i.kind)), i.count, severity_of(i.kind), i.text};
}

void RankResult::renumber(int rank) {
  report.rank = digest.rank = diagnosis.measure.rank = rank;
  for (Finding& f : diagnosis.findings) f.ranks = {rank};
}

RankResult reduced(const RankFacts& rank, RankDigest digest, const Thresholds& thresholds) {
  RankResult result;
  result.report = rank_report(rank);
  result.digest = std::move(digest);
  result.diagnosis = diagnose_rank(rank, thresholds);
  for (const TraceIssue& i : rank.facts->get<Quality>().issues) result.issues.push_back(issue_of(i));
  return result;
}

}  // namespace profgpu
