// SeriesStatistics: statistics of one series, weighted by how long each value held. Constant memory.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "analyse/rank/telemetry.h"

namespace profgpu {

/// A value that held from `from_ns` to `to_ns`.
struct Held {
  double value = 0;
  int64_t from_ns = 0, to_ns = 0;
  [[nodiscard]] double ns() const { return static_cast<double>(to_ns - from_ns); }
};

class SeriesStatistics {
 public:
  explicit SeriesStatistics(int64_t interval_ns) : interval_ns_(interval_ns) {}

  /// Samples that are not newer than the last one are repetitions and do not count. Returns the previous value and how
  /// long it held.
  std::optional<Held> add(int64_t time_ns, double value);
  /// The last value, which has held for one interval so far.
  [[nodiscard]] std::optional<Held> last() const;
  [[nodiscard]] SeriesSummary summary() const;
  /// Area under straight lines between the values, in value × seconds, without gaps that are too long.
  [[nodiscard]] double area() const { return area_; }
  /// The time that the area covers.
  [[nodiscard]] int64_t area_ns() const { return area_ns_; }
  /// Time up to `end_ns` in which no value holds: gaps that are too long, including one at the end.
  [[nodiscard]] int64_t unknown_ns(int64_t end_ns) const;

 private:
  struct Moments {
    double weight = 0, mean = 0, square = 0;   // West's weighted update avoids cancellation
    void add(double value, double w);
  };
  [[nodiscard]] int64_t typical_ns() const;
  [[nodiscard]] int64_t longest_hold_ns() const;

  int64_t interval_ns_;
  Moments moments_;
  int64_t samples_ = 0, last_ns_ = 0;
  double first_ = 0, last_ = 0, min_ = 0, max_ = 0;
  double area_ = 0;
  int64_t area_ns_ = 0, gaps_ns_ = 0;
  std::array<int64_t, 33> distances_{};        // of the first samples
  size_t distance_count_ = 0;
  mutable int64_t typical_ns_ = 0;             // median of them
};

/// Time at each level, in tenths of a percent.
class LevelHistogram {
 public:
  void add(const Held& held);
  /// Percentile `p` (0 to 1) as NumPy interpolates it, with `unit_ns` of time as one sample. Unknown when empty.
  [[nodiscard]] std::optional<double> percentile(double p, double unit_ns) const;
  /// Share of the time that is idle, and active, in percent.
  [[nodiscard]] std::optional<double> idle_pct() const { return share(idle_ns_); }
  [[nodiscard]] std::optional<double> active_pct() const { return share(active_ns_); }
  [[nodiscard]] double total_ns() const { return total_ns_; }

 private:
  static constexpr size_t kLevels = 1001;
  [[nodiscard]] std::optional<double> share(double ns) const {
    return total_ns_ > 0 ? std::optional(100 * ns / total_ns_) : std::nullopt;
  }
  [[nodiscard]] double value_at(double ns) const;

  std::array<double, kLevels> ns_{}, value_ns_{};   // time at a level; value × time, for a level's exact mean
  double total_ns_ = 0, idle_ns_ = 0, active_ns_ = 0;
};

/// Finds idle times between busy times.
class GapFinder {
 public:
  void add(const Held& held);
  [[nodiscard]] IdleGaps gaps() const;

 private:
  int64_t begun_ns_ = 0, ended_ns_ = 0;        // the open gap; 0: none, or no work seen yet
  int64_t last_start_ns_ = 0, count_ = 0, length_ns_ = 0;
  bool worked_ = false;
  double distances_ = 0, mean_ = 0, square_ = 0;   // Welford's sums over the distances from start to start
};

}  // namespace profgpu
