#include "analyse/job/clocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "analyse/job/matched_collectives.h"
#include "analyse/report/quantity.h"
#include "base/statistics.h"

namespace profgpu {
namespace {

constexpr int64_t kOneClock_ns = 50'000;     // ranks closer than this, or than their errors, can share a clock

int64_t middle_of(Interval i) { return saturated_add(i.start, saturated_sub(i.end, i.start) / 2); }

/// Time of a collective, from the ranks with known clocks that are closest to the first rank.
struct Anchor {
  int32_t depth = -1;          // fits from the first rank; -1: no rank's clock is known
  int32_t ranks = 0;
  int64_t first_end = 0, beyond = 0;   // mean of ends: first_end + beyond / ranks
  int64_t last_start = 0;
  int64_t error_sum = 0;

  [[nodiscard]] int64_t end() const { return saturated_add(first_end, beyond / ranks); }
  [[nodiscard]] Interval time() const { return {last_start, end()}; }
  void add(Interval time, int64_t error_ns) {
    if (ranks == 0) first_end = time.end, last_start = time.start;
    ++ranks;
    beyond = saturated_add(beyond, saturated_sub(time.end, first_end));
    last_start = std::max(last_start, time.start);
    error_sum = saturated_add(error_sum, error_ns);
  }
};

/// Aligns clocks to the first rank's, rank by rank, from each one's ends of collectives against their mean on ranks
/// with known clocks.
class Clocks {
 public:
  Clocks(std::span<const RankDigest> ranks, const MatchedCalls& matches, bool trust_hosts)
      : ranks_(ranks), matches_(matches), trust_hosts_(trust_hosts), depth_(ranks.size(), -1), calls_of_(ranks.size()) {
    for (const RankDigest& r : ranks)
      clocks.push_back({.rank = r.rank, .error_ns = std::nullopt, .method = "none", .at_ns = middle_of(r.extent)});
    for (uint32_t i = 0; i < matches.size(); ++i)
      for (const RankCall& c : matches[i]) calls_of_[c.rank].push_back({i, c.call});
    clocks.front().error_ns = 0;
    clocks.front().method = "reference";
    depth_.front() = 0;
    // Ranks may leave broadcasts and reductions to one rank early, so these are used only if nothing else is left.
    for (const bool together : {true, false}) {
      begin(together);
      do {
        while (join()) {}
      } while (share_by_host());
    }
    pool_hosts();
    align_steps();
  }
  std::vector<RankClock> clocks;

 private:
  struct Part {
    uint32_t collective, call;
  };

  void begin(bool together) {
    together_ = together;
    anchors_.assign(matches_.size(), {});
    shared_.assign(ranks_.size(), 0);
    tried_.assign(ranks_.size(), 0);
    for (uint32_t r = 0; r < ranks_.size(); ++r)
      if (depth_[r] >= 0) anchor(r);
  }

  [[nodiscard]] bool serves(uint32_t collective) const {
    return !together_ || matches_.kind_of(collective).ends_together;
  }

  // A rank with a known clock gives times to its collectives.
  void anchor(uint32_t rank) {
    for (const Part& p : calls_of_[rank]) {
      if (!serves(p.collective)) continue;
      Anchor& a = anchors_[p.collective];
      if (a.depth < 0)
        for (const RankCall& c : matches_[p.collective]) ++shared_[c.rank];
      const Interval time = clocks[rank].aligned(ranks_[rank].calls.calls[p.call]);
      const int64_t error = clocks[rank].error_ns.value_or(0);
      if (a.depth < 0 || depth_[rank] < a.depth) a = {.depth = depth_[rank]};
      // A rank that was not in it at the same time was matched wrongly.
      const bool together = a.ranks == 0 || (time.start <= saturated_add(a.end(), error) &&
                                             a.last_start <= saturated_add(time.end, error));
      if (a.depth == depth_[rank] && together) a.add(time, error);
    }
  }

  // Fits the clock of the rank that shares most collectives with ranks that have one. False: no rank is left.
  bool join() {
    uint32_t next = 0;
    for (uint32_t r = 1; r < ranks_.size(); ++r)
      if (depth_[r] < 0 && shared_[r] > tried_[r] && (next == 0 || shared_[r] > shared_[next])) next = r;
    if (next == 0) return false;
    std::vector<Encounter> encounters;
    int64_t depths = 0;
    for (const Part& p : calls_of_[next]) {
      const Anchor& a = anchors_[p.collective];
      if (a.depth < 0) continue;
      const CollectiveCall& own = ranks_[next].calls.calls[p.call];
      const std::optional receives = ranks_[next].call_name(own) == "recv";
      encounters.push_back({a.time(), own.time(), a.error_sum / a.ranks,
                            ranks_[next].may_be_pair(own) ? receives : std::nullopt});
      depths += a.depth;
    }
    tried_[next] = shared_[next];
    const auto fit = fit_clock(encounters, clocks[next].at_ns, together_);
    if (!fit) return true;
    RankClock& clock = clocks[next];
    clock.method = "collectives";
    clock.offset_ns = fit->offset_ns;
    clock.error_ns = fit->error_ns;
    clock.drift_ppm = fit->drift_ppm;
    clock.loose = !together_;
    depth_[next] = static_cast<int32_t>(1 + depths / static_cast<int64_t>(encounters.size()));
    anchor(next);
    return true;
  }

  // A rank that shares no collectives with known ones gets its host's clock.
  bool share_by_host() {
    std::map<std::string_view, uint32_t> known;
    for (uint32_t r = 0; r < ranks_.size(); ++r)
      if (depth_[r] >= 0 && !ranks_[r].host.empty()) known.emplace(ranks_[r].host, r);
    bool any = false;
    for (uint32_t r = 0; r < ranks_.size(); ++r) {
      const auto same = depth_[r] < 0 ? known.find(ranks_[r].host) : known.end();
      if (same == known.end()) continue;
      copy(clocks[same->second], clocks[r]);
      depth_[r] = depth_[same->second];
      anchor(r);
      any = true;
    }
    return any;
  }

  static void copy(const RankClock& from, RankClock& to) {
    to.offset_ns = saturated_sub(from.aligned(to.at_ns), to.at_ns);
    to.error_ns = from.error_ns;
    to.drift_ppm = from.drift_ppm;
    to.loose = from.loose;
    to.method = "same host";
  }

  void pool_hosts() {
    std::map<std::string_view, std::vector<uint32_t>> hosts;
    for (uint32_t r = 0; r < ranks_.size(); ++r)
      if (depth_[r] >= 0 && !ranks_[r].host.empty()) hosts[ranks_[r].host].push_back(r);
    for (const auto& [host, members] : hosts)
      if (members.size() > 1) pool(members);
  }

  // One host has one clock: the median of its ranks', or the first rank's. A rank that differs by more than its error
  // is on another host of the same name (containers), or the host's clock was set meanwhile.
  void pool(const std::vector<uint32_t>& members) {
    RankClock host = clocks[members.front()];
    const auto offset = [&](uint32_t r) { return saturated_sub(clocks[r].aligned(host.at_ns), host.at_ns); };
    if (host.method != "reference") {
      std::vector<int64_t> offsets, errors;
      std::vector<double> drifts;
      for (const uint32_t r : members) {
        offsets.push_back(offset(r));
        errors.push_back(clocks[r].error_ns.value_or(0));
        drifts.push_back(clocks[r].drift_ppm);
      }
      host.offset_ns = upper_median(std::move(offsets));
      host.error_ns = upper_median(std::move(errors));
      host.drift_ppm = upper_median(std::move(drifts));
    }
    bool first = true;
    for (const uint32_t r : members) {
      RankClock& clock = clocks[r];
      const int64_t far = saturated_distance(offset(r), host.offset_ns);
      if (!trust_hosts_ && far > std::max(kOneClock_ns, saturated_add(*clock.error_ns, *host.error_ns))) {
        clock.apart = true;
        continue;
      }
      const std::string method = first ? clock.method : "same host";
      first = false;
      copy(host, clock);
      clock.method = method;
      clock.error_ns = trust_hosts_ ? *host.error_ns : std::max(*host.error_ns, far);
    }
  }

  // Whether equal keys of steps are the same step. Where numbers begin anew, a trace that begins with another one than
  // the first rank's may have begun in another epoch.
  [[nodiscard]] static bool counts_alike(const RankDigest& a, const RankDigest& b) {
    if (a.steps.empty() || b.steps.empty()) return false;
    const bool anew = a.steps.back().turn > 0 || b.steps.back().turn > 0;
    return !anew || a.steps.front().index == b.steps.front().index;
  }

  // Equal numbers of annotated steps begin at about the same time.
  void align_steps() {
    std::map<StepKey, int64_t> start;
    if (ranks_.front().annotated)
      for (const DigestStep& s : ranks_.front().steps) start.emplace(s.key(), s.start_ns);
    for (uint32_t r = 1; r < ranks_.size(); ++r) {
      if (depth_[r] >= 0 || !ranks_[r].annotated || !counts_alike(ranks_.front(), ranks_[r])) continue;
      std::vector<int64_t> differences;
      for (const DigestStep& s : ranks_[r].steps)
        if (const auto same = start.find(s.key()); same != start.end())
          differences.push_back(saturated_sub(same->second, s.start_ns));
      if (differences.empty()) continue;
      const auto [least, most] = std::ranges::minmax(differences);
      if (differences.size() > 1) clocks[r].error_ns = std::max<int64_t>(1, saturated_sub(most, least) / 2);
      clocks[r].offset_ns = upper_median(std::move(differences));
      clocks[r].method = "steps";
    }
  }

  std::span<const RankDigest> ranks_;
  const MatchedCalls& matches_;
  bool trust_hosts_;
  std::vector<int32_t> depth_;                // by rank: fits from the first rank; -1: clock unknown
  std::vector<std::vector<Part>> calls_of_;   // by rank
  bool together_ = true;                      // only collectives that end together
  std::vector<Anchor> anchors_;               // by collective
  std::vector<uint32_t> shared_, tried_;      // by rank: collectives with an anchor, now and at the last attempt
};

/// One host's statement, on the first rank's clock.
struct Claim {
  std::string host;
  std::vector<uint32_t> ranks;   // on that host
  int64_t unix_less_ns = 0;      // Unix time less the first rank's clock, if the host's clock is right
  int64_t low = 0, high = 0;     // bounds of that, according to the host
};

std::string name_of(const RankDigest& rank) { return rank.host.empty() ? ranks_text({rank.rank}) : rank.host; }

std::vector<Claim> claims_of(std::span<const RankDigest> ranks, std::span<const RankClock> clocks) {
  std::map<std::string_view, size_t> by_host;
  std::vector<Claim> claims;
  for (uint32_t r = 0; r < ranks.size(); ++r) {
    const RankClock& c = clocks[r];
    if (!c.known() || !c.stated_error_ns || c.apart) continue;
    const auto [at, fresh] = by_host.try_emplace(ranks[r].host, claims.size());
    if (fresh || ranks[r].host.empty()) {
      const int64_t middle = saturated_sub(0, c.offset_ns),
                    wide = saturated_add(*c.stated_error_ns, c.error_ns.value_or(0));
      at->second = claims.size();
      claims.push_back({name_of(ranks[r]), {}, middle, saturated_sub(middle, wide), saturated_add(middle, wide)});
    }
    claims[at->second].ranks.push_back(r);
  }
  return claims;
}

// A point that most claims contain; of several the one closest to the first claim.
int64_t most_agreed(const std::vector<Claim>& claims) {
  std::vector<std::pair<int64_t, int>> ends;   // 0: a claim begins, 1: one ends
  for (const Claim& c : claims) ends.insert(ends.end(), {{c.low, 0}, {c.high, 1}});
  std::ranges::sort(ends);
  const int64_t wanted = claims.front().unix_less_ns;
  int open = 0, most = 0;
  int64_t best = wanted;
  const auto far = [&](int64_t x) { return saturated_distance(x, wanted); };
  for (size_t i = 0; i < ends.size(); ++i) {
    open += ends[i].second == 0 ? 1 : -1;
    if (ends[i].second != 0 || open < most) continue;
    // The next claim begins or ends at ends[i + 1]: as many claims hold up to there.
    const int64_t point = std::clamp(wanted, ends[i].first, ends[i + 1].first);
    if (open > most || far(point) < far(best)) best = point;
    most = open;
  }
  return best;
}

void check(const std::vector<Claim>& claims, std::vector<RankClock>& clocks, std::vector<std::string>& notes) {
  if (claims.size() < 2) return;
  const int64_t agreed = most_agreed(claims);
  for (const Claim& c : claims) {
    const bool agrees = c.low <= agreed && agreed <= c.high;
    for (const uint32_t r : c.ranks) clocks[r].agrees = agrees;
    if (agrees) continue;
    const std::string& other = claims[&c == &claims.front() ? 1 : 0].host;
    notes.push_back(
        fmt::format("{} states a clock error of at most {}, but collectives show it {} away from {}", c.host,
                    format_duration(static_cast<double>(*clocks[c.ranks.front()].stated_error_ns)),
                    format_duration(static_cast<double>(saturated_distance(c.unix_less_ns, agreed))),
                    claims.size() > 2 ? "most other hosts" : other));
  }
}

// Of the ranks on the first one's clock, the one with the smallest error of Unix time; none: no host states it.
std::optional<uint32_t> surest(std::span<const RankClock> clocks) {
  std::optional<uint32_t> best;
  const auto error = [&](uint32_t r) {
    return saturated_add(*clocks[r].stated_error_ns, clocks[r].error_ns.value_or(0));
  };
  for (uint32_t r = 0; r < clocks.size(); ++r)
    if (clocks[r].known() && clocks[r].stated_error_ns && clocks[r].agrees.value_or(true) &&
        (!best || error(r) < error(*best)))
      best = r;
  return best;
}

void align_others(std::span<const RankDigest> ranks, std::vector<RankClock>& clocks, std::vector<std::string>& notes) {
  const std::optional<uint32_t> from = surest(clocks);
  if (!from) return;
  const RankClock sure = clocks[*from];
  std::vector<int> placed;
  int64_t most = 0;
  for (RankClock& c : clocks) {
    if (c.known() || !c.stated_error_ns) continue;
    c.method = "stated";
    c.offset_ns = saturated_sub(sure.aligned(c.at_ns), c.at_ns);
    c.drift_ppm = 0;
    c.error_ns = saturated_add(*c.stated_error_ns, saturated_add(*sure.stated_error_ns, sure.error_ns.value_or(0)));
    most = std::max(most, *c.error_ns);
    placed.push_back(c.rank);
  }
  if (!placed.empty())
    notes.push_back(
        fmt::format("{}: no shared collective links the clock to rank {}'s; aligned by Unix time, with a combined "
                    "stated error of {}, so it is unknown which rank waits for which",
                    ranks_text(placed), ranks.front().rank, format_duration(static_cast<double>(most))));
}

}  // namespace

std::vector<RankClock> align_clocks(std::span<const RankDigest> ranks, const MatchedCalls& matches, bool trust_hosts) {
  return Clocks(ranks, matches, trust_hosts).clocks;
}

std::vector<std::string> apply_statements(std::span<const RankDigest> ranks, std::vector<RankClock>& clocks) {
  std::vector<std::string> notes;
  std::set<std::string> unsynchronized, hosts;
  for (size_t r = 0; r < ranks.size(); ++r) {
    hosts.insert(ranks[r].host);
    const std::optional<ClockStatement>& stated = ranks[r].clock;
    if (stated && stated->synchronised) clocks[r].stated_error_ns = stated->error_ns;
    if (stated && !stated->synchronised) unsynchronized.insert(name_of(ranks[r]));
  }
  check(claims_of(ranks, clocks), clocks, notes);
  align_others(ranks, clocks, notes);
  for (const std::string& host : unsynchronized)
    if (hosts.size() > 1) notes.push_back(fmt::format("{} reports an unsynchronized clock", host));
  return notes;
}

}  // namespace profgpu
