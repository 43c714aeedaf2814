// Steps of inference engines, as the engines' own ranges name them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace profgpu {

enum class StepKind : uint8_t { kUnknown, kPrefill, kDecode, kMixed, kCapture, kTrain, kEval };
/// "prefill"; empty for kUnknown.
std::string_view step_kind_name(StepKind kind);

/// What the name says; none: it does not say it.
struct EngineStep {
  StepKind kind = StepKind::kUnknown;
  std::optional<int64_t> sequences;       ///< requests in the batch
  std::optional<int64_t> tokens;          ///< that the step computes, of all sequences
  std::optional<int64_t> context_tokens;  ///< that attention looks at, of all sequences
};

/// Of vLLM's "execute_context_0(0)_generation_32(32)" in the spellings of its versions, SGLang's "step[DECODE bs=32]"
/// and "capture_32_DECODE", ATOM's "prefill[bs=2 tok=4096]", TensorRT-LLM's "[Executor] _forward_step 12: 3 ctx reqs, 4
/// gen reqs", xDiT's "execute_diffusion_1_256x256". A name that is cut short says what is left. None: of no engine.
std::optional<EngineStep> engine_step(std::string_view name);

}  // namespace profgpu
