// Collectives that order or numbers matched wrongly, matched anew by when they were.
#pragma once

#include <optional>
#include <span>

#include "job/clocks.h"
#include "job/matched_calls.h"

namespace profgpu {

/// A lost record shifts all that follow it where order decides, and so do numbers that begin again: then calls of one
/// collective were not in it at the same time. All calls of that kind and size are matched by their ends instead, where
/// that gives more collectives that fit. nullopt if nothing has changed.
std::optional<MatchedCalls> matched_by_time(std::span<const RankDigest> ranks, const MatchedCalls& met,
                                            std::span<const RankClock> clocks);

}  // namespace profgpu
