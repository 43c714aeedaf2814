// Collectives of several ranks, matched: which calls are one and the same collective. Parts of analyse_job().
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "analyse/job.h"

namespace profgpu {

/// One rank's part in a collective.
struct RankCall {
  // What makes calls of different ranks the same collective.
  uint32_t what = 0;        ///< MatchedCalls::kinds: group, members, name
  int64_t elements = -1;    ///< below 0, of a kernel without arguments: -1 - place of its stream
  int64_t step = -1;        ///< number of the step that launched it; -1 where the recorded sequence number decides
  int64_t number = 0;       ///< recorded sequence number, or place among its like in the step

  uint32_t rank = 0;        ///< place in the list of ranks
  ActivityId activity;
  int64_t start_ns = 0, end_ns = 0;   ///< on Unix time where the trace says it, by the rank's own clock
  bool measured = false;    ///< launched in a step that averages are over
  const Collective* arguments = nullptr;   ///< null: only the kernel is known

  [[nodiscard]] auto identity() const { return std::tie(what, elements, step, number); }
};

struct CallKind {
  std::string group, members, name;
  bool ends_together = false;   ///< no rank can leave it before all have arrived
  bool operator==(const CallKind& o) const { return std::tie(group, members, name) == std::tie(o.group, o.members, o.name); }
};

struct MatchedCalls {
  std::vector<CallKind> kinds;
  std::vector<RankCall> calls;        ///< of one collective side by side, by rank
  std::vector<uint32_t> first;        ///< calls first[i]..first[i+1] are collective i, of at least two ranks
  [[nodiscard]] size_t size() const { return first.empty() ? 0 : first.size() - 1; }
};

/// O(calls log calls). Send and receive are pairs, not groups, and left out.
MatchedCalls matched_calls(const std::vector<RankFacts>& ranks);

}  // namespace profgpu
