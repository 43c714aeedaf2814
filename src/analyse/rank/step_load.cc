#include "analyse/rank/step_load.h"

#include "analyse/rank/steps.h"

namespace profgpu {
namespace {

// Ranks of one model compute the same tokens together: an engine's own count is of one GPU only if there is one.
bool is_alone(const Trace& trace) { return trace.distributed.world_size.value_or(1) <= 1; }

std::optional<double> tokens_of_engine(const Steps& steps) {
  double tokens = 0;
  bool any = false;
  for (const EngineRange& s : steps.of_engine) {
    if (!s.measured || !is_served(s.batch.kind)) continue;
    if (!s.batch.tokens) return std::nullopt;
    tokens += static_cast<double>(*s.batch.tokens), any = true;
  }
  const size_t measured = steps.measured().size();
  return any && measured > 0 ? std::optional(tokens / static_cast<double>(measured)) : std::nullopt;
}

// Of all measured steps, or none.
std::optional<double> per_step_of_log(const Steps& steps, std::optional<double> LogFigures::*rate) {
  double sum = 0;
  const std::vector<const Step*> measured = steps.measured();
  for (const Step* s : measured) {
    if (!(s->log.*rate)) return std::nullopt;
    sum += *(s->log.*rate) * static_cast<double>(s->duration_ns) / 1e9;
  }
  return measured.empty() ? std::nullopt : std::optional(sum / static_cast<double>(measured.size()));
}

}  // namespace

StepLoad StepLoad::compute(const Facts& facts) {
  StepLoad load;
  const GivenLoad& given = facts.options().load;
  const Steps& steps = facts.get<Steps>();
  load.samples = given.samples;
  load.sequence_length = given.sequence_length;
  if (given.tokens) {
    load.tokens = given.tokens, load.source = "--tokens-per-step";
  } else if (is_alone(facts.trace())) {
    if ((load.tokens = tokens_of_engine(steps))) load.source = "the engine's steps";
  }
  if (!load.tokens && (load.tokens = per_step_of_log(steps, &LogFigures::device_tokens_per_s))) load.source = "the log";
  if (!load.samples && is_alone(facts.trace())) load.samples = per_step_of_log(steps, &LogFigures::samples_per_s);
  return load;
}

}  // namespace profgpu
