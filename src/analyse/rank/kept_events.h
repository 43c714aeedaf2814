// Events that a page keeps one by one. Elsewhere it only has their density, which keeps it small.
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

/// --html-steps; neither: what fits the budget.
struct StepChoice {
  bool all = false;
  std::vector<std::pair<int64_t, int64_t>> indices;   ///< first, one past the last
  [[nodiscard]] bool any() const { return all || !indices.empty(); }
};

struct KeptEvents {
  Intervals windows;            ///< on the page's time axis
  int64_t host_least_ns = 0;    ///< shorter host ranges that launch nothing are left out
};

/// Maximum host ranges and activities on a page, over all ranks. They take about 3 MB.
constexpr int64_t kPageEvents = 400'000;

/// Without a choice: everything if it fits `budget`; else the typical (median) measured step, the slowest, and as many
/// from the first measured one on as fit. If the typical step does not fit: its first part, whose activities take three
/// quarters of the budget, with the longest host ranges in it. A choice is kept whole, whatever its size; empty
/// windows: no rank has such a step.
KeptEvents kept_events(const std::vector<PlacedRank>& ranks, Interval span, const StepChoice& choice, int64_t budget);

}  // namespace profgpu
