// Ranks are put on one clock by collectives that end together; who arrives last at a collective makes the others wait.
#include "analyse/job.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "analyse/collectives.h"
#include "analyse/devices.h"
#include "analyse/steps.h"

namespace profgpu {
namespace {

constexpr double kStragglerPct = 5;   // of the mean step, output.md

/// One collective of one rank, on Unix time where the trace says it.
struct Arrival {
  int64_t start_ns = 0, end_ns = 0;
  bool measured = false;    // in a step that averages are over
  int64_t message_bytes = -1;
  int64_t group_size = 0;
  std::string dtype;
};

// What makes two ranks' calls the same collective: group, number in the group (or order among the like), kind, size.
using CallKey = std::tuple<std::string, std::string, int64_t, int64_t>;
using Calls = std::map<CallKey, Arrival>;

bool in_measured_step(const std::vector<const Step*>& steps, int64_t time) {
  return std::any_of(steps.begin(), steps.end(),
                     [&](const Step* s) { return time >= s->start_ns && time < s->start_ns + s->duration_ns; });
}

Calls calls_of(const Facts& facts) {
  const Trace& trace = facts.trace();
  const Devices& devices = facts.get<Devices>();
  const auto steps = facts.get<Steps>().measured();
  Calls calls;
  std::map<std::tuple<std::string, std::string, int64_t>, int64_t> order;
  std::vector<bool> described(trace.activity.size());
  const auto add = [&](const std::string& group, const std::string& name, int64_t size, int64_t sequence,
                       ActivityId id, const Collective* arguments) {
    if (sequence < 0) sequence = order[{group, name, size}]++;
    const Interval part = trace.activity.interval(id);
    Arrival arrival;
    arrival.start_ns = part.start + trace.base_time_ns;
    arrival.end_ns = part.end + trace.base_time_ns;
    arrival.measured = in_measured_step(steps, part.start);
    if (arguments != nullptr) {
      arrival.dtype = trace.strings[arguments->dtype];
      arrival.group_size = arguments->group_size;
      arrival.message_bytes = message_bytes(*arguments, name, arrival.dtype).value_or(-1);
    }
    calls.try_emplace({group, name, size, sequence}, std::move(arrival));
  };
  for (const Collective& c : trace.collectives) {
    if (!c.activity.valid() || devices.kind[c.activity.value] != WorkKind::kCommunication) continue;
    const std::string name = collective_name(trace.strings[c.name]);
    described[c.activity.value] = true;
    if (name == "send" || name == "recv") continue;   // pairs, not groups
    add(std::string(trace.strings[c.group]), name, std::max(c.in_elements, c.out_elements), c.sequence, c.activity, &c);
  }
  // Kernels without arguments: order among those of one name is all there is.
  for (uint32_t i = 0; i < trace.activity.size(); ++i)
    if (!described[i] && devices.kind[i] == WorkKind::kCommunication)
      add("", std::string(trace.name(ActivityId(i))), -1, -1, ActivityId(i), nullptr);
  return calls;
}

int64_t middle(std::vector<int64_t> values) {
  const auto at = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

// The offset that makes the collectives of two ranks end together; the error is half the spread of the middle half.
RankClock clock_against(int rank, const Calls& reference, const Calls& calls, bool same_host) {
  if (same_host) return {rank, 0, 0, "same host"};
  std::vector<int64_t> differences;
  for (const auto& [key, arrival] : calls)
    if (auto it = reference.find(key); it != reference.end()) differences.push_back(it->second.end_ns - arrival.end_ns);
  if (differences.empty()) return {rank, 0, std::nullopt, "none"};
  const int64_t offset = middle(differences);
  std::sort(differences.begin(), differences.end());
  const int64_t spread = differences[differences.size() * 3 / 4] - differences[differences.size() / 4];
  return {rank, offset, std::max<int64_t>(spread / 2, 1), "collectives"};
}

/// A collective with all its arrivals in hand, by the place of the rank in the list.
struct Met {
  std::vector<std::pair<int64_t, size_t>> arrivals;   // corrected time, rank's place
  int64_t end_ns = INT64_MIN;
  bool measured = true;
  const Arrival* first = nullptr;
};

std::map<CallKey, Met> matched(const std::vector<Calls>& calls, const std::vector<RankClock>& clocks) {
  std::map<CallKey, Met> all;
  for (size_t r = 0; r < calls.size(); ++r) {
    for (const auto& [key, arrival] : calls[r]) {
      Met& met = all[key];
      met.arrivals.emplace_back(arrival.start_ns + clocks[r].offset_ns, r);
      met.end_ns = std::max(met.end_ns, arrival.end_ns + clocks[r].offset_ns);
      met.measured &= arrival.measured;
      if (met.first == nullptr) met.first = &arrival;
    }
  }
  std::erase_if(all, [](const auto& entry) { return entry.second.arrivals.size() < 2; });
  return all;
}

void add_stragglers(const std::vector<RankFacts>& ranks, const std::map<CallKey, Met>& met, Job& job) {
  std::vector<int64_t> late(ranks.size());
  for (auto [key, m] : met) {
    if (!m.measured) continue;
    std::sort(m.arrivals.begin(), m.arrivals.end());
    const auto [last, who] = m.arrivals.back();
    // What the others waited for is the last one's lateness against the one before it.
    late[who] += last - m.arrivals[m.arrivals.size() - 2].first;
    for (const auto& [time, rank] : m.arrivals) job.wait_ns[ranks[rank].rank] += last - time;
  }
  int64_t mean_step = 0;
  for (const auto& [rank, ns] : job.step_mean_ns) mean_step += ns / static_cast<int64_t>(job.step_mean_ns.size());
  if (mean_step <= 0) return;
  for (size_t r = 0; r < ranks.size(); ++r) {
    const auto steps = static_cast<int64_t>(ranks[r].facts->get<Steps>().measured().size());
    const int64_t excess = late[r] / std::max<int64_t>(steps, 1);
    const double pct = 100.0 * static_cast<double>(excess) / static_cast<double>(mean_step);
    if (pct >= kStragglerPct) job.stragglers.push_back({ranks[r].rank, excess, pct, "late"});
  }
  std::sort(job.stragglers.begin(), job.stragglers.end(), [](const Straggler& a, const Straggler& b) {
    return a.excess_ns_per_step != b.excess_ns_per_step ? a.excess_ns_per_step > b.excess_ns_per_step : a.rank < b.rank;
  });
}

// Rates of collectives whose whole group is in hand.
void add_transfers(const std::map<CallKey, Met>& met, Job& job) {
  struct Rates {
    std::vector<double> gbps;
  };
  std::map<std::tuple<std::string, std::string, int64_t, int64_t>, Rates> all;
  for (const auto& [key, m] : met) {
    const Arrival& a = *m.first;
    if (a.message_bytes <= 0 || a.group_size != static_cast<int64_t>(m.arrivals.size())) continue;
    int64_t last = INT64_MIN;
    for (const auto& [time, rank] : m.arrivals) last = std::max(last, time);
    if (m.end_ns <= last) continue;
    all[{std::get<1>(key), a.dtype, a.group_size, a.message_bytes}].gbps.push_back(
        static_cast<double>(a.message_bytes) / static_cast<double>(m.end_ns - last));
  }
  for (auto& [key, rates] : all) {
    const auto middle_rate = rates.gbps.begin() + static_cast<int64_t>(rates.gbps.size() / 2);
    std::nth_element(rates.gbps.begin(), middle_rate, rates.gbps.end());
    Transfer t;
    std::tie(t.name, t.dtype, t.group_size, t.message_bytes) = key;
    t.calls = static_cast<int64_t>(rates.gbps.size());
    t.algbw_gbps = *middle_rate;
    t.busbw_gbps = t.algbw_gbps * bus_factor(t.name, t.group_size);
    job.transfers.push_back(std::move(t));
  }
}

}  // namespace

Job analyse_job(const std::vector<RankFacts>& ranks) {
  Job job;
  int64_t sum = 0, longest = INT64_MIN, shortest = INT64_MAX;
  for (const RankFacts& r : ranks) {
    job.ranks.push_back(r.rank);
    job.wait_ns[r.rank] = 0;
    const Steps& steps = r.facts->get<Steps>();
    const auto n = static_cast<int64_t>(steps.measured().size());
    const int64_t mean = n > 0 ? steps.measured_wall_ns() / n : 0;
    job.step_mean_ns[r.rank] = mean;
    sum += mean;
    longest = std::max(longest, mean);
    shortest = std::min(shortest, mean);
  }
  if (ranks.size() < 2) return job;
  const double mean = static_cast<double>(sum) / static_cast<double>(ranks.size());
  job.step_spread_pct = mean > 0 ? 100.0 * static_cast<double>(longest - shortest) / mean : 0;
  std::vector<Calls> calls;
  for (const RankFacts& r : ranks) {
    const std::string& host = r.facts->trace().host_name;
    calls.push_back(calls_of(*r.facts));
    const bool same = !host.empty() && host == ranks.front().facts->trace().host_name;
    job.clocks.push_back(clock_against(r.rank, calls.front(), calls.back(), same));
    if (calls.size() == 1) job.clocks.back() = {r.rank, 0, 0, "reference"};
  }
  const auto met = matched(calls, job.clocks);
  add_stragglers(ranks, met, job);
  add_transfers(met, job);
  return job;
}

}  // namespace profgpu
