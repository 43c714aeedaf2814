#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analyse/rank/idle.h"
#include "analyse/rank/phases.h"
#include "analyse/rank/places.h"
#include "analyse/rules/measure.h"

namespace profgpu {

extern const Rule kExcessiveSynchronization;

namespace {

void say_device_waits(const Measured& m, Finding& f) {
  f.what = "launched work waits on the device for something else";
  f.why = fmt::format("{} idles {} of the time with work already queued: it waits for another stream's event, another "
                      "device or a host function.",
                      m.device_label(), percent_text(*f.value));
  f.fix = {
      "look for stream.wait_event / wait_stream on work that is not needed yet, and move the wait to its first use",
      "start the other stream's work earlier (prefetch the copy or the collective one layer ahead)"};
  if (const Gap* gap = longest_gap(m, IdleCause::kDependency))
    f.evidence.push_back(fmt::format("longest {} before {}", duration_text(gap->length()),
                                     shortened(m.trace().name(gap->after))));
}

// The op that the waiting calls of measured steps stand under, most frequent first: "aten::item, 12 a step"; and where
// in the program they are.
void say_waiting_calls(const Measured& m, Finding& f) {
  const Trace& trace = m.trace();
  std::map<std::string_view, int64_t> count;
  Places places(m.facts());
  for (const auto& calls : m.facts().get<Waits>().calls) {
    for (const HostId call : calls) {
      if (!m.in_measured_step(trace.host.start_ns[call.value])) continue;
      places.add(call, trace.host.duration_ns[call.value]);
      HostId at = trace.host.parent[call.value], op;
      for (; at.valid(); at = trace.host.parent[at.value]) {
        if (trace.host.kind[at.value] != HostKind::kOp) continue;
        op = at;
        if (trace.name(at) == "aten::item") break;
      }
      ++count[op.valid() ? trace.name(op) : trace.name(call)];
    }
  }
  std::vector<std::pair<std::string_view, int64_t>> order(count.begin(), count.end());
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  for (size_t i = 0; i < std::min<size_t>(order.size(), 3); ++i)
    f.evidence.push_back(
        fmt::format("{} waits {:.1f} times a step", shortened(order[i].first),
                    static_cast<double>(order[i].second) / static_cast<double>(std::max<int64_t>(m.steps(), 1))));
  f.where = places.most_expensive();
}

void say_excessive_synchronization(const Measured& m, Finding& f) {
  f.what = "the host waits for the GPU within the step, and then the GPU for the host";
  f.why = fmt::format("After each wait nothing is queued: {} idles {} of the time until the next launch.",
                      m.device_label(), percent_text(*f.value));
  f.fix = {"keep losses and metrics on the device; call .item() or .cpu() every N steps, not every step",
           "no torch.cuda.synchronize() and no print(tensor) in the loop",
           "avoid ops whose result size is data: nonzero, masked_select, unique, tensor.tolist(), if tensor:"};
  say_waiting_calls(m, f);
  add_blocked_thread(f, m, IdleCause::kSynchronization);
}

// Copies of values to the host which make it wait: .item(), .cpu(), .tolist(), nonzero.
bool reads_a_value(std::string_view op) {
  return op == "aten::item" || op == "aten::nonzero" || op == "aten::is_nonzero" || op == "aten::_local_scalar_dense" ||
         op == "aten::to" || op == "aten::cpu" || op == "aten::masked_select" || op == "aten::unique" ||
         op == "aten::_unique2" || op == "aten::equal";
}

HostId value_read_around(const Trace& trace, HostId call) {
  HostId at = trace.host.parent[call.value];
  while (at.valid() && !(trace.host.kind[at.value] == HostKind::kOp && reads_a_value(trace.name(at))))
    at = trace.host.parent[at.value];
  return at;
}

// A checkpoint is no read of values, and has a finding of its own.
std::vector<HostId> value_reads(const Measured& m) {
  const Trace& trace = m.trace();
  std::vector<bool> uploads(trace.host.size());   // aten::to of pageable memory waits, too
  for (uint32_t i = 0; i < trace.activity.size(); ++i) {
    const HostId call = trace.activity.launch[i];
    if (!call.valid() || !is_upload(trace, ActivityId(i))) continue;
    if (const HostId op = value_read_around(trace, call); op.valid()) uploads[op.value] = true;
  }
  std::vector<HostId> reads;
  for (const auto& calls : m.facts().get<Waits>().calls)
    for (const HostId call : calls)
      if (const HostId op = value_read_around(trace, call);
          op.valid() && !uploads[op.value] && m.in_measured_step(trace.host.start_ns[call.value]) &&
          !contains(m.facts().get<Phases>().checkpoint, trace.host.start_ns[call.value]))
        reads.push_back(call);
  return reads;
}

// Where the device runs dry after them, that is a finding of its own.
std::optional<double> redundant_sync_copies_value(const Measured& m) {
  const bool runs_dry = m.idle_pct(IdleCause::kSynchronization) > m.threshold(kExcessiveSynchronization);
  if (runs_dry || m.steps() == 0) return std::nullopt;
  return static_cast<double>(value_reads(m).size()) / static_cast<double>(m.steps());
}

void say_redundant_sync_copies(const Measured& m, Finding& f) {
  Places places(m.facts());
  for (const HostId call : value_reads(m)) places.add(call, m.trace().host.duration_ns[call.value]);
  f.where = places.most_expensive();
  f.what = fmt::format("the host reads values from the GPU {:.0f} times a step", *f.value);
  f.why = "Each read waits until the GPU has caught up. It does not run dry yet, but the host cannot get ahead, and "
          "graphs cannot be captured.";
  f.fix = {"keep losses, counts and masks on the device; read what is logged every N steps, in one piece",
           "torch.cuda.set_sync_debug_mode(\"warn\") names every line that waits"};
}

}  // namespace

extern const Rule kDeviceWaits = {
    .id = "device-waits",
    .summary = "queued work waits for another stream, device or host function",
    .unit = "%",
    .threshold = 10,
    .meaning =
        "The host was in time, and yet the device idles: what was launched could not start because it depends on "
        "something unfinished elsewhere, such as an event of another stream, a peer device, or a callback on the "
        "host.",
    .computation =
        "Value: idle time of cause dependency as a share of the device's window. Cost: the trace is replayed with those "
        "waits taken out; at most that idle time. Gaps of a millisecond or more in which no recorded stream and no host "
        "function can hold the work up are untraced work instead.",
    .advice =
        {
            "record the event right after the work that matters and wait for it right before its first use",
            "do not wait for the default stream: it orders itself with every blocking stream",
            "pipeline parallelism: more micro-batches shrink the bubbles; interleaved schedules",
            "offloading: prefetch parameters and states a layer ahead (DeepSpeed overlap_comm, FSDP "
            "forward_prefetch=True)",
            "no cudaLaunchHostFunc or stream callbacks in the step",
            "if the profiler dropped records, record a shorter window",
        },
    .verdict = "Queued work waits on the GPU: {} of the time it idles for another stream, device or callback.",
    .cause = IdleCause::kDependency,
    .rank = {.say = say_device_waits},
    .job_cost = {.change = "dependency_free"},
};

extern const Rule kExcessiveSynchronization = {
    .id = "excessive-synchronization",
    .summary = "the host waits for the device within the step",
    .unit = "%",
    .threshold = 5,
    .grave = 25,
    .meaning =
        "Each .item(), .cpu(), print of a tensor or explicit synchronize stops the host until the device has "
        "finished; by then nothing is queued, so the device idles until the host has launched again. One wait at the "
        "end of a step is normal and cheap.",
    .computation =
        "Value: idle time of cause synchronization as a share of the device's window. Cost: the trace is replayed with "
        "the host never waiting; at most that idle time.",
    .advice = {
        "accumulate the loss on the device: total += loss.detach(); read it every N steps",
        "torch.cuda.set_sync_debug_mode(\"warn\") names every place that waits",
        "copy with tensor.to(\"cpu\", non_blocking=True) into pinned memory, and read it a step later",
        "gradient clipping without error_if_nonfinite=True; GradScaler waits once a step by design (bf16 needs none)",
        "avoid data-dependent shapes: nonzero, masked_select, boolean indexing, unique; use torch.where and masks",
        "torch.cuda.synchronize() only around measurements",
        "log from one rank and not in every step (Lightning: log_every_n_steps; Trainer: logging_steps)",
    },
    .by_framework =
        {
            {Framework::kVllm, "--async-scheduling: the next step is scheduled while one runs"},
            {Framework::kSglang, "leave the overlap scheduler on: no --disable-overlap-schedule"},
            {Framework::kTensorRtLlm, "leave the overlap scheduler on: disable_overlap_scheduler: false"},
            {Framework::kTrainer, "TrainingArguments(logging_nan_inf_filter=False, logging_steps=50): the filter "
             "reads each loss"},
            {Framework::kLightning, "Trainer(log_every_n_steps=50); self.log(…, on_step=False) for what an epoch sums "
             "up"},
            {Framework::kDeepSpeed, "\"wall_clock_breakdown\": false, and a larger steps_per_print"},
            {Framework::kMegatron, "--timing-log-level 0, --no-check-for-nan-in-loss-and-grad, a larger --log-interval"},
            {Framework::kFsdp, "FSDP 1: limit_all_gathers=False where memory allows", {}, true},
        },
    .verdict_of = [](const Finding& f, const Job* job) {
      // Alone a rank would save all of it, were it not for what its host does until the next launch.
      const bool for_host = job == nullptr && f.cost_pct.value_or(0) < *f.value / 2;
      return fmt::format("The host keeps waiting for the GPU, which then runs dry: it idles {} of the time{}.",
                         share_text(f), for_host ? ", most of it for what the host does after the wait" : " for it");
    },
    .cause = IdleCause::kSynchronization,
    .rank = {.say = say_excessive_synchronization},
    .job_cost = {.change = "synchronization_free"},
};

extern const Rule kRedundantSyncCopies = {
    .id = "redundant-sync-copies",
    .summary = "values are read from the device several times a step",
    .unit = "count",
    .threshold = 4,
    .severity = Severity::kInfo,
    .meaning =
        "Each .item(), .cpu(), .tolist(), nonzero or if on a tensor copies a value to the host and waits for all work "
        "before it. While the device has enough to do this costs little, and it keeps the host from running ahead.",
    .computation =
        "Value: calls that wait for the device under such an op, a step; where the device idles more for them, "
        "excessive-synchronization says so instead. No cost.",
    .advice =
        {
            "collect what is logged in one tensor, and copy it once with non_blocking=True",
            "torch.where and masks instead of nonzero and boolean indexing",
            "gradient clipping and loss scaling that stay on the device (bf16 needs no scaler)",
        },
    .rank = {.value = redundant_sync_copies_value, .say = say_redundant_sync_copies},
};

}  // namespace profgpu
