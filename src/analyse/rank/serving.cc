#include "analyse/rank/serving.h"

#include <algorithm>
#include <map>

#include "analyse/rank/devices.h"
#include "analyse/rank/idle.h"
#include "analyse/rank/names.h"
#include "analyse/rank/places.h"
#include "analyse/rank/request_waits.h"
#include "analyse/rank/roofline.h"
#include "analyse/rank/steps.h"
#include "analyse/rank/work.h"
#include "base/statistics.h"
#include "base/text.h"
#include "trace/intervals.h"

namespace profgpu {
namespace {

/// A measured step of the engine.
struct Served {
  const EngineRange* step = nullptr;
  int64_t end_ns = 0;    // of its range, or of the last work that it launched
  Intervals time;        // its duration, see ServingKind
  bool graph = false;
  double flops = 0, bytes = 0;                         // of its kernels, where known
  int64_t kernel_ns = 0, flops_ns = 0, bytes_ns = 0;   // of all of them, and of those
  int64_t uncounted_ns = 0;                            // may_hold_more_flops() of these
};

void add_work(const Facts& facts, ActivityId a, Served& s) {
  if (facts.get<Devices>().kind[a.value] != WorkKind::kCompute) return;
  const int64_t ns = facts.trace().activity.duration_ns[a.value];
  s.kernel_ns += ns;
  if (may_hold_more_flops(facts, a)) s.uncounted_ns += ns;
  const WorkRun* const run = facts.get<DeviceWork>().run(a);
  if (run == nullptr || run->device_ns <= 0) return;
  const double part = static_cast<double>(ns) / static_cast<double>(run->device_ns);
  if (const int64_t flops = run->work->needed_flops(); flops >= 0)
    s.flops_ns += ns, s.flops += part * static_cast<double>(flops);
  if (run->work->bytes >= 0) s.bytes_ns += ns, s.bytes += part * static_cast<double>(run->work->bytes);
}

std::vector<Served> served_steps(const Facts& facts) {
  const Trace& trace = facts.trace();
  std::vector<Served> served;
  for (const EngineRange& s : facts.get<Steps>().of_engine)
    if (s.measured && is_served(s.batch.kind)) served.emplace_back(Served{.step = &s, .end_ns = s.time.end, .time = {}});
  const auto at = [&](int64_t time) -> Served* {
    const auto after = std::ranges::upper_bound(served, time, {}, [](const Served& s) { return s.step->time.start; });
    return after != served.begin() && time < (after - 1)->step->time.end ? &*(after - 1) : nullptr;
  };
  for (uint32_t i = 0; i < trace.activity.size(); ++i) {
    const HostId launch = trace.activity.launch[i];
    if (!launch.valid()) continue;
    Served* const s = at(trace.host.start_ns[launch.value]);
    if (s == nullptr) continue;
    s->end_ns = std::max(s->end_ns, trace.activity.end_ns(ActivityId(i)));
    add_work(facts, ActivityId(i), *s);
    s->graph |= facts.get<Names>().graph_launch[trace.host.name[launch.value].value];
  }
  Intervals untraced;
  for (const DeviceIdle& device : facts.get<Idle>().devices)
    untraced = unite(untraced, device.time_of(IdleCause::kUntracedWork));
  for (Served& s : served) s.time = subtract({{s.step->time.start, s.end_ns}}, untraced);
  return served;
}

// None unless all steps have the figure: a mean over some would be misleading.
std::optional<double> mean_of(const std::vector<const Served*>& steps, std::optional<int64_t> EngineStep::*figure) {
  double sum = 0;
  for (const Served* s : steps) {
    const std::optional<int64_t> value = s->step->batch.*figure;
    if (!value) return std::nullopt;
    sum += static_cast<double>(*value);
  }
  return sum / static_cast<double>(steps.size());
}

// Of a token; none where little is known, or the names of steps do not say how many tokens there are.
void add_work_per_token(const std::vector<const Served*>& steps, ServingKind& kind) {
  if (!kind.tokens || *kind.tokens <= 0) return;
  double flops = 0, bytes = 0;
  int64_t all_ns = 0, flops_ns = 0, bytes_ns = 0, uncounted_ns = 0;
  for (const Served* s : steps) {
    flops += s->flops, bytes += s->bytes;
    all_ns += s->kernel_ns, flops_ns += s->flops_ns, bytes_ns += s->bytes_ns, uncounted_ns += s->uncounted_ns;
  }
  const double tokens = *kind.tokens * static_cast<double>(steps.size());
  const auto known = [&](int64_t ns) { return all_ns > 0 && percent_of(ns, all_ns) >= WorkPerStep::kMinKnownPct; };
  if (known(flops_ns)) kind.flops_per_token = flops / tokens;
  if (known(bytes_ns)) kind.bytes_per_token = bytes / tokens;
  const auto is_more = [&](int64_t ns) { return all_ns > 0 && percent_of(ns, all_ns) > WorkPerStep::kCountedPct; };
  kind.flops_is_lower_bound = is_more(uncounted_ns), kind.bytes_is_lower_bound = is_more(all_ns - bytes_ns);
}

ServingKind kind_of(StepKind kind, const std::vector<const Served*>& steps) {
  std::vector<int64_t> durations;
  int64_t graphs = 0;
  for (const Served* s : steps) durations.push_back(total_length(s->time)), graphs += s->graph;
  const auto count = static_cast<int64_t>(steps.size());
  ServingKind out{kind, count, percentile(durations, 50).value_or(0), percentile(durations, 95).value_or(0),
                  mean_of(steps, &EngineStep::sequences), mean_of(steps, &EngineStep::tokens), {},
                  percent_of(graphs, count), {}, {}, false, false};
  add_work_per_token(steps, out);
  Intervals time;
  for (const Served* s : steps) time.insert(time.end(), s->time.begin(), s->time.end());
  if (const int64_t ns = total_length(merged(std::move(time))); out.tokens && ns > 0)
    out.tokens_per_s = *out.tokens * static_cast<double>(count) * 1e9 / static_cast<double>(ns);
  return out;
}

// A decode step that computes more tokens than it has sequences checks drafts of them.
bool checks_drafts(const Trace& trace, const EngineRange& s) {
  const EngineStep& of = s.batch;
  const bool drafted = of.sequences && of.tokens && *of.tokens > *of.sequences;
  return of.kind == StepKind::kDecode && (drafted || contains(trace.strings[s.name], "VERIFY"));
}

void add_tokens(const std::vector<Served>& steps, Serving& serving) {
  std::vector<int64_t> intervals;
  double tokens = 0;
  bool known = true;
  Intervals time;
  for (size_t i = 0; i < steps.size(); ++i) {
    const EngineRange& s = *steps[i].step;
    known &= s.batch.sequences.has_value();
    tokens += static_cast<double>(s.batch.sequences.value_or(0));
    time.insert(time.end(), steps[i].time.begin(), steps[i].time.end());
    if (i > 0 && s.batch.kind != StepKind::kPrefill) intervals.push_back(s.time.start - steps[i - 1].step->time.start);
  }
  serving.token_interval_ns = percentile(intervals, 50);
  const int64_t ns = total_length(merged(std::move(time)));
  if (known && ns > 0) serving.tokens_per_s = tokens * 1e9 / static_cast<double>(ns);
}

void add_between(const Facts& facts, const std::vector<Served>& steps, Serving& serving) {
  Intervals ranges;   // with the work that they launched
  for (const Served& s : steps) ranges.push_back({s.step->time.start, s.end_ns});
  ranges = merged(std::move(ranges));
  const Interval all{ranges.front().start, ranges.back().end};
  Places places(facts);
  const RequestWaits& waits = facts.get<RequestWaits>();
  const ThreadId thread = facts.trace().host.thread[steps.front().step->range.value];
  for (const Interval& part : subtract({all}, ranges)) {
    serving.between_ns += part.length();
    places.add_host_time(thread, part);
    if (waits.explain(thread.value, part)) serving.no_requests_ns += waits.length(thread.value, part);
  }
  serving.between_pct = percent_of(serving.between_ns, all.length());
  serving.between = places.most_expensive();
}

}  // namespace

std::optional<Serving> Serving::compute(const Facts& facts) {
  const std::vector<Served> steps = served_steps(facts);
  if (steps.empty()) return std::nullopt;
  std::map<StepKind, std::vector<const Served*>> by_kind;
  for (const Served& s : steps) by_kind[s.step->batch.kind].push_back(&s);
  Serving serving;
  for (const auto& [kind, of_kind] : by_kind) serving.kinds.push_back(kind_of(kind, of_kind));
  serving.speculative =
      std::ranges::any_of(steps, [&](const Served& s) { return checks_drafts(facts.trace(), *s.step); });
  add_tokens(steps, serving);
  add_between(facts, steps, serving);
  return serving;
}

}  // namespace profgpu
