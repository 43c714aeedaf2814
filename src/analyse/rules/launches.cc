#include <fmt/format.h>

#include <algorithm>

#include "analyse/rank/frameworks.h"
#include "analyse/rank/launch.h"
#include "analyse/rank/recorder_advice.h"
#include "analyse/report/quantity.h"
#include "analyse/rules/host_work.h"
#include "analyse/rules/measure.h"
#include "base/text.h"

namespace profgpu {

extern const Rule kHostBoundLaunches;

namespace {

using enum Framework;

// The host does long work of the program's own instead of launching, a good part of it in one function.
void describe_host_work(const Measured& m, Finding& f) {
  const std::string place = place_text(f.where.front());
  const std::string part = part_text(f.where.front(), m.idle_ns(IdleCause::kHostBound));
  const Frameworks& with = m.facts().get<Frameworks>();
  f.own_fixes = !with.serves();   // its users do not change that function
  f.verdict = fmt::format("The GPU waits for the host: it idles {} of the time, {} while the host is in {}.",
                          format_percent(*f.value, 0), part, place);
  f.what = fmt::format("the GPU waits while the host does other work, {} in {}", part, place);
  f.why = fmt::format("{} idles {} of the time, mostly in gaps over a millisecond: the host computes something between "
                      "launches.",
                      m.device_label(), format_percent(*f.value));
  if (const SystemWait* wait = system_wait(f.where.front())) {
    f.what = fmt::format("the GPU waits while the host waits for {}, {} in {}", wait->words, part, place);
    f.fix = {std::string(wait->fix)};
    return;
  }
  if (saves_checkpoint(f.where.front())) {
    f.fix = {std::string(kSaveInBackground), "save less often, and only what is needed to go on"};
    return;
  }
  if (awaits_ranks(f.where.front())) {
    f.verdict = fmt::format("The host waits for other ranks in {}, and the GPU for the host: it idles {} of the time. "
                            "Which rank is late, and why, only all ranks' traces can tell.",
                            place, format_percent(*f.value, 0));
    f.what = fmt::format("the host waits for other ranks in {}", place);
    f.fix = {"record all ranks, and give analyze the folder with their traces",
             "no barrier in the loop: collectives keep ranks together without one"};
    f.cost_ns.reset(), f.cost_pct.reset();
    return;
  }
  if (!std::ranges::any_of(f.where, prepares_inputs)) {
    if (library_of(f.where.front().file).empty())
      f.fix = {fmt::format("move the work of {} out of the step, or to another thread or process", place)};
    else f.fix = library_fixes(m, f.where.front(), IdleCause::kHostBound);
    return;
  }
  f.fix = {"prepare inputs ahead of the step, in other processes: DataLoader(…, num_workers=4, pin_memory=True)"};
  if (with.has(kPipeline))
    f.fix.insert(f.fix.begin(), "pipe(inputs, batch_size=8, num_workers=4): workers prepare the next inputs meanwhile");
  if (with.has(kTransformers))
    f.fix.emplace_back("AutoImageProcessor.from_pretrained(…, use_fast=True)   # works on tensors, also on the GPU");
}

std::string record_stacks(const Measured& m) {
  return fmt::format("record Python stacks to see the line: {}", recorder_advice(m.trace()).stacks);
}

// As above, in many places or in operators.
void describe_long_gaps(const Measured& m, Finding& f) {
  f.own_fixes = !m.facts().get<Frameworks>().serves();
  f.verdict = fmt::format("The GPU waits for the host: it idles {} of the time, mostly for over a millisecond at a time, "
                          "while the host does other work than launching.",
                          format_percent(*f.value, 0));
  f.what = "the GPU waits while the host does other work than launching";
  f.why = fmt::format("{} idles {} of the time, mostly in gaps over a millisecond: no launch takes as long.",
                      m.device_label(), format_percent(*f.value));
  f.fix = {"prepare inputs ahead of the step, in other processes: DataLoader(…, num_workers=4, pin_memory=True)",
           "move logging, metrics and evaluation off the launching thread"};
  if (!has_python_frames(m.trace()))
    f.fix.insert(f.fix.begin(), record_stacks(m));
}

void describe_unrecorded_work(const Measured& m, int64_t unrecorded_ns, Finding& f) {
  f.own_fixes = !m.facts().get<Frameworks>().serves();
  f.verdict = fmt::format("The GPU waits for the host: it idles {} of the time, mostly while the host runs code that "
                          "the trace does not show.",
                          format_percent(*f.value, 0));
  f.what = "the GPU waits while the host runs code that the trace does not show";
  f.why = fmt::format("{} idles {} of the time. For {} the launching thread is in no operator and no CUDA call: "
                      "Python, a library, a file, or sleep.",
                      m.device_label(), format_percent(*f.value), per_step_text(m, unrecorded_ns));
  f.fix = {"move logging, evaluation and data preparation off the launching thread"};
  if (!has_python_frames(m.trace()))
    f.fix.insert(f.fix.begin(), record_stacks(m));
}

// DistributedDataParallel's forward pass sends the model's buffers to all ranks.
bool is_buffer_broadcast(const Place& place) {
  constexpr std::string_view kParts[] = {"unflatten_dense_tensors", "broadcast_coalesced", "_sync_buffers",
                                         "_sync_module_buffers"};
  return contains_any(place.name, kParts);
}

bool is_of_optimizer(const Place& place) {
  return contains(place.name, "Optimizer.") || contains(place.file, "torch/optim/");
}

void describe_late_launches(const Measured& m, Finding& f) {
  f.what = "the GPU runs out of work: the host launches too late";
  f.why = fmt::format("{} idles {} of the time because Python and the framework have not launched the next kernel yet.",
                      m.device_label(), format_percent(*f.value));
  f.fix = {m.facts().get<Frameworks>().has(kTorchCompile)
               ? "torch.compile(model, mode=\"reduce-overhead\")   # also replays CUDA graphs"
               : "model = torch.compile(model, mode=\"reduce-overhead\")   # fuses kernels, replays CUDA graphs",
           "larger batches: more work per launch", "move logging, .item() and Python work out of the step",
           "torch.cuda.make_graphed_callables for fixed shapes"};
  // Graphs need the same sizes in every step.
  if (m.facts().get<Frameworks>().has(kJagged) && !m.facts().get<Frameworks>().has(kTorchRec))
    f.fix.front() = "model = torch.compile(model, dynamic=True)   # sizes differ from step to step";
  if (m.facts().get<Frameworks>().has(kGenerate))
    f.fix.insert(f.fix.begin(), "model.generate(…, cache_implementation=\"static\"): fixed shapes, so that the decode step "
                                "is compiled and replayed as a graph");
  if (!f.where.empty() && is_of_optimizer(f.where.front()))
    f.fix.insert(f.fix.begin(), "fused=True in torch.optim (foreach=True where there is none): a few kernels instead of "
                                "several for each parameter");
  const auto much = [&](const Place& place) { return 10 * place.ns >= m.idle_ns(IdleCause::kHostBound); };
  const Place* zeroes = first_where(f.where, [](const Place& p) { return contains(p.name, "zero_grad"); });
  if (zeroes != nullptr && much(*zeroes))
    f.fix.insert(f.fix.begin(), fmt::format("optimizer.zero_grad(set_to_none=True): no kernel for each parameter; "
                                            "zero_grad() takes {} of these waits",
                                            per_step_text(m, zeroes->ns)));
  const Place* broadcast = first_where(f.where, is_buffer_broadcast);
  if (!m.facts().get<Frameworks>().has(kDdp) || broadcast == nullptr) return;
  f.fix.insert(much(*broadcast) ? f.fix.begin() : f.fix.end(),
               fmt::format("DDP(…, broadcast_buffers=False) if buffers, such as running statistics, need no "
                           "synchronization in every forward pass: saves up to {}",
                           per_step_text(m, broadcast->ns)));
}

// Clocks of host and device may differ. From launch to start it takes long where the host is ahead.
std::string latency_text(const Measured& m, double median_ns) {
  constexpr double kQueued_ns = 50'000;
  if (median_ns >= kQueued_ns) {
    const int64_t gaps = std::ranges::count_if(m.gaps(), [&](const Gap& g) { return m.counts(g, IdleCause::kHostBound); });
    return fmt::format("for most kernels the host is ahead: the median one starts {} after its launch. It falls behind "
                       "in {} {}",
                       format_duration(median_ns), format_count(gaps), gaps == 1 ? "gap" : "gaps");
  }
  if (median_ns >= 0) return fmt::format("median launch latency {}", format_duration(median_ns));
  return fmt::format("the median kernel starts {} before its launch: the clocks of host and device differ",
                     format_duration(-median_ns));
}

void describe_host_bound_launches(const Measured& m, Finding& f) {
  const Launch& launch = m.facts().get<Launch>();
  const UnrecordedWork unrecorded = unrecorded_work(m, IdleCause::kHostBound);
  const bool long_gaps = has_long_gaps(m, IdleCause::kHostBound);
  const bool in_one_place = main_place(f.where, m.idle_ns(IdleCause::kHostBound)) != nullptr;
  if (in_one_place && long_gaps) describe_host_work(m, f);
  else if (unrecorded.is_most()) describe_unrecorded_work(m, unrecorded.ns, f);
  else if (long_gaps) describe_long_gaps(m, f);
  else describe_late_launches(m, f);
  const int64_t launches = m.counted(launch.launches, launch.steady_launches);
  const std::optional<double> latency_ns = m.counted_of(launch.median_latency_ns, launch.steady_median_latency_ns);
  f.evidence.push_back(fmt::format("{} launch{}; {}", format_count(launches), launches == 1 ? "" : "es",
                                   latency_text(m, latency_ns.value_or(0))));
  add_blocked_thread(f, m, IdleCause::kHostBound);
  if (!unrecorded.is_most()) add_slow_recording(m, f);
}

constexpr double kMinHostBoundPct = 10;   // of the window, host_bound and launch_latency together

struct KernelCount {
  int64_t too_short = 0, all = 0;
};

KernelCount counted_kernels(const Measured& m) {
  const Launch& l = m.facts().get<Launch>();
  return {m.counted(l.short_kernels, l.steady_short_kernels), m.counted(l.kernels, l.steady_kernels)};
}

std::optional<double> short_kernels_value(const Measured& m) {
  if (m.idle_pct(IdleCause::kHostBound) + m.idle_pct(IdleCause::kLaunchLatency) <= kMinHostBoundPct)
    return std::nullopt;
  const auto [too_short, all] = counted_kernels(m);
  return only_if(all != 0, percent_of(too_short, all));
}

// Those of measured steps on the device, as Launch counts them.
std::vector<ActivityId> short_kernels(const Measured& m) {
  const Trace& trace = m.trace();
  std::vector<ActivityId> kernels;
  for (ActivityId a = m.device().begin; a < m.device().end; ++a) {
    const HostId call = trace.activity.launch[a.value];
    if (trace.activity.kind[a.value] != ActivityKind::kKernel || !call.valid()) continue;
    if (trace.activity.duration_ns[a.value] < trace.host.duration_ns[call.value] &&
        m.in_measured_step(trace.host.start_ns[call.value]))
      kernels.push_back(a);
  }
  return kernels;
}

void describe_short_kernels(const Measured& m, Finding& f) {
  const auto [too_short, all] = counted_kernels(m);
  f.what = "most kernels finish faster than they can be launched";
  f.why = fmt::format("{} of the kernels are shorter than their launch call, so the host can't stay ahead.",
                      format_percent(*f.value));
  f.evidence.push_back(fmt::format("{} of {} kernels are short", format_count(too_short), format_count(all)));
  if (m.idle_ns(IdleCause::kLaunchLatency) > m.idle_ns(IdleCause::kHostBound))
    f.seen.of = idle_cause_name(IdleCause::kLaunchLatency);
  show_kernels(m, short_kernels(m), f);
  // Time lost to late launches belongs to host-bound-launches if that fires.
  int64_t cost = m.saved_by_cause(IdleCause::kLaunchLatency);
  if (m.idle_pct(IdleCause::kHostBound) <= m.threshold(kHostBoundLaunches))
    cost += m.saved_by_cause(IdleCause::kHostBound);
  if (cost > 0) set_cost(f, m.wall_ns(), cost);
  add_slow_recording(m, f);
}

constexpr std::string_view kDenseLayersAlone =
    "torch.compile of the dense layers alone: graphs can take neither jagged inputs nor the exchange of embeddings";

// What is in use, or could be.
std::string_view compiled_label(const RankMeasure& m) {
  if (m.with.has(kJax)) return "XLA";
  if (m.with.has(kNative) || (m.with.has(kCudaGraphs) && !m.with.has(kTorchCompile))) return "CUDA graphs";
  return m.with.has(kOldTorch) ? "torch.compile (needs PyTorch 2)" : "torch.compile";
}

}  // namespace

extern const Rule kHostBoundLaunches = {
    .id = "host-bound-launches",
    .summary = "the host launches work too late",
    .unit = "%",
    .threshold = 10,
    .severe = 30,
    .meaning =
        "The device finishes its work before the host has launched more. Eager PyTorch spends 5 to 20 µs of Python and "
        "dispatcher time per operator; kernels shorter than that leave the device idle.",
    .computation =
        "Value: idle time of cause host_bound as a share of the device's window. Cost: replay of the trace without the "
        "host time in those gaps, and with the work after them launched in time; at most that idle time.",
    .advice = {
        "torch.compile(model): fewer, larger kernels and less Python between them",
        "torch.compile(model, mode=\"reduce-overhead\") or CUDA graphs (torch.cuda.graph, make_graphed_callables)",
        "larger batches or sequences; gradient accumulation with larger micro-batches",
        "fused kernels: scaled_dot_product_attention, fused=True optimizers, Liger, Apex, xFormers",
        "foreach=True or fused=True in torch.optim; zero_grad(set_to_none=True)",
        "no Python work between launches: log every N steps, keep metrics on the device, avoid .item() and print",
        "don't share the CPU: pin ranks to cores and NUMA nodes (numactl, torchrun --numa-binding=node), OMP_NUM_THREADS",
        "DeepSpeed, FSDP: small wrapping units launch more; wrap whole transformer blocks",
    },
    .by_framework = {
        {kTorchRec, kDenseLayersAlone, kTorchCompile},
        {kVllm, "start without --enforce-eager, so that decoding replays CUDA graphs", kCudaGraphs},
        {kVllm, "more sizes in --compilation-config cudagraph_capture_sizes", kAllGraphs},
        {kSglang, "raise --cuda-graph-max-bs so that every decode batch replays a graph; no --disable-cuda-graph",
         kAllGraphs},
        {kVllm, "raise --max-num-batched-tokens and --max-num-seqs for more work per step"},
        {kVllm, "--async-scheduling: schedules the next step while one runs"},
        {kSglang, "--enable-torch-compile for small batches", kTorchCompile},
        {kSglang, "leave the overlap scheduler on: no --disable-overlap-schedule"},
        {kTensorRtLlm, "cuda_graph_config with the batch sizes in use; overlap scheduler on"},
        {kTrainer, "TrainingArguments(torch_compile=True)", kTorchCompile},
        {kAccelerate, "Accelerator(dynamo_backend=\"inductor\")", kTorchCompile},
        {kLightning, "trainer.fit(torch.compile(module))", kTorchCompile},
        {kDiffusers, "pipe.transformer = torch.compile(pipe.transformer), or pipe.unet", kTorchCompile},
        {kMegatron, "--cuda-graph-impl transformer_engine, or local", kCudaGraphs},
        {kDdp, "broadcast_buffers=False if buffers need no synchronization", {}, true},
        {kFsdp, "wrap whole transformer blocks: each unit launches its own collectives and copies", {}, true},
        {kFsdp2, "fully_shard() whole transformer blocks: each unit launches its own collectives and copies", {}, true},
        {kDeepSpeed, "a larger train_micro_batch_size_per_gpu with fewer gradient_accumulation_steps", {}, true},
    },
    .native_advice =
        {"CUDA graphs: capture the loop's launches once (cudaStreamBeginCapture, cudaGraphInstantiate), then one "
         "cudaGraphLaunch replays them",
         "fewer, larger kernels: fuse neighbors, more work per launch",
         "other work of the host on another thread; NVTX ranges around it show which part takes long"},
    .verdict = "The GPU waits for the host: it idles {} of the time because work is launched too late.",
    .cause = IdleCause::kHostBound,
    .rank = {.describe = describe_host_bound_launches},
    .job_cost = {.change = "host_bound_free"},
    .checklist = {{.order = 6,
                   .id = "compiled",
                   .question = "Is torch.compile, Triton or a CUDA graph in use?",
                   .label = "torch.compile",
                   .label_of = compiled_label,
                   .judge = [](const RankMeasure& m, bool) { return m.with.compiles() ? Verdict::kPass : Verdict::kFail; }}},
};

extern const Rule kShortKernels = {
    .id = "short-kernels",
    .summary = "most kernels finish faster than they can be launched",
    .unit = "%",
    .threshold = 50,
    .meaning =
        "If kernels take less time than their launches, a host thread can't keep the device busy. The remedy is fewer, "
        "larger kernels, or launching many at once.",
    .computation =
        "Value: share of linked kernels outside graphs that are shorter than their launch call on the host. Fires only "
        "if host_bound and launch_latency idle time together exceed 10 % of the window. Cost: replay of the trace "
        "without launch latency, and without late launches unless host-bound-launches fires.",
    .advice = {
        "model = torch.compile(model, mode=\"reduce-overhead\")   # fusion and CUDA graphs",
        "torch.cuda.make_graphed_callables(model, sample) or torch.cuda.graph: one launch replays hundreds of kernels",
        "larger batches or longer sequences: the same launches, longer kernels",
        "fused operators: fused=True optimizers, scaled_dot_product_attention, fused layer norm, xFormers",
        "inference: batch requests; capture a graph per batch size",
        "fewer and wider layers",
    },
    .by_framework = {
        {kTorchRec, kDenseLayersAlone, kTorchCompile},
        {kVllm, "start without --enforce-eager, so that decoding replays CUDA graphs", kCudaGraphs},
        {kVllm, "raise --max-num-seqs and --max-num-batched-tokens: the same launches, longer kernels"},
        {kSglang, "no --disable-cuda-graph", kCudaGraphs},
        {kSglang, "raise --max-running-requests: the same launches, longer kernels"},
        {kTensorRtLlm, "cuda_graph_config with the batch sizes in use"},
        {kTrainer, "TrainingArguments(torch_compile=True)", kTorchCompile},
    },
    .native_advice =
        {"CUDA graphs: capture the loop's launches once (cudaStreamBeginCapture, cudaGraphInstantiate), then one "
         "cudaGraphLaunch replays them",
         "fewer, larger kernels: fuse neighbors, more work per launch"},
    .verdict = "Kernels are too short: {} of them finish faster than they can be launched.",
    .seen = {Locator::At::kLongestGap, std::string(idle_cause_name(IdleCause::kHostBound))},
    .rank = {.value = short_kernels_value, .describe = describe_short_kernels},
    .job_cost = {.change = "short_launches_free"},
};

}  // namespace profgpu
