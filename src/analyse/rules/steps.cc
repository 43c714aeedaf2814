#include <fmt/format.h>

#include "analyse/report/quantity.h"
#include "analyse/rules/measure.h"
#include "trace/health.h"

namespace profgpu {
namespace {

// Without a trace: how busy the driver says that the device was.
std::optional<double> low_gpu_utilization_samples(const DeviceTelemetry& d) {
  const SeriesSummary* s = d.find(Metric::kUtilization);
  return s ? s->mean : std::nullopt;
}

void say_low_gpu_utilization_samples(const DeviceTelemetry& d, Finding& f) {
  f.what = fmt::format("{} is busy {} of the time", d.label(), percent_text(*f.value));
  if (d.idle_gaps.regular)
    f.why = fmt::format("It idles in regular gaps of {}, one every {}: likely input or checkpoints.",
                        duration_text(d.idle_gaps.mean_ns),
                        duration_text(d.idle_gaps.period_ns));
  else if (d.idle_pct.value_or(0) > 10)
    f.why = fmt::format("It idles (under 5 %) for {} of the time.", percent_text(*d.idle_pct));
  else
    f.why = "It is never idle for long: small kernels with gaps between them, or waits within each step.";
  f.fix = {"record a window and see which: torch.profiler.profile(…).export_chrome_trace(\"trace.json\"), then profgpu "
           "analyze trace.json"};
}

void say_low_gpu_utilization(const Measured& m, Finding& f) {
  f.what = fmt::format("{} is busy {} of the time", m.device_label(), percent_text(*f.value));
  f.why = "Nothing runs on it for the rest.";
  f.fix = {"see the idle time by cause: profgpu analyze … --section idle"};
  f.where = places_in_gaps(m, rank_measure(m).largest_idle_cause());
}

constexpr double kHeldBytes = 256.0 * (1 << 20);   // a bare context of CUDA is about as large

std::optional<Advice> idle_now(const Rule&, const DeviceNow& d) {
  const double held = d.largest ? static_cast<double>(d.largest->memory_bytes.value_or(0)) : 0;
  if (!d.busy_pct || *d.busy_pct >= kIdlePct.reported || held < kHeldBytes) return std::nullopt;
  return Advice{kIdlePct.severity,
                fmt::format("idle for the last minute, while process {}{} holds {}", d.largest->pid,
                            d.user.empty() ? "" : " of " + d.user, format_bytes(held)),
                fmt::format("`profgpu attach {}` shows what it waits for; k ends it", d.largest->pid)};
}

constexpr size_t kMinCompared = 8;

std::optional<double> step_time_variance_value(const Measured& m) {
  const Steps& steps = m.facts().get<Steps>();
  std::vector<int64_t> durations;
  for (const Step* s : steps.measured()) durations.push_back(s->duration_ns);
  if (!steps.annotated || durations.size() < kMinCompared) return std::nullopt;
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
  f.fix = {
      "profgpu analyze … --section steps shows which; look at what those steps do that others do not",
      "usual causes: garbage collection (gc.freeze, gc.disable in the loop), checkpoints, logging, uneven batches"};
  f.evidence.push_back(fmt::format("longest: {} with {}", shortened(longest->name),
                                   duration_text(longest->duration_ns)));
}

Intervals overhead(const Measured& m) {
  const Trace& trace = m.trace();
  Intervals all;
  for (uint32_t i = 0; i < trace.host.size(); ++i)
    if (trace.host.kind[i] == HostKind::kOverhead) all.push_back(trace.host.interval(HostId(i)));
  return intersect(merged(std::move(all)), m.measured_time());
}

void say_profiler_overhead(const Measured&, Finding& f) {
  f.what = fmt::format("the profiler itself takes {} of the time", percent_text(*f.value));
  f.why = "Buffer flushes and instrumentation are part of these steps; without the profiler they are shorter.";
  f.fix = {"record fewer steps: schedule(wait=5, warmup=3, active=3)",
           "leave out what is not needed: with_stack, record_shapes, profile_memory"};
}

// Of the thread that drives the steps.
Intervals collections_of(const Measured& m) {
  const Trace& trace = m.trace();
  const ThreadId thread = m.facts().get<Steps>().thread;
  Intervals all;
  if (!thread.valid()) return all;
  for (uint32_t i = trace.threads[thread.value].begin.value; i < trace.threads[thread.value].end.value; ++i) {
    const std::string_view name = trace.name(HostId(i));
    if (name == "Python GC" || name == "<built-in function collect>" || name == "gc.collect")
      all.push_back({trace.host.start_ns[i], trace.host.end_ns(HostId(i))});
  }
  return intersect(merged(std::move(all)), m.measured_time());
}

std::optional<double> python_gc_value(const Measured& m) {
  return m.wall_pct(total_length(collections_of(m)));
}

void say_python_gc(const Measured& m, Finding& f) {
  const Intervals collections = collections_of(m);
  f.what = fmt::format("Python collects garbage in the step: {} of its time", percent_text(*f.value));
  f.why = "The collector stops the thread that launches, and looks at more objects the more the program holds.";
  f.fix = {"gc.freeze() after start-up, so that what stays is not looked at again; gc.set_threshold(50_000, 20, 100)",
           "gc.disable(), and gc.collect() every few hundred steps at the same step on all ranks"};
  int64_t longest_ns = 0;
  for (const Interval& c : collections) longest_ns = std::max(longest_ns, c.length());
  f.evidence.push_back(fmt::format("{} collections in the measured steps, the longest {}", collections.size(),
                                   duration_text(static_cast<double>(longest_ns))));
  if (!m.has_device()) return;
  Removal removal;
  removal.host_time = collections;
  set_cost(f, m.wall_ns(), m.replay().saved_by(removal));
}

}  // namespace

extern const Rule kLowGpuUtilization = {
    .id = "low-gpu-utilization",
    .summary = "the device is idle for a large part of the time",
    .unit = "%",
    .threshold = 80,
    .below = true,
    .grave = 50,
    .symptom = true,
    .meaning =
        "The device runs nothing for more than a fifth of the time. This is a symptom; another finding says what "
        "causes it. Busy does not mean efficient: a busy device may still run slow kernels.",
    .computation =
        "Value: length of the union of all activity over the device's window, less the time in which it worked on "
        "what is not in the recording; where there are only samples, the driver's utilization over the time. It has no cost of its own: the findings that "
        "explain the idle time have.",
    .advice = {
        "find the largest cause of idle time and follow its finding",
        "larger batches, if memory allows",
        "several small jobs on one device (MPS, MIG), if one cannot fill it",
    },
    .rank = {.value = [](const Measured& m) { return only_if(m.device().span_ns != 0, m.known_utilization_pct()); },
             .say = say_low_gpu_utilization},
    .samples = {.value = low_gpu_utilization_samples, .say = say_low_gpu_utilization_samples, .without_trace = true},
    .checklist = {{.place = 1,
                   .id = "gpu-utilization",
                   .question = "Is the GPU busy over 80 % of the time?",
                   .label = "GPU busy",
                   .value = [](const RankMeasure& m) { return only_if(!m.captures, m.least_utilization_pct); },
                   .limit = 80,
                   .above = true}},
    .now = idle_now,
};

extern const Rule kStepTimeVariance = {
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
    // A step that hangs is no slow step.
    .settle = [](const Rule&, const Evidence& e, const RankMeasure&, Finding&) { return e.hang() == nullptr; },
};

extern const Rule kProfilerOverhead = {
    .id = "profiler-overhead",
    .summary = "the profiler itself takes much of the time",
    .unit = "%",
    .threshold = 5,
    .severity = Severity::kInfo,
    .meaning =
        "The profiler flushes its buffers and instruments calls while the steps run, so they look slower than they "
        "are.",
    .computation =
        "Value: union of the profiler's own overhead records over the measured steps' wall time. No cost: the job "
        "does not pay it when it is not recorded.",
    .advice = {
        "torch.profiler.schedule with a few active steps and warmup=3",
        "with_stack=False, record_shapes=False, profile_memory=False unless needed",
        "compare step times with and without the profiler before trusting small differences",
    },
    .rank = {.value = [](const Measured& m) { return std::optional(m.wall_pct(total_length(overhead(m)))); },
             .say = say_profiler_overhead,
             .host_alone = true},
};

extern const Rule kPythonGc = {
    .id = "python-gc",
    .summary = "Python's garbage collector stops the thread that launches",
    .unit = "%",
    .threshold = 2,
    .part_of = "host-bound-launches",
    .meaning =
        "Collections of the oldest generation walk all objects that the program holds, for tens of milliseconds in a "
        "large one, whenever enough new ones were made. On many ranks they fall into different steps, and all wait.",
    .computation =
        "Value: share of the measured steps' wall time in collections on the step's thread (\"Python GC\" of "
        "torch.profiler with stacks and record_python_gc_info, calls of gc.collect, and our recorder's). Cost: the "
        "trace is replayed without them.",
    .advice =
        {
            "gc.freeze() after the model, optimizer and loaders are made",
            "gc.disable() in the loop, gc.collect() at the same step on all ranks",
            "fewer objects that live long: arrays instead of lists of dicts in data sets",
            "no torch.cuda.empty_cache() and gc.collect() by habit after each step",
        },
    .rank = {.value = python_gc_value, .say = say_python_gc, .host_alone = true},
};

}  // namespace profgpu
