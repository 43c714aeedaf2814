#include <fmt/format.h>

#include "analyse/memory.h"
#include "diagnose/measure.h"
#include "report/quantity.h"
#include "trace/health.h"

namespace profgpu {
namespace {

std::vector<std::string> first_steps() {
  return {"activation checkpointing: torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)",
          "smaller micro-batch with gradient accumulation; bf16; ZeRO or FSDP sharding"};
}

// What the driver says is in use, by all processes together.
std::optional<double> memory_near_capacity_samples(const DeviceTelemetry& d) {
  return d.memory_peak_pct();
}

void say_memory_near_capacity_samples(const DeviceTelemetry& d, Finding& f) {
  f.what = fmt::format("memory of {} peaks at {}", d.label(), percent_text(*f.value));
  f.why = fmt::format("{:.1f} of {:.1f} GiB are in use at the peak; a larger batch or fragmentation ends in an "
                      "out-of-memory error.",
                      *d.find(Metric::kMemoryUsed)->max / (1 << 30), *d.limit(Metric::kMemoryTotal) / (1 << 30));
  for (size_t i = 0; i < d.processes.size() && i < 3; ++i)
    if (const ProcessTelemetry& p = d.processes[i]; p.memory_peak_bytes)
      f.evidence.push_back(fmt::format("process {} {}: {:.1f} GiB", p.process.pid, p.process.name,
                                       static_cast<double>(*p.memory_peak_bytes) / (1 << 30)));
  f.fix = first_steps();
}

std::optional<double> memory_near_capacity_value(const Measured& m) {
  const Memory& memory = m.facts().get<Memory>();
  if (!memory.peak_reserved_bytes || !memory.capacity_bytes) return std::nullopt;
  return 100.0 * static_cast<double>(*memory.peak_reserved_bytes) / static_cast<double>(*memory.capacity_bytes);
}

void say_memory_near_capacity(const Measured& m, Finding& f) {
  const Memory& memory = m.facts().get<Memory>();
  f.what = fmt::format("memory peaks at {} of the device", percent_text(*f.value));
  f.why = fmt::format("{:.1f} of {:.1f} GiB are reserved at the peak; a larger batch or fragmentation ends in an "
                      "out-of-memory error.",
                      static_cast<double>(*memory.peak_reserved_bytes) / (1 << 30),
                      static_cast<double>(*memory.capacity_bytes) / (1 << 30));
  f.fix = first_steps();
}

// Nobody knows here how long the next batch is: a device is full when little is left for the allocator.
std::optional<Advice> memory_now(const Rule& rule, const DeviceNow& d) {
  const auto used = d.value(Metric::kMemoryUsed), total = d.value(Metric::kMemoryTotal);
  if (!used || !total || *total <= 0 || 100 * *used / *total <= kMemoryUsedPct.said) return std::nullopt;
  std::string what = fmt::format("memory is {:.0f} % full", 100 * *used / *total);
  if (d.largest && d.largest->memory_bytes)
    what += fmt::format(", {} of it by process {}", format_bytes(static_cast<double>(*d.largest->memory_bytes)),
                        d.largest->pid);
  return Advice{kMemoryUsedPct.severity, std::move(what), std::string(rule.advice[1])};
}

}  // namespace

extern const Rule kMemoryNearCapacity;
const Rule kMemoryNearCapacity = {
    .id = "memory-near-capacity",
    .summary = "the memory peak is close to the device's capacity",
    .unit = "%",
    .threshold = 90,
    .meaning =
        "There is little room left. The next longer batch, another process or fragmentation can end the job, and an "
        "allocator at its limit frees and allocates through the driver, which is slow.",
    .computation =
        "Value: reserved bytes at their peak over the device's memory; in samples, what the driver says is in use. No "
        "cost.",
    .advice = {
        "activation checkpointing of transformer blocks",
        "smaller micro-batch, gradient accumulation",
        "bf16 parameters and activations; 8-bit optimizers",
        "FSDP full sharding, ZeRO stage 2 or 3, offloading of optimizer states",
        "free what is not needed: del outputs before backward of the next, zero_grad(set_to_none=True)",
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
    },
    .seen = {Locator::At::kMemoryPeak, {}},
    .rank = {.value = memory_near_capacity_value, .say = say_memory_near_capacity, .host_alone = true},
    .samples = {.value = memory_near_capacity_samples, .say = say_memory_near_capacity_samples},
    .checklist = {{.place = 3,
                   .id = "memory-headroom",
                   .question = "Is over 10 % of the device's memory free at the peak?",
                   .label = "memory headroom",
                   .value = [](const RankMeasure& m) { return m.memory_headroom_pct; },
                   .limit = 10,
                   .above = true}},
    .now = memory_now,
};

}  // namespace profgpu
