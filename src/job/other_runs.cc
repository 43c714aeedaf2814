#include "job/other_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "base/saturated.h"
#include "job/clock_fit.h"
#include "job/matched_calls.h"
#include "job/meetings.h"
#include "report/quantity.h"

namespace profgpu {
namespace {

constexpr int64_t kFarApart_ns = 60'000'000'000;   // hosts that keep time at all are nearer
constexpr size_t kLeastShared = 8;                 // collectives that say whether they are the same ones

using Places = std::vector<uint32_t>;   // of ranks

bool contains(const Places& places, uint32_t r) { return std::binary_search(places.begin(), places.end(), r); }

/// What two ranks both have by name, group, size and number.
struct Shared {
  RankCall usual, strange;
};

class OtherRunSearch {
 public:
  explicit OtherRunSearch(std::span<const RankDigest> ranks) : ranks_(ranks) {}

  std::vector<OtherRun> run() {
    Places left = same_world();
    std::vector<Places> groups = by_time(left);
    if (groups.size() > 1) {
      // The largest; of equal ones the first rank's.
      const auto usual = std::max_element(groups.begin(), groups.end(), [](const Places& a, const Places& b) {
        return a.size() != b.size() ? a.size() < b.size() : a.front() > b.front();
      });
      const MatchedCalls met = matched_calls(ranks_);
      for (const Places& group : groups)
        for (const uint32_t r : group)
          if (&group != &*usual && has_unix_time(ranks_[r]) == has_unix_time(ranks_[usual->front()])) look(r, *usual, met);
    }
    std::sort(found_.begin(), found_.end(), [](const OtherRun& a, const OtherRun& b) { return a.rank < b.rank; });
    return std::move(found_);
  }

 private:
  void add(uint32_t r, std::string why) { found_.push_back({ranks_[r].rank, std::move(why)}); }

  // Those that do not state another size than more than half of those that state one.
  Places same_world() {
    std::map<int, size_t> stated;
    size_t all = 0;
    for (const RankDigest& r : ranks_)
      if (r.world_size) ++stated[*r.world_size], ++all;
    std::optional<int> most;
    for (const auto& [size, count] : stated)
      if (2 * count > all) most = size;
    Places same;
    for (uint32_t r = 0; r < ranks_.size(); ++r) {
      const std::optional<int> own = ranks_[r].world_size;
      if (!most || !own || *own == *most) same.push_back(r);
      else add(r, fmt::format("it states a world of {} ranks, most others one of {}", *own, *most));
    }
    return same;
  }

  // Ranks whose times are apart, by the clocks in their files.
  [[nodiscard]] std::vector<Places> by_time(Places ranks) const {
    std::sort(ranks.begin(), ranks.end(), [&](uint32_t a, uint32_t b) {
      return std::pair(ranks_[a].extent.start, a) < std::pair(ranks_[b].extent.start, b);
    });
    std::vector<Places> groups;
    int64_t end = INT64_MIN;
    for (const uint32_t r : ranks) {
      if (groups.empty() || ranks_[r].extent.start > saturated_add(end, kFarApart_ns)) groups.emplace_back();
      groups.back().push_back(r);
      end = std::max(end, ranks_[r].extent.end);
    }
    for (Places& group : groups) std::sort(group.begin(), group.end());
    return groups;
  }

  // Collectives of the rank that most ones have too, by the one with which it shares most.
  [[nodiscard]] std::vector<Shared> shared(uint32_t rank, const Places& usual, const MatchedCalls& met) const {
    std::map<uint32_t, std::vector<Shared>> by_other;
    for (size_t i = 0; i < met.size(); ++i) {
      const auto own = std::find_if(met[i].begin(), met[i].end(), [&](const RankCall& c) { return c.rank == rank; });
      if (own == met[i].end() || !met.kinds[met.kind[i]].ends_together) continue;
      for (const RankCall& c : met[i])
        if (contains(usual, c.rank)) by_other[c.rank].push_back({c, *own});
    }
    std::vector<Shared> most;
    for (auto& [other, calls] : by_other)
      if (calls.size() > most.size()) most = std::move(calls);
    return most;
  }

  void look(uint32_t rank, const Places& usual, const MatchedCalls& met) {
    const std::vector<Shared> both = shared(rank, usual, met);
    if (both.empty()) return look_at_steps(rank, usual);
    if (const auto steps = other_steps(both))
      return add(rank, fmt::format("collectives of the same numbers are of step {} on it, of step {} on rank {}, {}",
                                   steps->second, steps->first, ranks_[both.front().usual.rank].rank,
                                   apart(rank, both.front().usual.rank)));
    const size_t fit = fitting(rank, both);
    if (both.size() >= kLeastShared && 2 * fit < both.size())
      add(rank, fmt::format("of {} collectives that have the names and numbers of rank {}'s, {} can be the same ones, {}",
                            both.size(), ranks_[both.front().usual.rank].rank,
                            fit == 0 ? "none" : "only " + std::to_string(fit), apart(rank, both.front().usual.rank)));
  }

  // "1 h later by the clocks in the files"
  [[nodiscard]] std::string apart(uint32_t rank, uint32_t other) const {
    const int64_t by = saturated_sub(ranks_[rank].extent.start, ranks_[other].extent.start);
    return format_duration(std::abs(static_cast<double>(by))) + (by < 0 ? " earlier" : " later") + " by the clocks in the files";
  }

  // Numbers of the first two steps that differ, where most do: the usual one's and the rank's.
  [[nodiscard]] std::optional<std::pair<int64_t, int64_t>> other_steps(const std::vector<Shared>& both) const {
    std::optional<std::pair<int64_t, int64_t>> first;
    size_t known = 0, differ = 0;
    for (const Shared& s : both) {
      const auto a = step_of(s.usual), b = step_of(s.strange);
      if (!a || !b) continue;
      ++known;
      if (*a == *b) continue;
      ++differ;
      if (!first) first = {*a, *b};
    }
    return 2 * differ > known ? first : std::nullopt;
  }

  [[nodiscard]] std::optional<int64_t> step_of(const RankCall& c) const {
    const RankDigest& rank = ranks_[c.rank];
    const uint32_t place = call(c).step_place;
    if (!rank.annotated || place >= rank.steps.size()) return std::nullopt;
    return rank.steps[place].index;
  }

  // Collectives that both could have left together, on whatever clock fits best.
  [[nodiscard]] size_t fitting(uint32_t rank, const std::vector<Shared>& both) const {
    std::vector<Encounter> encounters;
    for (const Shared& s : both) encounters.push_back({time_of(s.usual), time_of(s.strange)});
    const int64_t at = ranks_[rank].extent.start;
    const auto fit = fit_clock(encounters, at, true);
    if (!fit) return 0;
    const auto aligned = [&](int64_t t) {
      return saturated_add(t, saturated_add(fit->offset_ns, std::llround(fit->drift_ppm * 1e-6 * static_cast<double>(saturated_sub(t, at)))));
    };
    return static_cast<size_t>(std::count_if(encounters.begin(), encounters.end(), [&](const Encounter& e) {
      const int64_t start = aligned(e.own.start), end = aligned(e.own.end);
      const int64_t shorter = std::min(saturated_sub(e.known.end, e.known.start), saturated_sub(end, start));
      const int64_t off = saturated_sub(end, e.known.end), far = off < 0 ? saturated_sub(0, off) : off;
      return start <= e.known.end && e.known.start <= end && far <= std::max(kEndsApart_ns, shorter / 10);
    }));
  }

  // One host has one clock: a step that it ran twice is of two runs.
  void look_at_steps(uint32_t rank, const Places& usual) {
    const RankDigest& own = ranks_[rank];
    if (own.host.empty() || !own.annotated || own.calls.calls.empty()) return;
    std::set<int64_t> numbers;
    for (const DigestStep& s : own.steps) numbers.insert(s.index);
    for (const uint32_t u : usual) {
      const RankDigest& other = ranks_[u];
      if (other.host != own.host || !other.annotated) continue;
      const auto same = std::find_if(other.steps.begin(), other.steps.end(), [&](const DigestStep& s) { return numbers.contains(s.index); });
      if (same == other.steps.end()) continue;
      return add(rank, fmt::format("it has none of the others' collectives, and rank {} ran step {} on the same host, {}; this one did {}",
                                   other.rank, same->index, own.host, apart(rank, u)));
    }
  }

  [[nodiscard]] const CollectiveCall& call(const RankCall& c) const { return ranks_[c.rank].calls.calls[c.call]; }
  [[nodiscard]] Interval time_of(const RankCall& c) const { return {call(c).start_ns, call(c).end_ns}; }

  std::span<const RankDigest> ranks_;
  std::vector<OtherRun> found_;
};

}  // namespace

bool has_unix_time(const RankDigest& rank) {
  constexpr int64_t kLeastUnix_ns = 1'000'000'000'000'000'000;   // September 2001
  return rank.extent.start >= kLeastUnix_ns;
}

std::vector<OtherRun> ranks_of_other_runs(std::span<const RankDigest> ranks) { return OtherRunSearch(ranks).run(); }

}  // namespace profgpu
