// When an inference engine waits for requests: outside its steps, on the thread that runs them.
#pragma once

#include <vector>

#include "analyse/rank/facts.h"
#include "trace/intervals.h"

namespace profgpu {

struct RequestWaits {
  /// By thread: in a call that only a new request ends.
  std::vector<Intervals> certain;
  /// By thread: waiting for another process, which has no requests either or is scheduling; or, once it has served
  /// any, in nothing that was recorded.
  std::vector<Intervals> possible;
  /// From this length on the possible ones count: no scheduler takes as long.
  int64_t long_ns = INT64_MAX;

  /// Whether the thread spends most of `part` waiting for requests.
  [[nodiscard]] bool explain(uint32_t thread, Interval part) const;
  /// How long it waits in `part`, certainly or possibly.
  [[nodiscard]] int64_t length(uint32_t thread, Interval part) const;
  static RequestWaits compute(const Facts& facts);
};

}  // namespace profgpu
