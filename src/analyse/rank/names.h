// What names mean. All lists of recognized names are in names.cc, and each distinct string of a trace is classified
// once.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "analyse/rank/facts.h"

namespace profgpu {

enum class Phase : uint8_t { kDataLoading, kForward, kBackward, kOptimizer, kCommunication, kCheckpoint, kOther };
constexpr int kPhases = 7;
/// Values from kPhases on are phases with names of the program's own, see Phases::own.
constexpr int kMaxPhases = kPhases + 9;
constexpr Phase own_phase(size_t index) { return static_cast<Phase>(kPhases + index); }
/// Only for the seven.
std::string_view phase_name(Phase phase);
/// None: not one of the seven.
std::optional<Phase> phase_called(std::string_view name);
/// "data_loading" to "data loading"; a program's own name is unchanged.
std::string phase_words(std::string_view name);

/// The phase that a range of this name marks; kOther: none. Ignores case, spaces, # and _.
Phase phase_of_range(std::string_view name);
/// The same of a Python frame, "FILE(LINE): FUNCTION": a few functions of libraries that only do one thing.
Phase phase_of_frame(std::string_view name);
/// Whether a program's own range of this name may be a phase: no framework uses such a name.
bool may_be_own_phase(std::string_view name);

/// Whether an overhead row is the profiler's own work; CUDA's is not: loading modules, compiling, a full queue.
bool is_profiler_overhead(std::string_view name);
/// A launch that waited until the device had room in its queue.
constexpr std::string_view kFullQueue = "Command Buffer Full";
/// Whether a communication library has such kernels; ignores case.
bool is_communication_kernel(std::string_view name);

enum class CallKind : uint8_t {
  kOther,
  kLaunch,       ///< kernel, graph, copy, set
  kSynchronize,  ///< device, stream and event synchronization, and blocking copies (cudaMemcpy): the host may wait
  kMemory,       ///< cudaMalloc, cudaFree, hipMalloc and kin
};
CallKind call_kind(std::string_view name);
/// Whether it runs in the backward pass: autograd::engine::evaluate_function..., *Backward0.
bool is_autograd_op(std::string_view name);

/// Classes of the trace's strings, by StringId. Strings that name nothing have none.
struct Names {
  std::vector<bool> on_host, on_device;   ///< names a host range, an activity
  std::vector<Phase> phase;
  std::vector<Phase> frame_phase;         ///< of Python frames
  std::vector<CallKind> call;
  std::vector<bool> communication;
  std::vector<bool> autograd;
  std::vector<bool> graph_launch;         ///< a call that replays a graph
  std::vector<bool> host_function;        ///< a call that queues a function for the host
  /// Launches of work on a device were recorded.
  [[nodiscard]] bool launches() const;
  static Names compute(const Facts& facts);
};

}  // namespace profgpu
