// The clock that CUPTI stamps with, seen from the host's clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "wire/rows.h"

namespace profgpu {

/// Piecewise linear between the instants at which both clocks were read. Where the clocks part by more than they can
/// drift (another profiler set CUPTI's clock, the system's was stepped) the map is split there.
class RecordingClock {
 public:
  /// Times further from 0 than this are damage; sums and differences of two of them fit 64 bits.
  static constexpr int64_t kLatest = INT64_MAX / 4;

  explicit RecordingClock(const std::vector<wire::ClockSync>& syncs);

  /// `syncs_before`: readings of both clocks that stand before the row in the file; tells on which side of a split it
  /// is where its time alone does not.
  [[nodiscard]] int64_t host_ns(int64_t device_ns, size_t syncs_before) const;
  [[nodiscard]] bool known() const { return !points_.empty(); }
  /// No reading has CUPTI's clock: it was taken for Unix time, which is what CUPTI begins with.
  [[nodiscard]] bool assumed_unix() const { return assumed_unix_; }
  [[nodiscard]] size_t splits() const { return segments_.empty() ? 0 : segments_.size() - 1; }
  /// Unix time less host time, as the first reading has it.
  [[nodiscard]] int64_t unix_less_host_ns() const { return unix_less_host_ns_; }
  [[nodiscard]] int64_t first_host_ns() const { return first_host_ns_; }

 private:
  struct Point {
    int64_t device_ns, host_ns;
    size_t sync;            // its place among the readings
  };
  struct Segment {
    size_t begin, end;      // points
  };
  [[nodiscard]] int64_t on(const Segment& segment, int64_t device_ns) const;

  std::vector<Point> points_;
  std::vector<Segment> segments_;
  bool assumed_unix_ = false;
  int64_t unix_less_host_ns_ = 0, first_host_ns_ = 0;
};

}  // namespace profgpu
