// What a program is built with, from names in its trace.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "analyse/rank/facts.h"

namespace profgpu {

enum class Framework : uint8_t {
  kEager, kTorchCompile, kGraphBreaks, kCudaGraphs, kVllm, kSglang, kTensorRtLlm, kXdit, kDiffusers, kTransformers,
  kTrainer, kPipeline, kAccelerate, kLightning, kDdp, kFsdp, kFsdp2, kDeepSpeed, kMegatron, kTorchRec, kJax,
  // What a program does already; without names of their own.
  kAllGraphs,          ///< all decode steps of an engine replay graphs
  kLoaderWorkers,      ///< a DataLoader has worker processes
  kPinnedUploads,      ///< copies to the device come from pinned memory, all of them
  kOverlapScheduler,   ///< an engine schedules the next step while one runs
  kFusedOptimizer,
  kHalfReductions,     ///< all-reduces of 16-bit types
  kGenerate,           ///< Transformers' generation loop runs
  kMarkedEngine,       ///< ranges mark prefill or decode steps: an engine, whichever it is
  kJagged,             ///< inputs whose sizes differ from step to step: jagged or nested tensors
  kOldTorch,           ///< PyTorch before 1.10: no torch.compile, no fused optimizers
  kNative,             ///< in a recording of all programs nothing is of Python or a framework: CUDA or HIP by itself
};
constexpr size_t kFrameworks = 32;
/// "vLLM", "CUDA graphs"
std::string_view framework_name(Framework framework);
/// Whether it serves requests: its users change the server's settings, not the model.
constexpr bool is_engine(Framework f) {
  using enum Framework;
  return f == kVllm || f == kSglang || f == kTensorRtLlm || f == kMarkedEngine;
}

/// The package whose file a Python file is: "diffusers"; "Python" of the standard library; empty: the program's own.
std::string_view library_of(std::string_view file);

/// From names of ops, ranges, kernels, modules and Python files.
struct Frameworks {
  std::array<bool, kFrameworks> seen{};
  [[nodiscard]] bool has(Framework framework) const { return seen[static_cast<size_t>(framework)]; }
  /// Whether kernels come from a compiler, or launches from graphs.
  [[nodiscard]] bool compiles() const {
    return has(Framework::kTorchCompile) || has(Framework::kCudaGraphs) || has(Framework::kJax);
  }
  /// Whether requests are served: a server that idles for want of requests is not at fault.
  [[nodiscard]] bool serves() const;
  /// "vLLM", "CUDA graphs"; "eager PyTorch" if neither compiled code nor graphs run.
  [[nodiscard]] std::vector<std::string> names() const;
  static Frameworks compute(const Facts& facts);
};

}  // namespace profgpu
