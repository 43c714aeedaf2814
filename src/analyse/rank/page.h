// What a page shows beyond the report, put together from all ranks of a run.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "analyse/rank/facts.h"
#include "analyse/rank/kept_events.h"
#include "analyse/report/page.h"
#include "base/result.h"

namespace profgpu {

// What findings rest on, one by one: the longest gaps with what stands around them, and how long each kernel's calls
// took.

/// The longest `most` of each cause and device, longest first.
std::vector<PageGap> longest_gaps(const Facts& facts, int64_t shift_ns, size_t most = 50);

/// The `most` kernels of each device that take the longest together, if they ran at least twice.
std::vector<PageHistogram> kernel_histograms(const Facts& facts, size_t most = 100);

// Call trees: what each thread called, calls of one name below one parent together. Python frames, ranges, ops and
// runtime calls stand below each other as they were called.
//
// All steps of the training loop are one node. Parts of a tree that take least are joined into one node a parent, named
// "…", so that sums stay what they are.

/// One tree a thread, that of the step's thread first, else by time. A tree has at most `most_nodes` nodes besides
/// those named "…".
std::vector<PageFlame> flames(const Facts& facts, PageStrings& strings, size_t most_nodes = 5000);

struct PageInput {
  std::vector<RankFacts> ranks;            ///< by rank; none: samples alone
  std::map<int, int64_t> clock_offset_ns;  ///< by rank: added to its times to get the first rank's; none: 0
  const SampleLog* samples = nullptr;      ///< null or empty: none
  std::vector<int> without_events = {};    ///< further ranks of the report, ascending
};

/// All ranks on the first one's clock, as far as their clocks can be told. The error: `steps` names no step.
Result<std::shared_ptr<const PageData>> make_page(const PageInput& input, const StepChoice& steps);

}  // namespace profgpu
