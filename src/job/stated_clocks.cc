#include "job/stated_clocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "report/quantity.h"

namespace profgpu {
namespace {

/// What one host says, on the first rank's clock.
struct Claim {
  std::string host;
  std::vector<uint32_t> ranks;   // whose clock it is
  int64_t unix_less_ns = 0;      // Unix time less the first rank's clock, if the host's clock is right
  int64_t low = 0, high = 0;     // Unix time lies between, by what the host says
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
      const int64_t middle = saturated_sub(0, c.offset_ns), wide = saturated_add(*c.stated_error_ns, c.error_ns.value_or(0));
      at->second = claims.size();
      claims.push_back({name_of(ranks[r]), {}, middle, saturated_sub(middle, wide), saturated_add(middle, wide)});
    }
    claims[at->second].ranks.push_back(r);
  }
  return claims;
}

// A point that most claims hold; of several the one nearest to what the first claim says.
int64_t most_agreed(const std::vector<Claim>& claims) {
  std::vector<std::pair<int64_t, int>> ends;   // claims that begin, then those that end
  for (const Claim& c : claims) ends.insert(ends.end(), {{c.low, 0}, {c.high, 1}});
  std::sort(ends.begin(), ends.end());
  const int64_t wanted = claims.front().unix_less_ns;
  int open = 0, most = 0;
  int64_t best = wanted;
  const auto far = [&](int64_t x) { return x < wanted ? saturated_sub(wanted, x) : saturated_sub(x, wanted); };
  for (size_t i = 0; i < ends.size(); ++i) {
    open += ends[i].second == 0 ? 1 : -1;
    if (ends[i].second != 0 || open < most) continue;
    // Another claim begins or this many ends next: as many hold up to there.
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
    const int64_t off = saturated_sub(c.unix_less_ns, agreed), far = off < 0 ? saturated_sub(0, off) : off;
    const std::string& other = claims[&c == &claims.front() ? 1 : 0].host;
    notes.push_back(fmt::format("{} says its clock is within {}; collectives show that it is {} from {}", c.host,
                                format_duration(static_cast<double>(*clocks[c.ranks.front()].stated_error_ns)),
                                format_duration(static_cast<double>(far)),
                                claims.size() > 2 ? "what most hosts say" : other + "'s"));
  }
}

// Of the ranks on the first one's clock, the one that is nearest to Unix time as far as hosts say; -1: none says.
std::optional<uint32_t> surest(std::span<const RankClock> clocks) {
  std::optional<uint32_t> best;
  const auto error = [&](uint32_t r) { return saturated_add(*clocks[r].stated_error_ns, clocks[r].error_ns.value_or(0)); };
  for (uint32_t r = 0; r < clocks.size(); ++r)
    if (clocks[r].known() && clocks[r].stated_error_ns && clocks[r].agrees.value_or(true) && (!best || error(r) < error(*best)))
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
    notes.push_back(fmt::format("{}: no collective ties the clock to rank {}'s; aligned by Unix time, which the hosts say "
                                "is right within {} together, so who waits for whom is unknown",
                                ranks_text(placed), ranks.front().rank, format_duration(static_cast<double>(most))));
}

}  // namespace

std::vector<std::string> apply_statements(std::span<const RankDigest> ranks, std::vector<RankClock>& clocks) {
  std::vector<std::string> notes;
  std::set<std::string> unsynchronised, hosts;
  for (size_t r = 0; r < ranks.size(); ++r) {
    hosts.insert(ranks[r].host);
    const std::optional<ClockStatement>& stated = ranks[r].clock;
    if (stated && stated->synchronised) clocks[r].stated_error_ns = stated->error_ns;
    if (stated && !stated->synchronised) unsynchronised.insert(name_of(ranks[r]));
  }
  check(claims_of(ranks, clocks), clocks, notes);
  align_others(ranks, clocks, notes);
  for (const std::string& host : unsynchronised)
    if (hosts.size() > 1) notes.push_back(fmt::format("{} says that its clock is not synchronised", host));
  return notes;
}

}  // namespace profgpu
