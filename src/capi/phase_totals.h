// PhaseTotals: what a device did in phases that a program names.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "trace/sample.h"

namespace profgpu {

/// Sums of one device, by phase. What holds from one sample to the next is divided where a phase began, by the samples'
/// own times: they come up to a tick late.
class PhaseTotals {
 public:
  struct Total {
    int64_t count = 0, time_ns = 0;
    double utilization_area = 0, utilization_ns = 0, power_area = 0, power_ns = 0;   // value × time, time
    std::optional<double> energy_j, memory_max_bytes;
  };

  /// A phase that goes on after another one within it is not counted again. `in_step`: it is a part of a step.
  void mark(int64_t time_ns, const std::string& name, bool goes_on = false, bool in_step = false) {
    close(time_ns);
    Total& phase = totals_[name];
    if (!goes_on) ++phase.count;
    phases_.push_back({time_ns, name, in_step});
  }
  void begin_step() { ++steps_.count; }
  void add(const Reading& reading) {
    for (const Sample& s : reading.samples) add(s);
    while (phases_.size() > 1 && phases_[1].begun_ns <= std::min(before_ns_, reading.time_ns - kLatest_ns))
      phases_.pop_front();
    before_ns_ = std::exchange(last_ns_, reading.time_ns);
  }
  /// Nothing comes after.
  void end(int64_t time_ns) {
    close(time_ns);
    ended_ = true;
    hold(utilization_, time_ns, &Total::utilization_area, &Total::utilization_ns);
    hold(power_, time_ns, &Total::power_area, &Total::power_ns);
  }
  [[nodiscard]] std::map<std::string, Total> totals() const {
    const double scale = joules_per_area();
    auto out = totals_;
    out[phases_.back().name].time_ns += open_ns();
    for (auto& [name, t] : out)
      if (t.power_ns > 0) t.energy_j = t.power_area * scale;
    out.erase("");
    return out;
  }
  /// All that was within steps; its count is that of steps.
  [[nodiscard]] Total steps() const {
    Total out = steps_;
    if (phases_.back().in_step) out.time_ns += open_ns();
    if (out.power_ns > 0) out.energy_j = out.power_area * joules_per_area();
    return out;
  }

 private:
  static constexpr int64_t kLatest_ns = 2'000'000'000;   // a sample is older only where ticks are further apart
  struct Phase {
    int64_t begun_ns;
    std::string name;
    bool in_step = false;
  };
  struct Course {
    int64_t since_ns = 0;          ///< 0: not known yet
    double value = 0, before = 0, most = 0;
    bool mean = false;
    void set(const Sample& s) {
      before = std::exchange(value, s.value);
      most = std::max(most, s.value);
      mean = s.mean;
    }
  };

  // The board's counter says how much, the power when; either alone says both.
  [[nodiscard]] double joules_per_area() const {
    double area = 0;
    for (const auto& [name, t] : totals_) area += t.power_area;
    // Where the counter is by then, up to which the power is known.
    const double counted_j = energy_j_ + power_.value * static_cast<double>(power_.since_ns - energy_.since_ns) / 1e9;
    return area > 0 && energy_j_ > 0 && counted_j > 0 ? counted_j / area : 1e-9;
  }
  // Of the open phase, up to the last reading: the rest is not known yet.
  [[nodiscard]] int64_t open_ns() const {
    return ended_ ? 0 : std::max<int64_t>(last_ns_ - phases_.back().begun_ns, 0);
  }
  [[nodiscard]] const Phase& phase_at(int64_t time_ns) const {
    const auto next = std::ranges::upper_bound(phases_, time_ns, {}, &Phase::begun_ns);
    return next == phases_.begin() ? phases_.front() : *std::prev(next);
  }
  // The open phase lasts to here.
  void close(int64_t time_ns) {
    const Phase& open = phases_.back();
    totals_[open.name].time_ns += time_ns - open.begun_ns;
    if (open.in_step) steps_.time_ns += time_ns - open.begun_ns;
  }
  // A mean over the beginning of a phase is what was before up to there, as far as it can be, and the rest after.
  void hold(Course& c, int64_t until_ns, double Total::* area, double Total::* time) {
    double value = c.value;
    for (size_t i = 0; c.since_ns != 0 && i < phases_.size(); ++i) {
      const int64_t from_ns = std::max(c.since_ns, phases_[i].begun_ns);
      const int64_t to_ns = i + 1 < phases_.size() ? std::min(until_ns, phases_[i + 1].begun_ns) : until_ns;
      if (to_ns <= from_ns) continue;
      Total& t = totals_[phases_[i].name];
      const auto part = static_cast<double>(to_ns - from_ns), rest = static_cast<double>(until_ns - to_ns);
      double here = value;
      if (c.mean && from_ns == c.since_ns && rest > 0) {
        const double whole = c.value * (part + rest);
        here = std::clamp(c.before, (whole - c.most * rest) / part, whole / part);
        value = (whole - here * part) / rest;
      }
      for (Total* total : {&t, phases_[i].in_step ? &steps_ : nullptr}) {
        if (total == nullptr) continue;
        total->*area += here * part;
        total->*time += part;
      }
    }
    c.since_ns = std::max(c.since_ns, until_ns);
  }
  void add(const Sample& s) {
    if (s.metric == Metric::kUtilization) {
      hold(utilization_, s.time_ns, &Total::utilization_area, &Total::utilization_ns);
      utilization_.set(s);
    } else if (s.metric == Metric::kPower) {
      hold(power_, s.time_ns, &Total::power_area, &Total::power_ns);
      power_.set(s);
    } else if (s.metric == Metric::kEnergy) {
      if (energy_.since_ns != 0 && s.value >= energy_.value) energy_j_ += s.value - energy_.value;
      energy_.since_ns = s.time_ns, energy_.value = s.value;
    } else if (s.metric == Metric::kMemoryUsed) {
      const Phase& phase = phase_at(s.time_ns);
      auto& most = totals_[phase.name].memory_max_bytes;
      most = std::max(most.value_or(s.value), s.value);
      if (phase.in_step)
        steps_.memory_max_bytes = std::max(steps_.memory_max_bytes.value_or(s.value), s.value);
    }
  }

  std::map<std::string, Total> totals_;
  Total steps_;
  std::deque<Phase> phases_{{0, ""}};   // in order; the first is the time before any
  int64_t last_ns_ = 0, before_ns_ = 0;
  bool ended_ = false;
  Course utilization_, power_, energy_;
  double energy_j_ = 0;
};

}  // namespace profgpu
