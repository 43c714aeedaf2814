#include "tests/support/sim_fault.h"

#include <algorithm>
#include <cstdlib>

namespace profgpu::sim {
namespace {

int64_t part(int64_t value, int64_t permille) { return value / 1000 * permille + value % 1000 * permille / 1000; }

std::vector<Fault> make_faults() {
  std::vector<Fault> all;
  all.push_back({"data-loading-bound",
                 "batches are read and decoded in the training process between two steps",
                 {"data-loading-bound"},
                 {"low-gpu-utilization"},
                 1,
                 [](Plan& p, int64_t s, const Scale& c) {
                   p.loader_ns = part(c.step_ns, s * 6 / 10);
                   p.loader_in_process = true;
                 }});
  all.push_back({"host-bound-launches",
                 "Python takes so long between operators that the queue runs dry",
                 {"host-bound-launches"},
                 {"low-gpu-utilization"},
                 1,
                 [](Plan& p, int64_t s, const Scale& c) { p.python_delay_ns = part(c.layer_ns / 5, s); }});
  all.push_back({"device-waits",
                 "compute waits for another stream's event, which waits for a host callback",
                 {"device-waits"},
                 {"low-gpu-utilization"},
                 1,
                 [](Plan& p, int64_t s, const Scale& c) { p.host_function_ns = part(c.step_ns, s * 3 / 10); }});
  all.push_back({"excessive-synchronization",
                 ".item() and Python work on its value several times in every layer",
                 {"excessive-synchronization"},
                 {"low-gpu-utilization"},
                 1,
                 [](Plan& p, int64_t s, const Scale& c) {
                   p.syncs_per_layer = 3;
                   p.sync_work_ns = part(c.layer_ns / 6, s);
                 }});
  all.push_back({"exposed-communication",
                 "gradients are reduced after the backward pass instead of during it",
                 {"exposed-communication"},
                 {},
                 2,
                 [](Plan& p, int64_t s, const Scale& c) {
                   p.overlap = false;
                   p.communication_ns = part(c.step_ns, s * 6 / 10);
                 }});
  all.push_back({"low-bus-bandwidth",
                 "collectives reach a fraction of the links' rate",
                 {"low-bus-bandwidth"},
                 {"exposed-communication"},
                 2,
                 [](Plan& p, int64_t s, const Scale&) {
                   p.bus_permille = std::max<int64_t>(20, 250 * 1000 / std::max<int64_t>(s, 1));
                 }});
  all.push_back({"straggler-rank", "the last rank's device is slower than the others", {"straggler-rank"}, {}, 2,
                 [](Plan& p, int64_t s, const Scale&) { p.slow_permille = 1000 + s * 18 / 100; }});
  all.push_back({"straggler-loading",
                 "the last rank's data loading is slower than the others'",
                 {"straggler-rank"},
                 {"data-loading-bound", "low-gpu-utilization"},
                 2,
                 [](Plan& p, int64_t s, const Scale& c) { p.slow_loader_ns = part(c.step_ns, s * 3 / 10); }});
  all.push_back(
      {"straggler-clocks",
       "the last rank's device runs at a lower clock than the others; kineto-sim writes samples of the clocks",
       {"straggler-rank"},
       {},
       2,
       [](Plan& p, int64_t s, const Scale&) {
         p.slow_permille = 1000 + s * 18 / 100;
         p.clock_permille = 1'000'000 / p.slow_permille;
       }});
  all.push_back({"straggler-work",
                 "the last rank has more to compute than the others: larger grids",
                 {"straggler-rank"},
                 {},
                 2,
                 [](Plan& p, int64_t s, const Scale&) { p.work_permille = 1000 + s * 18 / 100; }});
  all.push_back({"straggler-host",
                 "the last rank's host launches late; of several hosts, all of its ranks do",
                 {"straggler-rank"},
                 {"host-bound-launches", "low-gpu-utilization"},
                 2,
                 [](Plan& p, int64_t s, const Scale& c) { p.late_ns = part(c.layer_ns / 8, s); }});
  all.push_back({"straggler-link",
                 "transfers in groups with the last rank take several times as long",
                 {},
                 {"low-bus-bandwidth", "exposed-communication", "straggler-rank"},
                 2,
                 [](Plan& p, int64_t s, const Scale&) { p.link_permille = 1000 + s * 3; }});
  all.push_back({"step-time-variance",
                 "every fourth batch is much longer than the others",
                 {"step-time-variance"},
                 {},
                 1,
                 [](Plan& p, int64_t s, const Scale&) {
                   p.long_every = 4;
                   p.long_permille = 1000 + s * 9 / 10;
                 }});
  all.push_back({"short-kernels",
                 "normalisation and elementwise work in hundreds of tiny kernels",
                 {"short-kernels"},
                 {"host-bound-launches", "low-gpu-utilization"},
                 1,
                 [](Plan& p, int64_t s, const Scale&) {
                   p.piece_ns = 2'500;
                   p.piece_host_ns = part(22'000, s);
                 }});
  all.push_back({"pageable-copies",
                 "large batches are copied from pageable memory, blocking",
                 {"pageable-copies"},
                 {},
                 1,
                 [](Plan& p, int64_t s, const Scale& c) { p.pageable_bytes = part(c.step_ns, s * 18 / 100) * 6; }});
  all.push_back({"full-precision-gemm",
                 "matrix work in 32-bit floating point without tensor cores",
                 {"full-precision-gemm"},
                 {"dominant-kernel"},
                 1,
                 [](Plan& p, int64_t s, const Scale&) {
                   p.full_precision = true;
                   p.matrix_permille = 1000 + 3 * s;
                 }});
  all.push_back({"unfused-optimizer",
                 "Adam as a loop over parameters",
                 {"unfused-optimizer"},
                 {"short-kernels", "host-bound-launches", "low-gpu-utilization"},
                 1,
                 [](Plan& p, int64_t s, const Scale&) {
                   p.loop_optimizer = true;
                   p.loop_permille = s;
                 }});
  all.push_back({"allocator-churn",
                 "the cache is emptied after every step and filled again",
                 {"allocator-churn"},
                 {"low-gpu-utilization", "excessive-synchronization", "host-bound-launches"},
                 1,
                 [](Plan& p, int64_t s, const Scale& c) {
                   p.churned_segments = 24;
                   p.churn_call_ns = part(c.step_ns / 180, s);
                 }});
  all.push_back({"memory-growth",
                 "something keeps a tensor of every step",
                 {"memory-growth"},
                 {"memory-near-capacity"},
                 1,
                 [](Plan& p, int64_t s, const Scale& c) {
                   p.leak_bytes =
                       part(std::min(c.capacity_bytes / 200, c.capacity_bytes / 4 / std::max(c.steps, 1)), s);
                 }});
  all.push_back({"memory-near-capacity",
                 "activations fill the device's memory",
                 {"memory-near-capacity"},
                 {},
                 1,
                 [](Plan& p, int64_t s, const Scale&) {
                   p.peak_permille = std::min<int64_t>(970, 910 + s * 3 / 100);
                   p.slack_permille = 30;
                 }});
  all.push_back({"memory-fragmentation",
                 "the allocator holds far more than it uses",
                 {"memory-fragmentation"},
                 {},
                 1,
                 [](Plan& p, int64_t s, const Scale&) {
                   p.slack_permille = 650 * s / 1000;
                   p.peak_permille = std::min<int64_t>(500, 850 * 1000 / (1000 + p.slack_permille));
                 }});
  all.push_back({"checkpoint-stall",
                 "a checkpoint is written on the training thread",
                 {"checkpoint-stall"},
                 {"step-time-variance", "low-gpu-utilization"},
                 1,
                 [](Plan& p, int64_t s, const Scale& c) {
                   p.checkpoint_every = 5;
                   p.checkpoint_ns = part(c.step_ns, s * 3 / 2);
                 }});
  all.push_back({"dominant-kernel",
                 "one hand-written kernel takes most of the compute time",
                 {"dominant-kernel"},
                 {},
                 1,
                 [](Plan& p, int64_t s, const Scale& c) {
                   p.custom_ns = part(c.step_ns / std::max(c.layers, 1) / 2, s * 14 / 10);
                 }});
  all.push_back({"profiler-overhead",
                 "CUPTI flushes its buffers and requests new ones all the time",
                 {"profiler-overhead"},
                 {"host-bound-launches", "low-gpu-utilization"},
                 1,
                 [](Plan& p, int64_t s, const Scale& c) {
                   p.flush_every_launches = 40;
                   p.flush_ns = part(c.step_ns / 75, s);
                 }});
  all.push_back({"exposed-copies",
                 "large batches are copied on the stream that computes",
                 {"exposed-copies"},
                 {},
                 1,
                 [](Plan& p, int64_t s, const Scale& c) { p.pinned_bytes = part(c.step_ns, s * 25 / 100) * 25; }});
  all.push_back({"first-use",
                 "every step brings a new shape, for which kernels are loaded",
                 {"first-use"},
                 {"low-gpu-utilization"},
                 1,
                 [](Plan& p, int64_t s, const Scale& c) { p.load_ns = part(c.step_ns, s * 3 / 10); }});
  all.push_back({"untraced-work",
                 "the host waits for a device that was not recorded",
                 {"untraced-work"},
                 {},
                 1,
                 [](Plan& p, int64_t s, const Scale& c) { p.unrecorded_ns = part(c.step_ns, s * 4 / 10); }});
  all.push_back({"lost-records",
                 "the profiler loses the records of half of the forward pass's kernels, one after the other",
                 {"untraced-work"},
                 {},
                 1,
                 [](Plan& p, int64_t, const Scale&) { p.loses_records = true; }});
  all.push_back({"no-requests",
                 "an inference engine waits for requests between its steps; it decodes without graphs",
                 {"eager-inference"},
                 {},
                 1,
                 [](Plan& p, int64_t s, const Scale& c) {
                   p.decode = true;
                   p.request_wait_ns = std::max<int64_t>(part(c.step_ns, 4 * s), 40'000'000);
                 }});
  all.push_back({"graph-capture", "the steps are captured into a graph", {"graph-capture"}, {}, 1,
                 [](Plan& p, int64_t, const Scale&) { p.capture = true; }});
  all.push_back({"unfused-attention",
                 "attention writes its scores out",
                 {"unfused-attention"},
                 {},
                 1,
                 [](Plan& p, int64_t s, const Scale&) {
                   p.write_scores = true;
                   p.softmax_permille = 5 * s;
                 }});
  all.push_back({"fusable-elementwise",
                 "chains of elementwise kernels in every layer",
                 {"fusable-elementwise"},
                 {},
                 1,
                 [](Plan& p, int64_t s, const Scale& c) { p.chain_ns = part(c.layer_ns, s * 3 / 2); }});
  all.push_back({"small-batch",
                 "one sample at a time: grids that do not fill the device",
                 {"small-batch"},
                 {"host-bound-launches", "short-kernels", "low-gpu-utilization"},
                 1,
                 [](Plan& p, int64_t s, const Scale&) {
                   p.batch_permille = std::max<int64_t>(20, 80 * 1000 / std::max<int64_t>(s, 1));
                   p.peak_permille = 200;
                 }});
  all.push_back({"python-gc",
                 "Python collects garbage at the start of every step",
                 {"python-gc"},
                 {"host-bound-launches", "low-gpu-utilization"},
                 1,
                 [](Plan& p, int64_t s, const Scale& c) { p.collection_ns = part(c.step_ns, s * 2 / 10); }});
  all.push_back({"layout-copies",
                 "every layer copies its input to another layout",
                 {"layout-copies"},
                 {},
                 1,
                 [](Plan& p, int64_t s, const Scale& c) { p.layout_ns = part(c.layer_ns, s * 3 / 10); }});
  all.push_back({"late-copy",
                 "targets that are ready are copied on the stream that computes, behind the forward pass",
                 {"late-copy"},
                 {},
                 1,
                 [](Plan& p, int64_t s, const Scale& c) {
                   p.late_bytes = part(c.step_ns, s * 6 / 100) * 25;
                 }});
  all.push_back({"redundant-sync-copies",
                 "the losses are read one by one at the end of every step",
                 {"redundant-sync-copies"},
                 {},
                 1,
                 [](Plan& p, int64_t s, const Scale&) { p.value_reads = static_cast<int>(8 * s / 1000); }});
  all.push_back({"graph-breaks",
                 "the compiled forward pass is in pieces",
                 {"graph-breaks"},
                 {},
                 1,
                 [](Plan& p, int64_t s, const Scale&) {
                   p.graph_breaks = static_cast<int>(std::max<int64_t>(3 * s / 1000, 1));
                 }});
  all.push_back({"recompiles",
                 "the forward pass is compiled again for every new shape",
                 {"recompiles"},
                 {"first-use", "step-time-variance", "host-bound-launches", "low-gpu-utilization"},
                 1,
                 [](Plan& p, int64_t s, const Scale& c) {
                   p.recompiled_steps = 4;
                   p.compile_ns = part(c.step_ns, s * 4 / 10);
                 }});
  all.push_back({"slow-products",
                 "matrix kernels take almost three times as long as they should",
                 {"slow-products"},
                 {},
                 1,
                 [](Plan& p, int64_t s, const Scale&) { p.matrix_permille = 1000 + s * 18 / 10; }});
  all.push_back({"memory-bound",
                 "the activation's kernel reads and writes memory at a fraction of its rate",
                 {"memory-bound"},
                 {},
                 1,
                 [](Plan& p, int64_t s, const Scale&) { p.activation_permille = 1000 + 7 * s; }});
  all.push_back({"misaligned-gemm", "a hidden size that tensor cores do not divide", {"misaligned-gemm"},
                 {"slow-products"}, 1,
                 [](Plan& p, int64_t s, const Scale&) {
                   p.odd_sizes = true;
                   p.matrix_permille = 1000 + s / 2;
                 }});
  all.push_back({"eager-inference",
                 "an inference engine decodes without graphs",
                 {"eager-inference"},
                 {"host-bound-launches", "low-gpu-utilization"},
                 1,
                 [](Plan& p, int64_t, const Scale&) { p.decode = true; }});
  all.push_back({"warm-up",
                 "the first step loads modules and tunes; nothing is wrong after it",
                 {},
                 {"low-gpu-utilization", "host-bound-launches"},
                 1,
                 [](Plan& p, int64_t s, const Scale& c) { p.warm_up_ns = part(c.step_ns, s * 2); }});
  all.push_back({"decoy-ranges",
                 "a background thread prefetches and writes checkpoints; nothing waits for it",
                 {},
                 {},
                 1,
                 [](Plan& p, int64_t, const Scale&) { p.decoy_ranges = true; }});
  for (Fault& f : all) f.tolerated.push_back("low-mfu");   // as a consequence of whatever takes time
  return all;
}

}  // namespace

const std::vector<Fault>& faults() {
  static const std::vector<Fault> all = make_faults();
  return all;
}

const Fault* find_fault(const std::string& name) {
  for (const Fault& f : faults()) {
    if (name == f.name) return &f;
  }
  return nullptr;
}

Result<FaultUse> parse_fault(const std::string& text) {
  FaultUse use;
  const size_t colon = text.find(':');
  use.name = text.substr(0, colon);
  if (find_fault(use.name) == nullptr)
    return Error{"no fault is called '" + use.name + "'", "--list-faults names them"};
  if (colon == std::string::npos) return use;
  char* end = nullptr;
  const std::string number = text.substr(colon + 1);
  use.severity = std::strtod(number.c_str(), &end);
  if (number.empty() || *end != '\0' || !(use.severity > 0) || use.severity > 100)
    return Error{"severity '" + number + "' is not a number above 0 and up to 100"};
  return use;
}

}  // namespace profgpu::sim
