#include "tests/support/simulator.h"

#include "tests/support/sim_training.h"

namespace profgpu::sim {
namespace {

constexpr int kUnrecordedSteps = 6;

Status check(const SimOptions& o) {
  if (o.ranks < 1 || o.ranks > 1024) return Error{"ranks is " + std::to_string(o.ranks) + ", not 1 to 1024"};
  if (o.steps < 1 || o.layers < 1 || o.micro_batches < 1 || o.windows < 1) return Error{"steps, layers, micro-batches and windows are at least 1"};
  if (o.layers > 400) return Error{"layers is " + std::to_string(o.layers) + ", not up to 400"};
  if (o.drop_pct < 0 || o.drop_pct > 100) return Error{"the share of dropped kernels is a percentage"};
  if (o.graph && o.cpu_only) return Error{"a CPU has no graphs to replay"};
  for (const FaultUse& use : o.faults) {
    const Fault* f = find_fault(use.name);
    if (f == nullptr) return Error{"no fault is called '" + use.name + "'", "--list-faults names them"};
    if (f->min_ranks > o.ranks) return Error{"the fault " + use.name + " needs at least " + std::to_string(f->min_ranks) + " ranks"};
  }
  return ok();
}

}  // namespace

Result<SimResult> simulate(const SimOptions& options) {
  if (Status s = check(options); !s) return s.error();
  Training training(options, plan_of(options));
  SimResult result;
  std::vector<std::vector<RankTrace>> by_rank(static_cast<size_t>(options.ranks));
  const int64_t step_ns = scale_of(options).step_ns;
  int number = options.first_step;
  for (int window = 0; window < options.windows; ++window) {
    if (window > 0) {
      training.pause(step_ns * kUnrecordedSteps);
      number += kUnrecordedSteps;
      for (Process& p : training.ranks()) p.take_trace(window);
    }
    for (int i = 0; i < options.steps; ++i, ++number) {
      training.step(number, window * options.steps + i);
      if (options.record_rows) continue;
      for (Process& p : training.ranks()) p.discard_rows();
    }
    for (Process& p : training.ranks()) {
      p.wait_for_device();
      by_rank[static_cast<size_t>(p.rank())].push_back(p.take_trace(window));
    }
  }
  for (auto& traces : by_rank) {
    for (RankTrace& t : traces) result.traces.push_back(std::move(t));
  }
  return result;
}

}  // namespace profgpu::sim
