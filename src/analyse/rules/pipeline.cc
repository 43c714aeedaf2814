#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyse/job/parallelism.h"
#include "analyse/rules/log_checks.h"
#include "analyse/rules/measure.h"

namespace profgpu {
namespace {

struct Schedule {
  double stages = 0, micro_batches = 0;
  double chunks = 1;   // of the model on each stage: above 1 they are interleaved
  [[nodiscard]] double bubble() const { return (stages - 1) / (chunks * micro_batches + stages - 1); }
};

// The bubble is then 20 %.
double enough_micro_batches(const Schedule& s) { return std::ceil(4 * (s.stages - 1) / s.chunks); }

std::vector<std::string> schedule_fixes(const Schedule& s) {
  return {
      fmt::format("{:.0f} micro-batches or more per step (smaller micro-batches, or a larger global batch): the bubble "
                  "falls below 20 %",
                  enough_micro_batches(s)),
      s.chunks > 1 ? "fewer stages and more tensor or data parallelism"
                   : "interleaved stages (--num-layers-per-virtual-pipeline-stage), or fewer stages and more tensor or "
                     "data parallelism"};
}

std::optional<Schedule> schedule_of(const LogReport& log) {
  const auto stages = log.setting("pipeline_parallel"), micro = log.setting("micro_batch_size");
  auto data = log.setting("data_parallel");
  const auto world = log.setting("world_size"), tensor = log.setting("tensor_parallel");
  if (!data && stages && world && *stages > 0)
    data = *world / std::max<int64_t>(*stages * tensor.value_or(1) * log.setting("context_parallel").value_or(1), 1);
  auto batch = log.setting("global_batch_size");
  for (const LogRank& r : log.log->ranks)
    if (!r.steps.empty() && r.steps.back().figures.samples) batch = r.steps.back().figures.samples;
  if (!stages || *stages < 2 || !micro || !data || !batch || *micro <= 0 || *data <= 0) return std::nullopt;
  const double of_rank = static_cast<double>(*batch) / static_cast<double>(*micro) / static_cast<double>(*data);
  const auto chunks = static_cast<double>(std::max<int64_t>(log.setting("virtual_pipeline").value_or(1), 1));
  return of_rank >= 1 ? std::optional(Schedule{static_cast<double>(*stages), of_rank, chunks}) : std::nullopt;
}

std::optional<double> logged_bubble_pct(const LogReport& log) {
  const auto schedule = schedule_of(log);
  return schedule && log.has_steps() ? std::optional(100 * schedule->bubble()) : std::nullopt;
}

void describe_logged_bubble(const LogReport& log, Finding& f) {
  const Schedule s = *schedule_of(log);
  f.what = fmt::format("{:.0f} pipeline stages have {:.0f} micro-batch{} per step: each stage idles for {} of the forward and backward passes",
                       s.stages, s.micro_batches, s.micro_batches == 1 ? "" : "es", format_percent(*f.value));
  f.why = fmt::format(
      "A stage waits until the first micro-batch has come down to it, and again at the step's end: {} of the passes, for p "
      "stages and m micro-batches{}.",
      s.chunks > 1 ? "(p − 1) / (v m + p − 1)" : "(p − 1) / (m + p − 1)",
      s.chunks > 1 ? fmt::format(", with v = {:.0f} interleaved parts of the model on each stage", s.chunks) : "");
  f.fix = schedule_fixes(s);
  const double waits_ns = stage_waits_ns(log), step_ns = static_cast<double>(log.throughput.mean_ns.value_or(0));
  if (waits_ns <= 0 || step_ns <= 0) return;
  f.evidence.push_back(fmt::format("the rank that prints waits {} per step for other stages ({})",
                                   format_duration(waits_ns), format_percent(100 * waits_ns / step_ns)));
  // Of the same global batch in more micro-batches: (p − 1) / (v m) of the passes becomes that much shorter.
  const double saved = std::max(0.0, 1 - s.micro_batches / enough_micro_batches(s));
  set_log_cost(f, log, std::min(waits_ns, *f.value / 100 * step_ns) * saved);
}

const Parallelism* pipeline_way(const Job& job) {
  return first_where(job.parallelism, [](const Parallelism& way) { return way.pipeline.has_value(); });
}

// "4 stages and 4 micro-batches", as far as known.
std::string schedule_text(const Pipeline& p) {
  std::string text;
  if (p.stages) text = fmt::format("{} stages", *p.stages);
  if (p.micro_batches && *p.micro_batches > 0)
    append_listed(text, fmt::format("{} {}", format_number(*p.micro_batches),
                                    *p.micro_batches == 1 ? "micro-batch" : "micro-batches"));
  return text;
}

std::vector<std::string> bubble_fixes(const Pipeline& p, const std::optional<UnevenStage>& uneven) {
  std::vector<std::string> fixes;
  if (uneven) fixes.push_back(fmt::format("stage {} computes longest: see straggler-rank", uneven->stage));
  if (p.stages && p.micro_batches && p.avoidable_ns_per_step > 0)
    for (std::string& fix : schedule_fixes({static_cast<double>(*p.stages), *p.micro_batches, 1}))
      fixes.push_back(std::move(fix));
  return fixes;
}

// What more micro-batches would save of the recorded bubble; the rest is waiting for slow stages and for transfers.
std::optional<Finding> check_pipeline_bubble(const Rule& rule, const Evidence& evidence) {
  if (evidence.job == nullptr || evidence.hang() != nullptr) return std::nullopt;
  const Parallelism* way = pipeline_way(*evidence.job);
  const double threshold = evidence.thresholds.of(rule);
  if (way == nullptr || !rule.beyond(way->pipeline->bubble_pct, threshold)) return std::nullopt;
  const Pipeline& p = *way->pipeline;
  Finding f = rule.finding(p.bubble_pct, threshold);
  f.ranks = way->ranks;
  const std::string pct = format_percent(p.bubble_pct, 0), schedule = schedule_text(p);
  f.what = fmt::format("pipeline stages wait for each other {} of each step{}", pct,
                       schedule.empty() ? "" : ": " + schedule);
  f.verdict = fmt::format("Pipeline stages wait for each other {} of each step.", pct);
  f.why = "A stage waits until the first micro-batch has come down to it, and for the last gradients to come back";
  f.why += p.ideal_bubble_pct ? fmt::format(": {} of a step with equal stages and this schedule.",
                                            format_percent(*p.ideal_bubble_pct, 0))
                              : ".";
  f.fix = bubble_fixes(p, evidence.job->uneven_stage);
  for (const Stage& s : p.by_stage)
    f.evidence.push_back(fmt::format("stage {}, {}: computes {} per step, waits {}", s.stage, ranks_text(s.ranks),
                                     format_duration(static_cast<double>(s.compute_ns_per_step)),
                                     format_duration(static_cast<double>(s.bubble_ns_per_step))));
  const RankMeasure* m = evidence.measure(way->ranks.front());
  if (m == nullptr || p.avoidable_ns_per_step <= 0) return f;
  f.seen.rank = m->rank;
  f.steps = m->steps;
  const auto bubble_ns = static_cast<int64_t>(p.bubble_pct / 100 * static_cast<double>(m->wall_ns));
  set_cost(f, m->wall_ns, std::min(p.avoidable_ns_per_step * m->steps, bubble_ns));
  return f;
}

}  // namespace

extern const Rule kPipelineBubble = {
    .id = "pipeline-bubble",
    .summary = "stages of a pipeline wait for each other",
    .unit = "%",
    .threshold = 20,
    .severe = 50,
    .meaning =
        "A pipeline fills and drains in each step. With few micro-batches, that takes most of the step; and all "
        "stages wait for the slowest one.",
    .computation =
        "Value: time in which stages only send, receive and wait for each other, mean over the ranks, as a share of "
        "the step. Cost: what the ideal bubble, (p - 1) / m of the passes for p stages and m micro-batches, would be "
        "shorter by with 4 p micro-batches; none if there are as many. Of a log: (p - 1) / (m + p - 1), by the sizes "
        "that it states; interleaved stages make it smaller. Cost: the part of what the rank that prints waits for other "
        "stages by its timers, at most that share of the step, that 4 (p - 1) micro-batches would save; none without "
        "timers.",
    .advice = {"at least four times as many micro-batches as stages", "interleaved or zero-bubble schedules",
               "stages that compute equally long: embeddings and the loss count as layers",
               "fewer stages where memory allows: more tensor parallelism within a node, sharded optimizer states"},
    .verdict = "The pipeline has too few micro-batches: its stages idle {} of the passes.",
    .job = check_pipeline_bubble,
    .log = {.value = logged_bubble_pct, .describe = describe_logged_bubble},
};

}  // namespace profgpu
