// A simulated PyTorch training job, as a source of traces whose truth is known.
//
// simulate() runs one or more ranks of a transformer's training loop: a main thread (data loading, forward, optimizer),
// an autograd thread, a compute and a communication stream, collectives that end together on all ranks. Faults of the
// rule table can be planted alone or together. make_truth() says what was planted, what a diagnosis must say, and what
// each step would have taken without each fault, from a second run with the same noise. write_kineto() in kineto_text.h
// makes Kineto's JSON of it.
//
//   SimOptions options;
//   options.faults = {{"data-loading-bound", 1.0}};
//   auto result = simulate(options);
//   std::string json = kineto_text(result->traces[0], {});
//   Truth truth = make_truth(options, *result, {});
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/result.h"
#include "tests/support/kineto_text.h"
#include "tests/support/sim_fault.h"
#include "tests/support/sim_trace.h"

namespace profgpu::sim {

/// tp, pp and ep split the model within groups of SimOptions::group ranks and are data parallel between them. zero1 and
/// zero2 share the optimizer's state.
enum class Strategy : uint8_t { ddp, fsdp, zero1, zero2, tp, pp, ep };

struct SimOptions {
  Gpu gpu = Gpu::h100;
  int ranks = 1;
  int steps = 10;
  int layers = 12;
  int first_step = 5;  // number of the first ProfilerStep#
  uint64_t seed = 1;
  Strategy strategy = Strategy::ddp;
  int group = 0;  // ranks that share one model with tp, pp and ep; 0: all
  bool named_groups = true;   // else PyTorch's default description, "undefined"
  std::vector<FaultUse> faults;
  int micro_batches = 1;
  int windows = 1;  // of a repeating profiler schedule, `steps` steps each, six unrecorded steps between
  bool python_stacks = false;
  bool runtime_getters = true;
  bool graph = false;     // forward, backward and optimizer replayed as one CUDA graph
  bool compiled = false;  // elementwise work in Triton kernels, launched by the driver API
  bool cpu_only = false;
  bool sync_rows = false;     // cuda_sync rows
  int drop_pct = 0;           // launches whose activity the profiler lost
  int step_noise_permille = 0;  // standard deviation of a step's pace
  int slower_permille = 0;      // all that host and devices do takes longer by this
  int64_t clock_skew_ns = 0;  // rank r's clock is r times this ahead of rank 0's
  int hosts = 0;              // 0: one, whose name is not recorded
  std::vector<std::pair<int, int64_t>> clock_offsets, clock_drifts;   // host, nanoseconds or ppb
  int64_t clock_error_ns = 0, drift_error_ppb = 0;   // clocks of all hosts but the first are wrong by up to this
  int64_t end_jitter_ns = 0;  // ranks see a collective end up to this apart
  std::vector<int> slow_ranks;    // that straggler faults are planted on; none: the last
  bool by_turns = false;          // each rank is the slow one in a step of its own, one after another
  int slow_every = 1;             // they show in every such step only
  int shifted_rank = -1, shifted_steps = 0;   // this rank recorded as many steps, from so many later on
  int hang_rank = -1;         // misses the last collective of the last step: the others wait in it for ten steps

  /// Whether the truth says where ranks run, how their clocks stand and who is slow.
  [[nodiscard]] bool describes_job() const { return hosts > 0 || !slow_ranks.empty() || group > 0; }
  /// Ranks of a group that shares one model; 0 where every rank has all of it.
  [[nodiscard]] int model_group() const { return strategy < Strategy::tp || ranks < 2 ? 0 : group > 0 ? group : ranks; }
};

/// One trace per rank and window, rank by rank.
struct SimResult {
  std::vector<RankTrace> traces;
};

Result<SimResult> simulate(const SimOptions& options);

/// Hands over every trace as soon as it is made and keeps none, so that a job of any size fits memory. With several
/// `threads`, ranks come in any order, from any of them; the traces are the same. False from `take` stops.
Status simulate_each(const SimOptions& options, int threads, const std::function<bool(RankTrace&&)>& take);

struct RankSteps {
  int rank, window;
  std::vector<StepSpan> steps;
};
/// The steps alone, in the order of simulate()'s traces.
Result<std::vector<RankSteps>> simulate_steps(const SimOptions& options);

/// The severity at which the options' only fault makes the job's median step take `excess_pct` longer than without it,
/// to a twentieth of that.
Result<double> severity_for(SimOptions options, double excess_pct);

struct DeviceTruth {
  int rank, window, device;
  int64_t events;  // rows of traceEvents without flows and metadata
  int64_t span_ns, busy_ns, compute_ns, communication_ns, memory_ns, exposed_communication_ns;
  std::vector<int64_t> step_ns;
};

/// What is kept of a trace for the truth.
struct TraceTruth {
  DeviceTruth device;
  RankSteps steps;
  int64_t first_ns = 0, last_ns = 0;   // of its events
  int64_t peak_allocated_bytes = 0, peak_reserved_bytes = 0, capacity_bytes = 0;
};

struct WallTime {
  int64_t measured_ns = 0;      // sum over the measured steps, each as long as on its slowest rank
  int64_t step_median_ns = 0;   // median of the same
};

/// What a clock shows more than the first host's.
struct ClockTruth {
  int rank;
  std::string host;
  HostClock clock;
  int64_t middle_ns;   // of what the rank recorded, on the first host's clock
};
struct StragglerTruth {
  int rank;
  std::string kind;  // as the job's view names it
};

struct Truth {
  std::vector<FaultUse> faults;
  std::vector<std::string> expected_rules, tolerated_rules;
  std::vector<DeviceTruth> devices;
  std::vector<int> warm_up_steps;  // indices that are not measured
  WallTime actual, healthy;
  std::vector<std::pair<std::string, WallTime>> without;  // each fault taken away alone
  int64_t peak_allocated_bytes = 0, peak_reserved_bytes = 0, capacity_bytes = 0;
  std::vector<ClockTruth> clocks;          // by rank
  std::vector<StragglerTruth> stragglers;  // by rank
};

/// Runs the simulation again without the faults. Device figures are of the times as `style` writes them.
Truth make_truth(const SimOptions& options, const SimResult& result, const KinetoStyle& style);
TraceTruth trace_truth(const RankTrace& trace, const KinetoStyle& style);
/// `traces` by rank, then window.
Truth make_truth(const SimOptions& options, const std::vector<TraceTruth>& traces);
std::string truth_json(const SimOptions& options, const Truth& truth);

}  // namespace profgpu::sim
