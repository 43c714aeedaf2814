#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "analyse/rank/places.h"
#include "analyse/rules/host_work.h"

namespace profgpu {

extern const Rule kExcessiveSynchronization;

namespace {

using enum Framework;

// The device waits for the host: what the calls launch starts when they are done.
void describe_long_launch(const Measured& m, const LongLaunch& launch, Finding& f) {
  const std::string call = shortened(launch.name), each = format_duration(static_cast<double>(launch.mean_ns));
  f.verdict = fmt::format("Launching calls take long: the GPU idles {} of the time, mostly while {} runs, {} each time.",
                          format_percent(*f.value, 0), call, each);
  f.what = fmt::format("launching calls take long: {}, {} each time", call, each);
  f.why = fmt::format("{} idles {} of the time although the next launching call has begun: the host is still in it for "
                      "most of that time.",
                      m.device_label(), format_percent(*f.value));
  f.fix = {"fewer, larger launches: larger batches, fused operators",
           "record the host with stacks or a CPU profiler: what does that call do?"};
  f.cost_ns.reset(), f.cost_pct.reset(), f.evidence.clear();   // those of a wait on the device
}

void describe_device_waits(const Measured& m, Finding& f) {
  if (const std::optional<LongLaunch> launch = long_launch(m)) return describe_long_launch(m, *launch, f);
  f.what = "launched work waits on the device for something else";
  f.why = fmt::format("{} idles {} of the time with work queued: it waits for another stream's event, another device "
                      "or a host function.",
                      m.device_label(), format_percent(*f.value));
  const auto counts = [&](const Gap& gap) { return m.counts(gap, IdleCause::kDependency); };
  for (const Gap* gap : longest_gaps(m.gaps(), 1, counts))
    f.evidence.push_back(fmt::format("longest wait {}, before {}", format_duration(static_cast<double>(gap->length())),
                                     shortened(short_kernel_name(m.trace().name(gap->after)))));
}

// The aten::item around a call, else the outermost op, else the call.
HostId op_that_waits(const Trace& trace, HostId call) {
  HostId op = call;
  for (HostId at = trace.host.parent[call.value]; at.valid(); at = trace.host.parent[at.value]) {
    if (trace.host.kind[at.value] != HostKind::kOp) continue;
    op = at;
    if (trace.name(at) == "aten::item") break;
  }
  return op;
}

// Of measured steps, the most frequent ops.
void add_waiting_calls(const Measured& m, Finding& f) {
  const Trace& trace = m.trace();
  std::map<std::string_view, int64_t> count;
  for (const auto& calls : m.facts().get<Waits>().calls)
    for (const HostId call : calls)
      if (m.in_measured_step(trace.host.start_ns[call.value])) ++count[trace.name(op_that_waits(trace, call))];
  std::vector<std::pair<std::string_view, int64_t>> order(count.begin(), count.end());
  std::ranges::stable_sort(order, std::greater(), &std::pair<std::string_view, int64_t>::second);
  for (size_t i = 0; i < std::min<size_t>(order.size(), 3); ++i)
    f.evidence.push_back(
        fmt::format("{} waits {:.1f} times{}", shortened(order[i].first),
                    static_cast<double>(order[i].second) / static_cast<double>(std::max<int64_t>(m.steps(), 1)),
                    m.facts().get<Steps>().marked() ? " per step" : ""));
}

// Where the host waits before the gaps, by the idle time that follows.
std::vector<Place> waiting_places(const Measured& m) {
  const Trace& trace = m.trace();
  Places places(m.facts());
  GapThreads threads(m);
  for (const Gap& gap : m.gaps()) {
    if (!m.counts(gap, IdleCause::kSynchronization)) continue;
    const ThreadId thread = threads(gap);
    if (!thread.valid()) continue;
    const std::vector<HostId>& calls = m.facts().get<Waits>().calls[thread.value];
    const int64_t until = gap.launch.valid() ? trace.host.start_ns[gap.launch.value] : gap.end_ns;
    // A blocking copy that ends the gap is not what the host waited in before.
    const auto next =
        std::ranges::lower_bound(calls, until, {}, [&](HostId call) { return trace.host.start_ns[call.value]; });
    if (next != calls.begin()) places.add(*std::prev(next), gap.length());
  }
  return places.most_expensive(2);
}

void append_new(const std::vector<Place>& more, std::vector<Place>& places) {
  constexpr size_t kMost = 5;
  for (const Place& place : more) {
    const bool known = std::ranges::any_of(places, [&](const Place& p) {
      return p.name == place.name && p.file == place.file && p.line == place.line;
    });
    if (!known && places.size() < kMost) places.push_back(place);
  }
}

// Long work of the host's own after each wait, a good part of it in one place.
void describe_work_after_waits(const Measured& m, const Place& place, Finding& f) {
  const std::string words = place_text(place), part = part_text(place, m.idle_ns(IdleCause::kSynchronization));
  f.verdict = fmt::format("The host waits for the GPU, then keeps it waiting: the GPU idles {} of the time, {} while the "
                          "host is in {}.",
                          format_percent(*f.value, 0), part, words);
  f.what = fmt::format("after waiting for the GPU the host does other work, {} in {}", part, words);
  if (m.facts().get<Frameworks>().serves()) return;   // its users do not change that function
  if (const SystemWait* wait = system_wait(place)) {
    f.what = fmt::format("after waiting for the GPU the host waits for {}, {} in {}", wait->words, part, words);
    f.fix.insert(f.fix.begin(), std::string(wait->fix));
    return;
  }
  if (!library_of(place.file).empty() && !saves_checkpoint(place) && !prepares_inputs(place)) {
    const std::vector<std::string> fixes = library_fixes(m, place, IdleCause::kSynchronization);
    f.fix.insert(f.fix.begin(), fixes.begin(), fixes.end());
    return;
  }
  f.fix.insert(f.fix.begin(), fmt::format("launch the next work before {} runs, or move that to another thread or "
                                          "process",
                                          words));
  if (saves_checkpoint(place)) f.fix.insert(f.fix.begin(), std::string(kSaveInBackground));
}

std::vector<std::string> wait_less(const Measured& m) {
  if (m.facts().get<Frameworks>().serves())
    return {"the engine's asynchronous or overlapping scheduling, if it has one: it prepares the next step while one runs",
            "more requests in each step: the scheduler's time is per step"};
  return {trains(m.facts())
              ? "keep losses and metrics on the device; call .item() or .cpu() every N steps, not every step"
              : "keep results on the device; call .item() or .cpu() once at the end, not in every step",
          "no torch.cuda.synchronize() and no print(tensor) in the loop",
          "avoid ops whose output size depends on the data: nonzero, masked_select, unique, tensor.tolist(), if "
          "tensor:"};
}

void describe_excessive_synchronization(const Measured& m, Finding& f) {
  f.what = "the host waits for the GPU within the step, then the GPU for the host";
  f.why = fmt::format("After each wait nothing is queued: {} idles {} of the time until the next launch.",
                      m.device_label(), format_percent(*f.value));
  f.fix = wait_less(m);
  add_waiting_calls(m, f);
  const std::vector<Place> working = std::exchange(f.where, waiting_places(m));
  const Place* main = main_place(working, m.idle_ns(IdleCause::kSynchronization));
  const UnrecordedWork unrecorded = unrecorded_work(m, IdleCause::kSynchronization);
  if (main != nullptr && has_long_gaps(m, IdleCause::kSynchronization)) {
    describe_work_after_waits(m, *main, f);
    append_new(std::exchange(f.where, {*main}), f.where);
  } else if (unrecorded.is_most()) {
    f.evidence.push_back(fmt::format("after these waits the host runs code that the trace does not show, {}",
                                     per_step_text(m, unrecorded.ns)));
  }
  append_new(working, f.where);
  add_blocked_thread(f, m, IdleCause::kSynchronization);
  if (!unrecorded.is_most()) add_slow_recording(m, f);
}

// Ops that copy values to the host and make it wait: .item(), .cpu(), .tolist(), nonzero.
bool reads_a_value(std::string_view op) {
  constexpr std::string_view kReads[] = {
      "aten::item", "aten::nonzero", "aten::is_nonzero", "aten::_local_scalar_dense", "aten::to",
      "aten::cpu", "aten::masked_select", "aten::unique", "aten::_unique2", "aten::equal"};
  return std::ranges::count(kReads, op) > 0;
}

HostId value_read_around(const Trace& trace, HostId call) {
  return trace.enclosing(trace.host.parent[call.value], [&](HostId at) {
    return trace.host.kind[at.value] == HostKind::kOp && reads_a_value(trace.name(at));
  });
}

/// Calls that wait for a value, and the ops that read one: an op copies, then waits.
struct ValueReads {
  std::vector<HostId> calls, ops;
  Intervals time;
};

// Checkpoints read values too, but have a rule of their own.
ValueReads value_reads(const Measured& m) {
  const Trace& trace = m.trace();
  std::vector<bool> uploads(trace.host.size());   // aten::to from pageable memory waits, too
  for (uint32_t i = 0; i < trace.activity.size(); ++i) {
    const HostId call = trace.activity.launch[i];
    if (!call.valid() || !is_upload(trace, ActivityId(i))) continue;
    if (const HostId op = value_read_around(trace, call); op.valid()) uploads[op.value] = true;
  }
  ValueReads reads;
  for (const auto& calls : m.facts().get<Waits>().calls)
    for (const HostId call : calls)
      if (const HostId op = value_read_around(trace, call);
          op.valid() && !uploads[op.value] && m.in_measured_step(trace.host.start_ns[call.value]) &&
          !contains(m.facts().get<Phases>().checkpoint, trace.host.start_ns[call.value])) {
        reads.calls.push_back(call);
        reads.ops.push_back(op);
        reads.time.push_back(trace.host.interval(call));
      }
  std::ranges::sort(reads.ops);
  const auto rest = std::ranges::unique(reads.ops);
  reads.ops.erase(rest.begin(), rest.end());
  reads.time = merged(std::move(reads.time));
  return reads;
}

// If the device idles after them, excessive-synchronization reports that.
std::optional<double> redundant_sync_copies_value(const Measured& m) {
  const bool idles = m.idle_pct(IdleCause::kSynchronization) > m.threshold(kExcessiveSynchronization);
  if (idles || m.steps() == 0) return std::nullopt;
  return static_cast<double>(value_reads(m).ops.size()) / static_cast<double>(m.steps());
}

constexpr double kBusyPct = 80;

void describe_redundant_sync_copies(const Measured& m, Finding& f) {
  const auto duration_ns = [&](HostId call) { return m.trace().host.duration_ns[call.value]; };
  const ValueReads reads = value_reads(m);
  Places places(m.facts());
  for (const HostId call : reads.calls) places.add(call, duration_ns(call));
  f.where = places.most_expensive();
  see(f, m.trace().host.interval(*std::ranges::max_element(reads.calls, {}, duration_ns)));
  const bool steps = m.facts().get<Steps>().marked();
  f.what = fmt::format("the host reads values from the GPU {:.0f} times{}", *f.value, steps ? " per step" : "");
  const int64_t blocked_ns = total_length(reads.time);
  if (3 * blocked_ns > m.wall_ns()) {
    f.what += fmt::format(", and is blocked for {} of {}", format_percent(m.wall_pct(blocked_ns), 0),
                          steps ? "it" : "the time");
    // A device that is busy meanwhile loses nothing.
    if (m.known_utilization_pct() < kBusyPct) f.severity = Severity::kWarning;
  }
  f.why = fmt::format("Each read waits until the GPU has caught up: the host is blocked for {} in all, can't get ahead, "
                      "and graphs can't be captured. {} idles little after them.",
                      per_step_text(m, blocked_ns), m.device_label());
  if (m.facts().get<Frameworks>().serves())
    f.fix = {std::string(kEngineFix)};
  else if (!trains(m.facts()))
    f.fix = {"keep results, counts and masks on the device; read them once at the end, with one copy of one tensor",
             "torch.cuda.set_sync_debug_mode(\"warn\") shows every line that waits",
             "torch.where and masks instead of nonzero and boolean indexing"};
}

}  // namespace

extern const Rule kDeviceWaits = {
    .id = "device-waits",
    .summary = "queued work waits for another stream, device or host function",
    .unit = "%",
    .threshold = 10,
    .meaning =
        "The host launched in time, but the device still idles: the work depends on something unfinished elsewhere, "
        "such as another stream's event, a peer device, or a callback on the host.",
    .computation =
        "Value: idle time of cause dependency as a share of the device's window. Cost: replay of the trace without "
        "those waits; at most that idle time. Gaps from a millisecond in which no recorded stream or host "
        "function can delay the work are untraced work instead. If the launching calls themselves still ran for most of "
        "that time, the finding is about them: the host launches too slowly.",
    .advice = {
        "move each stream.wait_event / wait_stream to the first use of what it waits for; record the event right after "
        "the work that matters",
        "start the other stream's work earlier: prefetch the copy or collective a layer ahead (DeepSpeed overlap_comm, "
        "FSDP forward_prefetch=True)",
        "don't use the default stream: it synchronizes with every blocking stream",
        "pipeline parallelism: more micro-batches shrink the bubbles; interleaved schedules",
        "no cudaLaunchHostFunc or stream callbacks in the step",
        "if the profiler dropped records, record a shorter window",
    },
    .verdict = "Queued work waits on the GPU: it idles {} of the time for another stream, device or callback.",
    .cause = IdleCause::kDependency,
    .rank = {.describe = describe_device_waits},
    .job_cost = {.change = "dependency_free"},
};

extern const Rule kExcessiveSynchronization = {
    .id = "excessive-synchronization",
    .summary = "the host waits for the device within the step",
    .unit = "%",
    .threshold = 5,
    .severe = 25,
    .meaning =
        "Each .item(), .cpu(), print of a tensor or explicit synchronize stops the host until the device has finished. "
        "By then nothing is queued, so the device idles until the host launches again. One wait at the end of a step "
        "is normal and cheap.",
    .computation =
        "Value: idle time of cause synchronization as a share of the device's window. Cost: replay of the trace with a "
        "host that never waits; at most that idle time.",
    .advice = {
        "accumulate the loss on the device: total += loss.detach(); read it every N steps",
        "torch.cuda.set_sync_debug_mode(\"warn\") shows every line that waits",
        "copy with tensor.to(\"cpu\", non_blocking=True) into pinned memory, and read it a step later",
        "gradient clipping without error_if_nonfinite=True; GradScaler waits once per step by design (bf16 needs none)",
        "avoid data-dependent shapes: nonzero, masked_select, boolean indexing, unique; use torch.where and masks",
        "torch.cuda.synchronize() only around measurements",
        "log from one rank and not in every step (Lightning: log_every_n_steps; Trainer: logging_steps)",
    },
    .by_framework = {
        {kVllm, "--async-scheduling: schedules the next step while one runs"},
        {kVllm, "more requests in each step (--max-num-seqs): the scheduler's time is per step", {}, true},
        {kJax, "float(loss), np.asarray and block_until_ready() only every N steps"},
        {kSglang, "leave the overlap scheduler on: no --disable-overlap-schedule"},
        {kSglang, "--num-continuous-decode-steps 4, or more requests in each step (--max-running-requests): the scheduler "
                  "works less often", {}, true},
        {kTensorRtLlm, "leave the overlap scheduler on: disable_overlap_scheduler: false"},
        {kTrainer, "TrainingArguments(logging_nan_inf_filter=False, logging_steps=50): the filter reads each loss"},
        {kLightning, "Trainer(log_every_n_steps=50); self.log(…, on_step=False) for metrics of an epoch"},
        {kDeepSpeed, "\"wall_clock_breakdown\": false, and a larger steps_per_print"},
        {kMegatron, "--timing-log-level 0, --no-check-for-nan-in-loss-and-grad, a larger --log-interval"},
        {kFsdp, "FSDP 1: limit_all_gathers=False if memory allows", {}, true},
    },
    .native_advice =
        {"launch the next step's kernels before waiting for this one's result",
         "copy results with cudaMemcpyAsync into pinned memory, and read them a step later (cudaEventQuery)",
         "cudaDeviceSynchronize, cudaStreamSynchronize and blocking cudaMemcpy only where the host needs the result"},
    .verdict_of = [](const Finding& f, const Job* job) {
      // A rank alone would save all of it, but for the host's own work until the next launch.
      const bool for_host = job == nullptr && f.cost_pct.value_or(0) < *f.value / 2;
      return fmt::format("The host keeps waiting for the GPU, which then idles {} of the time{}.",
                         format_percent(*f.value, 0), for_host ? ", mostly for the host's work after each wait" : "");
    },
    .cause = IdleCause::kSynchronization,
    .rank = {.describe = describe_excessive_synchronization},
    .job_cost = {.change = "synchronization_free"},
};

extern const Rule kRedundantSyncCopies = {
    .id = "redundant-sync-copies",
    .summary = "the host reads values from the device several times per step",
    .unit = "count",
    .threshold = 4,
    .threshold_words = "4 per step",
    .severity = Severity::kInfo,
    .meaning =
        "Each .item(), .cpu(), .tolist(), nonzero or if on a tensor copies a value to the host and waits for all work "
        "before it. While the device has enough work this costs little, but it keeps the host from running ahead.",
    .computation =
        "Value: such ops per step in which the host waits for the device; if the device idles for them, "
        "excessive-synchronization reports that instead. A warning where the host waits in them for over a third of the "
        "time and the device is busy for less than 80 %. No cost.",
    .advice = {
        "keep losses, counts and masks on the device; log every N steps, with one copy of one tensor",
        "torch.cuda.set_sync_debug_mode(\"warn\") shows every line that waits",
        "torch.where and masks instead of nonzero and boolean indexing",
        "gradient clipping and loss scaling that stay on the device (bf16 needs no scaler)",
    },
    .rank = {.value = redundant_sync_copies_value, .describe = describe_redundant_sync_copies},
};

}  // namespace profgpu
