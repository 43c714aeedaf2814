#include <fmt/format.h>

#include <span>

#include "analyse/rank/names.h"
#include "analyse/rank/places.h"
#include "analyse/rank/recorder_advice.h"
#include "analyse/rank/request_waits.h"
#include "analyse/rules/host_work.h"
#include "analyse/rules/measure.h"
#include "analyse/rules/step_trend.h"
#include "trace/health.h"

namespace profgpu {
namespace {

// Without a trace: the driver's figure, else what the chip's counters say.
std::optional<double> low_gpu_utilization_samples(const DeviceTelemetry& d) { return d.busy_pct(); }

void describe_low_gpu_utilization_samples(const DeviceTelemetry& d, Finding& f) {
  f.what = fmt::format("{} is busy {} of the time", d.label(), format_percent(*f.value));
  if (d.idle_gaps.regular)
    f.why = fmt::format("It idles in regular gaps of {}, one every {}: probably data loading or checkpoints.",
                        format_duration(d.idle_gaps.mean_ns), format_duration(d.idle_gaps.period_ns));
  else if (d.idle_pct.value_or(0) > 10)
    f.why = fmt::format("It idles (under 5 % busy) for {} of the time.", format_percent(*d.idle_pct));
  else
    f.why = "It is never idle for long: small kernels with gaps between them, or waits within each step.";
  f.fix = {"record a trace to see why: profgpu run --trace -o rec -- COMMAND, then profgpu analyze rec"};
}

void describe_low_gpu_utilization(const Measured& m, Finding& f) {
  const bool all = *f.value - m.utilization_pct() < 0.05;
  const bool asked = m.idle_pct(IdleCause::kNoRequests) <= m.idle_pct(IdleCause::kUntracedWork);
  f.what = fmt::format("{} is busy {} of the {}", m.device_label(), format_percent(*f.value),
                       all ? "time" : asked ? "recorded time" : "time with requests");
  f.why = fmt::format("Most of the idle time is {} ({} of the time).", largest_idle_words(m),
                      format_percent(m.idle_pct(m.largest_idle_cause())));
  f.fix = {"see the idle time by cause: --section idle"};
  f.where = m.places_in_gaps(m.largest_idle_cause());
}

constexpr double kMinHeldBytes = 256.0 * (1 << 20);   // about the size of a bare CUDA context

std::optional<Advice> idle_now(const Rule&, const DeviceNow& d) {
  const double held = d.largest ? static_cast<double>(d.largest->memory_bytes.value_or(0)) : 0;
  if (!d.busy_pct || *d.busy_pct >= kIdlePct.reported || held < kMinHeldBytes) return std::nullopt;
  return Advice{kIdlePct.severity,
                fmt::format("idle for the last minute, while process {}{} holds {}", d.largest->pid,
                            d.user.empty() ? "" : " of " + d.user, format_bytes(held)),
                fmt::format("`py-spy dump --pid {}` shows a Python program's stack; k ends it", d.largest->pid)};
}

constexpr size_t kMinCompared = 8;

// Measured steps of the kind of which there are most: a prefill is no slow decode, an evaluation no slow step.
std::vector<const Step*> compared_steps(const Measured& m) {
  std::vector<const Step*> steps = m.facts().get<Steps>().measured();
  std::map<StepKind, int64_t> count;
  for (const Step* s : steps) ++count[s->batch.kind];
  if (count.size() < 2) return steps;
  const StepKind most = std::ranges::max_element(count, {}, [](const auto& kind) { return kind.second; })->first;
  std::erase_if(steps, [&](const Step* s) { return s->batch.kind != most; });
  return steps;
}

// Without the time in which a server has no requests.
int64_t duration_of(const Measured& m, const Step& step) {
  const ThreadId thread = m.facts().get<Steps>().thread;
  const int64_t unasked = thread.valid() ? m.facts().get<RequestWaits>().length(thread.value, step.elapsed) : 0;
  return step.elapsed.length() - unasked;
}

std::vector<int64_t> measured_durations(const Measured& m) {
  std::vector<int64_t> durations;
  for (const Step* s : compared_steps(m)) durations.push_back(duration_of(m, *s));
  return durations;
}

std::optional<double> step_time_variance_value(const Measured& m) {
  const std::vector<int64_t> durations = measured_durations(m);
  if (!m.facts().get<Steps>().annotated || durations.size() < kMinCompared) return std::nullopt;
  const double median = percentile(durations, 50).value_or(0);
  if (median <= 0) return std::nullopt;
  return percentile(durations, 95).value_or(0) / median;
}

// Per step.
std::vector<Place> places_in(const Measured& m, std::span<const Step* const> steps) {
  constexpr size_t kAll = 1000;
  Places places(m.facts());
  const ThreadId thread = m.facts().get<Steps>().thread;
  for (const Step* step : steps)
    if (thread.valid()) places.add_host_time(thread, step->interval());
  std::vector<Place> out = places.most_expensive(kAll);
  for (Place& p : out) p.ns /= static_cast<int64_t>(steps.size());
  return out;
}

// The place with most time beyond what it takes in other steps, with that time; its time is 0 if there is none.
Place largest_increase(const Measured& m, std::span<const Step* const> usual, std::span<const Step* const> longer) {
  const std::vector<Place> before = places_in(m, usual);
  Place most;
  most.ns = 0;
  for (Place& p : places_in(m, longer)) {
    const auto same = std::ranges::find_if(
        before, [&](const Place& u) { return u.name == p.name && u.file == p.file && u.line == p.line; });
    if (same != before.end()) p.ns -= same->ns;
    if (p.ns > most.ns) most = std::move(p);
  }
  return most;
}

// What the host does in the longest step that it does not do in a typical one, if that is most of the difference.
void add_difference(const Measured& m, const Step* longest, const Step* typical, Finding& f) {
  const Place place = largest_increase(m, {&typical, 1}, {&longest, 1});
  if (2 * place.ns < duration_of(m, *longest) - duration_of(m, *typical)) return;
  f.evidence.push_back(fmt::format("{} more than a typical step in {}", format_duration(static_cast<double>(place.ns)),
                                   place_text(place)));
  if (saves_checkpoint(place)) f.fix.insert(f.fix.begin(), std::string(kSaveInBackground));
  f.where = {place};
}

// The place whose time grows most, if that is most of the growth.
void add_growing_place(const Measured& m, std::span<const Step* const> steps, const StepTrend& trend, Finding& f) {
  const size_t quarter = steps.size() / 4;
  const Place place = largest_increase(m, steps.first(quarter), steps.last(quarter));
  if (2 * place.ns < trend.last_ns - trend.first_ns) return;
  for (Place& p : places_in(m, steps))
    if (p.name == place.name && p.file == place.file && p.line == place.line)
      p.ns *= static_cast<int64_t>(steps.size()), f.where = {std::move(p)};
  f.evidence.push_back(fmt::format("{} more per step in the last quarter than in the first in {}",
                                   format_duration(static_cast<double>(place.ns)), place_text(place)));
}

void describe_trend(const Measured& m, const StepTrend& trend, Finding& f) {
  const std::vector<const Step*> steps = compared_steps(m);
  const std::string from = format_duration(static_cast<double>(trend.first_ns)),
                    to = format_duration(static_cast<double>(trend.last_ns));
  f.what = fmt::format("steps get longer with their number, from {} to {}", from, to);
  f.why = fmt::format("The first quarter of {} steps takes {} each, the last {} (medians); each step takes {} more than "
                      "the one before.",
                      steps.size(), from, to, format_duration(trend.slope_ns));
  f.fix = {"something grows with each step and is gone through again: a list, a history, a cache or a log that is never "
           "cut. Keep a running value, or bound it",
           "tensors kept with their graph grow memory, too: store loss.item() or loss.detach(), not the loss"};
  if (!trains(m.facts()))
    f.fix.emplace_back("if each step generates a token, the KV cache grows with it by design: compare requests of equal "
                       "length");
  f.seen.step = steps.back()->index;
  add_growing_place(m, steps, trend, f);
  if (trend.last_ns < 2 * trend.first_ns) return;
  f.severity = std::max(f.severity, Severity::kWarning);
  f.verdict = fmt::format("Steps get longer with their number, from {} to {}: something that each step goes through "
                          "grows.",
                          from, to);
  if (m.has_device()) return;
  int64_t all_ns = 0;
  for (const int64_t ns : measured_durations(m)) all_ns += ns;
  set_cost(f, m.wall_ns(), std::max<int64_t>(0, all_ns - trend.first_ns * static_cast<int64_t>(steps.size())));
}

void describe_step_time_variance(const Measured& m, Finding& f) {
  if (const auto trend = step_trend(measured_durations(m))) return describe_trend(m, *trend, f);
  f.what = "some steps take much longer than others";
  f.why = fmt::format("Slow steps (95th percentile) take {:.1f} times the median of {}.", *f.value,
                      format_duration(percentile(measured_durations(m), 50).value_or(0)));
  f.fix = {"see which (--section steps), and compare what they do with the others",
           "usual causes: garbage collection (gc.freeze, gc.disable in the loop), checkpoints, logging, uneven "
           "batches"};
  std::vector<const Step*> steps = compared_steps(m);
  std::ranges::stable_sort(steps, {}, [&](const Step* s) { return duration_of(m, *s); });
  const Step *longest = steps.back(), *typical = steps[(steps.size() - 1) / 2];
  f.evidence.push_back(fmt::format("longest: {} with {}", shortened(longest->name),
                                   format_duration(static_cast<double>(duration_of(m, *longest)))));
  f.seen.step = longest->index;
  add_difference(m, longest, typical, f);
}

Intervals profiler_time(const Measured& m) {
  const Trace& trace = m.trace();
  Intervals all;
  for (uint32_t i = 0; i < trace.host.size(); ++i)
    if (trace.host.kind[i] == HostKind::kOverhead && is_profiler_overhead(trace.name(HostId(i))))
      all.push_back(trace.host.interval(HostId(i)));
  return intersect(merged(std::move(all)), m.measured_time());
}

void describe_profiler_overhead(const Measured& m, Finding& f) {
  const RecorderAdvice& advice = recorder_advice(m.trace());
  if (m.trace().recorder != Recorder::kPyTorch)
    f.fix = {std::string(advice.fewer_steps), std::string(advice.less_detail)};
  f.what = fmt::format("the profiler itself takes {} of the time", format_percent(*f.value));
  f.why = "Buffer flushes and instrumentation are part of these steps; without the profiler they are shorter.";
  f.verdict = fmt::format("The profiler's own work takes {} of the time, so that these are not the times of a normal run: "
                          "record fewer steps, or less detail.",
                          format_percent(*f.value, 0));
}

// Until when collections count: without steps the trace goes on after the loop, and as the program ends, the
// interpreter collects what it holds.
int64_t end_of_loop(const Measured& m) {
  if (m.facts().get<Steps>().marked()) return INT64_MAX;
  int64_t end = INT64_MIN;
  for (const PhaseSegment& s : m.facts().get<Phases>().segments)
    if (static_cast<int>(s.phase) < kPhases && s.phase != Phase::kOther) end = std::max(end, s.end_ns);
  return end == INT64_MIN ? INT64_MAX : end;
}

// On the step's thread. `called_only`: calls of gc.collect.
std::vector<HostId> collections_of(const Measured& m, bool called_only = false) {
  const Trace& trace = m.trace();
  const ThreadId thread = m.facts().get<Steps>().thread;
  std::vector<HostId> all;
  if (!thread.valid()) return all;
  std::vector<StringId> names;
  for (const std::string_view name : {"Python GC", "<built-in function collect>", "gc.collect"}) {
    const StringId id = trace.strings.find(name);
    if (id.valid() && !(called_only && name == "Python GC")) names.push_back(id);
  }
  if (names.empty()) return all;
  const int64_t end = end_of_loop(m);
  for (HostId i = trace.threads[thread.value].begin; i < trace.threads[thread.value].end; ++i)
    if (trace.host.start_ns[i.value] < end && std::ranges::count(names, trace.host.name[i.value]) > 0) all.push_back(i);
  return all;
}

Intervals collection_time(const Measured& m, bool called_only = false) {
  Intervals all;
  for (const HostId collection : collections_of(m, called_only)) all.push_back(m.trace().host.interval(collection));
  return intersect(merged(std::move(all)), m.measured_time());
}

std::optional<double> python_gc_value(const Measured& m) {
  const Intervals collections = collection_time(m);
  return only_if(!collections.empty(), m.wall_pct(total_length(collections)));
}

// Collections that the program itself asks for: neither thresholds nor gc.disable() change these. Those that the
// collector decides on come at many lines, so where all come at one line, one in a step at most, that line calls it.
std::optional<std::string> fix_of_calls(const Measured& m, const Intervals& collections, const std::vector<Place>& where) {
  constexpr size_t kMinCollections = 3;
  constexpr double kOneLine = 0.9;
  const int64_t all_ns = total_length(collections);
  if (2 * total_length(collection_time(m, true)) > all_ns)
    return fmt::format("remove gc.collect(){}, or call it every few hundred steps",
                       where.empty() ? "" : " in " + place_text(where.front()));
  if (where.empty() || where.front().file.empty() || collections.size() < kMinCollections) return std::nullopt;
  const bool one_line = static_cast<double>(where.front().ns) >= kOneLine * static_cast<double>(all_ns);
  if (!one_line || static_cast<int64_t>(collections.size()) > m.steps()) return std::nullopt;
  return fmt::format("all of it is in {}: if gc.collect() is called there, remove it, or call it every few hundred steps",
                     place_text(where.front()));
}

void describe_python_gc(const Measured& m, Finding& f) {
  const Intervals collections = collection_time(m);
  Places places(m.facts());
  for (const HostId collection : collections_of(m))
    if (m.in_measured_step(m.trace().host.start_ns[collection.value]))
      places.add(collection, m.trace().host.duration_ns[collection.value]);
  f.where = places.most_expensive();
  f.what = fmt::format("Python's garbage collection takes {} of the step", format_percent(*f.value));
  f.why = "The collector stops the loop, and takes longer the more objects the program holds.";
  if (std::optional<std::string> fix = fix_of_calls(m, collections, f.where))
    f.fix = {*std::move(fix), "gc.freeze() after startup, so that collections do not visit long-lived objects",
             "fewer long-lived objects: arrays instead of lists of dicts in datasets"};
  const Interval longest = *std::ranges::max_element(collections, {}, &Interval::length);
  f.evidence.push_back(fmt::format("{} collections in the measured steps, the longest {}", collections.size(),
                                   format_duration(static_cast<double>(longest.length()))));
  see(f, longest);
  if (!m.has_device()) return set_cost(f, m.wall_ns(), total_length(collections));
  Removal removal;
  removal.host_time = collections;
  set_cost(f, m.wall_ns(), m.replay().saved_by(removal).least_ns);
  Intervals idle;
  for (const Gap& gap : m.gaps()) append(idle, gap.time());
  place_in_lane(m, intersect(collections, idle), f);
}

}  // namespace

extern const Rule kLowGpuUtilization = {
    .id = "low-gpu-utilization",
    .summary = "the device is idle for a large part of the time",
    .unit = "%",
    .threshold = 80,
    .below = true,
    .severe = 50,
    .symptom = true,
    .meaning =
        "The device runs nothing for more than a fifth of the time. This is a symptom; another finding names the "
        "cause. Busy does not mean efficient: a busy device may still run slow kernels.",
    .computation =
        "Value: length of the union of all activity, as a share of the device's window without the time in which it "
        "runs unrecorded work; of samples alone, the driver's average utilization. No cost of its own: the findings "
        "that explain the idle time have it.",
    .advice = {
        "find the largest cause of idle time and follow its finding",
        "larger batches, if memory allows",
        "several small jobs on one device (MPS, MIG), if one can't fill it",
    },
    .rank = {.value = [](const Measured& m) { return only_if(m.device().span_ns != 0, m.known_utilization_pct()); },
             .describe = describe_low_gpu_utilization},
    .samples = {.value = low_gpu_utilization_samples,
                .describe = describe_low_gpu_utilization_samples,
                .without_trace = true},
    .checklist = {{.order = 1,
                   .id = "gpu-utilization",
                   .question = "Is the GPU busy over 80 % of the time?",
                   .label = "GPU busy",
                   .value =
                       [](const Evidence&, const RankMeasure& m) {
                         return only_if(!m.device.captures, m.device.least_utilization_pct);
                       },
                   .limit = 80,
                   .above = true}},
    .now = idle_now,
};

extern const Rule kStepTimeVariance = {
    .id = "step-time-variance",
    .summary = "some steps take much longer than others",
    .unit = "ratio",
    .threshold = 1.3,
    .threshold_words = "1.3x the median",
    .severity = Severity::kInfo,
    .severe = 2,
    .meaning =
        "Steps of one training loop should take about the same time. Long ones point to something that happens now and "
        "then: checkpoints, evaluation, garbage collection, uneven batches, other jobs on the host.",
    .computation =
        "Value: 95th percentile of the measured steps' durations over their median; needs eight steps. Steps that get "
        "longer with their number (Kendall's tau at least 0.6, over sixteen or more steps, and the last quarter half as "
        "long again as the first) are said to grow, by the median of the slopes between all pairs of steps. No cost: "
        "the causes of long steps have rules of their own if the trace shows them. Without a device, of steps that "
        "double: their time beyond that of the first quarter's median.",
    .advice = {
        "Python's garbage collector: gc.collect() and gc.freeze() after startup, gc.disable() in the loop",
        "batches of equal size: bucketing by length, packing, padding to few sizes (also avoids recompilation)",
        "torch.compile recompiles on new shapes: mark_dynamic, or pad",
        "cudnn.benchmark = True tries algorithms again for each new shape",
        "checkpoints and evaluation: less often, or asynchronously (torch.distributed.checkpoint.async_save)",
        "other jobs on the host: cores, disk, network",
    },
    .seen = {Locator::At::kLongestStep, {}},
    .rank = {.value = step_time_variance_value, .describe = describe_step_time_variance, .host_alone = true},
    // A step that hangs is not a slow step.
    .settle = [](const Rule&, const Evidence& e, const RankMeasure&, Finding&) { return e.hang() == nullptr; },
};

extern const Rule kProfilerOverhead = {
    .id = "profiler-overhead",
    .summary = "the profiler itself takes much of the time",
    .unit = "%",
    .threshold = 5,
    .severity = Severity::kInfo,
    .severe = 25,
    .meaning = "The profiler flushes buffers and instruments calls during the steps, which makes them slower.",
    .computation =
        "Value: union of the profiler's own overhead records as a share of the measured steps' wall time. No cost: the "
        "job is only slower while it is recorded. Idle time meanwhile is in no other finding's cost.",
    .advice = {
        "record fewer steps: torch.profiler.schedule(wait=5, warmup=3, active=3)",
        "with_stack=False, record_shapes=False, profile_memory=False unless needed",
        "compare step times with and without the profiler before trusting small differences",
    },
    .rank = {.value = [](const Measured& m) { return std::optional(m.wall_pct(total_length(profiler_time(m)))); },
             .describe = describe_profiler_overhead,
             .host_alone = true},
};

extern const Rule kPythonGc = {
    .id = "python-gc",
    .summary = "Python's garbage collector stops the loop",
    .unit = "%",
    .threshold = 2,
    .meaning =
        "Collections of the oldest generation visit all objects of the program, for tens of milliseconds in a large "
        "one, whenever enough new objects exist. On many ranks they happen in different steps, and all ranks wait.",
    .computation =
        "Value: share of the measured steps' wall time in collections on the step's thread (\"Python GC\" records of "
        "torch.profiler with stacks and record_python_gc_info and of profgpu's recorder, and calls of gc.collect); without "
        "steps, only until the last phase ends. "
        "Cost: replay of the trace without them; without a device, their time. Idle time meanwhile is in no other "
        "finding's cost.",
    .advice = {
        "gc.freeze() after startup, so that long-lived objects are not visited again; gc.set_threshold(50_000, 20, "
        "100)",
        "gc.disable(), and gc.collect() every few hundred steps, in the same step on all ranks",
        "fewer long-lived objects: arrays instead of lists of dicts in datasets",
        "no routine torch.cuda.empty_cache() or gc.collect() after each step",
    },
    .verdict = "Python's garbage collection stops the loop for {} of the step.",
    .rank = {.value = python_gc_value, .describe = describe_python_gc, .host_alone = true},
};

Intervals find_host_time_of_other_rules(const Measured& measured) {
  const bool collects = python_gc_value(measured).value_or(0) > measured.threshold(kPythonGc);
  const Intervals others = unite(profiler_time(measured), find_mpi_wait(measured));
  return collects ? unite(others, collection_time(measured)) : others;
}

}  // namespace profgpu
