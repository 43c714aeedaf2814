// Files that SGLang merges its ranks' traces into: one after the other, with pids such as "[TP00-DP01] 83".
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "trace/import/importer.h"

namespace profgpu {

/// Labels of the pids in a piece of a trace's text.
std::set<std::string, std::less<>> labels_in(std::string_view text);

/// As the labels say ("rank3"), else in the order of pipeline, data, tensor and expert parallel ranks.
std::vector<MergedRank> merged_kineto_ranks(const std::string& path);

}  // namespace profgpu
