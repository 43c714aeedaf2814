#include "analyse/rank/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "analyse/rank/devices.h"
#include "analyse/rank/kernels.h"
#include "analyse/rank/phases.h"
#include "analyse/rank/recorder_advice.h"
#include "analyse/rank/roofline.h"
#include "analyse/rank/step_load.h"
#include "analyse/rank/steps.h"
#include "analyse/rank/work_per_step.h"
#include "analyse/report/quantity.h"
#include "base/text.h"

namespace profgpu {
namespace {

constexpr double kBackwardPasses = 2;  // of the forward pass: gradients of inputs and of weights
constexpr double kAgreePct = 10;       // shapes and model count the same work

// The precision that most time of products has, by their work or their kernels' names.
Precision precision_of_products(const Facts& facts) {
  const Trace& trace = facts.trace();
  const DeviceWork& work = facts.get<DeviceWork>();
  const std::vector<KernelCategory>& category = facts.get<Kernels>().category;
  std::vector<std::optional<Precision>> named(trace.strings.size());
  std::array<int64_t, kPrecisions> ns{};
  for (uint32_t i = 0; i < trace.activity.size(); ++i) {
    const uint32_t name = trace.activity.name[i].value;
    const WorkRun* const run = work.run(ActivityId(i));
    if (run != nullptr && run->work->flops >= 0) {
      if (run->work->flops > 0) ns[static_cast<size_t>(run->work->precision)] += trace.activity.duration_ns[i];
    } else if (trace.activity.kind[i] == ActivityKind::kKernel && category[name] == KernelCategory::kGemm) {
      if (!named[name]) named[name] = precision_in_kernel_name(trace.strings[trace.activity.name[i]]);
      ns[static_cast<size_t>(*named[name])] += trace.activity.duration_ns[i];
    }
  }
  ns[static_cast<size_t>(Precision::kUnknown)] = 0;
  const auto most = std::ranges::max_element(ns);
  return *most > 0 ? static_cast<Precision>(most - ns.begin()) : Precision::kUnknown;
}

// Keys that a token attends to on average, in layers with windows of them as well; none: unknown.
struct TokenKeys {
  std::optional<double> all, windowed;
};

TokenKeys keys_per_token(const Facts& facts, const ModelConfig& model, const StepLoad& load) {
  if (const auto length = load.sequence_length) return {model.keys_of(*length), model.windowed_keys_of(*length)};
  double pairs = 0, tokens = 0;
  bool within = true;   // no sequence is longer than a window
  for (const EngineRange& s : facts.get<Steps>().of_engine) {
    if (!s.measured || !is_served(s.batch.kind)) continue;
    if (!s.batch.pairs || !s.batch.tokens) return {};
    // Half of what a prompt's own tokens make is behind the mask.
    pairs += static_cast<double>(*s.batch.pairs) -
             static_cast<double>(std::max<int64_t>(s.batch.query_pairs.value_or(0) - *s.batch.tokens, 0)) / 2;
    tokens += static_cast<double>(*s.batch.tokens);
    within &= s.batch.context_tokens.value_or(INT64_MAX) <= model.window;
  }
  if (tokens == 0) return {};
  return {pairs / tokens, only_if(within || model.windowed_layers == 0, pairs / tokens)};
}

// Of the tokens, those that the product to the vocabulary is for. Engines predict one token after each prompt, and one
// after each that they generate; other programs may do either. None: unknown.
std::optional<double> predicting_part(const Facts& facts, const ModelConfig& model, const StepLoad& load, bool training) {
  if (training || !model.causal || model.head_weights() == 0 || load.sequence_length == 1) return 1;
  double predicting = 0, tokens = 0;
  for (const EngineRange& s : facts.get<Steps>().of_engine) {
    if (!s.measured || !is_served(s.batch.kind)) continue;
    const std::optional<int64_t> of_step = s.batch.kind == StepKind::kDecode ? s.batch.tokens : s.batch.sequences;
    if (!of_step || !s.batch.tokens) return std::nullopt;
    predicting += static_cast<double>(*of_step), tokens += static_cast<double>(*s.batch.tokens);
  }
  return tokens > 0 ? std::optional(std::min(predicting / tokens, 1.0)) : std::nullopt;
}

// And what of them is left out.
void set_flops_per_token(const Facts& facts, const ModelConfig& model, const StepLoad& load, ModelSection& m) {
  const double passes = m.training ? 1 + kBackwardPasses : 1;
  const std::optional<double> predicting = predicting_part(facts, model, load, m.training);
  m.flops_per_token =
      passes * (model.flops_of_weights() - 2 * model.head_weights() * (1 - predicting.value_or(0)));
  m.whole = predicting.has_value();
  if (!predicting) m.notes.emplace_back("the GEMM to the vocabulary is left out: for which tokens it ran is not known");
  const TokenKeys keys = keys_per_token(facts, model, load);
  if (model.attention_layers == 0) {
    m.attention_flops_per_token = 0;
  } else if (keys.all) {
    m.attention_flops_per_token = passes * model.flops_of_attention(*keys.all, keys.windowed.value_or(0));
  } else {
    m.whole = false;
    m.notes.emplace_back("attention is left out: give the length of sequences, --tokens-per-step SEQUENCESxLENGTH");
  }
  if (model.windowed_layers > 0 && keys.all && !keys.windowed) {
    m.whole = false;
    m.notes.push_back(fmt::format("attention is left out of {} of {} layers, which have windows of {} tokens: how long "
                                  "each sequence is, is not known",
                                  model.windowed_layers, model.attention_layers, format_count(model.window)));
  }
}

void compare_with_ops(const Facts& facts, ModelSection& m) {
  m.op_flops_per_step = facts.get<WorkPerStep>().model_flops;
  m.op_flops_is_lower_bound = facts.get<WorkPerStep>().flops_is_lower_bound;
  if (!m.op_flops_per_step || !m.flops_per_step || *m.flops_per_step <= 0) return;
  m.op_flops_pct = 100 * *m.op_flops_per_step / *m.flops_per_step;
  const bool fewer_counted = m.op_flops_is_lower_bound && *m.op_flops_pct < 100;
  if (!fewer_counted && std::abs(*m.op_flops_pct - 100) > kAgreePct)
    m.notes.push_back(fmt::format(
        "operators' shapes have {} of the model's FLOPs: check the tokens of a step for each GPU{}",
        format_percent(*m.op_flops_pct, 0), m.training ? ", and whether all weights are trained" : ""));
}

void add_rate(const Facts& facts, const ModelConfig& model, int64_t steps, ModelSection& m) {
  const int64_t wall_ns = total_length(facts.get<Steps>().measured_time());
  if (!m.flops_per_step || wall_ns <= 0) return;
  const double per_ns = *m.flops_per_step * static_cast<double>(steps) / static_cast<double>(wall_ns);
  Precision precision = precision_of_products(facts);
  if (precision == Precision::kUnknown) precision = model.precision;
  m.precision = precision_name(precision);
  const Limits& limits = facts.get<Limits>();
  const double peak = limits.device ? limits.device->operations_per_ns(precision) : 0;
  if (peak > 0 && per_ns > peak) {
    m.notes.push_back(fmt::format("that would be {} times the device's peak rate: the config or the tokens of a step do "
                                  "not fit this trace",
                                  format_number(per_ns / peak)));
    return;
  }
  m.tflops = per_ns / 1e3;
  if (peak > 0) m.mfu_pct = 100 * per_ns / peak;
  else if (!limits.device) m.notes.push_back(limits.why_with_advice());
  else m.notes.push_back("the device's peak rate is not known for this precision");
}

}  // namespace

std::optional<ModelSection> ModelSection::compute(const Facts& facts) {
  if (!facts.options().model) return std::nullopt;
  const ModelConfig& model = *facts.options().model;
  const StepLoad& load = facts.get<StepLoad>();
  const auto steps = static_cast<int64_t>(facts.get<Steps>().measured().size());
  ModelSection m;
  m.type = model.type;
  m.training = facts.get<Phases>().backward_passes > 0;
  if (!model.unknown.empty()) {
    const std::string_view advice = recorder_advice(facts.trace().recorder).shapes;
    m.notes.push_back(model.unknown + (facts.get<OpWorks>().shapes ? "" : "; for MFU, " + std::string(advice)));
    return m;
  }
  m.parameters = model.parameters(), m.active_parameters = model.active_weights();
  set_flops_per_token(facts, model, load, m);
  if (model.attention_layers < model.layers)
    m.notes.emplace_back("what scans compute between their GEMMs is left out");
  if (model.has_more) m.notes.emplace_back("only the language model counts, and not what else the config describes");
  m.whole &= model.attention_layers == model.layers && !model.has_more;
  m.tokens_per_step = load.tokens, m.tokens_source = load.source;
  if (load.tokens) m.flops_per_step = *load.tokens * (*m.flops_per_token + m.attention_flops_per_token.value_or(0));
  else
    m.notes.emplace_back("the tokens of a step are not known: --tokens-per-step N, all GPUs' tokens over their number");
  add_rate(facts, model, steps, m);
  compare_with_ops(facts, m);
  return m;
}

}  // namespace profgpu
