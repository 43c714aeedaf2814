// What benchmarks of collectives measured, as tables and figures: nccl-tests and its like, or DeepSpeed's comms logger.
//
// Rates are nccl-tests': algbw is the bytes over the time, busbw what each link carried. Several measurements of one
// size (ranks, rounds) are one row by their medians.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trace/run_log.h"

namespace profgpu {

struct LinkRow {
  std::string op, dtype;
  int64_t ranks = 0;  ///< 0: not known
  bool in_place = false;
  int64_t bytes = 0, time_ns = 0;  ///< medians
  std::optional<double> algbw_gbps, busbw_gbps;
  std::optional<int64_t> wrong;  ///< elements that were wrong; null: not checked
  int64_t measurements = 0;

  void fields(auto&& v) const {
    v("op", op), v("dtype", dtype), v("ranks", ranks > 0 ? std::optional(ranks) : std::nullopt),
        v("in_place", in_place);
    v("bytes", bytes), v("time_ns", time_ns), v("algbw_gbps", algbw_gbps), v("busbw_gbps", busbw_gbps),
        v("wrong", wrong);
    v("measurements", measurements);
  }
};

/// Of one operation.
struct LinkSummary {
  std::string op;
  int64_t ranks = 0;
  std::optional<int64_t> latency_ns;      ///< the shortest time of up to 64 KiB; null: nothing so small was measured
  std::optional<double> peak_busbw_gbps;  ///< of any size
  std::optional<int64_t> half_bytes;  ///< the smallest size that reaches half of that; null: already the smallest does
  std::optional<double> mean_busbw_gbps;  ///< over the rows, as nccl-tests' "Avg bus bandwidth"
  int64_t wrong = 0;

  /// "all-reduce over 8 ranks"; "collectives" if the log does not name any.
  [[nodiscard]] std::string text() const;
  void fields(auto&& v) const {
    v("op", op), v("ranks", ranks > 0 ? std::optional(ranks) : std::nullopt), v("latency_ns", latency_ns);
    v("peak_busbw_gbps", peak_busbw_gbps), v("half_bytes", half_bytes), v("mean_busbw_gbps", mean_busbw_gbps);
    v("wrong", wrong);
  }
};

/// By operation, then size; out of place first.
std::vector<LinkRow> link_rows(const std::vector<LinkRate>& rates);
std::vector<LinkSummary> link_summaries(const std::vector<LinkRow>& rows);

}  // namespace profgpu
