// A simulated PyTorch training job, as a source of traces whose truth is known.
//
// simulate() runs one or more ranks of a transformer's training loop: a main thread (data loading, forward, optimizer), an autograd
// thread, a compute and a communication stream, collectives that end together on all ranks. Faults of the rule table can be planted
// alone or together. make_truth() says what was planted, what a diagnosis must say, and what each step would have taken without
// each fault, from a second run with the same noise. write_kineto() in kineto_text.h makes Kineto's JSON of it.
//
//   SimOptions options;
//   options.faults = {{"data-loading-bound", 1.0}};
//   auto result = simulate(options);
//   std::string json = kineto_text(result->traces[0], {});
//   Truth truth = make_truth(options, *result, {});
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "src/base/result.h"
#include "tests/support/kineto_text.h"
#include "tests/support/sim_fault.h"
#include "tests/support/sim_trace.h"

namespace profgpu::sim {

enum class Strategy : uint8_t { ddp, fsdp };

struct SimOptions {
  Gpu gpu = Gpu::h100;
  int ranks = 1;
  int steps = 10;
  int layers = 12;
  int first_step = 5;  // number of the first ProfilerStep#
  uint64_t seed = 1;
  Strategy strategy = Strategy::ddp;
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
  bool record_rows = true;    // false: only RankTrace::steps is filled
};

/// One trace per rank and window, rank by rank.
struct SimResult {
  std::vector<RankTrace> traces;
};

Result<SimResult> simulate(const SimOptions& options);

struct DeviceTruth {
  int rank, window, device;
  int64_t events;  // rows of traceEvents without flows and metadata
  int64_t span_ns, busy_ns, compute_ns, communication_ns, memory_ns, exposed_communication_ns;
  std::vector<int64_t> step_ns;
};

struct WallTime {
  int64_t measured_ns = 0;      // sum over the measured steps, each as long as on its slowest rank
  int64_t step_median_ns = 0;   // median of the same
};

struct Truth {
  std::vector<FaultUse> faults;
  std::vector<std::string> expected_rules, tolerated_rules;
  std::vector<DeviceTruth> devices;
  std::vector<int> warm_up_steps;  // indices that are not measured
  WallTime actual, healthy;
  std::vector<std::pair<std::string, WallTime>> without;  // each fault taken away alone
  int64_t peak_allocated_bytes = 0, peak_reserved_bytes = 0, capacity_bytes = 0;
};

/// Runs the simulation again without the faults. Device figures are of the times as `style` writes them.
Truth make_truth(const SimOptions& options, const SimResult& result, const KinetoStyle& style);
std::string truth_json(const SimOptions& options, const Truth& truth);

}  // namespace profgpu::sim
