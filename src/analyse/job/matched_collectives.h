// Matches calls of several ranks: those of one collective.
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
  uint32_t rank = 0;        ///< index in the list of ranks
  uint32_t call = 0;        ///< index in that rank's CollectiveCalls::calls
};

/// What a collective's calls on all ranks have in common.
struct JobKind {
  std::string group, members, name;
  bool ends_together = false;   ///< no rank can leave before all have arrived
};

struct MatchedCalls {
  std::vector<JobKind> kinds;
  std::vector<RankCall> calls;        ///< collective after collective, each by rank
  std::vector<uint32_t> first = {0};  ///< calls first[i]..first[i+1] are collective i, of at least two ranks
  std::vector<uint32_t> kind;         ///< of collective i, in kinds
  std::vector<RankCall> alone;        ///< calls without a match on another rank, or with ambiguous ones
  std::vector<uint32_t> alone_kind;
  [[nodiscard]] size_t size() const { return kind.size(); }
  [[nodiscard]] const JobKind& kind_of(size_t i) const { return kinds[kind[i]]; }
  [[nodiscard]] std::span<const RankCall> operator[](size_t i) const {
    return {calls.data() + first[i], first[i + 1] - first[i]};
  }
  /// Adds one collective, with at most one call per rank.
  void add(uint32_t of_kind, std::span<const RankCall> parts);
};

/// By group, name, size, step, and recorded number or order. Calls that share a number (coalesced ones, or numbers that
/// restart) are matched in order if all ranks have equally many. Without calls that are or may be sends or receives.
/// O(calls log calls).
MatchedCalls matched_calls(std::span<const RankDigest> ranks);

/// The job's ranks in a group's order, from "[0, 1]"; empty: not such a list (long ones are cut: "[0, 1, ...]").
std::vector<int> member_ranks(std::string_view members);

/// One collective on the first rank's clock: who waited for whom, and how long the transfer took.
struct MatchedCollective {
  uint32_t collective = 0;       ///< index in MatchedCalls
  std::span<const RankCall> calls;
  int64_t last_ns = INT64_MIN;   ///< last arrival
  int64_t end_ns = INT64_MIN;
  uint32_t latest = 0;           ///< index of the rank that arrived last
  bool measured = true;          ///< all its calls are in measured steps
  bool whole_group = false;      ///< traces of all the group's ranks are here
  [[nodiscard]] int64_t transfer_ns() const { return saturated_sub(end_ns, last_ns); }
};

/// Ranks leave a collective within this time, or within half of its shortest call.
constexpr int64_t kEndsApart_ns = 50'000;

/// Input of a job's analyses: its ranks, their matched calls, and aligned clocks.
struct JobView {
  std::span<const RankDigest> ranks;
  const MatchedCalls& matches;
  std::span<const RankClock> clocks;
  std::span<const MatchedCollective> collectives = {};   ///< as matched_collectives() gives them

  [[nodiscard]] const CollectiveCall& call(RankCall c) const { return ranks[c.rank].calls.calls[c.call]; }
  [[nodiscard]] const CollectiveKind& kind(RankCall c) const { return ranks[c.rank].kind(call(c)); }
  [[nodiscard]] const JobKind& kind(const MatchedCollective& m) const { return matches.kind_of(m.collective); }
  /// On the first rank's clock.
  [[nodiscard]] Interval time(RankCall c) const { return clocks[c.rank].aligned(call(c)); }
  /// Calls as one collective; nullopt unless all clocks are known and, if it `ends_together`, all ranks were in it at
  /// one time and left it together.
  [[nodiscard]] std::optional<MatchedCollective> collective_of(std::span<const RankCall> calls,
                                                               bool ends_together) const;
};

/// Collectives of ranks with known clocks, by last arrival. Calls that should end together but do not overlap were
/// matched wrongly, for lack of sequence numbers, and are left out.
std::vector<MatchedCollective> matched_collectives(const JobView& job);

/// Calls of one kind that one rank lacks although others of its group have them.
struct MissingCalls {
  int rank = 0;
  std::string name, process_group;
  int64_t number = -1;       ///< of the first call: recorded, or its position among similar calls of the step
  int64_t step = -1;         ///< of the first call, as the step's range is numbered; -1: unknown
  int64_t calls = 0;
  int64_t first_ns = 0;      ///< first arrival of another rank at the first call, on the first rank's clock
  int64_t others = 0;        ///< ranks here that have the first call
  /// "never_arrived": the others wait in it to the end of their traces; "missing": the rank has later calls of the
  /// group, so its record is lost or it took another branch.
  std::string kind;
  [[nodiscard]] bool never_arrived() const { return kind == "never_arrived"; }

  void fields(auto&& v) const {
    v("rank", rank), v("kind", kind), v("name", name), v("process_group", process_group), v("number", number);
    v("step", only_if(step != -1, step)), v("calls", calls), v("first_ns", first_ns), v("others", others);
  }
};

/// By first_ns, then rank. Without calls near the ends of a rank's trace, kernels recorded without arguments (their
/// group is unknown) and ranks with unknown clocks. O(n log n) in calls, and in ranks that lack them.
std::vector<MissingCalls> missing_calls(const JobView& job);
/// The first call at which a rank never arrives; null: none.
const MissingCalls* first_hang(std::span<const MissingCalls> missing);

/// Rematches by time. A lost record shifts all later matches by order, and so do numbers that restart: calls of one
/// collective then do not overlap. All calls of that kind and size are matched by their ends instead, if that gives
/// more collectives that fit. nullopt: nothing changed.
std::optional<MatchedCalls> matched_by_time(const JobView& job);

}  // namespace profgpu
