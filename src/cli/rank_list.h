// Ranks as people type them: "0,3,8-11".
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace profgpu {

/// First and last of each part.
using RankRanges = std::vector<std::pair<int, int>>;

/// Nullopt: no such list.
std::optional<RankRanges> rank_ranges(std::string_view text);

/// Those of `there`, which is in ascending order, that the list names. An error where a part of it names none.
Result<std::vector<int>> chosen_ranks(const RankRanges& ranges, std::span<const int> there);

}  // namespace profgpu
