// Steps of the training loop, and which of them count for averages.
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
  int64_t index = 0;           ///< the number in its name, else its position
  int64_t start_ns = 0;
  int64_t duration_ns = 0;
  int32_t device = -1;         ///< the rank's busiest, -1: none
  int64_t device_busy_ns = 0;  ///< that device, clipped to the step
  int64_t device_idle_ns = 0;
  bool other_run = false;  ///< of a log: of a run that its figures are not of
  bool warmup = false;
  bool measured = false;       ///< counts for averages: neither warm-up nor incomplete, unless no step would count
  HostId range;                ///< the annotation; invalid for the step named `trace`, and where only devices saw it
  /// From its start, or the end of the step before where that is later, until its range and the device work that it
  /// launched have ended. An inference engine's step begins where the step before ends, unless it waits for requests.
  Interval elapsed;
  EngineStep batch;            ///< from an inference engine's range name; else only its kind is set
  bool incomplete = false;     ///< the recording ended soon after its start: it launched no device work
  int64_t iterations = 1;      ///< that a line of a log stands for; times are of one
  LogFigures log = {};            ///< other figures of that line
  [[nodiscard]] Interval interval() const { return {start_ns, start_ns + duration_ns}; }

  void fields(auto&& v) const {
    v("name", name), v("index", index), v("start_ns", start_ns), v("duration_ns", duration_ns);
    v("elapsed_ns", elapsed.length()), v("device", only_if(device >= 0, device));
    v("device_busy_ns", only_if(device >= 0, device_busy_ns));
    v("device_idle_ns", only_if(device >= 0, device_idle_ns)), v("warmup", warmup);
    v("incomplete", incomplete), v("kind", unless_empty(step_kind_name(batch.kind)));
    v("sequences", batch.sequences), v("tokens", batch.tokens), v("context_tokens", batch.context_tokens);
    v("iterations", iterations), v("loss", log.loss), v("learning_rate", log.learning_rate);
    v("grad_norm", log.grad_norm), v("samples_per_s", log.samples_per_s), v("tokens_per_s", log.tokens_per_s);
    v("device_tokens_per_s", log.device_tokens_per_s), v("tflops", log.tflops), v("mfu_pct", log.mfu_pct);
    v("skipped", log.skipped);
  }
};

/// A step of an inference engine, by its own range. Steps that the program marks may have several in them.
struct EngineRange {
  HostId range;            ///< invalid where only the devices saw it
  Interval time;
  EngineStep batch;
  bool measured = false;   ///< begins in a step that counts
  StringId name;
};

struct Steps {
  std::vector<Step> steps;
  std::vector<EngineRange> of_engine;   ///< in order of time; empty: no engine
  Intervals without_requests;           ///< an engine's rounds that compute nothing for requests
  bool annotated = false;      ///< steps come from ranges, not from the whole trace
  double estimated = 0;        ///< confidence, 0 to 1, of steps estimated from periodic device work; 0: not estimated
  ThreadId thread;             ///< the thread that carries the step ranges (the busiest op thread without steps)
  int32_t device = -1;         ///< the rank's busiest device, -1: none
  /// Whether the only step is the whole trace, because nothing marks steps.
  [[nodiscard]] bool is_whole_trace() const { return steps.size() == 1 && !annotated && estimated == 0; }
  [[nodiscard]] bool marked() const { return !steps.empty() && !is_whole_trace(); }
  [[nodiscard]] std::vector<const Step*> measured() const;
  [[nodiscard]] int64_t measured_wall_ns() const;
  [[nodiscard]] int64_t total_wall_ns() const;
  /// What the measured steps take, with the device work that they launched.
  [[nodiscard]] Intervals measured_time() const;
  /// The same on the host, where work is launched: what lies in a step's range belongs to that step.
  [[nodiscard]] Intervals measured_host_time() const { return host_time(true); }
  /// Of the steps that do not count.
  [[nodiscard]] Intervals left_out_host_time() const { return host_time(false); }
  /// For documents: their rows.
  [[nodiscard]] const std::vector<Step>& listed() const { return steps; }
  static Steps compute(const Facts& facts);

 private:
  [[nodiscard]] Intervals host_time(bool measured) const;
};

/// Finds the step whose range on the host contains an instant, or whose elapsed time does: for device work. Fast if
/// times ascend.
class StepFinder {
 public:
  enum class By : uint8_t { kRange, kElapsed };
  explicit StepFinder(const Steps& steps, By by = By::kRange) : steps_(steps.steps), by_(by) {}
  /// Null: no step contains it.
  const Step* operator()(int64_t time_ns);
  [[nodiscard]] bool measured(int64_t time_ns) {
    const Step* step = (*this)(time_ns);
    return step != nullptr && step->measured;
  }

 private:
  [[nodiscard]] Interval time(size_t i) const { return by_ == By::kRange ? steps_[i].interval() : steps_[i].elapsed; }
  const std::vector<Step>& steps_;
  By by_;
  size_t at_ = 0;
};

/// Index of the profiler window that a time is in, or of the last one before it.
size_t profiler_window(const Trace& trace, int64_t time);

/// No scheduler of an engine takes longer between steps of these durations, at least one.
int64_t longest_scheduling(std::vector<int64_t> step_durations_ns);

// Steps of a loop without markers, from the period of one stream's work.

struct PeriodicSteps {
  std::vector<Interval> steps;   ///< device time; empty: no period was found
  double confidence = 0;         ///< 0 to 1: similarity of successive steps times the share of time they cover
};

/// Uses the stream with most activities. A step begins where the stream's sequence of names repeats, after the longest
/// regular pause. At least five steps, or none. Linear in the stream's activities.
PeriodicSteps periodic_steps(const Trace& trace);

}  // namespace profgpu
