#include "job/job.h"

#include <algorithm>
#include <array>

#include "base/saturated.h"
#include "job/notes.h"
#include "job/sampled_clocks.h"
#include "job/slipped_calls.h"
#include "job/stated_clocks.h"
#include "report/quantity.h"

namespace profgpu {
namespace {

constexpr int kMostRanks = 1 << 20;   // a file may state any number

// What the meetings say of each rank's calls.
std::map<int, MetCalls> met_calls(std::span<const RankDigest> ranks, std::span<const RankClock> clocks,
                                  std::span<const Meeting> all) {
  std::map<int, MetCalls> met;
  for (const Meeting& m : all)
    for (const RankCall& c : m.calls) {
      const CollectiveCall& call = ranks[c.rank].calls.calls[c.call];
      const int64_t arrival = clocks[c.rank].aligned(call.start_ns), end = clocks[c.rank].aligned(call.end_ns);
      met[ranks[c.rank].rank].calls.push_back(
          {call.activity, saturated_sub(std::min(m.last_ns, end), arrival), m.transfer_ns(), m.whole_group,
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

// Whether calls that ranks may leave early are left together all the same: collectives whose kernels do not say so.
bool left_together(std::span<const RankDigest> ranks, const MatchedCalls& met, std::vector<RankClock> clocks) {
  constexpr size_t kLeast = 8;
  for (RankClock& c : clocks)
    if (c.known()) c.error_ns = 0;
  size_t all = 0, together = 0;
  for (size_t i = 0; i < met.size(); ++i) {
    if (met.kinds[met.kind[i]].ends_together) continue;
    ++all;
    together += meeting_of(ranks, met[i], true, clocks).has_value();
  }
  return all >= kLeast && 10 * together >= 9 * all;
}

// Clocks that say by how much what ranks wait for each other is uncertain.
std::vector<RankClock> doubted(std::span<const RankDigest> ranks, const MatchedCalls& met, std::vector<RankClock> clocks) {
  if (left_together(ranks, met, clocks))
    for (RankClock& c : clocks) c.loose = false;
  return clocks;
}

// Ranks that the job says it has, where all that they say can be true.
void find_missing_ranks(std::span<const RankDigest> ranks, Job& job) {
  int world = 0;
  for (const RankDigest& r : ranks) world = std::max(world, r.world_size.value_or(0));
  if (world > kMostRanks || ranks.empty() || world <= ranks.back().rank) return;
  job.world_size = world;
  auto next = job.ranks.begin();
  for (int rank = 0; rank < world; ++rank) {
    if (next != job.ranks.end() && *next == rank) ++next;
    else job.missing_ranks.push_back(rank);
  }
}

// The mean over measured steps that end before a hang holds them up; over all of them if none does.
int64_t mean_step_ns(const RankDigest& rank, const RankClock& clock, int64_t hang_ns) {
  int64_t sum = 0, count = 0;
  for (const DigestStep& s : rank.steps)
    if (s.measured && clock.aligned(s.interval().end) <= hang_ns) sum = saturated_add(sum, s.duration_ns), ++count;
  return count > 0 ? sum / count : rank.mean_step_ns();
}

// Sets how long steps take; the mean over the ranks.
double average_steps(std::span<const RankDigest> ranks, Job& job) {
  int64_t hang_ns = INT64_MAX;   // on the first rank's clock
  for (const MissingCalls& m : job.missing)
    if (m.never_arrived()) hang_ns = std::min(hang_ns, m.first_ns);
  double mean = 0;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const int64_t own = mean_step_ns(ranks[i], job.clocks[i], hang_ns);
    job.step_mean_ns[ranks[i].rank] = own;
    mean += static_cast<double>(own) / static_cast<double>(ranks.size());
  }
  const auto by_mean = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto [shortest, longest] = std::minmax_element(job.step_mean_ns.begin(), job.step_mean_ns.end(), by_mean);
  if (mean > 0) job.step_spread_pct = 100.0 * static_cast<double>(longest->second - shortest->second) / mean;
  return mean;
}

}  // namespace

Job analyse_job(std::span<const RankDigest> ranks, const SampleLog& samples) {
  Job job;
  for (const RankDigest& r : ranks) {
    job.ranks.push_back(r.rank);
    job.wait_ns[r.rank] = 0;
    job.step_mean_ns[r.rank] = r.mean_step_ns();
  }
  find_missing_ranks(ranks, job);
  if (ranks.size() < 2) return job;
  MatchedCalls met = matched_calls(ranks);
  if (std::optional<MatchedCalls> again = matched_by_time(ranks, met, align_clocks(ranks, met, true)))
    met = *std::move(again);
  job.clocks = clocks_of(ranks, met);
  std::vector<std::string> of_statements = apply_statements(ranks, job.clocks);
  job.missing = missing_calls(ranks, met, job.clocks);
  const double mean_step = average_steps(ranks, job);
  const std::vector<Meeting> all = meetings(ranks, met, job.clocks);
  const Waiting waits = waiting(ranks, job.clocks, met, all, mean_step);
  for (size_t r = 0; r < ranks.size(); ++r) job.wait_ns[ranks[r].rank] = waits.total_ns[r];
  std::vector<SlowLink> links = slow_links(ranks, job.clocks, met, all);
  job.stragglers = stragglers(ranks, links, waits, waiting_for_hosts(ranks, job.clocks, met, all, mean_step), mean_step, samples);
  const std::vector<RankClock> in_doubt = doubted(ranks, met, job.clocks);
  const std::vector<int> uncertain = drop_uncertain(in_doubt, job.stragglers);
  // All of them late, or none: it may be another one in each step.
  if (job.stragglers.empty() || 2 * waits.late.size() > ranks.size())
    job.late_by_turns = late_by_turns(ranks, job.clocks, all, waits, mean_step, samples);
  if (job.late_by_turns && job.late_by_turns->wait_ns_per_step <= clock_doubt_ns(in_doubt, -1)) job.late_by_turns.reset();
  if (job.late_by_turns) job.stragglers.clear(), links.clear();
  for (const SlowLink& link : links)
    for (const auto& [place, ns] : link.exposed_ns) job.wait_ns[ranks[place].rank] += ns;
  job.met_calls = met_calls(ranks, job.clocks, all);
  job.traffic = traffic(ranks, job.clocks, all);
  job.pairs = pairs(ranks, job.clocks);
  job.notes = job_notes(ranks, met, job.clocks);
  if (!uncertain.empty())
    job.notes.push_back(ranks_text(uncertain) + ": seems late, but by less than clocks are known to within, so it is not named");
  std::vector<std::string> unclear = unclear_samples(ranks, samples);
  std::move(unclear.begin(), unclear.end(), std::back_inserter(job.notes));
  std::move(of_statements.begin(), of_statements.end(), std::back_inserter(job.notes));
  job.parallelism = parallelism_of(ranks);
  std::vector<int> late;
  for (const Straggler& s : job.stragglers) late.push_back(s.rank);
  const JobLanes lanes = join_lanes(ranks, met, job.clocks, all);
  job.critical_path = critical_path(ranks, lanes);
  const LateRanks late_ranks{late, links, job.late_by_turns.has_value()};
  job.what_if = what_if(ranks, lanes, late_ranks);
  job.what_if_on_top = what_if_on_top(ranks, lanes, late_ranks);
  return job;
}

}  // namespace profgpu
