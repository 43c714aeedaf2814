// Arrows between the kernels of one collective: from each to that of the rank that arrived last, which it waited for.
#pragma once

#include <map>
#include <vector>

#include "analyse/collectives.h"
#include "export/run.h"

namespace profgpu {

/// A kernel's arrows. Arrows are numbered from 1 on through the run.
struct CollectiveEnd {
  const MetCall* call = nullptr;
  uint64_t first = 0;      ///< those of the last one to arrive are first .. first + arrows - 1; all others have one
  uint64_t arrows = 0;     ///< 0: no other rank of it is shown
  bool latest = false;     ///< of the ranks that are shown: arrows end here, else one begins here
};

class CollectiveArrows {
 public:
  /// O(calls log calls) of the ranks that are shown, which must outlive it; their events are not needed.
  explicit CollectiveArrows(const RunRows& run);
  /// Null: a kernel that no other rank of the job met.
  [[nodiscard]] const CollectiveEnd* find(const RankRows& rank, ActivityId activity) const;

 private:
  std::map<int, std::vector<CollectiveEnd>> ends_;   // by rank, then activity
};

}  // namespace profgpu
