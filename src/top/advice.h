// What should be said about devices as they are: one line each, with what to do.
#pragma once

#include <string>
#include <vector>

#include "collect/system_checks.h"
#include "live/live_view.h"
#include "top/history.h"

namespace profgpu {

struct Advice {
  size_t device = 0;             ///< position in the view
  Health verdict = Health::kWarning;   ///< kUnknown: no fault, but worth knowing
  std::string what;              ///< "the power limit holds the clocks back, 62 % of the last minute"
  std::string fix;               ///< what to do
};

/// Worst first, then by device. The limits are those of the rules for recorded samples.
std::vector<Advice> advice_on(const LiveView& view, const Histories& histories);

}  // namespace profgpu
