// What a collective reaches over sizes: its latency, its bandwidth, and from which size on it has half of that.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "measure/result/bench_result.h"

namespace profgpu {

struct CollectiveCurve {
  std::string name, label;               ///< "all_reduce_in_place", "all-reduce, in place"
  int64_t ranks = 0;
  double latency_ns = 0;                 ///< of the smallest size that was measured
  double busbw_gbps = 0;                 ///< the highest of all sizes
  /// Where half of that is reached; between two sizes, the time grows evenly. None: at the smallest already.
  std::optional<int64_t> half_size_bytes;

  /// "latency 12.0 µs, up to 400 GB/s, half of that from 4.6 MiB"
  [[nodiscard]] std::string text() const;
  void fields(auto&& v) const {
    v("name", name), v("label", label), v("ranks", ranks), v("latency_ns", latency_ns), v("busbw_gbps", busbw_gbps);
    v("half_size_bytes", half_size_bytes);
  }
};

/// Of collectives that were measured at two sizes or more, in the order of the figures.
std::vector<CollectiveCurve> collective_curves(const std::vector<Figure>& figures);

}  // namespace profgpu
