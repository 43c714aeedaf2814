#include "analyse/job/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <ranges>
#include <set>

#include "analyse/job/clocks.h"
#include "analyse/job/matched_collectives.h"
#include "analyse/job/work_comparison.h"
#include "analyse/report/quantity.h"
#include "base/saturated.h"

namespace profgpu {
namespace {

constexpr int kMaxRanks = 1 << 20;   // a file may state any number

std::map<int, CallTimings> call_timings(const JobView& job) {
  std::map<int, CallTimings> timings;
  for (const MatchedCollective& m : job.collectives)
    for (const RankCall& c : m.calls) {
      const Interval time = job.time(c);
      timings[job.ranks[c.rank].rank].calls.push_back(
          {job.call(c).activity, saturated_sub(std::min(m.last_ns, time.end), time.start), m.transfer_ns(),
           m.whole_group, job.ranks[m.latest].rank, &m - job.collectives.data(), job.call(c).host});
    }
  const auto key = [](const CallTiming& call) { return std::pair(call.activity, call.host); };
  for (auto& [rank, calls] : timings) std::ranges::sort(calls.calls, {}, key);
  return timings;
}

// Stages of a pipeline may share nothing but sends and receives. One side may end before the other, as in a broadcast.
MatchedCalls with_pairs(std::span<const RankDigest> ranks, MatchedCalls matches) {
  const auto kind = static_cast<uint32_t>(matches.kinds.size());
  matches.kinds.push_back({"", "", "send_recv", false});
  for (const Message& m : messages(ranks, {})) {
    std::array<RankCall, 2> parts{m.send, m.receive};
    if (parts[1].rank < parts[0].rank) std::swap(parts[0], parts[1]);
    matches.add(kind, parts);
  }
  return matches;
}

std::vector<RankClock> clocks_of(std::span<const RankDigest> ranks, const MatchedCalls& matches) {
  std::vector<RankClock> clocks = align_clocks(ranks, matches);
  return std::ranges::all_of(clocks, &RankClock::known) ? clocks : align_clocks(ranks, with_pairs(ranks, matches));
}

// Whether ranks leave together even those calls that they may leave early: unrecognized collectives, for example.
bool left_together(const JobView& job) {
  constexpr size_t kMinCalls = 8;
  std::vector<RankClock> sure(job.clocks.begin(), job.clocks.end());
  for (RankClock& c : sure) c.error_ns = 0;
  const JobView view{job.ranks, job.matches, sure};
  size_t all = 0, together = 0;
  for (size_t i = 0; i < job.matches.size(); ++i) {
    if (job.matches.kind_of(i).ends_together) continue;
    ++all;
    together += view.collective_of(job.matches[i], true).has_value();
  }
  return all >= kMinCalls && 10 * together >= 9 * all;
}

// The clocks, with the errors that make waiting between ranks uncertain.
std::vector<RankClock> doubted(const JobView& job) {
  std::vector<RankClock> clocks(job.clocks.begin(), job.clocks.end());
  if (left_together(job))
    for (RankClock& c : clocks) c.loose = false;
  return clocks;
}

// From the recorded world sizes, if they are plausible.
void find_missing_ranks(std::span<const RankDigest> ranks, Job& job) {
  int world = 0;
  for (const RankDigest& r : ranks) world = std::max(world, r.world_size.value_or(0));
  if (world > kMaxRanks || ranks.empty() || world <= ranks.back().rank) return;
  job.world_size = world;
  auto next = job.ranks.begin();
  for (int rank = 0; rank < world; ++rank) {
    if (next != job.ranks.end() && *next == rank) ++next;
    else job.missing_ranks.push_back(rank);
  }
}

// Mean over the measured steps that end before the job hangs; if there are none, over all measured steps.
int64_t mean_step_ns(const RankDigest& rank, const RankClock& clock, int64_t hang_ns) {
  int64_t sum = 0, count = 0;
  for (const DigestStep& s : rank.steps)
    if (s.measured && clock.aligned(s.interval().end) <= hang_ns) sum = saturated_add(sum, s.duration_ns), ++count;
  return count > 0 ? sum / count : rank.mean_step_ns();
}

// Sets the ranks' mean steps and their spread. Returns the mean over the ranks.
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
  const auto [shortest, longest] = std::ranges::minmax(job.step_mean_ns | std::views::values);
  if (mean > 0) job.step_spread_pct = 100.0 * static_cast<double>(longest - shortest) / mean;
  return mean;
}

// Ranks without Unix time, if others have it.
std::vector<int> without_unix_time(std::span<const RankDigest> ranks) {
  std::vector<int> without;
  for (const RankDigest& r : ranks)
    if (!has_unix_time(r)) without.push_back(r.rank);
  return without.size() < ranks.size() ? without : std::vector<int>();
}

constexpr int64_t kWrongClock_ns = 1'000'000'000;   // synchronized hosts are closer

// One sentence per host whose clock is far from the median rank's.
std::vector<std::string> wrong_clocks(std::span<const RankDigest> ranks, std::span<const RankClock> clocks) {
  std::vector<std::pair<int64_t, int>> offsets;   // with their ranks
  for (const RankClock& c : clocks)
    if (c.known()) offsets.emplace_back(c.offset_ns, c.rank);
  if (offsets.empty()) return {};
  std::sort(offsets.begin(), offsets.end());
  const auto [usual, of_rank] = offsets[(offsets.size() - 1) / 2];
  std::map<std::pair<std::string, std::string>, std::vector<int>> by_words;   // host, how wrong
  for (size_t r = 0; r < ranks.size(); ++r) {
    const int64_t far = saturated_distance(clocks[r].offset_ns, usual);
    if (!clocks[r].known() || far < kWrongClock_ns || !has_unix_time(ranks[r])) continue;
    const bool ahead = clocks[r].offset_ns < usual;
    by_words[{ranks[r].host, format_duration(static_cast<double>(far)) + (ahead ? " ahead of" : " behind")}].push_back(
        ranks[r].rank);
  }
  std::map<int, std::string> notes;   // by the first rank
  for (const auto& [words, of_host] : by_words)
    notes[of_host.front()] = fmt::format(
        "{}{}: the clock is {} rank {}'s; the collectives match, so the clock is treated as wrong and corrected",
        ranks_text(of_host), words.first.empty() ? "" : " on " + words.first, words.second, of_rank);
  std::vector<std::string> in_order;
  for (auto& [rank, note] : notes) in_order.push_back(std::move(note));
  return in_order;
}

// Empty if all recorded world sizes agree.
std::string different_worlds(std::span<const RankDigest> ranks) {
  std::map<int, std::vector<int>> by_size;
  for (const RankDigest& r : ranks)
    if (r.world_size) by_size[*r.world_size].push_back(r.rank);
  std::string text;
  for (const auto& [size, of_size] : by_size)
    text += fmt::format("{}{} of {}", text.empty() ? "world sizes differ: " : ", ",
                        ranks_text(of_size), size);
  return by_size.size() > 1 ? text : std::string();
}

constexpr int64_t kFarApart_ns = 60'000'000'000;   // clocks of hosts in one run are closer
constexpr size_t kMinShared = 8;                   // collectives, to decide whether they are the same

using RankIndices = std::vector<uint32_t>;

/// Calls of two ranks with the same name, group, size and number.
struct SharedCall {
  RankCall usual, strange;
};

class OtherRunSearch {
 public:
  explicit OtherRunSearch(std::span<const RankDigest> ranks) : ranks_(ranks) {}

  std::vector<OtherRun> run() {
    const std::vector<RankIndices> groups = by_time(same_world());
    if (groups.size() > 1) {
      // The largest; of equally large ones the first rank's.
      const auto usual = std::ranges::max_element(
          groups, {}, [](const RankIndices& g) { return std::pair(g.size(), -static_cast<int64_t>(g.front())); });
      const MatchedCalls matches = matched_calls(ranks_);
      for (const RankIndices& group : groups)
        for (const uint32_t r : group)
          if (&group != &*usual && has_unix_time(ranks_[r]) == has_unix_time(ranks_[usual->front()]))
            look(r, *usual, matches);
    }
    std::ranges::sort(found_, {}, &OtherRun::rank);
    return std::move(found_);
  }

 private:
  void add(uint32_t r, std::string why) { found_.push_back({ranks_[r].rank, std::move(why)}); }

  // All ranks but those whose world size differs from that of more than half of the ranks with one.
  RankIndices same_world() {
    std::map<int, size_t> stated;
    size_t all = 0;
    for (const RankDigest& r : ranks_)
      if (r.world_size) ++stated[*r.world_size], ++all;
    std::optional<int> most;
    for (const auto& [size, count] : stated)
      if (2 * count > all) most = size;
    RankIndices same;
    for (uint32_t r = 0; r < ranks_.size(); ++r) {
      const std::optional<int> own = ranks_[r].world_size;
      if (!most || !own || *own == *most) same.push_back(r);
      else add(r, fmt::format("its world size is {} ranks, most others' is {}", *own, *most));
    }
    return same;
  }

  // Groups of ranks whose times are far apart, by the clocks in their files.
  [[nodiscard]] std::vector<RankIndices> by_time(RankIndices ranks) const {
    std::ranges::sort(ranks, {}, [&](uint32_t r) { return std::pair(ranks_[r].extent.start, r); });
    std::vector<RankIndices> groups;
    int64_t end = INT64_MIN;
    for (const uint32_t r : ranks) {
      if (groups.empty() || ranks_[r].extent.start > saturated_add(end, kFarApart_ns)) groups.emplace_back();
      groups.back().push_back(r);
      end = std::max(end, ranks_[r].extent.end);
    }
    for (RankIndices& group : groups) std::ranges::sort(group);
    return groups;
  }

  // Collectives that the rank shares with the usual rank with which it shares most.
  [[nodiscard]] std::vector<SharedCall> shared(uint32_t rank, const RankIndices& usual,
                                               const MatchedCalls& matches) const {
    std::map<uint32_t, std::vector<SharedCall>> by_other;
    for (size_t i = 0; i < matches.size(); ++i) {
      const auto own = std::ranges::find(matches[i], rank, &RankCall::rank);
      if (own == matches[i].end() || !matches.kind_of(i).ends_together) continue;
      for (const RankCall& c : matches[i])
        if (std::ranges::binary_search(usual, c.rank)) by_other[c.rank].push_back({c, *own});
    }
    std::vector<SharedCall> most;
    for (auto& [other, calls] : by_other)
      if (calls.size() > most.size()) most = std::move(calls);
    return most;
  }

  void look(uint32_t rank, const RankIndices& usual, const MatchedCalls& matches) {
    const std::vector<SharedCall> both = shared(rank, usual, matches);
    if (both.empty()) return look_at_steps(rank, usual);
    if (const auto steps = other_steps(both))
      return add(rank, fmt::format("collectives with the same numbers are in step {} on it, in step {} on rank {}, {}",
                                   steps->second, steps->first, ranks_[both.front().usual.rank].rank,
                                   apart(rank, both.front().usual.rank)));
    const size_t fit = fitting(rank, both);
    if (both.size() >= kMinShared && 2 * fit < both.size())
      add(rank,
          fmt::format("of {} collectives with the same names and numbers as rank {}'s, {} match, {}",
                      both.size(), ranks_[both.front().usual.rank].rank,
                      fit == 0 ? "none" : "only " + std::to_string(fit), apart(rank, both.front().usual.rank)));
  }

  // "1 h later by the clocks in the files"
  [[nodiscard]] std::string apart(uint32_t rank, uint32_t other) const {
    const int64_t by = saturated_sub(ranks_[rank].extent.start, ranks_[other].extent.start);
    return format_duration(std::abs(static_cast<double>(by))) + (by < 0 ? " earlier" : " later") +
           " by the clocks in the files";
  }

  // If most step numbers differ, the first two that do: the usual rank's and this one's.
  [[nodiscard]] std::optional<std::pair<int64_t, int64_t>> other_steps(const std::vector<SharedCall>& both) const {
    std::optional<std::pair<int64_t, int64_t>> first;
    size_t known = 0, differ = 0;
    for (const SharedCall& s : both) {
      const auto a = ranks_[s.usual.rank].step_number(call(s.usual));
      const auto b = ranks_[s.strange.rank].step_number(call(s.strange));
      if (!a || !b) continue;
      ++known;
      if (*a == *b) continue;
      ++differ;
      if (!first) first = {*a, *b};
    }
    return 2 * differ > known ? first : std::nullopt;
  }

  // Number of collectives that both could have left together, on the best fitting clock.
  [[nodiscard]] size_t fitting(uint32_t rank, const std::vector<SharedCall>& both) const {
    std::vector<Encounter> encounters;
    for (const SharedCall& s : both) encounters.push_back({time_of(s.usual), time_of(s.strange)});
    const int64_t at = ranks_[rank].extent.start;
    const auto fit = fit_clock(encounters, at, true);
    if (!fit) return 0;
    RankClock clock;
    clock.offset_ns = fit->offset_ns, clock.drift_ppm = fit->drift_ppm, clock.at_ns = at;
    return static_cast<size_t>(std::ranges::count_if(encounters, [&](const Encounter& e) {
      const auto [start, end] = clock.aligned(e.own);
      const int64_t shorter = std::min(saturated_sub(e.known.end, e.known.start), saturated_sub(end, start));
      return start <= e.known.end && e.known.start <= end &&
             saturated_distance(end, e.known.end) <= std::max(kEndsApart_ns, shorter / 10);
    }));
  }

  // One host has one clock: if it ran a step twice, there were two runs.
  void look_at_steps(uint32_t rank, const RankIndices& usual) {
    const RankDigest& own = ranks_[rank];
    if (own.host.empty() || !own.annotated || own.calls.calls.empty()) return;
    std::set<int64_t> numbers;
    for (const DigestStep& s : own.steps) numbers.insert(s.index);
    for (const uint32_t u : usual) {
      const RankDigest& other = ranks_[u];
      if (other.host != own.host || !other.annotated) continue;
      const auto same =
          std::ranges::find_if(other.steps, [&](int64_t s) { return numbers.contains(s); }, &DigestStep::index);
      if (same == other.steps.end()) continue;
      return add(rank, fmt::format("it shares no collectives with the others, and rank {} ran step {} on the same "
                                   "host, {}; this rank did {}",
                                   other.rank, same->index, own.host, apart(rank, u)));
    }
  }

  [[nodiscard]] const CollectiveCall& call(const RankCall& c) const { return ranks_[c.rank].calls.calls[c.call]; }
  [[nodiscard]] Interval time_of(const RankCall& c) const { return call(c).time(); }

  std::span<const RankDigest> ranks_;
  std::vector<OtherRun> found_;
};

// Ranks with fewer or more recorded steps than most: one sentence per number of steps.
std::vector<std::string> other_step_counts(std::span<const RankDigest> ranks) {
  std::map<size_t, std::vector<int>> by_count;
  for (const RankDigest& r : ranks)
    if (r.annotated && !r.steps.empty()) by_count[r.steps.size()].push_back(r.rank);
  std::vector<std::string> notes;
  if (by_count.size() < 2) return notes;
  const auto usual = std::ranges::max_element(by_count, {}, [](const auto& c) { return c.second.size(); });
  for (const auto& [count, of_count] : by_count)
    if (count != usual->first)
      notes.push_back(fmt::format("{}: {} {}, most others {}; what the ranks share is compared", ranks_text(of_count),
                                  count, count == 1 ? "step" : "steps", usual->first));
  return notes;
}

// What limits the comparison of ranks: one sentence each, without a full stop.
std::vector<std::string> job_notes(const JobView& job) {
  const auto& [ranks, matches, clocks, all] = job;
  std::vector<bool> matched(ranks.size());
  for (const RankCall& c : matches.calls) matched[c.rank] = true;
  std::vector<int> strangers, by_steps, unknown, apart;
  for (size_t r = 0; r < ranks.size(); ++r) {
    const auto is_group = [&](const CollectiveCall& c) { return !ranks[r].may_be_pair(c); };
    const std::vector<CollectiveCall>& calls = ranks[r].calls.calls;
    if (!matched[r] && std::ranges::any_of(calls, is_group)) strangers.push_back(ranks[r].rank);
    if (clocks[r].method == "steps") by_steps.push_back(ranks[r].rank);
    if (clocks[r].method == "none") unknown.push_back(ranks[r].rank);
    if (clocks[r].apart) apart.push_back(ranks[r].rank);
  }
  std::vector<std::string> notes;
  const auto note = [&, first = ranks.front().rank](const std::vector<int>& of, std::string_view words) {
    if (!of.empty()) notes.push_back(ranks_text(of) + ": " + fmt::format(fmt::runtime(words), first));
  };
  note(strangers, "no collective matches another rank's: another run, other steps, or groups whose other ranks have no "
                  "trace here");
  std::ranges::move(other_step_counts(ranks), std::back_inserter(notes));
  note(by_steps, "no shared collective links the clock to rank {}'s; aligned by the starts of equal steps, so it is "
                 "unknown which rank waits for which");
  note(unknown, "neither a collective nor a step links the clock to rank {}'s; times are as in the files");
  note(without_unix_time(ranks),
       "not in Unix time, unlike other ranks (the trace lost its baseTimeNanoseconds, or predates it); its offset does "
       "not mean that the host's clock is wrong");
  std::ranges::move(wrong_clocks(ranks, clocks), std::back_inserter(notes));
  if (std::string worlds = different_worlds(ranks); !worlds.empty()) notes.push_back(std::move(worlds));
  note(apart, "the clock differs from that of other ranks with the same host name; treated as another host");
  return notes;
}

}  // namespace

Job analyse_job(std::span<const RankDigest> ranks, const SampleLog& samples, std::span<const OwnSavings> savings) {
  Job job;
  for (const RankDigest& r : ranks) {
    job.ranks.push_back(r.rank);
    job.wait_ns[r.rank] = 0;
    job.step_mean_ns[r.rank] = r.mean_step_ns();
  }
  find_missing_ranks(ranks, job);
  if (ranks.size() < 2) return job;
  MatchedCalls matches = matched_calls(ranks);
  if (auto again = matched_by_time({ranks, matches, align_clocks(ranks, matches, true)})) matches = *std::move(again);
  job.clocks = clocks_of(ranks, matches);
  std::vector<std::string> of_statements = apply_statements(ranks, job.clocks);
  JobView view{ranks, matches, job.clocks};
  job.missing = missing_calls(view);
  const double mean_step = average_steps(ranks, job);
  const std::vector<MatchedCollective> all = matched_collectives(view);
  view.collectives = all;
  const Waiting waits = waiting(view, mean_step);
  for (size_t r = 0; r < ranks.size(); ++r) job.wait_ns[ranks[r].rank] = waits.total_ns[r];
  std::vector<SlowLink> links = slow_links(view);
  job.stragglers = stragglers(ranks, links, waits, waiting_for_hosts(view, mean_step), mean_step, samples);
  const std::vector<RankClock> in_doubt = doubted(view);
  const std::vector<int> uncertain = drop_uncertain(in_doubt, job.stragglers);
  // If all of them are late, or none, it may be a different one in each step.
  if (job.stragglers.empty() || 2 * waits.late.size() > ranks.size())
    job.late_by_turns = late_by_turns(view, waits, mean_step, samples);
  if (job.late_by_turns && job.late_by_turns->wait_ns_per_step <= clock_doubt_ns(in_doubt, -1))
    job.late_by_turns.reset();
  if (job.late_by_turns) job.stragglers.clear(), links.clear();
  for (const SlowLink& link : links)
    for (const auto& [rank, ns] : link.exposed_ns) add_saturated(job.wait_ns[ranks[rank].rank], ns);
  job.call_timings = call_timings(view);
  job.traffic = traffic(view);
  job.pairs = pairs(ranks, job.clocks);
  job.notes = job_notes(view);
  if (!uncertain.empty())
    job.notes.push_back(ranks_text(uncertain) +
                        ": seems late, but by less than the error of the clocks, so it is not reported as late");
  std::ranges::move(unclear_samples(ranks, samples), std::back_inserter(job.notes));
  std::ranges::move(of_statements, std::back_inserter(job.notes));
  job.parallelism = parallelism_of(ranks);
  std::vector<int> late;
  for (const Straggler& s : job.stragglers) late.push_back(s.rank);
  const JobLanes lanes = join_lanes(view);
  job.critical_path = critical_path(lanes);
  LateRanks late_ranks{late, links, job.late_by_turns.has_value()};
  std::vector<int64_t> even_stages;
  if (late.empty() && !job.late_by_turns) job.uneven_stage = uneven_stage(ranks, job.parallelism);
  if (job.uneven_stage) even_stages = less_with_even_stages(lanes, job.parallelism, *job.uneven_stage);
  late_ranks.even_stages = even_stages;
  job.what_if = what_if(lanes, late_ranks);
  job.what_if_on_top = what_if_on_top(lanes, late_ranks);
  job.what_if_less = what_if_less(lanes, late_ranks, savings);
  return job;
}

bool has_unix_time(const RankDigest& rank) { return is_unix_time(rank.extent.start); }

std::vector<OtherRun> ranks_of_other_runs(std::span<const RankDigest> ranks) { return OtherRunSearch(ranks).run(); }

}  // namespace profgpu
