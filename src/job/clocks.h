// Ranks on one clock, as far as what they did together tells.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "job/matched_calls.h"

namespace profgpu {

struct RankClock {
  int rank = 0;
  int64_t offset_ns = 0;           ///< add to this rank's times to get the first rank's
  std::optional<int64_t> error_ns;
  std::string method;              ///< "reference" (the first), "collectives", "same host", "none"

  [[nodiscard]] bool known() const { return method != "none"; }
  /// A time of this rank on the first rank's clock.
  [[nodiscard]] int64_t aligned(int64_t time_ns) const { return time_ns + offset_ns; }
};

/// One a rank, in their order.
std::vector<RankClock> align_clocks(std::span<const RankDigest> ranks, const MatchedCalls& met);

}  // namespace profgpu
