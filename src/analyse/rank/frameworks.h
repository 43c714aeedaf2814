// What a program is built with, as names in its trace tell.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "analyse/rank/facts.h"

namespace profgpu {

enum class Framework : uint8_t {
  kEager, kTorchCompile, kCudaGraphs, kVllm, kSglang, kTensorRtLlm, kXdit, kDiffusers, kTransformers, kTrainer,
  kAccelerate, kLightning, kDdp, kFsdp, kDeepSpeed, kMegatron, kTorchRec, kJax,
};
constexpr size_t kFrameworks = 18;
/// "vLLM", "CUDA graphs"
std::string_view framework_name(Framework framework);
/// Whether it serves requests: its users change settings of the server, not the model.
constexpr bool is_engine(Framework f) {
  return f == Framework::kVllm || f == Framework::kSglang || f == Framework::kTensorRtLlm;
}

/// By names of ops, ranges, kernels, modules and Python files.
struct Frameworks {
  std::array<bool, kFrameworks> seen{};
  [[nodiscard]] bool has(Framework framework) const { return seen[static_cast<size_t>(framework)]; }
  /// Whether requests are served: idle because nobody asks is no fault of a server.
  [[nodiscard]] bool serves() const;
  /// "vLLM", "CUDA graphs"; "eager PyTorch" where neither compiled code nor graphs run
  [[nodiscard]] std::vector<std::string> names() const;
  static Frameworks compute(const Facts& facts);
};

}  // namespace profgpu
