#include "tests/support/simulator.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "tests/support/sim_training.h"

namespace profgpu::sim {
namespace {

constexpr int kUnrecordedSteps = 6;

Status check_job(const SimOptions& o) {
  if (o.hosts < 0 || o.hosts > o.ranks)
    return Error{"hosts is " + std::to_string(o.hosts) + ", not 1 to " + std::to_string(o.ranks)};
  for (const auto* given : {&o.clock_offsets, &o.clock_drifts})
    for (const auto& [host, value] : *given)
      if (host < 0 || host >= std::max(o.hosts, 1))
        return Error{"there is no host " + std::to_string(host), "--hosts says how many there are"};
  if (const int model = o.model_group();
      model > 0 && (o.ranks % model != 0 || (o.strategy == Strategy::pp && o.layers < model)))
    return Error{"a group of " + std::to_string(model) + " does not divide the ranks, or the layers are too few"};
  if (o.shifted_rank >= o.ranks || (o.shifted_steps > 0 && o.windows > 1))
    return Error{"there is no rank " + std::to_string(o.shifted_rank) +
                 " to record other steps, or it has several windows"};
  if (o.slow_every < 1) return Error{"every 0th step is none"};
  for (const int rank : o.slow_ranks)
    if (rank < 0 || rank >= o.ranks)
      return Error{"rank " + std::to_string(rank) + " is not one of " + std::to_string(o.ranks)};
  const bool meets_at_the_end = o.ranks > 1 && (o.model_group() == 0 || o.model_group() < o.ranks);
  if (o.hang_rank >= o.ranks || (o.hang_rank >= 0 && (!meets_at_the_end || o.steps * o.windows < 2)))
    return Error{"a rank that hangs needs another rank, a second step, and a collective at its end"};
  return ok();
}

Status check(const SimOptions& o) {
  if (o.ranks < 1 || o.ranks > 4096) return Error{"ranks is " + std::to_string(o.ranks) + ", not 1 to 4096"};
  if (o.steps < 1 || o.layers < 1 || o.micro_batches < 1 || o.windows < 1)
    return Error{"steps, layers, micro-batches and windows are at least 1"};
  if (o.layers > 400) return Error{"layers is " + std::to_string(o.layers) + ", not up to 400"};
  if (o.drop_pct < 0 || o.drop_pct > 100) return Error{"the share of dropped kernels is a percentage"};
  if (o.graph && o.cpu_only) return Error{"a CPU has no graphs to replay"};
  for (const FaultUse& use : o.faults) {
    const Fault* f = find_fault(use.name);
    if (f == nullptr) return Error{"no fault is called '" + use.name + "'", "--list-faults names them"};
    if (f->min_ranks > o.ranks)
      return Error{"the fault " + use.name + " needs at least " + std::to_string(f->min_ranks) + " ranks"};
  }
  return check_job(o);
}

/// Runs all steps; `window_done` with what each rank recorded of each window. A rank whose steps are shifted starts its
/// recording later, and the others stop theirs while it goes on.
bool run(Training& training, const SimOptions& options, bool keep_rows,
         const std::function<bool(RankTrace&&)>& window_done) {
  const int64_t step_ns = scale_of(options).step_ns;
  const int shift = options.shifted_rank < 0 ? 0 : options.shifted_steps;
  int number = options.first_step;
  for (int window = 0; window < options.windows; ++window) {
    if (window > 0) {
      training.pause(step_ns * kUnrecordedSteps);
      number += kUnrecordedSteps;
      for (Process& p : training.ranks()) p.take_trace(window);
    }
    for (int i = 0; i < options.steps + shift; ++i, ++number) {
      for (Process& p : training.ranks()) {
        const bool shifted = p.rank() == options.shifted_rank;
        if (shift > 0 && i == (shifted ? shift : options.steps)) {
          RankTrace before = p.take_trace(window);
          if (!shifted && !window_done(std::move(before))) return false;
        }
      }
      const int index = window * options.steps + i;
      training.step(number, index, index + 1 == options.windows * options.steps + shift);
      if (keep_rows) continue;
      for (Process& p : training.ranks()) p.discard_rows();
    }
    for (Process& p : training.ranks()) {
      p.wait_for_device();
      RankTrace trace = p.take_trace(window);
      if ((shift == 0 || p.rank() == options.shifted_rank) && !window_done(std::move(trace))) return false;
    }
  }
  return true;
}

}  // namespace

Status simulate_each(const SimOptions& options, int threads, const std::function<bool(RankTrace&&)>& take) {
  if (Status s = check(options); !s) return s.error();
  const Plan plan = plan_of(options);
  const Layout layout(options);
  // What the ranks have to know of each other is when their collectives end. With that, each is simulated alone.
  Training together(options, plan, layout);
  run(together, options, false, [](RankTrace&&) { return true; });
  std::atomic<int> next{0};
  std::atomic<bool> stopped{false};
  const auto work = [&] {
    for (int rank = next++; rank < options.ranks && !stopped; rank = next++) {
      Training alone(options, plan, layout, rank, together.ends());
      if (!run(alone, options, true, take)) stopped = true;
    }
  };
  std::vector<std::thread> others;
  for (int i = 1; i < std::min(threads, options.ranks); ++i) others.emplace_back(work);
  work();
  for (std::thread& t : others) t.join();
  if (stopped) return Error{"stopped"};
  return ok();
}

Result<SimResult> simulate(const SimOptions& options) {
  SimResult result;
  const Status status =
      simulate_each(options, 1, [&](RankTrace&& trace) { return result.traces.push_back(std::move(trace)), true; });
  if (!status) return status.error();
  return result;
}

Result<std::vector<RankSteps>> simulate_steps(const SimOptions& options) {
  if (Status s = check(options); !s) return s.error();
  const Layout layout(options);
  Training training(options, plan_of(options), layout);
  std::vector<RankSteps> steps;
  run(training, options, false,
      [&](RankTrace&& t) { return steps.push_back({t.rank, t.window, std::move(t.steps)}), true; });
  std::stable_sort(steps.begin(), steps.end(), [](const RankSteps& a, const RankSteps& b) { return a.rank < b.rank; });
  return steps;
}

}  // namespace profgpu::sim
