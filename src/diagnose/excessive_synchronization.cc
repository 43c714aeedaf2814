#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analyse/waits.h"
#include "diagnose/blocked_thread.h"
#include "diagnose/measure.h"

namespace profgpu {
namespace {

// The op that the waiting calls of measured steps stand under, most frequent first: "aten::item, 12 a step".
std::vector<std::string> waiting_ops(const Measured& m) {
  const Trace& trace = m.trace();
  std::map<std::string_view, int64_t> count;
  for (const auto& calls : m.facts().get<Waits>().calls) {
    for (const HostId call : calls) {
      if (!m.in_measured_step(trace.host.start_ns[call.value])) continue;
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
  std::vector<std::string> out;
  for (size_t i = 0; i < std::min<size_t>(order.size(), 3); ++i)
    out.push_back(fmt::format("{} waits {:.1f} times a step", shortened(order[i].first),
                              static_cast<double>(order[i].second) / static_cast<double>(std::max<int64_t>(m.steps(), 1))));
  return out;
}

std::optional<double> excessive_synchronization_value(const Measured& m) {
  return m.idle_pct(IdleCause::kSynchronization);
}

void say_excessive_synchronization(const Measured& m, Finding& f) {
  f.what = "the host waits for the GPU within the step, and then the GPU for the host";
  f.why = fmt::format("After each wait nothing is queued: {} idles {} of its span until the next launch.",
                      m.device_label(), percent_text(*f.value));
  f.fix = {"keep losses and metrics on the device; call .item() or .cpu() every N steps, not every step",
           "no torch.cuda.synchronize() and no print(tensor) in the loop",
           "avoid ops whose result size is data: nonzero, masked_select, unique, tensor.tolist(), if tensor:"};
  f.evidence = waiting_ops(m);
  add_blocked_thread(f, m, IdleCause::kSynchronization);
  set_cost(f, m, m.saved_by_cause(IdleCause::kSynchronization));
}

}  // namespace

extern const Rule kExcessiveSynchronization;
const Rule kExcessiveSynchronization = {
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
        "Value: idle time of cause synchronization as a share of the device's span. Cost: the trace is replayed with "
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
    .verdict = [](const Finding& f, const Job* job) {
      // Alone a rank would save all of it, were it not for what its host does until the next launch.
      const bool for_host = job == nullptr && f.cost_pct.value_or(0) < *f.value / 2;
      return fmt::format("The host keeps waiting for the GPU, which then runs dry: it idles {} of the time{}.",
                         share_text(f), for_host ? ", most of it for what the host does after the wait" : " for it");
    },
    .seen = longest_gap_of(IdleCause::kSynchronization),
    .rank = {.value = excessive_synchronization_value, .say = say_excessive_synchronization},
    .job_cost = {.change = "synchronization_free"},
};

}  // namespace profgpu
