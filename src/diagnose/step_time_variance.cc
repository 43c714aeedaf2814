#include <fmt/format.h>

#include "base/statistics.h"
#include "diagnose/measure.h"

namespace profgpu {
namespace {

constexpr size_t kFewestCompared = 8;

std::optional<double> step_time_variance_value(const Measured& m) {
  const Steps& steps = m.facts().get<Steps>();
  std::vector<int64_t> durations;
  for (const Step* s : steps.measured()) durations.push_back(s->duration_ns);
  if (!steps.annotated || durations.size() < kFewestCompared) return std::nullopt;
  const double median = percentile(durations, 50).value_or(0);
  if (median <= 0) return std::nullopt;
  return percentile(durations, 95).value_or(0) / median;
}

void say_step_time_variance(const Measured& m, Finding& f) {
  const Step* longest = nullptr;
  std::vector<int64_t> durations;
  for (const Step* s : m.facts().get<Steps>().measured()) {
    durations.push_back(s->duration_ns);
    if (longest == nullptr || s->duration_ns > longest->duration_ns) longest = s;
  }
  const double median = percentile(durations, 50).value_or(0);
  f.what = "some steps take much longer than others";
  f.why = fmt::format("The slow steps (95th percentile) take {:.1f} times the median step of {}.", *f.value,
                      duration_text(median));
  f.fix = {"profgpu analyze … --section steps shows which; look at what those steps do that others do not",
           "usual causes: garbage collection (gc.freeze, gc.disable in the loop), checkpoints, logging, uneven batches"};
  f.evidence.push_back(fmt::format("longest: {} with {}", shortened(longest->name),
                                   duration_text(static_cast<double>(longest->duration_ns))));
}

// A step that hangs is no slow step.
bool settle_variance(const Rule&, const Evidence& evidence, const RankMeasure&, Finding&) {
  return evidence.job == nullptr || first_hang(evidence.job->missing) == nullptr;
}

}  // namespace

extern const Rule kStepTimeVariance;
const Rule kStepTimeVariance = {
    .id = "step-time-variance",
    .summary = "some steps take much longer than others",
    .unit = "ratio",
    .threshold = 1.3,
    .severity = Severity::kInfo,
    .grave = 2,
    .meaning =
        "Steps of one training loop should take about the same time. Long ones point at something that happens now "
        "and then: checkpoints, evaluation, garbage collection, uneven batches, a noisy neighbour.",
    .computation =
        "Value: 95th percentile of the measured steps' durations over their median; from eight steps on. No cost: "
        "what makes single steps long has its own finding where the trace shows it.",
    .advice = {
        "Python's garbage collector: gc.collect() and gc.freeze() after start, gc.disable() in the loop",
        "batches of equal size: bucketing by length, packing, padding to few sizes (also avoids recompilation)",
        "torch.compile recompiles on new shapes: mark_dynamic, or pad",
        "cudnn.benchmark = True tries algorithms again for each new shape",
        "checkpoints and evaluation: less often, or asynchronously (torch.distributed.checkpoint.async_save)",
        "other jobs on the host: cores, disk, network",
    },
    .seen = {Locator::At::kLongestStep, {}},
    .rank = {.value = step_time_variance_value, .say = say_step_time_variance, .host_alone = true},
    .settle = settle_variance,
};

}  // namespace profgpu
