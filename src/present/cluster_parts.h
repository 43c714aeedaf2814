// All that a report says of several ranks as one job, as tables that a person can read: each presenter lays them out as
// it does any other.
#pragma once

#include <string>
#include <vector>

#include "job/report.h"

namespace profgpu {

struct ClusterPart {
  std::string title;
  std::vector<std::string> sentences;
  Table table;   ///< may be empty; columns are named as in a report, so that their units follow; texts are words
};

/// Those that have something to say; none for one rank. `most`: late ranks that have a part of their own, and calls
/// named that lack ranks (0: all).
std::vector<ClusterPart> cluster_parts(const Report& report, size_t most);

}  // namespace profgpu
