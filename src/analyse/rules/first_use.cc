#include "analyse/rank/first_use.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "analyse/rank/recorder_advice.h"
#include "analyse/rules/measure.h"

namespace profgpu {
namespace {

using enum Framework;

std::string time_text(int64_t ns) { return format_duration(static_cast<double>(ns)); }

constexpr int64_t kMinSteps = 3;   // in over half of so many, the work is not done once

// Without a device: of the step's thread, without what the rules about compiling again and about the profiler have.
Intervals host_first_use(const Measured& m) {
  const ThreadId thread = m.facts().get<Steps>().thread;
  if (!thread.valid()) return {};
  const Intervals once = intersect(m.facts().get<FirstUse>().time[thread.value], m.measured_time());
  return subtract(subtract(once, find_recompiling(m)), m.host_time_of_other_rules());
}

int64_t first_use_ns(const Measured& m) {
  return m.has_device() ? m.idle_ns(IdleCause::kFirstUse) : total_length(host_first_use(m));
}

// In how many measured steps such work delays the device, or without one begins.
int64_t steps_with_first_use(const Measured& m) {
  if (m.has_device()) return steps_with_gaps(m, IdleCause::kFirstUse);
  const Intervals time = host_first_use(m);
  return std::ranges::count_if(m.facts().get<Steps>().measured(), [&](const Step* s) {
    const auto first = std::ranges::lower_bound(time, s->elapsed.start, {}, &Interval::start);
    return first != time.end() && first->start < s->elapsed.end;
  });
}

std::optional<double> first_use_value(const Measured& m) {
  return m.has_device() ? m.idle_pct(IdleCause::kFirstUse) : m.wall_pct(first_use_ns(m));
}

void describe_first_use(const Measured& m, Finding& f) {
  const Trace& trace = m.trace();
  const auto duration_ns = [&](HostId id) { return trace.host.duration_ns[id.value]; };
  std::vector<HostId> longest;
  std::ranges::copy_if(m.facts().get<FirstUse>().ranges, std::back_inserter(longest),
                       [&](HostId range) { return m.in_measured_step(trace.host.start_ns[range.value]); });
  std::ranges::stable_sort(longest, std::greater(), duration_ns);
  if (longest.size() > 3) longest.resize(3);
  const std::string advice(recorder_advice(trace).warm);
  const int64_t steps = steps_with_first_use(m);
  const bool returns = m.steps() >= kMinSteps && 2 * steps > m.steps();
  f.what = returns ? fmt::format("{} goes into loading, compiling or tuning, again and again: in {} of {} steps",
                                 time_text(first_use_ns(m)), steps, m.steps())
                   : fmt::format("{} goes into work that happens only once", time_text(first_use_ns(m)));
  f.why = fmt::format("For {} of the time {} while the host loads libraries and kernels, creates contexts and streams, "
                      "compiles or tunes. A warm program does none of this.",
                      format_percent(*f.value), m.has_device() ? m.device_label() + " waits" : "the steps wait");
  if (!m.has_device()) {
    set_cost(f, m.wall_ns(), first_use_ns(m));
    f.seen = {};
    if (!longest.empty()) see(f, trace.host.interval(longest.front()));
  }
  if (!returns) f.fix = {advice};
  const auto any_name = [&](std::initializer_list<std::string_view> parts) {
    return std::ranges::any_of(longest, [&](HostId id) { return contains_any(trace.name(id), parts); });
  };
  const bool amd = m.has_device() && is_amd(trace, m.device().id);
  if (!amd && any_name({"LaunchKernel", "ModuleLoad", "LibraryLoad"}))
    f.fix.emplace_back("CUDA_MODULE_LOADING=EAGER loads kernels at startup instead of at their first launch");
  if (any_name({"conv"}))
    f.fix.emplace_back("torch.backends.cudnn.benchmark = False if input shapes keep changing: each new shape is tuned");
  if (any_name({"compile", "dynamo"}))
    f.fix.emplace_back("keep compiled code: TORCHINDUCTOR_FX_GRAPH_CACHE=1; avoid recompilation with mark_dynamic");
  if (returns) {
    f.verdict = fmt::format("Libraries, kernels or compiled code are loaded, tuned or made again and again: the {} {} of "
                            "the time for it.",
                            m.has_device() ? "GPU waits" : "steps wait", format_percent(*f.value, 0));
    f.why = fmt::format("For {} of the time {} while the host loads, compiles or tunes. Other shapes, types or values "
                        "than before usually cause it.",
                        format_percent(*f.value), m.has_device() ? m.device_label() + " waits" : "the steps wait");
    f.fix.emplace_back("pad or bucket inputs to few shapes, and run each of them once before the loop");
  }
  for (const HostId range : longest)
    f.evidence.push_back(fmt::format("{} takes {}", shortened(trace.name(range)), time_text(duration_ns(range))));
}

// Whether the work after the gap was launched before it.
bool is_queued(const Measured& m, const Gap& gap) {
  return gap.before.valid() && gap.launch.valid() && m.trace().host.start_ns[gap.launch.value] < gap.start_ns;
}

// Gaps between the same two activities, those with the longest sum: missing kernels are missing in every step.
std::string recurring_gaps(const Measured& m, const std::vector<const Gap*>& gaps) {
  std::map<std::pair<std::string_view, std::string_view>, std::vector<int64_t>> by_ends;
  for (const Gap* gap : gaps)
    by_ends[{m.trace().name(gap->before), m.trace().name(gap->after)}].push_back(gap->length());
  const auto sum = [](const auto& ends) { return std::reduce(ends.second.begin(), ends.second.end()); };
  const auto most = std::ranges::max_element(by_ends, {}, sum);
  if (most == by_ends.end() || most->second.size() < 2) return "";
  const auto [least, longest] = std::ranges::minmax(most->second);
  return fmt::format("{} gaps of {} to {} between {} and {}", most->second.size(), time_text(least),
                     time_text(longest), shortened(short_kernel_name(most->first.first), 40),
                     shortened(short_kernel_name(most->first.second), 40));
}

// Gaps in which kernels ran of which there are no records.
int64_t lost_ns(const Measured& m) {
  const LostLaunches& lost = m.facts().get<LostLaunches>();
  int64_t ns = 0;
  for (const Gap& gap : m.gaps())
    if (m.counts(gap, IdleCause::kUntracedWork) && lost.explain(m.trace(), gap)) ns += gap.length();
  return ns;
}

// After the first step nothing can be left that was launched before the recording.
int64_t late_untraced_ns(const Measured& m) {
  const std::vector<Step>& steps = m.facts().get<Steps>().steps;
  if (steps.size() < 2) return 0;
  int64_t ns = 0;
  for (const Gap& gap : m.gaps())
    if (m.counts(gap, IdleCause::kUntracedWork) && gap.start_ns >= steps[1].start_ns) ns += gap.length();
  return ns;
}

void describe_untraced_work(const Measured& m, Finding& f) {
  std::vector<const Gap*> queued;
  int64_t queued_ns = 0;
  for (const Gap& gap : m.gaps())
    if (m.counts(gap, IdleCause::kUntracedWork) && is_queued(m, gap)) queued.push_back(&gap), queued_ns += gap.length();
  const int64_t all_ns = m.idle_ns(IdleCause::kUntracedWork);
  f.cost_ns.reset(), f.cost_pct.reset();
  f.where.clear();
  if (2 * lost_ns(m) > all_ns) {
    f.what = fmt::format("for {} kernels are launched that the recording lacks", time_text(all_ns));
    f.why = fmt::format("The host launches them, but the profiler lost their records or stopped before they ran. {} is "
                        "busier than its records show.",
                        m.device_label());
    f.fix = {std::string(recorder_advice(m.trace()).fewer_steps),
             std::string(recorder_advice(m.trace()).less_detail)};
    return;
  }
  if (2 * queued_ns <= all_ns && 2 * late_untraced_ns(m) > all_ns) {
    f.what = fmt::format("for {} the host waits for device work that the recording lacks", time_text(all_ns));
    f.why = fmt::format("{} works meanwhile, or another device that the recording leaves out: it is busier than its "
                        "records show.",
                        m.device_label());
    f.fix = {std::string(recorder_advice(m.trace()).fewer_steps),
             std::string(recorder_advice(m.trace()).less_detail)};
    return;
  }
  if (2 * queued_ns <= all_ns) {
    f.what = fmt::format("for {} the GPU runs work launched before the recording began", time_text(all_ns));
    f.why = fmt::format("Recorded work waits {} of the time while nothing recorded runs on {}: work was queued when "
                        "the recording began, or a device is missing from it.",
                        format_percent(*f.value), m.device_label());
    // Who records a server cannot change its program.
    if (const auto& with = m.facts().get<Frameworks>(); with.has(kVllm) || with.has(kSglang))
      f.fix = {"record more steps: wait longer between /start_profile and /stop_profile, and analyze the later ones (--steps 1:)"};
    return;
  }
  f.what = fmt::format("for {} nothing recorded runs although work is queued", time_text(all_ns));
  const bool graphs = m.facts().get<Frameworks>().has(Framework::kCudaGraphs);
  f.why = fmt::format("No recorded stream or host function delays that work. Either kernels of {} are missing from the "
                      "trace{}, or another process used the GPU, or the work waited for something outside this process. "
                      "The GPU is busier than its records show.",
                      m.device_label(), graphs ? ", as with CUDA graphs and older profilers" : "");
  if (graphs)
    f.fix = {is_amd(m.trace(), m.device().id)
                 ? "record every kernel of graphs: a current PyTorch and ROCm"
                 : "record every kernel of CUDA graphs: a current PyTorch and driver, or nsys profile "
                   "--cuda-graph-trace=node"};
  f.fix.emplace_back("check that no other process uses the GPU: profgpu top");
  if (!graphs) f.fix.emplace_back(recorder_advice(m.trace()).fewer_steps);
  if (std::string recurring = recurring_gaps(m, queued); !recurring.empty()) f.evidence.push_back(std::move(recurring));
}

void describe_graph_capture(const Measured&, Finding& f) {
  f.what = "a CUDA graph is being captured: operators are called, but almost nothing runs";
  f.why = fmt::format("Capture takes {} of the time. It happens once, when a server or compiled model starts, and does "
                      "not show how fast the graph runs.",
                      format_percent(*f.value));
  f.fix = {"record later, while requests are served or steps run: then the graph is replayed"};
}

}  // namespace

extern const Rule kFirstUse = {
    .id = "first-use",
    .summary = "the measured time includes work that happens only once",
    .unit = "%",
    .threshold = 5,
    .meaning =
        "Libraries and kernels are loaded, contexts, streams and handles created, code compiled and tuned. All of it "
        "happens once and would be absent from the next pass. It hides what the steps really take.",
    .computation =
        "Value: idle time of cause first_use as a share of the device's window: over half of the gap the launching "
        "thread was in work known to happen once, or in a call or op of at least 1 ms that took 20 times the median of "
        "its name, or of 50 ms if it occurs once or twice and launches little. Cost: replay of the trace without that host time; at most that idle time.",
    .advice = {
        "torch.profiler.schedule(wait=…, warmup=…): record steps of a warm program",
        "run each input shape once before measuring or serving",
        "CUDA_MODULE_LOADING=EAGER if the first launch of each kernel matters; =LAZY if startup time does",
        "torch.backends.cudnn.benchmark=False with changing shapes; pad to few sizes",
        "torch.compile: TORCHINDUCTOR_FX_GRAPH_CACHE=1, mark_dynamic, cache_size_limit; Triton: keep its cache",
        "vLLM, SGLang: let the server finish its own warm-up and graph capture before sending requests",
    },
    .by_framework = {
        {kVllm, "start the profiler after the first requests, not with the server"},
        {kSglang, "start the profiler after the first requests, not with the server"},
        {kTrainer, "profile from a callback, with schedule(wait=5, warmup=2, active=3)", {}, true},
    },
    .verdict = "{} of the time goes into work that happens only once, such as loading, compiling and tuning.",
    .cause = IdleCause::kFirstUse,
    .rank = {.value = first_use_value, .describe = describe_first_use, .host_alone = true},
};

extern const Rule kUntracedWork = {
    .id = "untraced-work",
    .summary = "the device runs work that is not in the recording",
    .unit = "%",
    .threshold = 5,
    .severity = Severity::kInfo,
    .meaning =
        "Recorded work started late, and nothing recorded explains why: the device ran work from before the recording, "
        "kernels that the profiler missed, or another process. The program is not at fault; ignore that part of the "
        "recording.",
    .computation =
        "Value: idle time of cause untraced_work as a share of the device's window. It has no cost and does not count "
        "in the device's utilization.",
    .advice = {
        "call torch.cuda.synchronize() before the profiler starts",
        "record more steps, and analyze those after the first (--steps)",
        "record all devices that the process uses",
        "CUDA graphs: a current PyTorch and driver record each kernel; nsys needs --cuda-graph-trace=node",
        "check that no other process uses the device",
    },
    .cause = IdleCause::kUntracedWork,
    .rank = {.describe = describe_untraced_work},
};

extern const Rule kGraphCapture = {
    .id = "graph-capture",
    .summary = "a CUDA graph is being captured for most of the time",
    .unit = "%",
    .threshold = 50,
    .severity = Severity::kInfo,
    .meaning =
        "During capture, launches are recorded instead of executed. Such a trace has operators, modules and shapes, "
        "but no device time, and can't be evaluated as a run.",
    .computation =
        "Value: share of the measured steps between cudaStreamBeginCapture and cudaStreamEndCapture, or in a range in "
        "which an engine captures. Other rules do not apply then.",
    .advice = {"record a replay of the graph and pass both: profgpu analyze capture.json.gz replay.json.gz labels the "
               "graph's kernels with the capture's operators, modules and shapes"},
    .rank = {.value = [](const Measured& m) { return std::optional(m.wall_pct(m.capture_ns())); },
             .describe = describe_graph_capture,
             .host_alone = true,
             .of_capture = true},
};

}  // namespace profgpu
