// What hosts say of their clocks, beside what collectives show of them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "job/clocks.h"

namespace profgpu {

/// Fills in what ranks' hosts state, and checks it: each statement is a stretch of the first rank's clock in which Unix
/// time then lies, wider by the offset's own error, and those that hold where most hosts' do can be true. Ranks that
/// nothing ties to the first are put where Unix time has them, if their host states its error and so does one of theirs.
///
/// What is wrong, or less sure than it looks, is said in one sentence each, without a full stop.
std::vector<std::string> apply_statements(std::span<const RankDigest> ranks, std::vector<RankClock>& clocks);

}  // namespace profgpu
