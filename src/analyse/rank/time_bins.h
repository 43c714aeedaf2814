// TimeBins: a value over time, in a fixed number of equal bins. When the time exceeds them, neighbors are joined and
// bins become twice as wide.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace profgpu {

class TimeBins {
 public:
  static constexpr size_t kBins = 320;

  TimeBins(int64_t start_ns, int64_t width_ns) : start_ns_(start_ns), width_ns_(std::max<int64_t>(width_ns, 1)) {}

  /// The value held from `from` to `to`.
  void add(int64_t from, int64_t to, double value) {
    from = std::max(from, start_ns_);
    if (from >= to) return;
    // Centuries may lie between times in a damaged file: no product may exceed 64 bits.
    while ((to - start_ns_ - 1) / static_cast<int64_t>(kBins) >= width_ns_) widen();
    while (from < to) {
      const int64_t bin = (from - start_ns_) / width_ns_;
      const int64_t end = from + std::min(to - from, width_ns_ - (from - start_ns_) % width_ns_);
      Bin& b = bins_[static_cast<size_t>(bin)];
      b.weight_ns += static_cast<double>(end - from);
      b.sum += value * static_cast<double>(end - from);
      b.least = std::min(b.least, value);
      from = end;
    }
  }

  /// Mean in each of `parts` equal parts of the time from the start to `end`; NaN: unknown.
  [[nodiscard]] std::vector<double> means(int64_t end, size_t parts) const {
    std::vector<double> out(parts, kUnknown);
    each_part(end, parts, [&](size_t part, double sum, double weight, double) {
      if (weight > 0) out[part] = sum / weight;
    });
    return out;
  }
  /// Lowest value in each part, likewise.
  [[nodiscard]] std::vector<double> minima(int64_t end, size_t parts) const {
    std::vector<double> out(parts, kUnknown);
    each_part(end, parts, [&](size_t part, double, double weight, double least) {
      if (weight > 0 && !std::isinf(least)) out[part] = least;
    });
    return out;
  }

 private:
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  struct Bin {
    double weight_ns = 0, sum = 0, least = std::numeric_limits<double>::infinity();
  };

  void widen() {
    for (size_t i = 0; i < kBins; ++i) {
      Bin joined;
      for (size_t k = 2 * i; k < 2 * i + 2 && k < kBins; ++k) {
        joined.weight_ns += bins_[k].weight_ns;
        joined.sum += bins_[k].sum;
        joined.least = std::min(joined.least, bins_[k].least);
      }
      bins_[i] = joined;
    }
    width_ns_ *= 2;
  }

  // Bins count for parts in proportion to their overlap; a bin's lowest value for every part that overlaps half of it.
  template <class Part>
  void each_part(int64_t end, size_t parts, Part&& part) const {
    const double length = static_cast<double>(end - start_ns_) / static_cast<double>(parts);
    const double width = static_cast<double>(width_ns_);
    for (size_t p = 0; p < parts && length > 0; ++p) {
      const double from = length * static_cast<double>(p), to = from + length;
      double sum = 0, weight = 0, least = std::numeric_limits<double>::infinity();
      for (size_t b = static_cast<size_t>(from / width); b < kBins && static_cast<double>(b) * width < to; ++b) {
        const double begin = static_cast<double>(b) * width;
        const double share = (std::min(to, begin + width) - std::max(from, begin)) / width;
        if (share <= 0 || bins_[b].weight_ns <= 0) continue;
        sum += bins_[b].sum * share;
        weight += bins_[b].weight_ns * share;
        if (share >= std::min(0.5, length / width)) least = std::min(least, bins_[b].least);
      }
      part(p, sum, weight, least);
    }
  }

  int64_t start_ns_, width_ns_;
  std::array<Bin, kBins> bins_{};
};

}  // namespace profgpu
