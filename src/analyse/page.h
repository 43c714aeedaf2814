// What a page shows beyond the report, put together from all ranks of a run.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "analyse/facts.h"
#include "analyse/kept_events.h"
#include "base/result.h"
#include "report/page.h"

namespace profgpu {

struct PageInput {
  std::vector<RankFacts> ranks;            ///< by rank; none: samples alone
  std::map<int, int64_t> clock_offset_ns;  ///< by rank: added to its times to get the first rank's; none: 0
  const SampleLog* samples = nullptr;      ///< null or empty: none
  std::vector<int> without_events = {};    ///< further ranks of the report, ascending
};

/// All ranks on the first one's clock, as far as their clocks can be told. The error: `steps` names no step.
Result<std::shared_ptr<const PageData>> make_page(const PageInput& input, const StepChoice& steps);

}  // namespace profgpu
