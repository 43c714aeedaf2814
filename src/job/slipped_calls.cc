#include "job/slipped_calls.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "job/meetings.h"

namespace profgpu {
namespace {

/// Calls of one kind and size.
struct Family {
  std::vector<uint32_t> collectives;   // MatchedCalls
  std::vector<RankCall> calls;
  size_t fitting = 0;                  // calls in collectives whose ranks were in it at one time
  std::optional<uint32_t> alone_of;    // rank of the last call that is in no collective
  bool slipped = false;                // collectives do not fit, or several ranks have calls in none
};
using Families = std::map<std::pair<uint32_t, int64_t>, Family>;   // kind, elements

struct Timed {
  Interval time;
  int64_t error_ns = 0;
  RankCall call;
  bool taken = false;
  [[nodiscard]] auto order() const { return std::tie(time.end, time.start, call.rank, call.call); }
};

class TimeMatcher {
 public:
  TimeMatcher(std::span<const RankDigest> ranks, const MatchedCalls& met, std::span<const RankClock> clocks)
      : ranks_(ranks), met_(met), clocks_(clocks), kept_(met.size(), true), grouped_(ranks.size(), 0) {}

  std::optional<MatchedCalls> match() {
    Families families = find();
    MatchedCalls out;
    out.kinds = met_.kinds;
    bool changed = false;
    for (auto& [key, family] : families) changed |= family.slipped && rematch(key.first, family, out);
    if (!changed) return std::nullopt;
    for (uint32_t i = 0; i < met_.size(); ++i)
      if (kept_[i]) out.add(met_.kind[i], met_[i]);
    for (size_t i = 0; i < met_.alone.size(); ++i)
      if (const RankCall& c = met_.alone[i];
          !clocks_[c.rank].known() || !rematched_.contains({met_.alone_kind[i], call(c).elements}))
        out.add(met_.alone_kind[i], {&c, 1});
    return out;
  }

 private:
  [[nodiscard]] const CollectiveCall& call(const RankCall& c) const { return ranks_[c.rank].calls.calls[c.call]; }

  Families find() const {
    Families families;
    for (uint32_t i = 0; i < met_.size(); ++i) {
      if (!met_.kinds[met_.kind[i]].ends_together || !known(met_[i])) continue;
      Family& f = families[{met_.kind[i], call(met_[i].front()).elements}];
      const bool fits = meeting_of(ranks_, met_[i], true, clocks_).has_value();
      f.collectives.push_back(i);
      f.fitting += fits ? met_[i].size() : 0;
      f.slipped |= !fits;
      f.calls.insert(f.calls.end(), met_[i].begin(), met_[i].end());
    }
    for (size_t i = 0; i < met_.alone.size(); ++i) {
      const RankCall& alone = met_.alone[i];
      if (!met_.kinds[met_.alone_kind[i]].ends_together || !clocks_[alone.rank].known()) continue;
      Family& f = families[{met_.alone_kind[i], call(alone).elements}];
      f.calls.push_back(alone);
      f.slipped |= f.alone_of.value_or(alone.rank) != alone.rank;
      f.alone_of = alone.rank;
    }
    return families;
  }

  [[nodiscard]] bool known(std::span<const RankCall> calls) const {
    return std::all_of(calls.begin(), calls.end(), [&](const RankCall& c) { return clocks_[c.rank].known(); });
  }

  bool rematch(uint32_t kind, const Family& family, MatchedCalls& out) {
    std::vector<Timed> calls;
    for (const RankCall& c : family.calls) {
      const RankClock& clock = clocks_[c.rank];
      const Interval time{clock.aligned(call(c).start_ns), clock.aligned(call(c).end_ns)};
      calls.push_back({time, clock.error_ns.value_or(0), c});
    }
    std::sort(calls.begin(), calls.end(), [](const Timed& a, const Timed& b) { return a.order() < b.order(); });
    std::vector<std::vector<RankCall>> found;
    size_t fitting = 0;
    for (size_t i = 0; i < calls.size(); ++i) {
      if (calls[i].taken) continue;
      found.push_back(together_with(calls, i));
      if (found.back().size() > 1) fitting += found.back().size();
    }
    if (fitting <= family.fitting) return false;
    for (std::vector<RankCall>& parts : found) {
      std::sort(parts.begin(), parts.end(), [](const RankCall& a, const RankCall& b) { return a.rank < b.rank; });
      out.add(kind, parts);
    }
    for (const uint32_t i : family.collectives) kept_[i] = false;
    rematched_.insert({kind, call(family.calls.front()).elements});
    return true;
  }

  // Calls that end with the first, at most one a rank. Looks at no more than two calls for each rank.
  std::vector<RankCall> together_with(std::vector<Timed>& calls, size_t first) {
    const Timed& a = calls[first];
    const int64_t length = saturated_sub(a.time.end, a.time.start);
    std::vector<RankCall> parts{a.call};
    ++round_;
    grouped_[a.call.rank] = round_;
    const size_t last = std::min(calls.size(), first + 2 * ranks_.size());
    for (size_t j = first + 1; j < last; ++j) {
      Timed& b = calls[j];
      const int64_t errors = saturated_add(a.error_ns, b.error_ns), later = saturated_sub(b.time.end, a.time.end);
      if (later > saturated_add(errors, std::max(kEndsApart_ns, length / 2))) break;
      const int64_t shorter = std::min(length, saturated_sub(b.time.end, b.time.start));
      if (b.taken || grouped_[b.call.rank] == round_ || b.time.start > saturated_add(a.time.end, errors) ||
          later > saturated_add(errors, std::max(kEndsApart_ns, shorter / 2)))
        continue;
      b.taken = true;
      grouped_[b.call.rank] = round_;
      parts.push_back(b.call);
    }
    return parts;
  }

  std::span<const RankDigest> ranks_;
  const MatchedCalls& met_;
  std::span<const RankClock> clocks_;
  std::vector<bool> kept_;
  std::set<std::pair<uint32_t, int64_t>> rematched_;
  std::vector<uint64_t> grouped_;   // by rank: the last round that took a call of it
  uint64_t round_ = 0;
};

}  // namespace

std::optional<MatchedCalls> matched_by_time(std::span<const RankDigest> ranks, const MatchedCalls& met,
                                            std::span<const RankClock> clocks) {
  return TimeMatcher(ranks, met, clocks).match();
}

}  // namespace profgpu
