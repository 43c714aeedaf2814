#include "job/clocks.h"

#include <algorithm>
#include <map>

namespace profgpu {
namespace {

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
  Clocks(std::span<const RankDigest> ranks, const MatchedCalls& met) : ranks_(ranks), met_(met), known_(ranks.size()) {
    for (const RankDigest& r : ranks) clocks.push_back({r.rank, 0, std::nullopt, "none"});
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
      if (strict && !met_.kinds[met_.kind[i]].ends_together) continue;
      const std::span calls = met_[i];
      const auto anchor = std::find_if(calls.begin(), calls.end(), [&](const RankCall& c) { return known_[c.rank]; });
      if (anchor == calls.end()) continue;
      const RankClock& known = clocks[anchor->rank];
      const CollectiveCall& theirs = call(*anchor);
      for (const RankCall& c : calls)
        if (!known_[c.rank])
          encounters[c.rank].push_back({{known.aligned(theirs.start_ns), known.aligned(theirs.end_ns)},
                                        {call(c).start_ns, call(c).end_ns}});
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

  [[nodiscard]] std::string_view host(size_t r) const { return ranks_[r].host; }
  [[nodiscard]] const CollectiveCall& call(const RankCall& c) const { return ranks_[c.rank].calls.calls[c.call]; }

  std::span<const RankDigest> ranks_;
  const MatchedCalls& met_;
  std::vector<bool> known_;
};

}  // namespace

std::vector<RankClock> align_clocks(std::span<const RankDigest> ranks, const MatchedCalls& met) {
  return Clocks(ranks, met).clocks;
}

}  // namespace profgpu
