#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analyse/rank/frameworks.h"
#include "analyse/rank/launch.h"
#include "analyse/rules/measure.h"

namespace profgpu {

extern const Rule kHostBoundLaunches;

namespace {

constexpr int64_t kLongGap_ns = 1'000'000;   // longer ones are no launch overhead: the host does something else

/// What launching threads do within the host-bound gaps of measured steps.
struct HostWork {
  int64_t gaps_ns = 0, long_gaps_ns = 0;
  int64_t unrecorded_ns = 0;   // of long gaps: outside every operator, call and Python frame
};

// Time of a thread in operators, calls and Python frames. Ranges that the program marks do not count: they enclose what
// it does, and do not say what.
Intervals recorded_time(const Trace& trace, ThreadId thread) {
  Intervals time;
  const Thread& t = trace.threads[thread.value];
  for (uint32_t i = t.begin.value; i < t.end.value; ++i)
    if (trace.host.kind[i] != HostKind::kAnnotation) time.push_back(trace.host.interval(HostId(i)));
  return merged(std::move(time));
}

HostWork host_work(const Measured& m) {
  const Trace& trace = m.trace();
  std::map<ThreadId, Intervals> recorded;
  HostWork sum;
  for (const Gap& gap : m.gaps()) {
    if (gap.cause != IdleCause::kHostBound || !m.in_measured_step(gap.end_ns - 1)) continue;
    sum.gaps_ns += gap.length();
    if (gap.length() < kLongGap_ns) continue;
    sum.long_gaps_ns += gap.length();
    if (!gap.launch.valid()) continue;
    const ThreadId thread = trace.host.thread[gap.launch.value];
    const auto [time, added] = recorded.try_emplace(thread);
    if (added) time->second = recorded_time(trace, thread);
    const Interval wait{gap.start_ns, std::min(gap.end_ns, trace.host.start_ns[gap.launch.value])};
    sum.unrecorded_ns += wait.length() - overlap_length(time->second, wait);
  }
  return sum;
}

bool prepares_inputs(const Place& place) {
  const std::string text = place.file + " " + place.name;
  for (const std::string_view part : {"image", "video", "audio", "token", "transforms", "processing", "PIL", "resize",
                                      "normalize", "collate", "feature_extraction"})
    if (text.find(part) != text.npos) return true;
  return false;
}

// The host does something of the program's own for long rather than launch, a good part of it in one function.
void say_place(const Measured& m, Finding& f) {
  const std::string first = place_text(f.where.front());
  f.own_fixes = true;
  f.verdict = fmt::format("The GPU waits for the host: it idles {} of the time, above all while the host is in {}.",
                          share_text(f), first);
  f.what = fmt::format("the GPU waits while the host does other work, above all in {}", first);
  f.why = fmt::format("{} idles {} of the time, mostly in gaps of over a millisecond: the host computes something "
                      "between launches.",
                      m.device_label(), percent_text(*f.value));
  f.fix = {fmt::format("move what {} does out of the step, or into another thread or process", first)};
  if (std::ranges::none_of(f.where, prepares_inputs)) return;
  f.fix = {"prepare inputs ahead of the step, in other processes: DataLoader(…, num_workers=4, pin_memory=True)"};
  if (m.facts().get<Frameworks>().has(Framework::kTransformers))
    f.fix.emplace_back("AutoImageProcessor.from_pretrained(…, use_fast=True)   # on tensors, on the GPU if asked");
}

void say_unrecorded(const Measured& m, int64_t unrecorded_ns, Finding& f) {
  const std::string time = duration_text(static_cast<double>(unrecorded_ns / std::max<int64_t>(m.steps(), 1)));
  f.own_fixes = true;
  f.verdict = fmt::format("The GPU waits for the host: it idles {} of the time, mostly while the host runs code that the "
                          "trace does not show.",
                          share_text(f));
  f.what = "the GPU waits while the host runs code that the trace does not show";
  f.why = fmt::format("{} idles {} of the time. For {} a step the thread that launches is in no operator and no CUDA "
                      "call: Python, a library, a file, or sleep.",
                      m.device_label(), percent_text(*f.value), time);
  f.fix = {"record the Python stacks to see the line: with_stack=True in torch.profiler, or profgpu run --trace",
           "move logging, evaluation and data preparation off the thread that launches"};
}

void say_late_launches(const Measured& m, Finding& f) {
  f.what = "the GPU runs dry: the host launches work too late";
  f.why = fmt::format("{} idles {} of the time because Python and the framework had not launched the next kernel yet.",
                      m.device_label(), percent_text(*f.value));
  f.fix = {m.facts().get<Frameworks>().has(Framework::kTorchCompile)
               ? "torch.compile(model, mode=\"reduce-overhead\")   # replays CUDA graphs, too"
               : "model = torch.compile(model, mode=\"reduce-overhead\")   # fuses kernels, replays CUDA graphs",
           "larger batches, so that each launch brings more work",
           "move logging, .item() and Python work out of the step",
           "torch.cuda.make_graphed_callables for fixed shapes"};
}

void say_host_bound_launches(const Measured& m, Finding& f) {
  const Launch& launch = m.facts().get<Launch>();
  const HostWork work = host_work(m);
  const bool other_work = 2 * work.long_gaps_ns > work.gaps_ns;
  const bool in_one_place =
      !f.where.empty() && !f.where.front().file.empty() && 4 * f.where.front().ns >= m.idle_ns(IdleCause::kHostBound);
  if (other_work && in_one_place) say_place(m, f);
  else if (2 * work.unrecorded_ns > work.gaps_ns) say_unrecorded(m, work.unrecorded_ns, f);
  else say_late_launches(m, f);
  f.evidence.push_back(fmt::format("{} launches; median launch latency {}", launch.launches,
                                   duration_text(launch.median_latency_ns.value_or(0))));
  add_blocked_thread(f, m, IdleCause::kHostBound);
}

constexpr double kHostBoundPct = 10;   // of span, host_bound and launch_latency together

// Short ones, and all.
std::pair<int64_t, int64_t> counted_kernels(const Measured& m) {
  const Launch& l = m.facts().get<Launch>();
  return {m.counted(l.short_kernels, l.steady_short_kernels), m.counted(l.kernels, l.steady_kernels)};
}

std::optional<double> short_kernels_value(const Measured& m) {
  if (m.idle_pct(IdleCause::kHostBound) + m.idle_pct(IdleCause::kLaunchLatency) <= kHostBoundPct) return std::nullopt;
  const auto [short_ones, all] = counted_kernels(m);
  return only_if(all != 0, percent_of(short_ones, all));
}

void say_short_kernels(const Measured& m, Finding& f) {
  const auto [short_ones, all] = counted_kernels(m);
  f.what = "most kernels run for less time than their launch takes";
  f.why = fmt::format("{} of the kernels are shorter than the call that launched them, so the host cannot keep ahead.",
                      percent_text(*f.value));
  f.fix = {"model = torch.compile(model, mode=\"reduce-overhead\")   # fusion and CUDA graphs",
           "torch.cuda.make_graphed_callables(model, sample)   # one launch replays hundreds of kernels",
           "larger batches: the same launches, longer kernels"};
  f.evidence.push_back(fmt::format("{} short kernels of {}", short_ones, all));
  // Time lost to late launches belongs to host-bound-launches where that fires.
  const bool taken = m.idle_pct(IdleCause::kHostBound) > m.threshold(kHostBoundLaunches);
  int64_t cost = m.saved_by_cause(IdleCause::kLaunchLatency);
  if (!taken) cost += m.saved_by_cause(IdleCause::kHostBound);
  if (cost > 0) set_cost(f, m.wall_ns(), cost);
}

}  // namespace

extern const Rule kHostBoundLaunches = {
    .id = "host-bound-launches",
    .summary = "the host launches work too late",
    .unit = "%",
    .threshold = 10,
    .grave = 30,
    .meaning =
        "The device finishes what it was given before the host has launched more. Eager PyTorch spends 5 to 20 µs of "
        "Python and dispatcher time an operator; kernels shorter than that leave the device idle.",
    .computation =
        "Value: idle time of cause host_bound as a share of the device's window. Cost: the trace is replayed with the "
        "host time in those gaps taken out and what ends them launched in time; at most that idle time.",
    .advice = {
        "torch.compile(model): fewer, larger kernels and less Python between them",
        "torch.compile(model, mode=\"reduce-overhead\") or CUDA graphs (torch.cuda.graph, make_graphed_callables)",
        "larger batch or sequence, gradient accumulation with a larger micro-batch",
        "fused kernels: scaled_dot_product_attention, fused=True optimizers, Liger, Apex, xFormers",
        "foreach=True or fused=True in torch.optim; zero_grad(set_to_none=True)",
        "no Python work between launches: log every N steps, keep metrics on the device, avoid .item() and print",
        "check that the CPU is not shared: pin ranks to cores and NUMA nodes (numactl, torchrun --bind), "
        "OMP_NUM_THREADS",
        "DeepSpeed, FSDP: smaller wrapping units launch more; wrap whole transformer blocks",
    },
    .by_framework =
        {
            {Framework::kVllm, "start without --enforce-eager, so that decoding replays CUDA graphs",
             Framework::kCudaGraphs},
            {Framework::kVllm, "more sizes in --compilation-config cudagraph_capture_sizes; raise "
             "--max-num-batched-tokens and --max-num-seqs, so that a step brings more work"},
            {Framework::kSglang, "raise --cuda-graph-max-bs, so that every decode batch replays a graph; no "
             "--disable-cuda-graph"},
            {Framework::kSglang, "--enable-torch-compile for small batches", Framework::kTorchCompile},
            {Framework::kTensorRtLlm, "cuda_graph_config with the batch sizes that are served; overlap scheduler on"},
            {Framework::kTrainer, "TrainingArguments(torch_compile=True)", Framework::kTorchCompile},
            {Framework::kAccelerate, "Accelerator(dynamo_backend=\"inductor\")", Framework::kTorchCompile},
            {Framework::kLightning, "trainer.fit(torch.compile(module))", Framework::kTorchCompile},
            {Framework::kDiffusers, "pipe.transformer = torch.compile(pipe.transformer), or pipe.unet",
             Framework::kTorchCompile},
            {Framework::kMegatron, "--enable-cuda-graph, with Transformer Engine", Framework::kCudaGraphs},
            {Framework::kDdp, "broadcast_buffers=False where buffers need no synchronization", {}, true},
            {Framework::kFsdp, "wrap whole transformer blocks: each unit launches collectives and copies of its own",
             {}, true},
            {Framework::kDeepSpeed, "a larger train_micro_batch_size_per_gpu with fewer gradient_accumulation_steps",
             {}, true},
        },
    .verdict = "The GPU waits for the host: it idles {} of the time because work is launched too late.",
    .cause = IdleCause::kHostBound,
    .rank = {.say = say_host_bound_launches},
    .job_cost = {.change = "host_bound_free"},
    .checklist = {{.place = 6,
                   .id = "compiled",
                   .question = "Is torch.compile, Triton or a CUDA graph in use?",
                   .label = "torch.compile",
                   .judge = [](const RankMeasure& m, bool) { return m.compiled ? Verdict::kPass : Verdict::kFail; }}},
};

extern const Rule kShortKernels = {
    .id = "short-kernels",
    .summary = "most kernels are shorter than their own launch",
    .unit = "%",
    .threshold = 50,
    .meaning =
        "A kernel that takes less time than launching it cannot be fed fast enough by one host thread. Fewer, larger "
        "kernels or launching many at once is the way out.",
    .computation =
        "Value: share of linked kernels outside graphs whose duration is below that of their launch call on the host. "
        "Fires only if host_bound and launch_latency idle time together are over 10 % of the window. Cost: the trace "
        "replayed without launch latency, and without late launches where host-bound-launches does not claim them.",
    .advice = {
        "torch.compile: fuses elementwise chains; mode=\"reduce-overhead\" adds CUDA graphs",
        "CUDA graphs by hand: torch.cuda.graph, make_graphed_callables; inference servers: capture per batch size",
        "fused operators: fused=True optimizers, scaled_dot_product_attention, fused layer norm, xFormers",
        "larger batches, longer sequences, fewer and wider layers",
        "for inference: batch requests",
    },
    .by_framework =
        {
            {Framework::kVllm, "start without --enforce-eager, so that decoding replays CUDA graphs",
             Framework::kCudaGraphs},
            {Framework::kVllm, "raise --max-num-seqs and --max-num-batched-tokens: the same launches, longer kernels"},
            {Framework::kSglang, "no --disable-cuda-graph; raise --max-running-requests: the same launches, longer "
             "kernels"},
            {Framework::kTensorRtLlm, "cuda_graph_config with the batch sizes that are served"},
            {Framework::kTrainer, "TrainingArguments(torch_compile=True)", Framework::kTorchCompile},
        },
    .verdict = "Kernels are too short: {} of them take less time than their launch.",
    .seen = {Locator::At::kLongestGap, std::string(idle_cause_name(IdleCause::kHostBound))},
    .rank = {.value = short_kernels_value, .say = say_short_kernels},
    .job_cost = {.change = "short_launches_free"},
};

}  // namespace profgpu
