// Which ranks of a job a page shows with their events.
#pragma once

#include <vector>

#include "analyse/job/job.h"
#include "cli/rank_list.h"

namespace profgpu {

/// So many fit a browser and what a person looks through; their traces are in memory at once.
constexpr size_t kPageRanks = 8;

/// Ascending. Without a choice all of a small job; else ranks that others wait for, those that hang, the longest and
/// the shortest steps, and the first ones. The error: a part of the choice names no rank.
Result<std::vector<int>> page_ranks(const std::vector<int>& there, const Job* job,
                                    const std::optional<RankRanges>& choice);

}  // namespace profgpu
