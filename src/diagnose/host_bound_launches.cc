#include <fmt/format.h>

#include "analyse/launch.h"
#include "diagnose/blocked_thread.h"
#include "diagnose/measure.h"

namespace profgpu {
namespace {

std::optional<Finding> check_host_bound_launches(const Rule& rule, const RankEvidence& evidence) {
  auto hit = fired(rule, evidence, {.critical = 30}, [](const Measured& m) -> std::optional<double> {
    if (!m.has_device()) return std::nullopt;
    return m.idle_pct(IdleCause::kHostBound);
  });
  if (!hit) return std::nullopt;
  Finding& f = hit->finding;
  const Measured& m = hit->worst;
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
  return f;
}

}  // namespace

extern const Rule kHostBoundLaunches;
const Rule kHostBoundLaunches = {
    "host-bound-launches",
    "the host launches work too late",
    "%",
    10,
    "The device finishes what it was given before the host has launched more. Eager PyTorch spends 5 to 20 µs of Python "
    "and dispatcher time an operator; kernels shorter than that leave the device idle.",
    "Value: idle time of cause host_bound as a share of the device's span. Cost: the trace is replayed with the host "
    "time in those gaps taken out and what ends them launched in time; at most that idle time.",
    {"torch.compile(model): fewer, larger kernels and less Python between them",
     "torch.compile(model, mode=\"reduce-overhead\") or CUDA graphs (torch.cuda.graph, make_graphed_callables)",
     "larger batch or sequence, gradient accumulation with a larger micro-batch",
     "fused kernels: scaled_dot_product_attention, fused=True optimizers, Liger, Apex, xFormers",
     "foreach=True or fused=True in torch.optim; zero_grad(set_to_none=True)",
     "no Python work between launches: log every N steps, keep metrics on the device, avoid .item() and print",
     "check that the CPU is not shared: pin ranks to cores and NUMA nodes (numactl, torchrun --bind), OMP_NUM_THREADS",
     "DeepSpeed, FSDP: smaller wrapping units launch more; wrap whole transformer blocks"},
    {.rank = check_host_bound_launches}};

}  // namespace profgpu
