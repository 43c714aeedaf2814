#include <fmt/format.h>

#include <algorithm>

#include "analyse/memory.h"
#include "diagnose/measure.h"

namespace profgpu {
namespace {

constexpr int64_t kFewestGrowing = 4;

// Where there are no steps, growth is judged by the minute.
std::optional<double> memory_growth_samples(const DeviceTelemetry& d) {
  const auto total = d.limit(Metric::kMemoryTotal);
  if (!d.memory_growth_bytes_per_s || !total || *total <= 0) return std::nullopt;
  return 100 * 60 * *d.memory_growth_bytes_per_s / *total;
}

void say_memory_growth_samples(const DeviceTelemetry& d, Finding& f) {
  f.unit = "%/min";
  f.what = fmt::format("memory of {} keeps growing", d.label());
  const double left = std::max(*d.limit(Metric::kMemoryTotal) - *d.find(Metric::kMemoryUsed)->max, 0.0);
  f.why = fmt::format("It grows by {:.1f} MiB a minute to the end; at that rate the device is full in {:.0f} minutes.",
                      60 * *d.memory_growth_bytes_per_s / 1048576, left / *d.memory_growth_bytes_per_s / 60);
  f.fix = {"keep numbers, not graphs: losses.append(loss.item()) or loss.detach(), never loss",
           "torch.cuda.memory._record_memory_history() and a snapshot name the allocations that stay"};
}

std::optional<double> memory_growth_value(const Measured& m) {
  const Memory& memory = m.facts().get<Memory>();
  if (m.steps() < kFewestGrowing || !memory.growth_bytes_per_step || !memory.capacity_bytes) return std::nullopt;
  return 100.0 * *memory.growth_bytes_per_step / static_cast<double>(*memory.capacity_bytes);
}

void say_memory_growth(const Measured& m, Finding& f) {
  const Memory& memory = m.facts().get<Memory>();
  f.what = "allocated memory grows from step to step";
  f.why = fmt::format("It grows by {:.1f} MiB a step, {:.2f} % of the device's memory.",
                      *memory.growth_bytes_per_step / 1048576, *f.value);
  f.fix = {"keep numbers, not graphs: losses.append(loss.item()) or loss.detach(), never loss",
           "torch.cuda.memory._record_memory_history() and a snapshot name the allocations that stay"};
}

}  // namespace

extern const Rule kMemoryGrowth;
const Rule kMemoryGrowth = {
    .id = "memory-growth",
    .summary = "allocated memory grows from step to step",
    .unit = "%",
    .threshold = 0.1,
    .meaning =
        "What is allocated at the lowest point of a step should be the same in every step: parameters and optimizer "
        "states. If it grows, something keeps tensors alive, and the job will run out of memory.",
    .computation =
        "Value: Theil-Sen slope of the lowest allocation in each measured step, as a share of the device's capacity; "
        "over at least four steps; in samples without steps, a minute, over at least half a minute. No cost: it costs "
        "nothing until it fails.",
    .advice = {
        "loss.detach() or .item() for everything that is kept beyond the step",
        "lists of outputs, hidden states or metrics that are never cleared",
        "retain_graph=True where it is not needed",
        "hooks and callbacks that capture tensors; exceptions that keep frames alive",
        "torch.cuda.memory._record_memory_history(), memory._dump_snapshot() and pytorch.org/memory_viz",
    },
    .seen = {Locator::At::kMemoryPeak, {}},
    .rank = {.value = memory_growth_value, .say = say_memory_growth, .host_alone = true},
    .samples = {.value = memory_growth_samples, .say = say_memory_growth_samples},
};

}  // namespace profgpu
