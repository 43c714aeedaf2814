#include <fmt/format.h>

#include "analyse/launch.h"
#include "diagnose/blocked_thread.h"
#include "diagnose/measure.h"

namespace profgpu {
namespace {

std::optional<double> host_bound_launches_value(const Measured& m) {
  return m.idle_pct(IdleCause::kHostBound);
}

void say_host_bound_launches(const Measured& m, Finding& f) {
  const Launch& launch = m.facts().get<Launch>();
  f.what = "the GPU runs dry: the host launches work too late";
  f.why = fmt::format("{} idles {} of its span because Python and the framework had not launched the next kernel yet.",
                      m.device_label(), percent_text(*f.value));
  f.fix = {"model = torch.compile(model, mode=\"reduce-overhead\")   # fuses kernels, replays CUDA graphs",
           "larger batches, so that each launch brings more work",
           "move logging, .item() and Python work out of the step; torch.cuda.make_graphed_callables for fixed shapes"};
  f.evidence.push_back(fmt::format("{} launches; median launch latency {}", launch.launches,
                                   duration_text(launch.median_latency_ns.value_or(0))));
  for (std::string& where : waited_in(m, IdleCause::kHostBound)) f.evidence.push_back("host was in " + where);
  add_blocked_thread(f, m, IdleCause::kHostBound);
  set_cost(f, m, m.saved_by_cause(IdleCause::kHostBound));
}

}  // namespace

extern const Rule kHostBoundLaunches;
const Rule kHostBoundLaunches = {
    .id = "host-bound-launches",
    .summary = "the host launches work too late",
    .unit = "%",
    .threshold = 10,
    .grave = 30,
    .meaning =
        "The device finishes what it was given before the host has launched more. Eager PyTorch spends 5 to 20 µs of "
        "Python and dispatcher time an operator; kernels shorter than that leave the device idle.",
    .computation =
        "Value: idle time of cause host_bound as a share of the device's span. Cost: the trace is replayed with the "
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
    .verdict = [](const Finding& f, const Job*) {
      return fmt::format("The GPU waits for the host: it idles {} of the time because work is launched too late.",
                         share_text(f));
    },
    .seen = longest_gap_of(IdleCause::kHostBound),
    .rank = {.value = host_bound_launches_value, .say = say_host_bound_launches},
    .job_cost = {.change = "host_bound_free"},
    .checklist = {{.place = 6,
                   .id = "compiled",
                   .question = "Is torch.compile, Triton or a CUDA graph in use?",
                   .label = "torch.compile",
                   .judge = [](const RankMeasure& m, bool) { return m.compiled ? Verdict::kPass : Verdict::kFail; }}},
};

}  // namespace profgpu
