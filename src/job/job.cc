#include "job/job.h"

#include <algorithm>
#include <array>

#include "job/notes.h"
#include "job/slipped_calls.h"
#include "job/stated_clocks.h"

namespace profgpu {
namespace {

// What the meetings say of each rank's calls.
std::map<int, MetCalls> met_calls(std::span<const RankDigest> ranks, std::span<const RankClock> clocks,
                                  std::span<const Meeting> all) {
  std::map<int, MetCalls> met;
  for (const Meeting& m : all)
    for (const RankCall& c : m.calls) {
      const CollectiveCall& call = ranks[c.rank].calls.calls[c.call];
      const int64_t arrival = clocks[c.rank].aligned(call.start_ns), end = clocks[c.rank].aligned(call.end_ns);
      met[ranks[c.rank].rank].calls.push_back(
          {call.activity, std::min(m.last_ns, end) - arrival, m.transfer_ns(), m.whole_group,
           ranks[m.latest].rank, &m - all.data()});
    }
  for (auto& [rank, calls] : met)
    std::sort(calls.calls.begin(), calls.calls.end(),
              [](const MetCall& a, const MetCall& b) { return a.activity < b.activity; });
  return met;
}

// Stages of a pipeline may meet in nothing but sends and receives. An end of one may be gone before the other's, as from
// a broadcast.
MatchedCalls with_pairs(std::span<const RankDigest> ranks, MatchedCalls met) {
  const auto kind = static_cast<uint32_t>(met.kinds.size());
  met.kinds.push_back({"", "", "send_recv", false});
  for (const Message& m : messages(ranks, {})) {
    std::array<RankCall, 2> parts{m.send, m.receive};
    if (parts[1].rank < parts[0].rank) std::swap(parts[0], parts[1]);
    met.add(kind, parts);
  }
  return met;
}

std::vector<RankClock> clocks_of(std::span<const RankDigest> ranks, const MatchedCalls& met) {
  std::vector<RankClock> clocks = align_clocks(ranks, met);
  if (std::all_of(clocks.begin(), clocks.end(), [](const RankClock& c) { return c.known(); })) return clocks;
  return align_clocks(ranks, with_pairs(ranks, met));
}

}  // namespace

Job analyse_job(std::span<const RankDigest> ranks, const SampleLog& samples) {
  Job job;
  double mean_step = 0;
  for (const RankDigest& r : ranks) {
    job.ranks.push_back(r.rank);
    job.wait_ns[r.rank] = 0;
    job.step_mean_ns[r.rank] = r.mean_step_ns();
    mean_step += static_cast<double>(r.mean_step_ns()) / static_cast<double>(ranks.size());
  }
  if (ranks.size() < 2) return job;
  const auto by_mean = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto [shortest, longest] = std::minmax_element(job.step_mean_ns.begin(), job.step_mean_ns.end(), by_mean);
  if (mean_step > 0) job.step_spread_pct = 100.0 * static_cast<double>(longest->second - shortest->second) / mean_step;
  MatchedCalls met = matched_calls(ranks);
  if (std::optional<MatchedCalls> again = matched_by_time(ranks, met, align_clocks(ranks, met, true)))
    met = *std::move(again);
  job.clocks = clocks_of(ranks, met);
  std::vector<std::string> of_statements = apply_statements(ranks, job.clocks);
  const std::vector<Meeting> all = meetings(ranks, met, job.clocks);
  const Waiting waits = waiting(ranks, job.clocks, met, all, mean_step);
  for (size_t r = 0; r < ranks.size(); ++r) job.wait_ns[ranks[r].rank] = waits.total_ns[r];
  job.stragglers = stragglers(ranks, job.clocks, met, all, waits, mean_step, samples);
  job.met_calls = met_calls(ranks, job.clocks, all);
  job.traffic = traffic(ranks, met, job.clocks, all);
  job.pairs = pairs(ranks, job.clocks);
  job.missing = missing_calls(ranks, met, job.clocks);
  job.notes = job_notes(ranks, met, job.clocks);
  std::move(of_statements.begin(), of_statements.end(), std::back_inserter(job.notes));
  job.parallelism = parallelism_of(ranks);
  std::vector<int> late;
  for (const Straggler& s : job.stragglers) late.push_back(s.rank);
  const JobLanes lanes = join_lanes(ranks, met, job.clocks, all);
  job.critical_path = critical_path(ranks, lanes);
  job.what_if = what_if(ranks, lanes, late);
  return job;
}

}  // namespace profgpu
