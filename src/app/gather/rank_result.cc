#include "app/gather/rank_result.h"

#include <algorithm>

#include "analyse/rank/rank_report.h"
#include "analyse/rank/replay.h"
#include "app/gather/archive.h"
#include "trace/radix_sort.h"
#include "trace/trace_builder.h"

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

void RankResult::number(int rank) {
  report.rank = digest.rank = diagnosis.measure.rank = rank;
  for (std::optional<Finding>& f : diagnosis.findings)
    if (f) f->ranks = {rank};
}

// The digest asks for one half of the analyses, those of time; the other thread begins with those that count, and with
// what rules will ask for.
RankResult reduced(int rank, const Facts& facts, const Thresholds& thresholds, int threads) {
  RankResult result;
  const auto others = [&] {
    facts.get<Ops>();
    facts.get<Kernels>();
    facts.get<Launch>();
    facts.get<Replay>();
    facts.get<Quality>();
    facts.get<RankWork>();
    facts.get<MeasuredSteps>();
  };
  side_by_side(threads, [&] { result.digest = rank_digest(rank, facts); }, others);
  result.report = rank_report(facts);
  result.diagnosis = diagnose_rank({0, &facts}, thresholds);
  for (const TraceIssue& i : facts.get<Quality>().issues) result.issues.push_back(issue_of(i));
  return result;
}

std::string encoded(const ShareRead& share) {
  archive::Writer to;
  to.put(share.names);
  to.put(share.outcomes.size());
  for (const auto& [unit, o] : share.outcomes) {
    to.put(unit);
    to.put(o.error);
    to.put(o.left_out);
    to.put(o.parts);
    to.put(o.result);
  }
  return std::move(to.bytes);
}

Result<ShareRead> decoded_share(const std::string& bytes) {
  archive::Reader from(bytes);
  ShareRead share;
  size_t n = 0;
  from.get(share.names);
  from.get(n);
  for (size_t i = 0; i < n && !from.failed(); ++i) {
    auto& [unit, o] = share.outcomes.emplace_back();
    from.get(unit);
    from.get(o.error);
    from.get(o.left_out);
    from.get(o.parts);
    from.get(o.result);
  }
  if (from.failed() || !from.at_end())
    return Error{"what another process read cannot be understood", "run the same version of profgpu on all nodes"};
  return share;
}

RankFiles::RankFiles(std::vector<InputUnit> units, std::map<int, std::vector<size_t>> by_rank,
                     const std::vector<InputPart>& parts, const std::vector<size_t>& unit_of)
    : units_(std::move(units)) {
  for (const auto& [rank, of_rank] : by_rank)
    for (const size_t i : of_rank)
      windows_[rank].push_back(
          {unit_of[i], parts[i].place, parts[i].source.path, parts[i].source.events, parts[i].window.extent});
}

Result<Trace> RankFiles::read(int rank) const {
  const std::vector<Window>& windows = windows_.at(rank);
  std::map<size_t, ReadPart> by_place;
  std::vector<Trace> traces;
  for (const Window& w : windows) {
    if (!by_place.contains(w.place)) {
      auto read = read_unit(units_[w.unit], {});
      if (!read) return read.error();
      for (ReadPart& r : read->parts) by_place[r.part.place] = std::move(r);
    }
    const auto at = by_place.find(w.place);
    if (at == by_place.end() || at->second.part.source.events != w.events || at->second.part.window.extent != w.extent)
      return Error{w.path + ": changed while it was read", "try again when nobody writes it"};
    traces.push_back(std::move(at->second.trace));
  }
  return joined_windows(std::move(traces));
}

}  // namespace profgpu
