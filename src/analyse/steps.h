// Steps of the training loop, and which of them averages are over.
#pragma once

#include "analyse/facts.h"
#include "trace/intervals.h"

namespace profgpu {

struct Step {
  std::string name;
  int64_t index = 0;           ///< the number in its name, else its place
  int64_t start_ns = 0;
  int64_t duration_ns = 0;
  int64_t device_busy_ns = 0;  ///< the rank's busiest device, clipped to the step
  int64_t device_idle_ns = 0;
  bool warmup = false;
  HostId range;                ///< the annotation; invalid for the step named `trace`
  [[nodiscard]] Interval interval() const { return {start_ns, start_ns + duration_ns}; }
};

struct Steps {
  std::vector<Step> steps;
  bool annotated = false;      ///< steps come from ranges, not from the whole trace
  double estimated = 0;        ///< confidence, 0 to 1, of steps that were found by what repeats; 0: they were not
  ThreadId thread;             ///< the thread that carries the step ranges (the busiest op thread without steps)
  int32_t device = -1;         ///< the rank's busiest device, -1: none
  /// Steps that averages are over: all but warm-up. A trace with nothing but warm-up measures all.
  [[nodiscard]] std::vector<const Step*> measured() const;
  [[nodiscard]] int64_t measured_wall_ns() const;
  [[nodiscard]] int64_t total_wall_ns() const;
  /// Of the steps that averages are not over.
  [[nodiscard]] Intervals warmup_time() const;
  static Steps compute(const Facts& facts);
};

/// Which of the steps that averages are over an instant lies in. Fast where times come in order.
class StepFinder {
 public:
  explicit StepFinder(const Steps& steps);
  /// Index into Steps::steps; -1: in none that counts.
  int64_t operator()(int64_t time_ns);

 private:
  const std::vector<Step>& steps_;
  std::vector<bool> counts_;
  size_t at_ = 0;
};

}  // namespace profgpu
