// Steps of inference engines, from the names of the engines' own ranges.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace profgpu {

enum class StepKind : uint8_t { kUnknown, kPrefill, kDecode, kMixed, kCapture, kTrain, kEval };
/// Whether the engine computes tokens of requests in it.
constexpr bool is_served(StepKind kind) {
  return kind == StepKind::kPrefill || kind == StepKind::kDecode || kind == StepKind::kMixed;
}
/// "prefill"; empty for kUnknown.
std::string_view step_kind_name(StepKind kind);

/// Figures from the name; none: not in the name.
struct EngineStep {
  StepKind kind = StepKind::kUnknown;
  std::optional<int64_t> sequences;       ///< requests in the batch
  std::optional<int64_t> tokens;          ///< computed by the step, over all sequences
  std::optional<int64_t> context_tokens;  ///< read by attention, over all sequences
  /// Of a query and a key of its sequence: sum of their numbers' products over all sequences (sqsk), and that of the
  /// queries' squares (sqsq), half of which a causal mask hides.
  std::optional<int64_t> pairs = std::nullopt, query_pairs = std::nullopt;
};

/// Reads vLLM's "execute_context_0(0)_generation_32(32)" as its versions spell it and "capture_32_FULL", SGLang's
/// "step[DECODE bs=32]" and "capture_32_DECODE", ATOM's "prefill[bs=2 tok=4096]", TensorRT-LLM's "[Executor]
/// _forward_step 12: 3 ctx reqs, 4 gen reqs", xDiT's "execute_diffusion_1_256x256". A truncated name gives what is
/// left. None: not an engine's name.
std::optional<EngineStep> engine_step(std::string_view name);

}  // namespace profgpu
