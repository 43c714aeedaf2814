#include "analyse/rank/first_use.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "analyse/rank/places.h"
#include "analyse/rules/measure.h"

namespace profgpu {
namespace {

std::string duration_of(int64_t ns) { return duration_text(static_cast<double>(ns)); }

// Without a device, of the thread that runs the steps.
int64_t first_use_ns(const Measured& m) {
  if (m.has_device()) return m.idle_ns(IdleCause::kFirstUse);
  const ThreadId thread = m.facts().get<Steps>().thread;
  return thread.valid() ? total_length(intersect(m.facts().get<FirstUse>().time[thread.value], m.measured_time())) : 0;
}

std::optional<double> first_use_value(const Measured& m) {
  return m.has_device() ? m.idle_pct(IdleCause::kFirstUse) : m.wall_pct(first_use_ns(m));
}

void say_first_use(const Measured& m, Finding& f) {
  const Trace& trace = m.trace();
  std::vector<HostId> longest;
  for (const HostId range : m.facts().get<FirstUse>().ranges)
    if (m.in_measured_step(trace.host.start_ns[range.value])) longest.push_back(range);
  std::stable_sort(longest.begin(), longest.end(), [&](HostId a, HostId b) {
    return trace.host.duration_ns[a.value] > trace.host.duration_ns[b.value];
  });
  if (longest.size() > 3) longest.resize(3);
  f.what = fmt::format("{} go into work that happens only once", duration_of(first_use_ns(m)));
  if (!m.has_device()) set_cost(f, m.wall_ns(), first_use_ns(m));
  f.why = fmt::format("{} {} of the time while the host loads libraries and kernels, creates contexts and "
                      "streams, compiles or tunes. A program that is warm does not do this again.",
                      m.has_device() ? m.device_label() + " waits" : "The steps wait", percent_text(*f.value));
  f.fix = {"profile after warm-up: schedule(wait=1, warmup=3, active=5), or run the model a few times before recording"};
  const auto any_name = [&](std::string_view part) {
    return std::any_of(longest.begin(), longest.end(),
                       [&](HostId id) { return trace.name(id).find(part) != std::string_view::npos; });
  };
  if (any_name("LaunchKernel") || any_name("ModuleLoad") || any_name("LibraryLoad"))
    f.fix.emplace_back("CUDA_MODULE_LOADING=EAGER loads kernels at start-up instead of at their first launch");
  if (any_name("convolution"))
    f.fix.emplace_back("torch.backends.cudnn.benchmark = False where input shapes keep changing: each new shape is tuned");
  if (any_name("compile") || any_name("dynamo"))
    f.fix.emplace_back("keep compiled code: TORCHINDUCTOR_FX_GRAPH_CACHE=1; avoid recompilation with mark_dynamic");
  for (const HostId range : longest)
    f.evidence.push_back(
        fmt::format("{} takes {}", shortened(trace.name(range)), duration_of(trace.host.duration_ns[range.value])));
}

bool is_queued(const Measured& m, const Gap& gap) {
  return gap.before.valid() && gap.launch.valid() && m.trace().host.start_ns[gap.launch.value] < gap.start_ns;
}

// Gaps between the same two activities, the longest in sum: kernels that are missing are missing again in every step.
std::optional<std::string> recurring_gaps(const Measured& m, const std::vector<const Gap*>& gaps) {
  std::map<std::pair<std::string_view, std::string_view>, std::vector<int64_t>> by_ends;
  for (const Gap* gap : gaps)
    by_ends[{m.trace().name(gap->before), m.trace().name(gap->after)}].push_back(gap->length());
  const auto sum = [](const auto& ends) { return std::reduce(ends.second.begin(), ends.second.end()); };
  const auto most = std::ranges::max_element(by_ends, {}, sum);
  if (most == by_ends.end() || most->second.size() < 2) return std::nullopt;
  const auto [least, longest] = std::ranges::minmax(most->second);
  return fmt::format("{} gaps of {} to {} between {} and {}", most->second.size(), duration_of(least),
                     duration_of(longest), shortened(most->first.first, 40), shortened(most->first.second, 40));
}

void say_untraced_work(const Measured& m, Finding& f) {
  std::vector<const Gap*> queued;
  int64_t queued_ns = 0;
  for (const Gap& gap : m.gaps())
    if (gap.cause == IdleCause::kUntracedWork && m.in_measured_step(gap.end_ns - 1) && is_queued(m, gap))
      queued.push_back(&gap), queued_ns += gap.length();
  const std::string all = duration_of(m.idle_ns(IdleCause::kUntracedWork));
  f.cost_ns.reset(), f.cost_pct.reset();
  if (2 * queued_ns > m.idle_ns(IdleCause::kUntracedWork)) {
    f.what = fmt::format("for {} nothing that was recorded runs, although work is queued", all);
    f.why = fmt::format("No recorded stream or host function holds that work back. Either kernels of {} are missing from "
                        "the trace, as with CUDA graphs and older profilers, or another process used the GPU, or the "
                        "work waited for something outside this process. The GPU is busier than its records show.",
                        m.device_label());
    f.fix = {"record every kernel of CUDA graphs: a current PyTorch and driver, or nsys profile --cuda-graph-trace=node",
             "check with nvidia-smi that no other process uses the GPU"};
    if (auto recurring = recurring_gaps(m, queued)) f.evidence.push_back(*std::move(recurring));
  } else {
    f.what = fmt::format("for {} the GPU works on what was launched before the recording began", all);
    f.why = fmt::format("Work of this recording waits {} of the time, and nothing else that was recorded runs on {} "
                        "meanwhile: the recording began with work queued, or it lacks a device.",
                        percent_text(*f.value), m.device_label());
    f.fix = {"call torch.cuda.synchronize() before the profiler starts, or record more steps and leave out the first"};
  }
  f.where.clear();
}

std::optional<double> capture_value(const Measured& m) {
  Intervals capture;
  for (const Intervals& of_thread : m.facts().get<FirstUse>().capture) capture = unite(capture, of_thread);
  return m.wall_pct(total_length(intersect(capture, m.measured_time())));
}

void say_graph_capture(const Measured&, Finding& f) {
  f.what = "a CUDA graph is captured: operators are called, but almost nothing runs";
  f.why = fmt::format("Capture takes {} of the time. It happens once, when a server or a compiled model starts, and says "
                      "nothing about how fast the graph runs.",
                      percent_text(*f.value));
  f.fix = {"record later, when requests are served or steps run: then the graph is replayed"};
}

}  // namespace

extern const Rule kFirstUse = {
    .id = "first-use",
    .summary = "work that happens once is part of what was measured",
    .unit = "%",
    .threshold = 5,
    .meaning =
        "Loading of libraries and kernels, creation of contexts, streams and handles, compilation, autotuning: all of "
        "it happens once, and would be gone in the next pass. It hides what the steps really take.",
    .computation =
        "Value: idle time of cause first_use as a share of the device's window: the launching thread was, for over half "
        "of it, in work that is known to happen once, or in a call or an op of at least 1 ms that took 20 times the "
        "median of its name. Cost: the trace is replayed without that host time; at most that idle time.",
    .advice =
        {
            "torch.profiler.schedule(wait=…, warmup=…): record steps of a warm program",
            "run each input shape once before measuring or serving",
            "CUDA_MODULE_LOADING=EAGER where the first launch of each kernel matters; =LAZY where start-up does",
            "torch.backends.cudnn.benchmark=False with changing shapes; padding to few sizes",
            "torch.compile: TORCHINDUCTOR_FX_GRAPH_CACHE=1, mark_dynamic, cache_size_limit; Triton: keep its cache",
            "vLLM, SGLang: let the server finish its own warm-up and graph capture before sending requests",
        },
    .by_framework =
        {
            {Framework::kVllm, "start the profiler once requests have been answered, not with the server"},
            {Framework::kSglang, "start the profiler once requests have been answered, not with the server"},
            {Framework::kTrainer, "profile from a callback, with schedule(wait=5, warmup=2, active=3)", {}, true},
        },
    .verdict = "{} of the time goes into work that happens only once, such as loading, compiling and tuning.",
    .cause = IdleCause::kFirstUse,
    .rank = {.value = first_use_value, .say = say_first_use, .host_alone = true},
};

extern const Rule kUntracedWork = {
    .id = "untraced-work",
    .summary = "the device works on something that is not in the recording",
    .unit = "%",
    .threshold = 5,
    .severity = Severity::kInfo,
    .meaning =
        "What was launched in the recording started late, and nothing recorded explains why: the device was busy with "
        "work from before the recording, with kernels that the profiler missed, or for another process. This is no fault "
        "of the program; that part of the recording says nothing about it.",
    .computation =
        "Value: idle time of cause untraced_work as a share of the device's window. It has no cost, and is left out "
        "where the device's utilization is judged.",
    .advice =
        {
            "synchronize before the profiler starts",
            "record more steps, and look at those after the first (--steps)",
            "record all devices that the process uses",
            "CUDA graphs: a current PyTorch and driver record each kernel; nsys needs --cuda-graph-trace=node",
            "check that no other process uses the device",
        },
    .cause = IdleCause::kUntracedWork,
    .rank = {.say = say_untraced_work},
};

extern const Rule kGraphCapture = {
    .id = "graph-capture",
    .summary = "a CUDA graph is captured for most of the time",
    .unit = "%",
    .threshold = 50,
    .severity = Severity::kInfo,
    .meaning =
        "While a graph is captured, launches are recorded instead of run. Such a trace has operators, modules and "
        "shapes, but no device time: it cannot be judged as a run.",
    .computation =
        "Value: share of the measured steps between cudaStreamBeginCapture and cudaStreamEndCapture, or in a range in "
        "which an engine captures. Other rules are not asked then.",
    .advice = {"record a replay of the graph, and give both: profgpu analyze capture.json.gz replay.json.gz names the "
               "graph's kernels by the capture's operators, modules and shapes"},
    .rank = {.value = capture_value, .say = say_graph_capture, .of_capture = true},
};

}  // namespace profgpu
