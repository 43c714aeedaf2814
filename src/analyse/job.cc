// Ranks are put on one clock by collectives that end together; who arrives last at a collective makes the others wait.
#include "analyse/job.h"

#include <algorithm>
#include <map>
#include <span>
#include <tuple>
#include <unordered_map>

#include "analyse/devices.h"
#include "analyse/job_calls.h"
#include "analyse/steps.h"

namespace profgpu {
namespace {

constexpr double kStragglerPct = 5;   // of the mean step, output.md

int64_t middle(std::vector<int64_t>& values) {
  const auto at = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

/// One collective as a rank with a known clock and one without have it.
struct Encounter {
  Interval known, unknown;
  [[nodiscard]] int64_t difference() const { return known.end - unknown.end; }
};

// The offset that makes collectives end together; the error is half the spread of the middle half. Calls that do not
// overlap by the first guess were not one collective (records are missing on one side) and have no say.
RankClock clock_from(int rank, const std::vector<Encounter>& all) {
  std::vector<int64_t> differences;
  for (const Encounter& e : all) differences.push_back(e.difference());
  const int64_t guess = middle(differences);
  differences.clear();
  for (const Encounter& e : all)
    if (e.unknown.start + guess < e.known.end && e.known.start < e.unknown.end + guess)
      differences.push_back(e.difference());
  if (differences.empty()) return {rank, guess, std::nullopt, "none"};
  const int64_t offset = middle(differences);
  std::sort(differences.begin(), differences.end());
  const int64_t spread = differences[differences.size() * 3 / 4] - differences[differences.size() / 4];
  return {rank, offset, std::max<int64_t>(spread / 2, 1), "collectives"};
}

/// Clocks of all ranks against the first: ranks of one host share a clock, others are joined by the collectives that
/// they share with ranks whose clock is known, as far as that reaches.
class Clocks {
 public:
  Clocks(const std::vector<RankFacts>& ranks, const MatchedCalls& met) : ranks_(ranks), met_(met), known_(ranks.size()) {
    for (const RankFacts& r : ranks) clocks.push_back({r.rank, 0, std::nullopt, "none"});
    clocks.front() = {ranks.front().rank, 0, 0, "reference"};
    known_.front() = true;
    share_by_host();
    // Broadcasts and reductions to one rank let the others go early, so they serve only where nothing else does.
    for (const bool strict : {true, false})
      while (join(strict)) share_by_host();
  }
  std::vector<RankClock> clocks;

 private:
  void share_by_host() {
    std::map<std::string_view, size_t> first;
    for (size_t r = 0; r < ranks_.size(); ++r)
      if (known_[r] && !host(r).empty()) first.emplace(host(r), r);
    for (size_t r = 0; r < ranks_.size(); ++r) {
      if (known_[r] || !first.contains(host(r))) continue;
      const RankClock& same = clocks[first[host(r)]];
      clocks[r] = {ranks_[r].rank, same.offset_ns, same.error_ns, "same host"};
      known_[r] = true;
    }
  }

  bool join(bool strict) {
    std::vector<std::vector<Encounter>> encounters(ranks_.size());
    for (size_t i = 0; i < met_.size(); ++i) {
      const std::span calls(met_.calls.data() + met_.first[i], met_.first[i + 1] - met_.first[i]);
      if (strict && !met_.kinds[calls.front().what].ends_together) continue;
      const auto anchor = std::find_if(calls.begin(), calls.end(), [&](const RankCall& c) { return known_[c.rank]; });
      if (anchor == calls.end()) continue;
      const int64_t shift = clocks[anchor->rank].offset_ns;
      for (const RankCall& c : calls)
        if (!known_[c.rank]) encounters[c.rank].push_back({{anchor->start_ns + shift, anchor->end_ns + shift},
                                                           {c.start_ns, c.end_ns}});
    }
    bool any = false;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      if (encounters[r].empty()) continue;
      const RankClock clock = clock_from(ranks_[r].rank, encounters[r]);
      if (clock.method == "none") continue;
      clocks[r] = clock;
      known_[r] = any = true;
    }
    return any;
  }

  [[nodiscard]] std::string_view host(size_t r) const { return ranks_[r].facts->trace().host_name; }

  const std::vector<RankFacts>& ranks_;
  const MatchedCalls& met_;
  std::vector<bool> known_;
};

/// A collective on the first rank's clock.
struct Meeting {
  std::span<const RankCall> calls;
  int64_t last_ns = INT64_MIN;   ///< last arrival
  int64_t end_ns = INT64_MIN;
  uint32_t latest = 0;           ///< rank's place
  bool measured = true;
};

/// Meetings of ranks whose clocks are known, by last arrival. Calls that should end together but were not in it at the
/// same time were matched wrongly, for want of sequence numbers, and say nothing.
std::vector<Meeting> meetings(const MatchedCalls& met, const std::vector<RankClock>& clocks) {
  std::vector<Meeting> all;
  for (size_t i = 0; i < met.size(); ++i) {
    Meeting m;
    m.calls = {met.calls.data() + met.first[i], met.first[i + 1] - met.first[i]};
    bool comparable = true;
    int64_t first_end = INT64_MAX;
    for (const RankCall& c : m.calls) {
      comparable &= clocks[c.rank].method != "none";
      first_end = std::min(first_end, c.end_ns + clocks[c.rank].offset_ns + clocks[c.rank].error_ns.value_or(0));
      m.measured &= c.measured;
      m.end_ns = std::max(m.end_ns, c.end_ns + clocks[c.rank].offset_ns);
      const int64_t start = c.start_ns + clocks[c.rank].offset_ns;
      if (start > m.last_ns) m.last_ns = start, m.latest = c.rank;
    }
    if (met.kinds[m.calls.front().what].ends_together) comparable &= m.last_ns <= first_end;
    if (comparable) all.push_back(m);
  }
  std::stable_sort(all.begin(), all.end(), [](const Meeting& a, const Meeting& b) { return a.last_ns < b.last_ns; });
  return all;
}

/// Time of one rank in which it waits in a collective and computes nothing: only that delays it.
class Stalls {
 public:
  Stalls(const std::vector<RankFacts>& ranks, const std::vector<RankClock>& clocks) : ranks_(ranks), clocks_(clocks) {}

  /// From its arrival, but not before `from`, up to `to`, on the first rank's clock.
  [[nodiscard]] int64_t operator()(const RankCall& call, int64_t from, int64_t to) const {
    const Facts& facts = *ranks_[call.rank].facts;
    const Trace& trace = facts.trace();
    const int64_t shift = clocks_[call.rank].offset_ns + trace.base_time_ns;
    const Interval call_time = trace.activity.interval(call.activity);
    const Interval wait{from == INT64_MIN ? call_time.start : std::max(from - shift, call_time.start),
                        std::min(to - shift, call_time.end)};
    if (wait.end <= wait.start) return 0;
    for (const DeviceTime& d : facts.get<Devices>().devices)
      if (d.id == trace.device_of(call.activity)) return wait.length() - overlap_length(d.compute, wait);
    return wait.length();
  }

 private:
  const std::vector<RankFacts>& ranks_;
  const std::vector<RankClock>& clocks_;
};

struct Waiting {
  std::vector<int64_t> total_ns;                                  ///< by rank's place
  std::vector<std::unordered_map<uint32_t, int64_t>> waited_ns;   ///< by the latest rank's place, then the waiting one's
};

// Collectives of several streams may wait at once; what one of them has counted, the next leaves out.
Waiting waiting(size_t ranks, const std::vector<Meeting>& all, const Stalls& stalled) {
  Waiting result{std::vector<int64_t>(ranks), {}};
  result.waited_ns.resize(ranks);
  std::vector<int64_t> counted_to(ranks, INT64_MIN);
  for (const Meeting& m : all) {
    if (!m.measured) continue;
    for (const RankCall& c : m.calls) {
      if (c.rank == m.latest) continue;
      const int64_t wait = stalled(c, counted_to[c.rank], m.last_ns);
      counted_to[c.rank] = m.last_ns;
      result.total_ns[c.rank] += wait;
      result.waited_ns[m.latest][c.rank] += wait;
    }
  }
  return result;
}

// Median over the ranks that it met and that came before it at least once.
int64_t usual_wait(const std::unordered_map<uint32_t, int64_t>& waited) {
  if (waited.empty()) return 0;
  std::vector<int64_t> values;
  for (const auto& [rank, ns] : waited) values.push_back(ns);
  return middle(values);
}

void add_stragglers(const std::vector<RankFacts>& ranks, const Waiting& waits, double mean_step, Job& job) {
  for (size_t r = 0; r < ranks.size(); ++r) {
    job.wait_ns[ranks[r].rank] = waits.total_ns[r];
    const auto steps = static_cast<int64_t>(ranks[r].facts->get<Steps>().measured().size());
    const int64_t excess = usual_wait(waits.waited_ns[r]) / std::max<int64_t>(steps, 1);
    const double pct = mean_step > 0 ? 100.0 * static_cast<double>(excess) / mean_step : 0;
    if (pct >= kStragglerPct) job.stragglers.push_back({ranks[r].rank, excess, pct, "late"});
  }
  std::sort(job.stragglers.begin(), job.stragglers.end(), [](const Straggler& a, const Straggler& b) {
    return a.excess_ns_per_step != b.excess_ns_per_step ? a.excess_ns_per_step > b.excess_ns_per_step : a.rank < b.rank;
  });
}

bool whole_group(const Meeting& m) {
  const Collective* arguments = m.calls.front().arguments;
  return arguments != nullptr && arguments->group_size == static_cast<int64_t>(m.calls.size());
}

void add_met_calls(const std::vector<RankFacts>& ranks, const std::vector<Meeting>& all, Job& job) {
  for (const Meeting& m : all)
    for (const RankCall& c : m.calls) {
      const int64_t arrival = c.start_ns + job.clocks[c.rank].offset_ns, end = c.end_ns + job.clocks[c.rank].offset_ns;
      job.met_calls[ranks[c.rank].rank].calls.push_back(
          {c.activity, std::min(m.last_ns, end) - arrival, m.end_ns - m.last_ns, whole_group(m)});
    }
  for (auto& [rank, met] : job.met_calls)
    std::sort(met.calls.begin(), met.calls.end(),
              [](const MetCall& a, const MetCall& b) { return a.activity < b.activity; });
}

// Rates of collectives whose whole group is in hand.
void add_transfers(const std::vector<RankFacts>& ranks, const MatchedCalls& met, const std::vector<Meeting>& all,
                   Job& job) {
  std::map<std::tuple<std::string, std::string, int64_t, int64_t>, std::vector<double>> rates;
  for (const Meeting& m : all) {
    const RankCall& call = m.calls.front();
    if (!whole_group(m)) continue;
    const std::string& name = met.kinds[call.what].name;
    const std::string_view dtype = ranks[call.rank].facts->trace().strings[call.arguments->dtype];
    const int64_t bytes = message_bytes(*call.arguments, name, dtype).value_or(0);
    if (bytes <= 0 || m.end_ns <= m.last_ns) continue;
    rates[{name, std::string(dtype), call.arguments->group_size, bytes}].push_back(
        static_cast<double>(bytes) / static_cast<double>(m.end_ns - m.last_ns));
  }
  for (auto& [key, gbps] : rates) {
    const auto median = gbps.begin() + static_cast<int64_t>(gbps.size() / 2);
    std::nth_element(gbps.begin(), median, gbps.end());
    Transfer t;
    std::tie(t.name, t.dtype, t.group_size, t.message_bytes) = key;
    t.calls = static_cast<int64_t>(gbps.size());
    t.algbw_gbps = *median;
    t.busbw_gbps = t.algbw_gbps * bus_factor(t.name, t.group_size);
    job.transfers.push_back(std::move(t));
  }
}

}  // namespace

Job analyse_job(const std::vector<RankFacts>& ranks) {
  Job job;
  double mean_step = 0;
  for (const RankFacts& r : ranks) {
    job.ranks.push_back(r.rank);
    job.wait_ns[r.rank] = 0;
    const Steps& steps = r.facts->get<Steps>();
    const auto n = static_cast<int64_t>(steps.measured().size());
    const int64_t mean = n > 0 ? steps.measured_wall_ns() / n : 0;
    job.step_mean_ns[r.rank] = mean;
    mean_step += static_cast<double>(mean) / static_cast<double>(ranks.size());
  }
  if (ranks.size() < 2) return job;
  const auto by_mean = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto [shortest, longest] = std::minmax_element(job.step_mean_ns.begin(), job.step_mean_ns.end(), by_mean);
  if (mean_step > 0) job.step_spread_pct = 100.0 * static_cast<double>(longest->second - shortest->second) / mean_step;
  const MatchedCalls met = matched_calls(ranks);
  job.clocks = Clocks(ranks, met).clocks;
  const std::vector<Meeting> all = meetings(met, job.clocks);
  add_stragglers(ranks, waiting(ranks.size(), all, Stalls(ranks, job.clocks)), mean_step, job);
  add_transfers(ranks, met, all, job);
  add_met_calls(ranks, all, job);
  return job;
}

}  // namespace profgpu
