// Code that is not compiled or captured in one piece: graph breaks, recompilation, decoding without graphs.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "analyse/rank/first_use.h"
#include "analyse/rank/frameworks.h"
#include "analyse/rank/places.h"
#include "analyse/rules/measure.h"
#include "base/decimal.h"

namespace profgpu {
namespace {

using enum Framework;

/// "3/1" of "Torch-Compiled Region: 3/1": the second version of the fourth compiled code object.
struct Region {
  int64_t code = 0, version = 0;
};

std::optional<Region> compiled_region(std::string_view name) {
  constexpr std::string_view kPrefix = "Torch-Compiled Region: ";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  const size_t slash = name.find('/');
  if (slash == name.npos) return std::nullopt;
  const std::string_view version = name.substr(slash + 1);
  const std::optional<int64_t> code = whole_number(name.substr(0, slash)),
                               number = whole_number(version.substr(0, version.find_first_not_of("0123456789")));
  if (!code || !number) return std::nullopt;
  return Region{*code, *number};
}

// Where Dynamo compiles one code object, in a frame of Python.
bool is_compiling_frame(std::string_view name) {
  return contains(name, "torch/_dynamo/convert_frame.py(") && name.ends_with("): _compile");
}

/// What Dynamo does in measured steps, from its ranges and frames.
struct Compiled {
  explicit Compiled(const Facts& facts) : breaks_at(facts) {}
  std::map<int64_t, std::set<int64_t>> versions;   // that ran, by code object
  int64_t regions = 0, resumed = 0;                // entered; entered after a break, if there are stacks
  Places breaks_at;
  Intervals compiling;
  bool first_measured = true;   // the first compilation of all is in a measured step
};

Compiled compiled(const Measured& m) {
  const Trace& trace = m.trace();
  std::vector<std::optional<Region>> region(trace.strings.size());
  std::vector<char> resumes(trace.strings.size()), compiles(trace.strings.size());
  for (size_t i = 0; i < region.size(); ++i) {
    const std::string_view name = trace.strings[StringId(i)];
    region[i] = compiled_region(name);
    resumes[i] = contains(name, "): torch_dynamo_resume_in_");
    compiles[i] = name == "_compile.compile_inner (dynamo_timed)" || name == "compile_fx.<locals>.fw_compiler_base" ||
                  is_compiling_frame(name);
  }
  Compiled c(m.facts());
  int64_t first = INT64_MAX;
  for (HostId i(size_t{0}); i.value < trace.host.size(); ++i) {
    const uint32_t name = trace.host.name[i.value].value;
    if (!region[name] && !resumes[name] && !compiles[name]) continue;
    if (compiles[name]) first = std::min(first, trace.host.start_ns[i.value]);
    if (!m.in_measured_step(trace.host.start_ns[i.value])) continue;
    if (region[name]) c.versions[region[name]->code].insert(region[name]->version), ++c.regions;
    if (resumes[name]) c.breaks_at.add(i, trace.host.duration_ns[i.value]), ++c.resumed;
    if (compiles[name]) c.compiling.push_back(trace.host.interval(i));
  }
  c.compiling = merged(std::move(c.compiling));
  c.first_measured = !c.compiling.empty() && c.compiling.front().start == first;
  return c;
}

double per_step(const Measured& m, int64_t count) {
  return static_cast<double>(count) / static_cast<double>(std::max<int64_t>(m.steps(), 1));
}

// Without stacks, several compiled functions look like one with breaks.
std::optional<double> graph_breaks_value(const Measured& m) {
  const Compiled c = compiled(m);
  if (c.versions.empty()) return std::nullopt;
  return c.resumed > 0 ? per_step(m, c.resumed) : static_cast<double>(c.versions.size() - 1);
}

void describe_graph_breaks(const Measured& m, Finding& f) {
  const Compiled c = compiled(m);
  f.where = c.breaks_at.most_expensive();
  if (c.resumed == 0) {
    f.severity = Severity::kInfo;
    f.what = fmt::format("{} pieces of compiled code run in turn: graph breaks, or separately compiled functions",
                         c.versions.size());
    f.why = "Python runs between them, and nothing is fused across them.";
    return;
  }
  f.what = fmt::format("compiled code breaks {:.1f} times per step", *f.value);
  f.why = "At each break the graph ends, Python takes over, and nothing is fused across it.";
  f.evidence.push_back(fmt::format("{:.1f} compiled regions per step", per_step(m, c.regions)));
}

int64_t compiling_steps(const Measured& m, const Compiled& c) {
  return std::ranges::count_if(m.facts().get<Steps>().measured(), [&](const Step* s) {
    const auto next = std::ranges::lower_bound(c.compiling, s->start_ns, {}, &Interval::start);
    return next != c.compiling.end() && next->start < s->interval().end;
  });
}

// Where neither profiler nor ranges number the versions, samples of the stack show in which steps it compiles.
std::optional<double> recompiles_value(const Measured& m) {
  const Compiled c = compiled(m);
  if (c.versions.empty()) {
    const int64_t steps = compiling_steps(m, c);
    return only_if(2 * steps > m.steps(), static_cast<double>(steps));
  }
  size_t most = 0;
  for (const auto& [code, versions] : c.versions)
    most = std::max({most, versions.size(), static_cast<size_t>(*versions.rbegin()) + 1});
  return only_if(most > 0, static_cast<double>(most));
}

// Without a device: what compilation takes on the step's thread, but for the first, which every program needs.
Intervals recompiling(const Measured& m, const Compiled& c) {
  const ThreadId thread = m.facts().get<Steps>().thread;
  if (m.has_device() || !thread.valid()) return {};
  Intervals time = intersect(intersect(c.compiling, m.facts().get<FirstUse>().time[thread.value]), m.measured_time());
  if (c.first_measured && !time.empty()) time.erase(time.begin());
  return time;
}

void describe_recompiles(const Measured& m, Finding& f) {
  const Compiled c = compiled(m);
  const int64_t compiling_ns = total_length(intersect(c.compiling, m.measured_time()));
  const int64_t steps = compiling_steps(m, c);
  const bool in_steps = m.facts().get<Steps>().marked() && 2 * steps > m.steps();
  f.what = c.versions.empty() ? fmt::format("code is compiled again in {} of {} steps", steps, m.steps())
                              : fmt::format("one function was compiled {:.0f} times", *f.value);
  if (const Intervals again = recompiling(m, c); !again.empty()) {
    set_cost(f, m.wall_ns(), total_length(again));
    const std::string pct = format_percent(*f.cost_pct, 0);
    f.verdict = in_steps ? fmt::format("Code is compiled again in {} of {} steps, which takes {} of the time.", steps,
                                       m.steps(), pct)
                         : fmt::format("One function was compiled {:.0f} times, which takes {} of the time.",
                                       *f.value, pct);
  }
  f.why = "Each new shape, dtype or Python value that its guards fix compiles it again, until the limit is reached and "
          "it runs in eager mode.";
  if (compiling_ns == 0) f.severity = Severity::kInfo;
  else
    f.evidence.push_back(fmt::format("{} of compilation in the measured steps",
                                     format_duration(static_cast<double>(compiling_ns))));
}

// An engine's decode steps without a graph launch.
std::optional<double> eager_inference_value(const Measured& m) {
  const Trace& trace = m.trace();
  const std::vector<bool>& launches_graph = m.facts().get<Names>().graph_launch;
  std::vector<int64_t> launches;
  for (HostId i(size_t{0}); i.value < trace.host.size(); ++i)
    if (trace.host.is_call(i) && launches_graph[trace.host.name[i.value].value])
      launches.push_back(trace.host.start_ns[i.value]);
  std::ranges::sort(launches);
  int64_t steps = 0, eager = 0;
  for (const Step* s : m.facts().get<Steps>().measured()) {
    if (s->batch.kind != StepKind::kDecode) continue;
    ++steps;
    const auto first = std::ranges::lower_bound(launches, s->start_ns);
    eager += first == launches.end() || *first >= s->interval().end;
  }
  return only_if(steps > 0, percent_of(eager, steps));
}

void describe_eager_inference(const Measured& m, Finding& f) {
  constexpr double kNoGapsPct = 90;   // a graph closes gaps between kernels
  if (m.known_utilization_pct() >= kNoGapsPct) f.severity = Severity::kInfo;
  f.what = fmt::format("{:.0f} % of the engine's decode steps run without a graph", *f.value);
  f.why = "A decode step launches hundreds of kernels of microseconds each; a graph launches them with one call.";
  f.fix = {"capture the decode step for each batch size: torch.cuda.CUDAGraph, or torch.compile(mode="
           "\"reduce-overhead\")"};
}

}  // namespace

extern const Rule kRecompiles;

Intervals find_recompiling(const Measured& measured) {
  const std::optional<double> value = recompiles_value(measured);
  return value && *value > measured.threshold(kRecompiles) ? recompiling(measured, compiled(measured)) : Intervals();
}

extern const Rule kGraphBreaks = {
    .id = "graph-breaks",
    .summary = "compiled code is in pieces",
    .unit = "count",
    .threshold = 0,
    .meaning =
        "torch.compile ends its graph at code it can't trace, runs that in Python, and continues with another graph. "
        "Nothing is fused across the break, each piece checks its guards, and CUDA graphs end there, too.",
    .computation =
        "Value: calls per step of the functions in which Dynamo resumes after a break. Without Python stacks: compiled "
        "code objects, less one; they may be separately compiled functions. No cost: the trace does not show how long "
        "one graph would take.",
    .advice = {
        "find the breaks: TORCH_LOGS=graph_breaks, torch._dynamo.explain(f)(…), or torch.compile(…, fullgraph=True)",
        "no print, logging, .item() or data-dependent control flow in compiled code: use torch.cond, or "
        "torch._dynamo.config.capture_scalar_outputs = True for .item()",
        "torch.compiler.disable for code that has to stay Python, at the edge of the model rather than inside",
        "compile a repeated block instead of the whole model (regional compilation)",
    },
    .rank = {.value = graph_breaks_value, .describe = describe_graph_breaks, .host_alone = true},
};

extern const Rule kRecompiles = {
    .id = "recompiles",
    .summary = "a function is compiled repeatedly",
    .unit = "count",
    .threshold = 2,
    .meaning =
        "Compiled code is valid for what its guards fix: shapes, dtypes, Python values. Other inputs compile it again, "
        "which takes seconds; beyond torch._dynamo.config.recompile_limit the function runs in eager mode.",
    .computation =
        "Value: versions of the function with the most, by the numbers of \"Torch-Compiled Region\" ranges in the "
        "measured steps; over two, because the second is often the one with dynamic shapes. Info unless a compilation "
        "is in those steps. Without such ranges: the measured steps in which Dynamo compiles, if over half. Cost without a "
        "device: the time of these compilations, but for the program's first. With a device no cost: first-use includes the "
        "time that the device waits for it.",
    .advice = {
        "find the guard that fails: TORCH_LOGS=recompiles, or tlparse on TORCH_TRACE",
        "torch.compile(…, dynamic=True), or torch._dynamo.mark_dynamic(tensor, dimension) for dimensions that change",
        "pad or bucket inputs to few shapes",
        "no Python numbers that change from call to call among the arguments: make them tensors",
        "warm up with every shape before measuring or serving",
    },
    .rank = {.value = recompiles_value, .describe = describe_recompiles, .host_alone = true},
};

extern const Rule kEagerInference = {
    .id = "eager-inference",
    .summary = "an inference engine decodes without graph replay",
    .unit = "%",
    .threshold = 50,
    .meaning =
        "Decoding runs many small kernels per token. Engines capture them in graphs, one for each batch size, and "
        "replay those; without graphs the host can't launch fast enough.",
    .computation =
        "Value: share of the engine's decode steps in which no graph is launched. No cost: host-bound-launches "
        "includes the time that the device waits for it.",
    .advice = {
        "vLLM: no --enforce-eager; --compilation-config with cudagraph_capture_sizes and cudagraph_mode",
        "SGLang: no --disable-cuda-graph; --cuda-graph-max-bs, --cuda-graph-bs",
        "TensorRT-LLM: cuda_graph_config: batch_sizes, enable_padding",
        "check the engine's log for features that forbid graphs (some LoRA, speculative and multimodal paths)",
    },
    .by_framework = {
        {kVllm, "start without --enforce-eager; cudagraph_capture_sizes up to the batch sizes in use"},
        {kSglang, "no --disable-cuda-graph; --cuda-graph-max-bs at least as large as the batches in use"},
        {kTensorRtLlm, "cuda_graph_config with the batch sizes in use"},
    },
    .rank = {.value = eager_inference_value, .describe = describe_eager_inference},
};

}  // namespace profgpu
