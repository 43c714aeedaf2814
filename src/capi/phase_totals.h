// PhaseTotals: what a device did in phases that a program names.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "trace/sample.h"

namespace profgpu {

/// Sums of one device, by phase. The time between two readings belongs to the phase in which it began.
class PhaseTotals {
 public:
  struct Total {
    int64_t count = 0, time_ns = 0;
    double utilization_area = 0, utilization_ns = 0, power_area = 0, power_ns = 0;   // value × time, time
    std::optional<double> energy_j, memory_max_bytes;
  };

  /// A phase that goes on after another one within it is not counted again.
  void mark(int64_t time_ns, const std::string& name, bool goes_on = false) {
    close(time_ns);
    phase_ = &totals_[name];
    if (!goes_on) ++phase_->count;
    begun_ns_ = time_ns;
  }
  void add(const Reading& reading) {
    const int64_t since_ns = last_ns_ ? reading.time_ns - last_ns_ : 0;
    last_ns_ = reading.time_ns;
    for (const Sample& s : reading.samples) add(s, static_cast<double>(since_ns));
  }
  /// The open phase lasts to here.
  void close(int64_t time_ns) {
    if (phase_) phase_->time_ns += time_ns - begun_ns_;
    begun_ns_ = time_ns;
  }
  [[nodiscard]] const std::map<std::string, Total>& totals() const { return totals_; }

 private:
  void add(const Sample& s, double since_ns) {
    if (s.metric == Metric::kEnergy) {
      if (phase_ && energy_ && s.value >= *energy_) phase_->energy_j = phase_->energy_j.value_or(0) + s.value - *energy_;
      energy_ = s.value;
    }
    if (!phase_) return;
    if (s.metric == Metric::kUtilization) {
      phase_->utilization_area += s.value * since_ns;
      phase_->utilization_ns += since_ns;
    } else if (s.metric == Metric::kPower) {
      phase_->power_area += s.value * since_ns;
      phase_->power_ns += since_ns;
    } else if (s.metric == Metric::kMemoryUsed) {
      phase_->memory_max_bytes = std::max(phase_->memory_max_bytes.value_or(s.value), s.value);
    }
  }

  std::map<std::string, Total> totals_;
  Total* phase_ = nullptr;
  int64_t begun_ns_ = 0, last_ns_ = 0;
  std::optional<double> energy_;
};

}  // namespace profgpu
