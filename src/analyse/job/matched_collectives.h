// Collectives of several ranks, matched: which calls are one and the same collective.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyse/job/clocks.h"
#include "analyse/job/rank_digest.h"

namespace profgpu {

/// One rank's part in a collective.
struct RankCall {
  uint32_t rank = 0;        ///< place in the list of ranks
  uint32_t call = 0;        ///< CollectiveCalls::calls of that rank
};

/// What ranks have in common of a collective.
struct JobKind {
  std::string group, members, name;
  bool ends_together = false;   ///< no rank can leave it before all have arrived
};

struct MatchedCalls {
  std::vector<JobKind> kinds;
  std::vector<RankCall> calls;        ///< of one collective side by side, by rank
  std::vector<uint32_t> first = {0};  ///< calls first[i]..first[i+1] are collective i, of at least two ranks
  std::vector<uint32_t> kind;         ///< of collective i, in kinds
  std::vector<RankCall> alone;        ///< calls that no other rank in hand has, or that cannot be told apart
  std::vector<uint32_t> alone_kind;
  [[nodiscard]] size_t size() const { return kind.size(); }
  [[nodiscard]] const JobKind& kind_of(size_t i) const { return kinds[kind[i]]; }
  [[nodiscard]] std::span<const RankCall> operator[](size_t i) const {
    return {calls.data() + first[i], first[i + 1] - first[i]};
  }
  /// One collective more, at most one call a rank.
  void add(uint32_t of_kind, std::span<const RankCall> parts);
};

/// By group, name, size, step, and recorded number or order. Calls that share a number (coalesced ones, or a number
/// that began again) are matched in their order if all ranks have as many. O(calls log calls). What
/// is or may be a send or a receive is of a pair, not a group, and left out.
MatchedCalls matched_calls(std::span<const RankDigest> ranks);

// Members of a process group as traces name them.

/// Ranks of the job in the group's order, of "[0, 1]"; empty if it is no such list (long ones are cut: "[0, 1, ...]").
std::vector<int> member_ranks(std::string_view members);

// Collectives on one clock: who came when, who waited for whom, how long the transfer took.

/// One collective on the first rank's clock.
struct Meeting {
  uint32_t collective = 0;       ///< place in MatchedCalls
  std::span<const RankCall> calls;
  int64_t last_ns = INT64_MIN;   ///< last arrival
  int64_t end_ns = INT64_MIN;
  uint32_t latest = 0;           ///< rank's place
  bool measured = true;          ///< all its calls are in steps that averages are over
  bool whole_group = false;      ///< all ranks of the group are in hand
  [[nodiscard]] int64_t transfer_ns() const { return saturated_sub(end_ns, last_ns); }
};

/// Ranks leave a collective within this, or within half of the shortest call of it.
constexpr int64_t kEndsApart_ns = 50'000;

/// What analyses of a job look at: its ranks, what they did together, and clocks that put these side by side.
struct JobView {
  std::span<const RankDigest> ranks;
  const MatchedCalls& met;
  std::span<const RankClock> clocks;
  std::span<const Meeting> meetings = {};   ///< as meetings() gives them

  [[nodiscard]] const CollectiveCall& call(RankCall c) const { return ranks[c.rank].calls.calls[c.call]; }
  [[nodiscard]] const CollectiveKind& kind(RankCall c) const { return ranks[c.rank].kind(call(c)); }
  [[nodiscard]] const JobKind& kind(const Meeting& m) const { return met.kind_of(m.collective); }
  /// On the first rank's clock.
  [[nodiscard]] Interval time(RankCall c) const { return clocks[c.rank].aligned(call(c)); }
  /// Calls as one meeting; nullopt unless all clocks are known and, if it `ends_together`, all were in it at one time
  /// and left it together.
  [[nodiscard]] std::optional<Meeting> meeting_of(std::span<const RankCall> calls, bool ends_together) const;
};

/// Meetings of ranks whose clocks are known, by last arrival. Calls that should end together but were not in it at the
/// same time were matched wrongly, for want of sequence numbers, and say nothing.
std::vector<Meeting> meetings(const JobView& job);

// Collectives that a rank does not have though others of its group do.

/// Calls of one kind that one rank does not have.
struct MissingCalls {
  int rank = 0;
  std::string name, process_group;
  int64_t number = -1;       ///< of the first: recorded, or its place among its like in the step
  int64_t step = -1;         ///< of the first, as the step's range is numbered; -1: unknown
  int64_t calls = 0;
  int64_t first_ns = 0;      ///< first arrival of another rank at the first of them, on the first rank's clock
  int64_t others = 0;        ///< ranks in hand that have the first
  /// "never_arrived": the others wait in it to the end of their traces; "missing": the rank has later calls of the
  /// group, so its record is lost or it went another way.
  std::string kind;
  [[nodiscard]] bool never_arrived() const { return kind == "never_arrived"; }

  void fields(auto&& v) const {
    v("rank", rank), v("kind", kind), v("name", name), v("process_group", process_group), v("number", number);
    v("step", only_if(step != -1, step)), v("calls", calls), v("first_ns", first_ns), v("others", others);
  }
};

/// By first_ns, then rank. Says nothing of calls near the ends of a rank's trace, of kernels recorded without arguments
/// (whose group nobody knows) and of ranks whose clocks are unknown. O(n log n) in calls, and in ranks that lack them.
std::vector<MissingCalls> missing_calls(const JobView& job);
/// The first at which a rank never arrives; null: none.
const MissingCalls* first_hang(std::span<const MissingCalls> missing);

// Collectives that order or numbers matched wrongly, matched anew by when they were.

/// A lost record shifts all that follow it where order decides, and so do numbers that begin again: then calls of one
/// collective were not in it at the same time. All calls of that kind and size are matched by their ends instead, where
/// that gives more collectives that fit. nullopt if nothing has changed.
std::optional<MatchedCalls> matched_by_time(const JobView& job);

}  // namespace profgpu
