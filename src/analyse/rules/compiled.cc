// Where code is not compiled or captured in one piece: graph breaks, recompilation, decoding without graphs.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "analyse/rank/frameworks.h"
#include "analyse/rank/places.h"
#include "analyse/rules/measure.h"

namespace profgpu {
namespace {

using std::string_view;

/// "3/1" of "Torch-Compiled Region: 3/1": the second version of the fourth code object that was compiled.
struct Region {
  int64_t code = 0, version = 0;
};

std::optional<Region> compiled_region(string_view name) {
  constexpr string_view kPrefix = "Torch-Compiled Region: ";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  Region region;
  const char* const end = name.data() + name.size();
  const auto code = std::from_chars(name.data() + kPrefix.size(), end, region.code);
  if (code.ec != std::errc() || code.ptr == end || *code.ptr != '/') return std::nullopt;
  const auto version = std::from_chars(code.ptr + 1, end, region.version);
  return version.ec == std::errc() ? std::optional(region) : std::nullopt;
}

/// What Dynamo does in measured steps, as its ranges and frames say.
struct Compiled {
  explicit Compiled(const Facts& facts) : breaks_at(facts) {}
  std::map<int64_t, std::set<int64_t>> versions;   // that run, by code object
  int64_t regions = 0, resumed = 0;                // entered; of these after a break, where there are stacks
  Places breaks_at;
  Intervals compiling;
};

Compiled compiled(const Measured& m) {
  const Trace& trace = m.trace();
  std::vector<std::optional<Region>> region(trace.strings.size());
  std::vector<char> resumes(trace.strings.size()), compiles(trace.strings.size());
  for (size_t i = 0; i < region.size(); ++i) {
    const string_view name = trace.strings[StringId(i)];
    region[i] = compiled_region(name);
    resumes[i] = name.find("): torch_dynamo_resume_in_") != name.npos;
    compiles[i] = name == "_compile.compile_inner (dynamo_timed)" || name == "compile_fx.<locals>.fw_compiler_base";
  }
  Compiled c(m.facts());
  for (uint32_t i = 0; i < trace.host.size(); ++i) {
    const uint32_t name = trace.host.name[i].value;
    if (!region[name] && !resumes[name] && !compiles[name]) continue;
    if (!m.in_measured_step(trace.host.start_ns[i])) continue;
    const HostId range(i);
    if (region[name]) c.versions[region[name]->code].insert(region[name]->version), ++c.regions;
    if (resumes[name]) c.breaks_at.add(range, trace.host.duration_ns[i]), ++c.resumed;
    if (compiles[name]) c.compiling.push_back({trace.host.start_ns[i], trace.host.end_ns(range)});
  }
  c.compiling = merged(std::move(c.compiling));
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

void say_graph_breaks(const Measured& m, Finding& f) {
  Compiled c = compiled(m);
  f.where = c.breaks_at.most_expensive();
  f.fix = {"TORCH_LOGS=graph_breaks names each place and why; torch.compile(…, fullgraph=True) refuses to break",
           "no print, .item(), data-dependent if and calls into other libraries within what is compiled; "
           "torch._dynamo.config.capture_scalar_outputs = True for .item()"};
  if (c.resumed == 0) {
    f.severity = Severity::kInfo;
    f.what = fmt::format("{} pieces of compiled code run in turn: graph breaks, or functions compiled by themselves",
                         c.versions.size());
    f.why = "Between them Python runs, and nothing is fused across their ends.";
    return;
  }
  f.what = fmt::format("compiled code breaks {:.1f} times a step", *f.value);
  f.why = "At each break the graph ends, Python goes on by itself, and nothing is fused across it.";
  f.evidence.push_back(fmt::format("{:.1f} compiled regions a step", per_step(m, c.regions)));
}

std::optional<double> recompiles_value(const Measured& m) {
  const Compiled c = compiled(m);
  size_t most = 0;
  for (const auto& [code, versions] : c.versions)
    most = std::max({most, versions.size(), static_cast<size_t>(*versions.rbegin() + 1)});
  return only_if(most > 0, static_cast<double>(most));
}

void say_recompiles(const Measured& m, Finding& f) {
  const int64_t compiling_ns = total_length(intersect(compiled(m).compiling, m.measured_time()));
  if (compiling_ns == 0) f.severity = Severity::kInfo;
  f.what = fmt::format("one function was compiled {:.0f} times", *f.value);
  f.why = "Each new shape, dtype or Python value that its guards hold fixed compiles it again, until the limit is "
          "reached and it runs in eager mode.";
  f.fix = {"TORCH_LOGS=recompiles names the guard that failed",
           "torch.compile(…, dynamic=True), or torch._dynamo.mark_dynamic(tensor, dimension) for what changes",
           "pad or bucket inputs to few shapes"};
  if (compiling_ns > 0)
    f.evidence.push_back(fmt::format("{} of compilation in the measured steps",
                                     duration_text(static_cast<double>(compiling_ns))));
}

// Decode steps of an engine without a graph launch.
std::optional<double> eager_inference_value(const Measured& m) {
  const Trace& trace = m.trace();
  std::vector<int64_t> launches;
  for (uint32_t i = 0; i < trace.host.size(); ++i)
    if (trace.host.is_call(HostId(i)) && trace.name(HostId(i)).find("GraphLaunch") != string_view::npos)
      launches.push_back(trace.host.start_ns[i]);
  std::sort(launches.begin(), launches.end());
  int64_t steps = 0, eager = 0;
  for (const Step* s : m.facts().get<Steps>().measured()) {
    if (s->batch.kind != StepKind::kDecode) continue;
    ++steps;
    const auto first = std::lower_bound(launches.begin(), launches.end(), s->start_ns);
    eager += first == launches.end() || *first >= s->interval().end;
  }
  return only_if(steps > 0, percent_of(eager, steps));
}

void say_eager_inference(const Measured& m, Finding& f) {
  constexpr double kNoGapsPct = 90;   // a graph closes gaps between kernels
  if (m.known_utilization_pct() >= kNoGapsPct) f.severity = Severity::kInfo;
  f.what = fmt::format("the engine decodes without replaying graphs: {:.0f} % of its decode steps", *f.value);
  f.why = "A decode step launches hundreds of kernels of microseconds; a graph launches them with one call.";
  f.fix = {"capture the decode step for each batch size: torch.cuda.CUDAGraph, or torch.compile(mode="
           "\"reduce-overhead\")"};
}

}  // namespace

extern const Rule kGraphBreaks = {
    .id = "graph-breaks",
    .summary = "compiled code is in pieces",
    .unit = "count",
    .threshold = 0,
    .meaning =
        "torch.compile ends its graph at what it cannot trace, runs that in Python, and goes on with another graph. "
        "Nothing is fused across the break, each piece checks its guards, and CUDA graphs end there, too.",
    .computation =
        "Value: calls of the functions that Dynamo resumes in after a break, a step. Without Python stacks: code "
        "objects that were compiled, less one; they may be functions compiled by themselves. No cost: what one graph "
        "takes is not in the trace.",
    .advice =
        {
            "TORCH_LOGS=graph_breaks; torch._dynamo.explain(f)(…); fullgraph=True while looking for them",
            "no print, logging, .item() or data-dependent control flow in compiled code; torch.cond instead",
            "torch.compiler.disable around what has to stay Python, at the edge of the model rather than inside",
            "compile a block that repeats instead of the whole model (regional compilation)",
        },
    .rank = {.value = graph_breaks_value, .say = say_graph_breaks, .host_alone = true},
};

extern const Rule kRecompiles = {
    .id = "recompiles",
    .summary = "a function is compiled again and again",
    .unit = "count",
    .threshold = 2,
    .meaning =
        "Compiled code holds for what its guards say: shapes, dtypes, Python values. Inputs beyond that compile anew, "
        "for seconds each; past torch._dynamo.config.recompile_limit the function runs in eager mode.",
    .computation =
        "Value: versions of the function that has most, as \"Torch-Compiled Region\" ranges of the measured steps "
        "number them; over two, since the second is often the one with dynamic shapes. Info unless a compilation is "
        "in those steps. No cost: first-use has the time that the device waits for it.",
    .advice =
        {
            "TORCH_LOGS=recompiles; tlparse on TORCH_TRACE shows all of them",
            "dynamic=True or mark_dynamic for dimensions that change; padding to few sizes for the rest",
            "no Python numbers that change from call to call among the arguments: make them tensors",
            "warm up with every shape before measuring or serving",
        },
    .rank = {.value = recompiles_value, .say = say_recompiles, .host_alone = true},
};

extern const Rule kEagerInference = {
    .id = "eager-inference",
    .summary = "an inference engine decodes without graph replay",
    .unit = "%",
    .threshold = 50,
    .meaning =
        "Decoding runs many small kernels a token. Engines capture them in graphs, one for each batch size, and replay "
        "these; where they do not, the host cannot launch fast enough.",
    .computation =
        "Value: share of the engine's decode steps in which no graph is launched. No cost: host-bound-launches has "
        "the time that the device waits for it.",
    .advice =
        {
            "vLLM: no --enforce-eager; --compilation-config with cudagraph_capture_sizes and cudagraph_mode",
            "SGLang: no --disable-cuda-graph; --cuda-graph-max-bs, --cuda-graph-bs",
            "TensorRT-LLM: cuda_graph_config: batch_sizes, enable_padding",
            "features that forbid graphs (some LoRA, speculative and multimodal paths): look at the engine's log",
        },
    .by_framework =
        {
            {Framework::kVllm, "start without --enforce-eager; cudagraph_capture_sizes up to the batches that are "
             "served"},
            {Framework::kSglang, "no --disable-cuda-graph; --cuda-graph-max-bs at least as large as the batches that "
             "are served"},
            {Framework::kTensorRtLlm, "cuda_graph_config with the batch sizes that are served"},
        },
    .rank = {.value = eager_inference_value, .say = say_eager_inference},
};

}  // namespace profgpu
