// The FLOPs of the model that the user describes (--model-config), beside the time of the measured steps: MFU also of
// traces without shapes, and a check of what operators' shapes say.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyse/rank/facts.h"
#include "analyse/report/document.h"

namespace profgpu {

struct ModelSection {
  std::string type;                       ///< "llama"
  /// All weights; those that a token's products use. None, as all that follows: the type is not known.
  std::optional<double> parameters, active_parameters;
  bool training = false;                  ///< backward passes were seen: 3 times the forward pass
  /// Of weights: 6 for each active one in training, else 2. The product to the vocabulary only as far as a token is one
  /// whose next one is predicted: an engine predicts one after each prompt.
  std::optional<double> flops_per_token;
  /// More, for attention; none: how long sequences are is not known.
  std::optional<double> attention_flops_per_token;
  std::optional<double> tokens_per_step;  ///< of one GPU
  std::string tokens_source;              ///< StepLoad::source
  std::optional<double> flops_per_step;   ///< of one GPU
  std::string precision;                  ///< whose peak rate MFU is of; empty: unknown
  std::optional<double> tflops;           ///< 10^12 FLOPs a second over the measured steps' wall time
  std::optional<double> mfu_pct;          ///< at least, unless `whole`
  /// Needed FLOPs of products in a measured step, from operators' shapes, without recomputation; none: not known well.
  std::optional<double> op_flops_per_step;
  bool op_flops_is_lower_bound = false;   ///< WorkPerStep::flops_is_lower_bound
  std::optional<double> op_flops_pct;     ///< of flops_per_step
  std::vector<std::string> notes;         ///< what is left out, and what to give for more

  bool whole = false;                     ///< nothing of the model's FLOPs is left out, see notes

  [[nodiscard]] bool mfu_is_lower_bound() const { return !whole; }
  void fields(auto&& v) const {
    v("type", type), v("parameters", parameters), v("active_parameters", active_parameters), v("training", training);
    v("flops_per_token", flops_per_token), v("attention_flops_per_token", attention_flops_per_token);
    v("tokens_per_step", tokens_per_step), v("tokens_source", unless_empty(tokens_source));
    v("flops_per_step", flops_per_step), v("precision", unless_empty(precision)), v("tflops", tflops);
    v("mfu_pct", mfu_pct), v("op_flops_per_step", op_flops_per_step), v("op_flops_pct", op_flops_pct);
    v("mfu_is_lower_bound", only_if(mfu_pct.has_value(), mfu_is_lower_bound()));
    v("op_flops_is_lower_bound", only_if(op_flops_per_step.has_value(), op_flops_is_lower_bound));
    v("notes", notes);
  }
  /// None without a model.
  static std::optional<ModelSection> compute(const Facts& facts);
};

}  // namespace profgpu
