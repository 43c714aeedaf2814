// What a name means: every list of names that analyses recognise is in names.cc, and each distinct string of a trace
// is classified once.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "analyse/rank/facts.h"

namespace profgpu {

enum class Phase : uint8_t { kDataLoading, kForward, kBackward, kOptimizer, kCommunication, kCheckpoint, kOther };
constexpr int kPhases = 7;
/// From kPhases on: phases that the program names itself, see Phases::own.
constexpr int kMostPhases = kPhases + 9;
constexpr Phase own_phase(size_t place) { return static_cast<Phase>(kPhases + place); }
/// Of one of the seven.
std::string_view phase_name(Phase phase);
/// None: it is none of the seven.
std::optional<Phase> phase_called(std::string_view name);
/// "data loading"; a name of the program's stays as it is.
std::string phase_words(std::string_view name);

/// The phase that a range of this name marks; kOther if the name is none of output.md's. Ignores case, spaces, # and _.
Phase phase_of_range(std::string_view name);
/// Whether a program's own range of this name may be a phase: no framework gives such names.
bool may_be_own_phase(std::string_view name);

/// Kernel name of a communication library (output.md's list, any case).
bool is_communication_kernel(std::string_view name);

enum class CallKind : uint8_t {
  kOther,
  kLaunch,       ///< kernel, graph, copy, set
  kSynchronize,  ///< device, stream, event synchronise, and blocking copies (cudaMemcpy): the host may wait here
  kMemory,       ///< cudaMalloc, cudaFree, hipMalloc and kin
};
CallKind call_kind(std::string_view name);
/// autograd::engine::evaluate_function..., *Backward0: runs in the backward pass.
bool is_autograd_op(std::string_view name);

/// Class of every string of the trace, by StringId.
struct Names {
  std::vector<Phase> phase;
  std::vector<CallKind> call;
  std::vector<bool> communication;
  std::vector<bool> autograd;
  static Names compute(const Facts& facts);
};

}  // namespace profgpu
