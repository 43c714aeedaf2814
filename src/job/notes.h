// What keeps ranks of a job from being compared.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "job/clocks.h"
#include "job/matched_calls.h"

namespace profgpu {

/// One sentence each, without a full stop.
std::vector<std::string> job_notes(std::span<const RankDigest> ranks, const MatchedCalls& met,
                                   std::span<const RankClock> clocks);

}  // namespace profgpu
