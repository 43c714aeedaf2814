// Collectives that a rank does not have though others of its group do.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "job/clocks.h"
#include "job/matched_calls.h"

namespace profgpu {

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

  template <class V>
  void fields(V&& v) const {
    v("rank", rank), v("kind", kind), v("name", name), v("process_group", process_group), v("number", number);
    v("step", only_if(step != -1, step)), v("calls", calls), v("first_ns", first_ns), v("others", others);
  }
};

/// By first_ns, then rank. Says nothing of calls near the ends of a rank's trace, of kernels recorded without arguments
/// (whose group nobody knows) and of ranks whose clocks are unknown. O(n log n) in calls, and in ranks that lack them.
std::vector<MissingCalls> missing_calls(std::span<const RankDigest> ranks, const MatchedCalls& met,
                                        std::span<const RankClock> clocks);
/// The first at which a rank never arrives; null: none.
const MissingCalls* first_hang(std::span<const MissingCalls> missing);

// Collectives that order or numbers matched wrongly, matched anew by when they were.

/// A lost record shifts all that follow it where order decides, and so do numbers that begin again: then calls of one
/// collective were not in it at the same time. All calls of that kind and size are matched by their ends instead, where
/// that gives more collectives that fit. nullopt if nothing has changed.
std::optional<MatchedCalls> matched_by_time(std::span<const RankDigest> ranks, const MatchedCalls& met,
                                            std::span<const RankClock> clocks);

}  // namespace profgpu
