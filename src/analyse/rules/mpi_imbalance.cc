#include <fmt/format.h>

#include <algorithm>

#include "analyse/rules/measure.h"
#include "analyse/rules/rule.h"

namespace profgpu {
namespace {

/// The rank that works longest between its calls of MPI, and the others, which meanwhile wait in theirs.
struct Imbalance {
  const RankMeasure* late = nullptr;
  const RankMeasure* waiting = nullptr;        ///< the one that is in MPI longest
  int64_t others_outside_ns = 0, saved_ns = 0;
};

std::optional<Imbalance> find_imbalance(const Evidence& evidence) {
  Imbalance out;
  for (const RankDiagnosis& r : evidence.ranks) {
    if (!r.measure.host.mpi) return std::nullopt;
    if (out.late == nullptr || r.measure.host.mpi->outside_ns > out.late->host.mpi->outside_ns) out.late = &r.measure;
  }
  std::vector<int64_t> outside, in_calls;
  for (const RankDiagnosis& r : evidence.ranks) {
    if (&r.measure == out.late) continue;
    outside.push_back(r.measure.host.mpi->outside_ns);
    in_calls.push_back(r.measure.host.mpi->total_ns);
    if (out.waiting == nullptr || in_calls.back() > out.waiting->host.mpi->total_ns) out.waiting = &r.measure;
  }
  if (out.waiting == nullptr || out.waiting->host.mpi->longest() == nullptr) return std::nullopt;
  out.others_outside_ns = upper_median(outside);
  out.saved_ns = std::min(out.late->host.mpi->outside_ns - out.others_outside_ns,
                          lower_median(in_calls) - out.late->host.mpi->total_ns);
  return only_if(out.saved_ns > 0, out);
}

std::string function_text(const RankMeasure& m) {
  const MpiFunction& f = *m.host.mpi->longest();
  std::string text = fmt::format("rank {} is in {} for {} ({} of the time), in {} {}", m.rank, f.name,
                                 format_duration(static_cast<double>(f.total_ns)), format_percent(f.pct, 0),
                                 format_count(f.calls), f.calls == 1 ? "call" : "calls");
  if (f.median_bytes) text += " of " + format_bytes(static_cast<double>(*f.median_bytes));
  return f.where.empty() ? text : fmt::format("{}, most of it in {}", text, f.where);
}

// The messages for which a rank waits longest for the late one; empty: none are matched.
std::string messages_text(const Job& job, int late) {
  const Pair* longest = nullptr;
  for (const Pair& p : job.pairs) {
    if (p.from != late || p.receiver_wait_ns <= 0) continue;
    if (longest == nullptr || p.receiver_wait_ns > longest->receiver_wait_ns) longest = &p;
  }
  if (longest == nullptr) return "";
  return fmt::format("rank {} waits {} until rank {} sends: {} {}", longest->to,
                     format_duration(static_cast<double>(longest->receiver_wait_ns)), late,
                     format_count(longest->calls), longest->calls == 1 ? "message" : "messages");
}

// Where collectives tell who is late, that is straggler-rank's finding.
std::optional<Finding> check_mpi_imbalance(const Rule& rule, const Evidence& evidence) {
  const Job* job = evidence.job;
  if (job == nullptr || evidence.hang() != nullptr || !job->stragglers.empty() || job->late_by_turns)
    return std::nullopt;
  const std::optional<Imbalance> found = find_imbalance(evidence);
  if (!found || found->late->wall_ns <= 0) return std::nullopt;
  const RankMeasure& late = *found->late;
  const double value = percent_of(found->saved_ns, late.wall_ns), threshold = evidence.thresholds.of(rule);
  if (!rule.beyond(value, threshold)) return std::nullopt;
  Finding f = rule.finding(value, threshold);
  f.ranks = {late.rank};
  f.names_ranks = true;
  const std::string& function = found->waiting->host.mpi->longest()->name;
  f.what =
      fmt::format("rank {} works longer between calls of MPI than the others, which wait in {}", late.rank, function);
  f.verdict = fmt::format("Rank {} works longer than the others, which wait for it in {}: {} of the time.", late.rank,
                          function, format_percent(value, 0));
  f.why = fmt::format("Outside MPI rank {} spends {}, the others {} (their median).", late.rank,
                      format_duration(static_cast<double>(late.host.mpi->outside_ns)),
                      format_duration(static_cast<double>(found->others_outside_ns)));
  f.evidence.push_back(function_text(*found->waiting));
  if (std::string text = messages_text(*job, late.rank); !text.empty()) f.evidence.push_back(std::move(text));
  f.seen.rank = late.rank;
  f.steps = late.steps;
  set_cost(f, late.wall_ns, found->saved_ns);
  return f;
}

}  // namespace

extern const Rule kMpiImbalance = {
    .id = "mpi-imbalance",
    .summary = "one rank of an MPI program works while the others wait",
    .unit = "%",
    .threshold = 5,
    .severe = 20,
    .meaning =
        "Ranks that exchange messages go at the pace of the slowest: the others wait for it in receives, waits, probes or "
        "sends.",
    .computation =
        "Value: what the rank with the most time outside MPI spends there beyond the "
        "others' median, at most what the median of the others is in MPI longer than that rank, as a share of the time. "
        "Cost: that time. None if matched collectives show the late rank: see straggler-rank.",
    .advice =
        {"divide the work by what it costs, not by count, or hand it out as ranks get free",
         "if the shares are the same: CPU frequency, other processes, ranks that share cores (mpirun --bind-to core "
         "--report-bindings)",
         "post receives early (MPI_Irecv) and work until the message is needed",
         "find the code: NVTX ranges around the program's parts, or perf record on that rank and on another"},
    .job = check_mpi_imbalance,
};

}  // namespace profgpu
