#include "job/notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "report/quantity.h"

namespace profgpu {
namespace {

// Ranks whose files count times from some moment of their own, where others have Unix time.
std::vector<int> without_unix_time(std::span<const RankDigest> ranks) {
  constexpr int64_t kLeastUnix_ns = 1'000'000'000'000'000'000;   // September 2001
  std::vector<int> without;
  for (const RankDigest& r : ranks)
    if (r.extent.start < kLeastUnix_ns) without.push_back(r.rank);
  return without.size() < ranks.size() ? without : std::vector<int>();
}

// "… are stated: by rank 0 of 4, by ranks 1–3 of 16"; empty where all that state one agree.
std::string different_worlds(std::span<const RankDigest> ranks) {
  std::map<int, std::vector<int>> by_size;
  for (const RankDigest& r : ranks)
    if (r.world_size) by_size[*r.world_size].push_back(r.rank);
  std::string text;
  for (const auto& [size, of_size] : by_size)
    text += fmt::format("{}{} of {}", text.empty() ? "worlds of different sizes are stated: by " : ", by ", ranks_text(of_size), size);
  return by_size.size() > 1 ? text : std::string();
}

}  // namespace

std::vector<std::string> job_notes(std::span<const RankDigest> ranks, const MatchedCalls& met,
                                   std::span<const RankClock> clocks) {
  std::vector<bool> met_any(ranks.size());
  for (const RankCall& c : met.calls) met_any[c.rank] = true;
  std::vector<int> strangers, by_steps, unknown, apart;
  for (size_t r = 0; r < ranks.size(); ++r) {
    const auto is_group = [&](const CollectiveCall& c) { return !ranks[r].may_be_pair(c); };
    const std::vector<CollectiveCall>& calls = ranks[r].calls.calls;
    if (!met_any[r] && std::any_of(calls.begin(), calls.end(), is_group)) strangers.push_back(ranks[r].rank);
    if (clocks[r].method == "steps") by_steps.push_back(ranks[r].rank);
    if (clocks[r].method == "none") unknown.push_back(ranks[r].rank);
    if (clocks[r].apart) apart.push_back(ranks[r].rank);
  }
  std::vector<std::string> notes;
  if (!strangers.empty())
    notes.push_back(fmt::format("{}: none of the collectives is one of another rank's: another run, other steps, or "
                                "groups whose other ranks are not here",
                                ranks_text(strangers)));
  if (!by_steps.empty())
    notes.push_back(fmt::format("{}: no collective ties the clock to rank {}'s; aligned by the starts of equal steps, "
                                "so who waits for whom is unknown",
                                ranks_text(by_steps), ranks.front().rank));
  if (!unknown.empty())
    notes.push_back(fmt::format("{}: neither a collective nor a step ties the clock to rank {}'s; times are as the "
                                "files have them",
                                ranks_text(unknown), ranks.front().rank));
  if (const std::vector<int> baseless = without_unix_time(ranks); !baseless.empty())
    notes.push_back(fmt::format("{}: not in Unix time as other ranks are (a trace that lost its baseTimeNanoseconds, or is "
                                "older than it); the offset says so, not that the host's clock is wrong",
                                ranks_text(baseless)));
  if (std::string worlds = different_worlds(ranks); !worlds.empty()) notes.push_back(std::move(worlds));
  if (!apart.empty())
    notes.push_back(fmt::format("{}: another clock than other ranks with the same host name; treated as another host",
                                ranks_text(apart)));
  return notes;
}

}  // namespace profgpu
