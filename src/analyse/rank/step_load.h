// StepLoad: what a mean measured step processes on one GPU, for figures per token and per sample.
#pragma once

#include <optional>
#include <string>

#include "analyse/rank/facts.h"

namespace profgpu {

struct StepLoad {
  /// Of the mean measured step; of ranks that share a batch, all tokens over their number. None: unknown.
  std::optional<double> tokens, samples;
  std::optional<double> sequence_length;   ///< tokens of a sequence, where they are all alike
  std::string source;                      ///< "--tokens-per-step", "the engine's steps", "the log"; empty: unknown

  static StepLoad compute(const Facts& facts);
};

}  // namespace profgpu
