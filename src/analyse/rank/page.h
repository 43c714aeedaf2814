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

/// The longest `most` gaps of each cause and device, longest first.
std::vector<PageGap> page_gaps(const Facts& facts, int64_t shift_ns, size_t most = 50);

/// Durations of the 100 kernels of each device with the largest total, if they ran at least twice.
std::vector<PageHistogram> kernel_histograms(const Facts& facts);

/// Call trees, one per thread, that of the step's thread first, then by time. Python frames, ranges, ops and runtime
/// calls are nested as called, and what a call launched is below it; calls of one name below one parent are one node,
/// and so are all steps of the training loop. A tree has at most `most_nodes` nodes; smaller ones are joined per parent
/// into a node named "…", so that sums are unchanged.
std::vector<PageFlame> flames(const Facts& facts, PageStrings& strings, size_t most_nodes = 5000);

struct PageInput {
  std::vector<RankFacts> ranks;            ///< by rank; none: samples alone
  std::map<int, int64_t> clock_offset_ns;  ///< by rank: added to its times to get the first rank's; none: 0
  const SampleLog* samples = nullptr;      ///< null or empty: none
  std::vector<int> without_events = {};    ///< further ranks of the report, ascending
};

/// All ranks on the first one's clock, as far as clocks are known. Fails if `steps` names no step.
Result<std::shared_ptr<const PageData>> make_page(const PageInput& input, const StepChoice& steps);

}  // namespace profgpu
