#include "analyse/job/stragglers.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "analyse/report/quantity.h"
#include "base/saturated.h"
#include "base/statistics.h"

namespace profgpu {
namespace {

constexpr size_t kMaxPeers = 64;   // enough for a median

// The first entry with the largest value.
template <class Map>
typename Map::value_type most_of(const Map& map) {
  return *std::ranges::max_element(map, {}, &Map::value_type::second);
}

std::vector<uint32_t> sample_of(const std::vector<uint32_t>& peers) {
  const size_t stride = (peers.size() + kMaxPeers - 1) / kMaxPeers;
  std::vector<uint32_t> out;
  for (size_t i = 0; i < peers.size(); i += stride) out.push_back(peers[i]);
  return out;
}

LateSteps late_steps(const RankDigest& rank, const LateRank& late, double mean_step_ns) {
  LateSteps out{late.rank, {}, 0};
  for (const bool all : {false, true}) {   // if no single step is late enough: all of them
    for (const LateRank::Step& s : late.steps) {
      const bool late_enough = percent_of(static_cast<double>(s.excess_ns), mean_step_ns) >= kStragglerPct;
      if (s.index >= rank.steps.size() || (!all && !late_enough)) continue;
      out.steps.push_back(rank.steps[s.index].key());
      out.excess_ns += static_cast<double>(s.excess_ns);
    }
    if (!out.steps.empty()) break;
  }
  std::ranges::sort(out.steps);
  out.excess_ns /= static_cast<double>(std::max<size_t>(out.steps.size(), 1));
  return out;
}

Straggler row(const RankDigest& rank, int64_t excess_ns, double mean_step_ns) {
  Straggler s;
  s.rank = rank.rank;
  s.host = rank.host;
  s.steps_measured = rank.measured_steps();
  s.excess_ns_per_step = excess_ns / std::max<int64_t>(s.steps_measured, 1);
  s.excess_pct = percent_of(static_cast<double>(s.excess_ns_per_step), mean_step_ns);
  return s;
}

Straggler by_arrival(std::span<const RankDigest> ranks, const LateRank& late, const std::vector<bool>& is_late,
                     std::span<const std::optional<SampledClock>> clocks, double mean_step_ns) {
  const RankDigest& rank = ranks[late.rank];
  Straggler s = row(rank, late.excess_ns, mean_step_ns);
  for (const LateRank::Step& step : late.steps) {
    if (step.index >= rank.steps.size()) continue;
    const int64_t number = rank.steps[step.index].index;
    if (percent_of(static_cast<double>(step.excess_ns), mean_step_ns) >= kStragglerPct) s.late_steps.push_back(number);
    if (step.excess_ns > s.worst_step_excess_ns) s.worst_step = number, s.worst_step_excess_ns = step.excess_ns;
  }
  std::vector<uint32_t> peers = late.waiting;
  std::erase_if(peers, [&](uint32_t r) { return is_late[r]; });
  static_cast<WorkComparison&>(s) = compare_work(ranks, late_steps(rank, late, mean_step_ns), sample_of(peers), clocks);
  return s;
}

// Hosts whose ranks are all late, if another host has none that is.
std::set<std::string> late_hosts(std::span<const RankDigest> ranks, const std::vector<bool>& is_late) {
  std::map<std::string, std::array<int64_t, 2>> counts;   // in time, late
  for (size_t r = 0; r < ranks.size(); ++r) ++counts[ranks[r].host][is_late[r] ? 1 : 0];
  const bool one_in_time = std::ranges::any_of(counts, [](const auto& h) { return h.second[1] == 0; });
  std::set<std::string> out;
  for (const auto& [host, count] : counts)
    if (!host.empty() && one_in_time && count[0] == 0 && count[1] > 1) out.insert(host);
  return out;
}

// A late host has one cause: that of most of its ranks. If all its devices or processes are slow, the host is.
void join_hosts(const std::set<std::string>& hosts, std::vector<Straggler>& all) {
  for (const std::string& host : hosts) {
    std::map<std::string, int> kinds;
    std::vector<int> together;
    for (const Straggler& s : all)
      if (s.host == host) ++kinds[s.kind], together.push_back(s.rank);
    std::string kind = most_of(kinds).first;
    if (kind == "slow_compute" || kind == "late") kind = "slow_host";
    for (Straggler& s : all)
      if (s.host == host) s.kind = kind, s.together = together;
  }
}

// Hosts whose ranks are all late when they count as one, for one reason of their own, not because one holds up the
// others. Replaces the rows of their single ranks.
void take_hosts_as_one(std::span<const RankDigest> ranks, const Waiting& waits,
                       std::span<const std::optional<SampledClock>> clocks, double mean_step_ns,
                       std::vector<Straggler>& all) {
  std::vector<bool> is_late(ranks.size());
  for (const LateRank& l : waits.late) is_late[l.rank] = true;
  for (const std::string& host : late_hosts(ranks, is_late)) {
    std::vector<Straggler> rows;
    for (const LateRank& l : waits.late)
      if (ranks[l.rank].host == host) rows.push_back(by_arrival(ranks, l, is_late, clocks, mean_step_ns));
    const bool own = std::ranges::all_of(
        rows, [&](const Straggler& s) { return s.kind != "late" && s.kind == rows.front().kind; });
    if (!own) continue;
    join_hosts({host}, rows);
    std::erase_if(all, [&](const Straggler& s) { return s.host == host; });
    all.insert(all.end(), rows.begin(), rows.end());
  }
}

void add_slow_links(std::span<const RankDigest> ranks, std::vector<SlowLink>& links, const std::vector<bool>& is_late,
                    double mean_step_ns, std::vector<Straggler>& out) {
  for (SlowLink& link : links)
    std::erase_if(link.ranks, [&](uint32_t r) {
      return is_late[r] || row(ranks[r], link.excess_ns, mean_step_ns).excess_pct < kStragglerPct;
    });
  std::erase_if(links, [](const SlowLink& link) { return link.ranks.empty(); });
  for (const SlowLink& link : links)
    for (const uint32_t r : link.ranks) {
      Straggler s = row(ranks[r], link.excess_ns, mean_step_ns);
      s.kind = "slow_link";
      if (link.ranks.size() > 1)
        for (const uint32_t other : link.ranks) s.together.push_back(ranks[other].rank);
      s.side_by_side = {{"transfer_ns", static_cast<double>(link.transfer_ns), static_cast<double>(link.others_ns)}};
      s.evidence = {link.what + ": transfer " + format_duration(static_cast<double>(link.transfer_ns)) +
                    ", other groups " + format_duration(static_cast<double>(link.others_ns))};
      out.push_back(std::move(s));
    }
}

constexpr double kTurnsPct = 10;

struct Turn {
  uint32_t rank = 0;
  int64_t wait_ns = 0;
};

// Per measured step the rank that the others wait for most, by sums of the median waits.
std::map<StepKey, Turn> turns_of(const JobView& job) {
  std::map<StepKey, std::map<uint32_t, int64_t>> waited;
  std::vector<int64_t> others;
  for (const MatchedCollective& m : job.collectives) {
    if (!m.measured) continue;
    others.clear();
    std::optional<StepKey> step;
    for (const RankCall& c : m.calls) {
      const std::vector<DigestStep>& steps = job.ranks[c.rank].steps;
      if (c.rank != m.latest) others.push_back(stalled_ns(job, c, INT64_MIN, m.last_ns));
      else if (const uint32_t place = job.call(c).step_index; place < steps.size()) step = steps[place].key();
    }
    if (step && step->second >= 0) add_saturated(waited[*step][m.latest], lower_median(others));
  }
  std::map<StepKey, Turn> turns;
  for (const auto& [step, by_rank] : waited) {
    const auto [rank, wait_ns] = most_of(by_rank);
    if (wait_ns > 0) turns[step] = {rank, wait_ns};
  }
  return turns;
}

// Sets the ranks, and the most frequent cause with its evidence.
void explain(std::span<const RankDigest> ranks, const std::map<StepKey, Turn>& turns, const SampleLog& samples,
             LateByTurns& out) {
  std::map<uint32_t, LateSteps> late;
  for (const auto& [step, turn] : turns) {
    LateSteps& l = late[turn.rank];
    l.rank = turn.rank;
    l.steps.push_back(step);
    l.excess_ns += static_cast<double>(turn.wait_ns);
  }
  const std::vector<std::optional<SampledClock>> clocks = sampled_clocks(ranks, samples);
  std::vector<uint32_t> all(ranks.size());
  std::iota(all.begin(), all.end(), 0U);
  std::map<std::string, size_t> kinds;
  std::map<std::string, std::pair<size_t, std::vector<std::string>>> evidence;
  for (auto& [rank, l] : late) {
    out.ranks.push_back({ranks[rank].rank, static_cast<int64_t>(l.steps.size())});
    l.excess_ns /= static_cast<double>(l.steps.size());
    std::vector<uint32_t> peers = sample_of(all);
    std::erase(peers, rank);
    WorkComparison c = compare_work(ranks, l, peers, clocks);
    kinds[c.kind] += l.steps.size();
    auto& [steps, texts] = evidence[c.kind];
    if (l.steps.size() <= steps) continue;
    steps = l.steps.size();
    texts.clear();   // only the first text is about the late steps
    if (!c.evidence.empty())
      texts = {"rank " + std::to_string(ranks[rank].rank) + " when it is late: " + c.evidence.front()};
  }
  out.kind = most_of(kinds).first;
  out.evidence = std::move(evidence[out.kind].second);
  std::ranges::stable_sort(out.ranks, std::greater(), &LateByTurns::Turns::steps);
}

}  // namespace

std::vector<Straggler> stragglers(std::span<const RankDigest> ranks, std::vector<SlowLink>& links, const Waiting& waits,
                                  const std::optional<Waiting>& hosts_waits, double mean_step_ns,
                                  const SampleLog& samples) {
  std::vector<bool> is_late(ranks.size());
  for (const LateRank& l : waits.late) is_late[l.rank] = true;
  const std::vector<std::optional<SampledClock>> sampled = sampled_clocks(ranks, samples);
  std::vector<Straggler> out;
  for (const LateRank& l : waits.late) out.push_back(by_arrival(ranks, l, is_late, sampled, mean_step_ns));
  join_hosts(late_hosts(ranks, is_late), out);
  if (hosts_waits) take_hosts_as_one(ranks, *hosts_waits, sampled, mean_step_ns, out);
  for (const Straggler& s : out)
    for (size_t r = 0; r < ranks.size(); ++r)
      if (ranks[r].rank == s.rank) is_late[r] = true;
  add_slow_links(ranks, links, is_late, mean_step_ns, out);
  std::ranges::sort(out, {}, [](const Straggler& s) { return std::pair(-s.excess_ns_per_step, s.rank); });
  return out;
}

int64_t clock_doubt_ns(std::span<const RankClock> clocks, int rank) {
  std::vector<int64_t> others;
  int64_t own = 0;
  for (const RankClock& c : clocks) {
    if (!c.known()) continue;
    const int64_t doubt = c.loose ? c.error_ns.value_or(0) : 0;
    if (c.rank == rank) own = doubt;
    else others.push_back(doubt);
  }
  return others.empty() ? own : std::max(own, upper_median(std::move(others)));
}

std::vector<int> drop_uncertain(std::span<const RankClock> clocks, std::vector<Straggler>& all) {
  std::vector<int> dropped;
  std::erase_if(all, [&](const Straggler& s) {
    const bool uncertain = s.kind != "slow_link" && s.excess_ns_per_step <= clock_doubt_ns(clocks, s.rank);
    if (uncertain) dropped.push_back(s.rank);
    return uncertain;
  });
  std::ranges::sort(dropped);
  return dropped;
}

std::optional<LateByTurns> late_by_turns(const JobView& job, const Waiting& waits, double mean_step_ns,
                                         const SampleLog& samples) {
  std::vector<int64_t> per_step;
  for (size_t r = 0; r < job.ranks.size(); ++r)
    per_step.push_back(waits.total_ns[r] / std::max<int64_t>(job.ranks[r].measured_steps(), 1));
  LateByTurns out;
  out.wait_ns_per_step = lower_median(per_step);
  out.wait_pct = percent_of(static_cast<double>(out.wait_ns_per_step), mean_step_ns);
  const int64_t least = std::ranges::min(per_step);
  if (out.wait_pct < kTurnsPct || least < out.wait_ns_per_step / 2) return std::nullopt;
  const std::map<StepKey, Turn> turns = turns_of(job);
  if (turns.empty()) return std::nullopt;
  out.steps_measured = static_cast<int64_t>(turns.size());
  explain(job.ranks, turns, samples, out);
  if (out.ranks.size() < 2) return std::nullopt;
  return out;
}

}  // namespace profgpu
