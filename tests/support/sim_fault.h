// The faults that can be planted. A fault is a name, what it changes in the plan of the run, and what a diagnosis of
// the resulting trace has to say.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/result.h"
#include "tests/support/sim_trace.h"

namespace profgpu::sim {

/// Everything about a run that faults change; the values here are the healthy ones.
struct Plan {
  int64_t loader_ns = 220'000;
  bool loader_in_process = false;
  int64_t slow_loader_ns = 0;  // more, on the slow ranks
  int64_t python_delay_ns = 0;  // before every operator
  int64_t host_function_ns = 0;  // a callback in a stream that compute waits for, per step
  int syncs_per_layer = 0;
  int64_t sync_work_ns = 0;  // what the host does with the value it waited for
  bool overlap = true;
  int64_t communication_ns = 0;  // total transfer time of a step, 0: from the gradients' size
  int64_t bus_permille = 1000;
  // Of the slow ranks (SimOptions::slow_ranks), where a fault says so.
  int64_t slow_permille = 1000;  // their kernels' durations
  int64_t work_permille = 1000;  // their kernels' grids, and so durations
  int64_t clock_permille = 1000; // their devices' clock
  int64_t late_ns = 0;           // Python work before every operator on all ranks of their hosts; of one host: on them
  int64_t link_permille = 1000;  // transfers in groups that they are part of
  int long_every = 0;
  int64_t long_permille = 1000;
  int64_t piece_ns = 0;  // small work in pieces of this length
  int64_t piece_host_ns = 0;
  int64_t pageable_bytes = 0, pinned_bytes = 0;   // 0: of a small batch
  bool full_precision = false;
  int64_t matrix_permille = 1000;
  bool loop_optimizer = false;
  int64_t loop_permille = 1000;
  int churned_segments = 0;
  int64_t churn_call_ns = 0;
  int64_t leak_bytes = 0;  // per step
  int64_t peak_permille = 500;   // of capacity
  int64_t slack_permille = 40;   // reserved over the allocated peak
  int checkpoint_every = 0;
  int64_t checkpoint_ns = 0;
  int64_t custom_ns = 0;  // per layer and pass
  int flush_every_launches = 0;
  int64_t flush_ns = 0;
  int64_t warm_up_ns = 0;
  int64_t load_ns = 0;           // of each step: kernels of a new shape are loaded
  int64_t unrecorded_ns = 0;     // of each step: the host waits for work that is not in the recording
  bool loses_records = false;    // of the kernels in half of the layers' forward pass
  int64_t request_wait_ns = 0;   // of each step: an engine has nothing to do
  bool capture = false;          // steps go into a graph instead of running
  bool write_scores = false;     // attention as product, softmax, product
  int64_t softmax_permille = 1000;
  int64_t chain_ns = 0;          // elementwise kernels one after the other, per layer
  int64_t batch_permille = 1000; // of all ranks' grids, and so durations
  bool decoy_ranges = false;
  int64_t collection_ns = 0;     // of Python's garbage collector, per step
  int64_t layout_ns = 0;         // of a copy to another layout, per layer
  int64_t late_bytes = 0;        // copied on the stream that computes, at the end of the forward pass
  int value_reads = 0;           // at the end of a step, one after the other
  int graph_breaks = 0;          // of the compiled forward pass
  int recompiled_steps = 0;      // steps from the third on that compile the forward pass again
  int64_t compile_ns = 0;        // each of them
  bool odd_sizes = false;        // the shapes of matrix products are no multiples of 8
  int64_t activation_permille = 1000;   // duration of the activation's kernels
  bool decode = false;           // steps are an inference engine's

  [[nodiscard]] bool by_dynamo() const { return graph_breaks > 0 || recompiled_steps > 0; }
};

/// What faults scale themselves by: the healthy run's device time in one step and in one layer's forward pass.
struct Scale {
  int64_t step_ns = 0, layer_ns = 0;
  int ranks = 1, steps = 1, layers = 1;
  int64_t capacity_bytes = 0;
};

struct Fault {
  const char* name;
  const char* summary;
  std::vector<const char*> expected;   // rules that must fire
  std::vector<const char*> tolerated;  // rules that may fire as a consequence
  int min_ranks;
  void (*apply)(Plan&, int64_t permille, const Scale&);
};

const std::vector<Fault>& faults();

struct FaultUse {
  std::string name;
  double severity = 1.0;  // 1: the default size of the effect
};

const Fault* find_fault(const std::string& name);

/// "name" or "name:severity".
Result<FaultUse> parse_fault(const std::string& text);

}  // namespace profgpu::sim
