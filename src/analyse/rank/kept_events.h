// Which events a page keeps one by one. Elsewhere it has their density only, so that it stays small whatever the trace.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "analyse/rank/facts.h"
#include "trace/intervals.h"

namespace profgpu {

/// A rank on the page's time axis.
struct PlacedRank {
  int rank = 0;
  const Facts* facts = nullptr;
  int64_t shift_ns = 0;   ///< added to the rank's times gives the page's
};

/// What --html-steps asks for; neither: what fits the budget.
struct StepChoice {
  bool all = false;
  std::vector<std::pair<int64_t, int64_t>> indices;   ///< first, one past the last
  [[nodiscard]] bool any() const { return all || !indices.empty(); }
};

struct KeptEvents {
  Intervals windows;            ///< on the page's time axis
  int64_t host_least_ns = 0;    ///< host ranges that are shorter and launch nothing are left out
};

/// Host ranges and activities that a page keeps at most, of all ranks together. So many take about 3 MB.
constexpr int64_t kPageEvents = 400'000;

/// Without a choice: everything where it fits `budget`; else the typical measured step (the median), the slowest, and
/// as many from the first measured one on as fit. Where not even the typical step fits, its first part of which three
/// quarters of the budget hold the activities, and the longest host ranges therein. A choice is kept whole, whatever
/// its size; empty windows: no rank has such a step.
KeptEvents kept_events(const std::vector<PlacedRank>& ranks, Interval span, const StepChoice& choice, int64_t budget);

}  // namespace profgpu
