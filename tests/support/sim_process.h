// One simulated process and its device. The host is a clock that calls advance; the device is a set of in-order
// streams. A kernel starts when its launch has reached the device, its stream is free and the events it waits for have
// happened, and all of that is known when it is launched: no event queue is needed. Ranks meet only in collectives,
// which the caller runs for all of them.
#pragma once

#include <array>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/support/noise.h"
#include "tests/support/sim_device.h"
#include "tests/support/sim_fault.h"
#include "tests/support/sim_trace.h"

namespace profgpu::sim {

struct ProcessOptions {
  Gpu gpu = Gpu::h100;
  int rank = 0, world_size = 1, device = 0;
  uint64_t seed = 1;
  bool python_stacks = false, runtime_getters = true, compiled = false, cpu_only = false, sync_rows = false;
  int drop_pct = 0;
  std::string host_name;
  HostClock clock;
  std::vector<Group> groups;
  int64_t peak_bytes = 0, fixed_bytes = 0, reserved_bytes = 0;
};

/// An operator tree as text, parsed once: NAME(children), '*' a kernel launch, '@' an activation kept for the backward
/// pass,
/// '%' one given back, '#' a gradient, '~' scratch taken and given back. A '!' after the name marks the op that
/// autograd numbers,
/// '?' its backward counterpart, '/' the engine's wrapper of it.
struct OpScript {
  struct Step {
    char kind;  // '(' open, ')' close, else as above
    char mark;
    std::string name;
  };
  std::vector<Step> steps;
  explicit OpScript(const char* text);
};

class Process {
 public:
  Process(const ProcessOptions& options, const Plan& plan);

  [[nodiscard]] int64_t now() const { return now_; }
  [[nodiscard]] int rank() const { return options_.rank; }
  void begin_place(uint64_t step, uint64_t place) {
    noise_.reseed(options_.seed, static_cast<uint64_t>(options_.rank), step, place);
  }
  void set_compute_permille(int64_t permille) { compute_permille_ = permille; }
  /// Kernels of larger grids, which take longer in proportion.
  void set_work_permille(int64_t permille) { work_permille_ = permille; }
  /// Inputs of operators are of a batch so much larger.
  void set_batch_permille(int64_t permille) { batch_permille_ = permille; }
  /// Python work before every operator, beyond the plan's.
  void set_late_ns(int64_t ns) { late_ns_ = ns; }
  [[nodiscard]] int64_t late_ns() const { return late_ns_; }
  /// All that host and devices do takes so many millionths of its time.
  void set_pace(int64_t millionths) { pace_ = millionths; }

  // Host.
  void spend(int64_t ns) { now_ += noise_.around(paced(ns), 120); }
  void skip_to(int64_t ns) { now_ = std::max(now_, ns); }
  void switch_to(ThreadSlot thread, int64_t cost_ns);
  void open(const std::string& name, HostKind kind, bool step = false);
  void close();
  void open_python(const std::string& name);
  void close_python();
  void background_range(const char* name, int64_t start_ns, int64_t duration_ns);
  void run(const OpScript& script, const std::vector<Role>& roles, uint32_t sequence = kNone);
  uint32_t next_sequence() { return sequence_++; }

  // Device.
  void launch(Role role, int64_t duration_ns = 0, StreamSlot stream = kComputeStream);
  void copy(const char* name, uint64_t bytes, int gbps, bool blocking, StreamSlot stream = kComputeStream);
  void clear(uint64_t bytes);
  void wait_for(StreamSlot stream);
  void wait_for_device();
  void wait_event(StreamSlot waiter, StreamSlot awaited);
  void load_kernels(int64_t ns) { call(Api::module_load, ns); }
  /// The host waits, with nothing queued that is recorded.
  void wait_unrecorded(int64_t ns);
  void begin_capture() { call(Api::begin_capture, 9000), capturing_ = true; }
  void end_capture() { call(Api::end_capture, 60'000), capturing_ = false; }
  void host_function(StreamSlot stream, int64_t duration_ns);
  void begin_graph();
  void end_graph();
  void item(bool twice);

  /// This rank's part of a collective that has not ended.
  struct Arrival {
    int64_t start_ns = 0, device_row = -1;
    size_t launch = 0;
    StreamSlot stream = kCommStream;
  };
  /// Launches a collective's kernel and says when this rank arrives in it; the end comes from all ranks together. Until
  /// it is known, nothing may be launched into the stream.
  Arrival arrive(Role role, Collective what, StreamSlot stream = kCommStream);
  void complete(const Arrival& arrival, int64_t end_ns);

  // Memory.
  void take(int64_t bytes);  // onto the stack of activations
  void give_back();
  [[nodiscard]] bool holds_activations() const { return !activations_.empty(); }
  void take_gradient(int64_t bytes);
  void drop_gradients();
  void leak(int64_t bytes);
  void empty_cache(int segments, int64_t call_ns);
  void set_sizes(int64_t activation_bytes, int64_t gradient_bytes) {
    activation_bytes_ = activation_bytes;
    gradient_bytes_ = gradient_bytes;
  }

  /// From here on what the device runs is recorded, or not.
  void record_device(bool recorded) { recorded_ = recorded; }
  void begin_step(int number, bool annotate);
  void end_step();
  void discard_rows();
  RankTrace take_trace(int window);

  const Plan& plan;

 private:
  struct Stream {
    int64_t free_ns = 0, wait_ns = 0;
    uint32_t record_correlation = 0;
  };
  struct Open {
    uint32_t row;
    std::array<int32_t, kStreamSlots> spans;
  };
  struct Block {
    uint64_t address;
    int64_t bytes;
  };

  uint32_t name_id(const std::string& name);
  uint32_t call(Api api, int64_t duration_ns, uint32_t detail = kNone);
  void getters(Role role);
  void note_role(Role role);
  void run_device(DeviceKind kind, uint32_t name, int64_t ready_ns, int64_t duration_ns, StreamSlot stream,
                  uint32_t correlation, uint32_t geometry, uint64_t bytes);
  void extend_spans(StreamSlot stream, int64_t start, int64_t end);
  void flush_profiler();
  void throttle();
  uint32_t external_id() const;
  Block allocate(int64_t bytes);
  void release(const Block& block);
  void memory_row(int64_t bytes, uint64_t address);

  ProcessOptions options_;
  Noise noise_;
  RankTrace trace_;
  std::unordered_map<std::string, uint32_t> name_ids_;
  int64_t now_ = 0;
  ThreadSlot thread_ = kMainThread;
  std::vector<Open> open_[kThreadSlots];
  std::vector<uint32_t> python_open_[kThreadSlots];
  std::array<Stream, kStreamSlots> streams_;
  std::vector<int64_t> queue_;  // ends of the last launches, as a ring
  size_t launches_ = 0;
  bool in_graph_ = false, capturing_ = false, recorded_ = true;
  uint32_t graph_correlation_ = 0;
  int64_t graph_ready_ns_ = 0, graph_start_ns_ = 0;
  int64_t compute_permille_ = 1000, work_permille_ = 1000, batch_permille_ = 1000, late_ns_ = 0, pace_ = 1'000'000;
  [[nodiscard]] int64_t paced(int64_t ns) const {
    return pace_ == 1'000'000 ? ns : ns / 1000 * pace_ / 1000 + ns % 1000 * pace_ / 1'000'000;
  }
  int64_t last_start_ns_ = 0, last_device_row_ = -1;
  uint32_t correlation_ = 4001, external_ = 1025, sequence_ = 1180, flow_ = 0, python_id_ = 0;
  std::vector<uint32_t> collective_sequences_;  // by group
  uint32_t pair_sequence_ = 12;
  uint32_t pending_collective_row_ = kNone;
  int64_t allocated_ = 0, reserved_ = 0, activation_bytes_ = 0, gradient_bytes_ = 0;
  int64_t unfit_ = 0;   // reserved later, beside free memory
  uint64_t address_ = 0x7f0e00000000;
  std::vector<Block> activations_, gradients_;
  std::unordered_map<int64_t, std::vector<uint64_t>> spare_;
};

}  // namespace profgpu::sim
