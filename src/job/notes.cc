#include "job/notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/saturated.h"
#include "job/other_runs.h"
#include "report/quantity.h"

namespace profgpu {
namespace {

// Ranks whose files count times from some moment of their own, where others have Unix time.
std::vector<int> without_unix_time(std::span<const RankDigest> ranks) {
  std::vector<int> without;
  for (const RankDigest& r : ranks)
    if (!has_unix_time(r)) without.push_back(r.rank);
  return without.size() < ranks.size() ? without : std::vector<int>();
}

constexpr int64_t kWrongClock_ns = 1'000'000'000;   // hosts that keep time are nearer

// Of hosts whose clocks are far from the rank's in the middle, one sentence each.
std::vector<std::string> wrong_clocks(std::span<const RankDigest> ranks, std::span<const RankClock> clocks) {
  std::vector<std::pair<int64_t, int>> offsets;   // and whose they are
  for (const RankClock& c : clocks)
    if (c.known()) offsets.emplace_back(c.offset_ns, c.rank);
  if (offsets.empty()) return {};
  std::sort(offsets.begin(), offsets.end());
  const auto [usual, of_rank] = offsets[(offsets.size() - 1) / 2];
  std::map<std::pair<std::string, std::string>, std::vector<int>> by_words;   // host, how wrong
  for (size_t r = 0; r < ranks.size(); ++r) {
    const int64_t off = saturated_sub(clocks[r].offset_ns, usual), far = off < 0 ? saturated_sub(0, off) : off;
    if (!clocks[r].known() || far < kWrongClock_ns || !has_unix_time(ranks[r])) continue;
    by_words[{ranks[r].host, format_duration(static_cast<double>(far)) + (off < 0 ? " ahead of" : " behind")}].push_back(ranks[r].rank);
  }
  std::map<int, std::string> notes;   // by the first rank
  for (const auto& [words, of_host] : by_words)
    notes[of_host.front()] = fmt::format("{}{}: the clock is {} rank {}'s; collectives fit, so it is taken for a wrong clock and "
                                         "corrected, not for another run",
                                         ranks_text(of_host), words.first.empty() ? "" : " on " + words.first, words.second, of_rank);
  std::vector<std::string> in_order;
  for (auto& [rank, note] : notes) in_order.push_back(std::move(note));
  return in_order;
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
  const std::vector<std::string> wrong = wrong_clocks(ranks, clocks);
  notes.insert(notes.end(), wrong.begin(), wrong.end());
  if (std::string worlds = different_worlds(ranks); !worlds.empty()) notes.push_back(std::move(worlds));
  if (!apart.empty())
    notes.push_back(fmt::format("{}: another clock than other ranks with the same host name; treated as another host",
                                ranks_text(apart)));
  return notes;
}

}  // namespace profgpu
