#include "analyse/rank/serving.h"

#include <algorithm>
#include <map>

#include "analyse/rank/idle.h"
#include "analyse/rank/names.h"
#include "analyse/rank/places.h"
#include "analyse/rank/request_waits.h"
#include "analyse/rank/steps.h"
#include "base/statistics.h"
#include "trace/intervals.h"

namespace profgpu {
namespace {

/// A measured step of the engine.
struct Served {
  const EngineRange* step = nullptr;
  int64_t end_ns = 0;    // of its range, or of the last work that it launched
  Intervals time;        // its duration, see ServingKind
  bool graph = false;
};

std::vector<Served> served_steps(const Facts& facts) {
  const Trace& trace = facts.trace();
  std::vector<Served> served;
  for (const EngineRange& s : facts.get<Steps>().of_engine)
    if (s.measured && is_served(s.batch.kind)) served.push_back({&s, s.time.end, {}, false});
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
    s->graph |= facts.get<Names>().graph_launch[trace.host.name[launch.value].value];
  }
  Intervals untraced;
  for (const DeviceIdle& device : facts.get<Idle>().devices)
    device.each([&](const Gap& gap) {
      if (gap.cause == IdleCause::kUntracedWork) untraced.push_back(gap.time());
    });
  untraced = merged(std::move(untraced));
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

ServingKind kind_of(StepKind kind, const std::vector<const Served*>& steps) {
  std::vector<int64_t> durations;
  int64_t graphs = 0;
  for (const Served* s : steps) durations.push_back(total_length(s->time)), graphs += s->graph;
  const auto count = static_cast<int64_t>(steps.size());
  ServingKind out{kind, count, percentile(durations, 50).value_or(0), percentile(durations, 95).value_or(0),
                  mean_of(steps, &EngineStep::sequences), mean_of(steps, &EngineStep::tokens), {},
                  percent_of(graphs, count)};
  Intervals time;
  for (const Served* s : steps) time.insert(time.end(), s->time.begin(), s->time.end());
  if (const int64_t ns = total_length(merged(std::move(time))); out.tokens && ns > 0)
    out.tokens_per_s = *out.tokens * static_cast<double>(count) * 1e9 / static_cast<double>(ns);
  return out;
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
  add_tokens(steps, serving);
  add_between(facts, steps, serving);
  return serving;
}

}  // namespace profgpu
