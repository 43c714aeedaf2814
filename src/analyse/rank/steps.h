// Steps of the training loop, and which of them averages are over.
#pragma once

#include <vector>

#include "analyse/rank/engine_step.h"
#include "analyse/rank/facts.h"
#include "analyse/report/document.h"
#include "trace/intervals.h"
#include "trace/trace.h"

namespace profgpu {

struct Step {
  std::string name;
  int64_t index = 0;           ///< the number in its name, else its place
  int64_t start_ns = 0;
  int64_t duration_ns = 0;
  int32_t device = -1;         ///< the rank's busiest, -1: none
  int64_t device_busy_ns = 0;  ///< that device, clipped to the step
  int64_t device_idle_ns = 0;
  bool warmup = false;
  HostId range;                ///< the annotation; invalid for the step named `trace`
  EngineStep batch;            ///< what an inference engine says of it; of others only the kind
  bool incomplete = false;     ///< the recording ended soon after it had begun: it launched no device work
  [[nodiscard]] Interval interval() const { return {start_ns, start_ns + duration_ns}; }
  [[nodiscard]] bool is_measured() const { return !warmup && !incomplete; }

  void fields(auto&& v) const {
    v("name", name), v("index", index), v("start_ns", start_ns), v("duration_ns", duration_ns);
    v("device", only_if(device >= 0, device)), v("device_busy_ns", only_if(device >= 0, device_busy_ns));
    v("device_idle_ns", only_if(device >= 0, device_idle_ns)), v("warmup", warmup);
    v("incomplete", incomplete), v("kind", unless_empty(step_kind_name(batch.kind)));
    v("sequences", batch.sequences), v("tokens", batch.tokens), v("context_tokens", batch.context_tokens);
  }
};

struct Steps {
  std::vector<Step> steps;
  bool annotated = false;      ///< steps come from ranges, not from the whole trace
  double estimated = 0;        ///< confidence, 0 to 1, of steps that were found by what repeats; 0: they were not
  ThreadId thread;             ///< the thread that carries the step ranges (the busiest op thread without steps)
  int32_t device = -1;         ///< the rank's busiest device, -1: none
  /// Whether there is one that is all of the trace, as nothing marks any.
  [[nodiscard]] bool is_whole_trace() const { return steps.size() == 1 && !annotated && estimated == 0; }
  [[nodiscard]] bool marked() const { return !steps.empty() && !is_whole_trace(); }
  /// Steps that averages are over: all but warm-up and incomplete ones. A trace with nothing else measures all.
  [[nodiscard]] std::vector<const Step*> measured() const;
  [[nodiscard]] int64_t measured_wall_ns() const;
  [[nodiscard]] int64_t total_wall_ns() const;
  /// Of the steps that averages are not over.
  [[nodiscard]] Intervals left_out_time() const;
  /// What a document has of them.
  [[nodiscard]] const std::vector<Step>& listed() const { return steps; }
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

// Steps of a loop that nobody marked, from the period of what a stream runs.

struct PeriodicSteps {
  std::vector<Interval> steps;   ///< device time; empty: no period was found
  double confidence = 0;         ///< 0 to 1: how alike successive steps are, times the share of time that they cover
};

/// Looks at the stream with most activity. A step begins where its sequence of names begins again, at the place with
/// the longest regular pause before it. At least five steps, or none. Linear in the activities of the stream.
PeriodicSteps periodic_steps(const Trace& trace);

}  // namespace profgpu
