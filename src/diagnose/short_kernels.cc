#include <fmt/format.h>

#include "analyse/launch.h"
#include "diagnose/measure.h"

namespace profgpu {

extern const Rule kHostBoundLaunches;

namespace {

constexpr double kIdlePct = 10;   // of span, host_bound and launch_latency together

struct ShortShare {
  int64_t short_ones, all;
};
ShortShare short_share_of(const Measured& m) {
  const Launch& l = m.facts().get<Launch>();
  return {m.counted(l.short_kernels, l.steady_short_kernels), m.counted(l.kernels, l.steady_kernels)};
}

std::optional<double> short_kernels_value(const Measured& m) {
  if (m.idle_pct(IdleCause::kHostBound) + m.idle_pct(IdleCause::kLaunchLatency) <= kIdlePct) return std::nullopt;
  const ShortShare s = short_share_of(m);
  if (s.all == 0) return std::nullopt;
  return 100.0 * static_cast<double>(s.short_ones) / static_cast<double>(s.all);
}

void say_short_kernels(const Measured& m, Finding& f) {
  const ShortShare share = short_share_of(m);
  f.what = "most kernels run for less time than their launch takes";
  f.why = fmt::format("{} of the kernels are shorter than the call that launched them, so the host cannot keep ahead.",
                      percent_text(*f.value));
  f.fix = {"model = torch.compile(model, mode=\"reduce-overhead\")   # fusion and CUDA graphs",
           "torch.cuda.make_graphed_callables(model, sample)   # one launch replays hundreds of kernels",
           "larger batches: the same launches, longer kernels"};
  f.evidence.push_back(fmt::format("{} short kernels of {}", share.short_ones, share.all));
  // Time lost to late launches belongs to host-bound-launches where that fires.
  const bool taken = m.idle_pct(IdleCause::kHostBound) > m.threshold(kHostBoundLaunches);
  int64_t cost = m.saved_by_cause(IdleCause::kLaunchLatency);
  if (!taken) cost += m.saved_by_cause(IdleCause::kHostBound);
  if (cost > 0) set_cost(f, m, cost);
}

}  // namespace

extern const Rule kShortKernels;
const Rule kShortKernels = {
    .id = "short-kernels",
    .summary = "most kernels are shorter than their own launch",
    .unit = "%",
    .threshold = 50,
    .meaning =
        "A kernel that takes less time than launching it cannot be fed fast enough by one host thread. Fewer, larger "
        "kernels or launching many at once is the way out.",
    .computation =
        "Value: share of linked kernels outside graphs whose duration is below that of their launch call on the host. "
        "Fires only if host_bound and launch_latency idle time together are over 10 % of the span. Cost: the trace "
        "replayed without launch latency, and without late launches where host-bound-launches does not claim them.",
    .advice = {
        "torch.compile: fuses elementwise chains; mode=\"reduce-overhead\" adds CUDA graphs",
        "CUDA graphs by hand: torch.cuda.graph, make_graphed_callables; inference servers: capture per batch size",
        "fused operators: fused=True optimizers, scaled_dot_product_attention, fused layer norm, xFormers",
        "larger batches, longer sequences, fewer and wider layers",
        "for inference: batch requests",
    },
    .verdict = [](const Finding& f, const Job*) {
      return fmt::format("Kernels are too short: {} of them take less time than their launch.", share_text(f));
    },
    .seen = longest_gap_of(IdleCause::kHostBound),
    .rank = {.value = short_kernels_value, .say = say_short_kernels},
    .job_cost = {.change = "short_launches_free"},
};

}  // namespace profgpu
