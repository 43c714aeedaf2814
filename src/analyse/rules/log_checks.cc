#include "analyse/rules/log_checks.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyse/report/quantity.h"
#include "analyse/rules/measure.h"

namespace profgpu {
namespace {

int64_t stalled_ns(const LogReport& log, std::string_view kind) {
  int64_t sum = 0;
  for (const LogStall& s : log.stalls)
    if (s.kind == kind) sum += s.duration_ns.value_or(0);
  return sum;
}

double all_ns(const LogReport& log) {
  int64_t between = 0;
  for (const LogStall& s : log.stalls)
    if (s.kind != "slow_step") between += s.duration_ns.value_or(0);
  return static_cast<double>(log.wall.wall_ns.value_or(log.wall.in_steps_ns + between));
}

bool reduces(std::string_view timer) {
  for (const std::string_view part : {"all-reduce", "reduce-scatter", "all-gather", "grads-sync", "allreduce",
                                      "reduce-model-grads", "gather-model-params"})
    if (timer.find(part) != timer.npos) return true;
  return false;
}

// Joins the first and the last stage of a pipeline: each waits in it until the other has come so far.
bool waits_for_stage(const LogReport& log, std::string_view timer) {
  return timer.find("embedding") != timer.npos && log.setting("pipeline_parallel").value_or(1) > 1;
}

// Of timers that make up the step's time.
double reduction_ns(const LogReport& log) {
  double sum = 0, sync = 0;
  for (const LogTimerRow& t : log.timers) {
    if (!reduces(t.name) || t.name.ends_with("microstep") || (t.phase.empty() && !t.name.ends_with("allreduce")))
      continue;
    if (waits_for_stage(log, t.name)) continue;
    (t.name == "all-grads-sync" ? sync : sum) += static_cast<double>(t.mean_ns);
  }
  return std::max(sum, sync);  // the one is around the others
}

void describe_deepspeed_reductions(const LogReport& log, Finding& f) {
  const std::string overlaps = log.setting_text("overlap_comm");
  if (overlaps == "false")
    f.fix.emplace_back(
        "\"zero_optimization\": {\"overlap_comm\": true}: gradients are reduced while the backward pass "
        "goes on");
  const auto bucket = log.setting("reduce_bucket_size");
  constexpr int64_t kUsualBucket = 500'000'000;  // DeepSpeed's default, elements
  if (bucket && *bucket < kUsualBucket / 5)
    f.fix.push_back(
        fmt::format("\"reduce_bucket_size\": 5e8 instead of {:.3g}: fewer, larger reductions (it takes memory "
                    "of twice the bucket)",
                    static_cast<double>(*bucket)));
  if (log.setting("zero_stage") == 3)
    f.fix.emplace_back("ZeRO stage 2 if the model fits: stage 3 also gathers the parameters twice per step");
  if (log.setting("gradient_accumulation").value_or(2) == 1)
    f.fix.emplace_back("\"gradient_accumulation_steps\": more micro-batches for each reduction");
}

}  // namespace

double stage_waits_ns(const LogReport& log) {
  double sum = 0;
  for (const LogTimerRow& t : log.timers)
    if (t.name.ends_with("-recv") || waits_for_stage(log, t.name)) sum += static_cast<double>(t.mean_ns);
  return sum;
}

void set_log_cost(Finding& f, const LogReport& log, double iteration_ns) {
  const LogThroughput& t = log.throughput;
  const auto lines = static_cast<double>(t.lines - t.warmup_lines);
  if (!t.mean_ns || lines <= 0 || iteration_ns <= 0) return;
  f.steps = t.lines - t.warmup_lines;
  set_cost(f, whole_ns(lines * static_cast<double>(*t.mean_ns)), whole_ns(lines * iteration_ns));
}

std::optional<double> checkpoint_pct(const LogReport& log) {
  const double all = all_ns(log);
  if (!log.has_steps() || all <= 0) return std::nullopt;
  return 100 * static_cast<double>(stalled_ns(log, "checkpoint")) / all;
}

void describe_checkpoints(const LogReport& log, Finding& f) {
  const int64_t sum = stalled_ns(log, "checkpoint");
  const auto count =
      std::ranges::count_if(log.stalls, [](const LogStall& s) { return s.kind == "checkpoint" && s.duration_ns; });
  f.what = "training stops while checkpoints are written";
  f.why = fmt::format("{} took {} in all, {} of the time.",
                      count == 1 ? "One checkpoint" : fmt::format("{} checkpoints", count),
                      format_duration(static_cast<double>(sum)), format_percent(*f.value));
  f.fix = {
      "write them in the background: torch.distributed.checkpoint.async_save, Megatron --async-save, torchtitan "
      "--checkpoint.async_mode async",
      "save less often, or to local disks and copy later"};
  const LogStall* longest = nullptr;
  for (const LogStall& s : log.stalls)
    if (s.kind == "checkpoint" && s.duration_ns && (longest == nullptr || *s.duration_ns > *longest->duration_ns))
      longest = &s;
  if (longest != nullptr)
    f.evidence.push_back(fmt::format("the longest: {} (line {})",
                                     format_duration(static_cast<double>(*longest->duration_ns)), longest->line));
  // Of the whole time: they lie between the steps.
  f.steps = log.throughput.iterations;
  set_cost(f, whole_ns(all_ns(log)), sum);
}

std::optional<double> loading_pct(const LogReport& log) {
  return only_if(!log.breakdown.empty(), log.phase_pct(LogPhase::kDataLoading));
}

void describe_loading(const LogReport& log, Finding& f) {
  f.what = fmt::format("fetching batches takes {} of the step, by the program's own timer", format_percent(*f.value));
  f.why = "The step waits for its batch; the model is not the bottleneck.";
  f.fix = {"more loader workers: num_workers (Megatron --num-workers, TrainingArguments(dataloader_num_workers=…))",
           "pre-process and shard the data set; keep it on local disks"};
  set_log_cost(f, log, *f.value / 100 * static_cast<double>(log.throughput.mean_ns.value_or(0)));
}

std::optional<double> reduction_pct(const LogReport& log) {
  const double step = static_cast<double>(log.throughput.mean_ns.value_or(0));
  return only_if(step > 0 && !log.timers.empty(), 100 * reduction_ns(log) / step);
}

void describe_reductions(const LogReport& log, Finding& f) {
  f.what = fmt::format("the step waits for collectives {} of its time", format_percent(*f.value));
  f.why =
      "By the program's own timers, which end when the collective has; waiting for ranks that come later is in them.";
  const bool deepspeed = std::ranges::count(log.families, "deepspeed") > 0;
  if (deepspeed) describe_deepspeed_reductions(log, f);
  if (std::ranges::count(log.families, "megatron") > 0 && !deepspeed)
    f.fix = {"--overlap-grad-reduce --overlap-param-gather with --use-distributed-optimizer"};
  f.fix.emplace_back("more work between two reductions: a larger micro-batch, or more micro-batches per step");
  f.fix.emplace_back("measure the links: nccl-tests on the same nodes, and give its output to analyze as well");
  for (const LogTimerRow& t : log.timers)
    if (reduces(t.name) && f.evidence.size() < 3)
      f.evidence.push_back(fmt::format("{}: {} per step", t.name, format_duration(static_cast<double>(t.mean_ns))));
}

}  // namespace profgpu
