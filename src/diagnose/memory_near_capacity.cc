#include <fmt/format.h>

#include "analyse/memory.h"
#include "diagnose/device_measure.h"

namespace profgpu {
namespace {

std::vector<std::string> first_steps() {
  return {"activation checkpointing: torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)",
          "smaller micro-batch with gradient accumulation; bf16; ZeRO or FSDP sharding"};
}

// What the driver says is in use, by all processes together.
std::optional<Finding> check_memory_near_capacity_samples(const Rule& rule, const Evidence& evidence) {
  auto hit = fired_on_device(rule, evidence, {}, [](const DeviceTelemetry& d) { return d.memory_peak_pct(); });
  if (!hit) return std::nullopt;
  Finding& f = hit->finding;
  const DeviceTelemetry& d = *hit->worst;
  f.what = fmt::format("memory of {} peaks at {}", d.label(), percent_text(*f.value));
  f.why = fmt::format("{:.1f} of {:.1f} GiB are in use at the peak; a larger batch or fragmentation ends in an out-of-memory error.",
                      *d.find(Metric::kMemoryUsed)->max / (1 << 30), *d.limit(Metric::kMemoryTotal) / (1 << 30));
  for (size_t i = 0; i < d.processes.size() && i < 3; ++i)
    if (d.processes[i].memory_peak_bytes)
      f.evidence.push_back(fmt::format("process {} {}: {:.1f} GiB", d.processes[i].process.pid, d.processes[i].process.name,
                                       static_cast<double>(*d.processes[i].memory_peak_bytes) / (1 << 30)));
  f.fix = first_steps();
  return f;
}

std::optional<Finding> check_memory_near_capacity(const Rule& rule, const RankEvidence& evidence) {
  auto hit = fired(rule, evidence, {}, [](const Measured& m) -> std::optional<double> {
    const Memory& memory = m.facts().get<Memory>();
    if (!memory.peak_reserved_bytes || !memory.capacity_bytes) return std::nullopt;
    return 100.0 * static_cast<double>(*memory.peak_reserved_bytes) / static_cast<double>(*memory.capacity_bytes);
  });
  if (!hit) return std::nullopt;
  Finding& f = hit->finding;
  const Memory& memory = hit->worst.facts().get<Memory>();
  f.what = fmt::format("memory peaks at {} of the device", percent_text(*f.value));
  f.why = fmt::format("{:.1f} of {:.1f} GiB are reserved at the peak; a larger batch or fragmentation ends in an "
                      "out-of-memory error.",
                      static_cast<double>(*memory.peak_reserved_bytes) / (1 << 30),
                      static_cast<double>(*memory.capacity_bytes) / (1 << 30));
  f.fix = first_steps();
  return f;
}

}  // namespace

extern const Rule kMemoryNearCapacity;
const Rule kMemoryNearCapacity = {
    "memory-near-capacity",
    "the memory peak is close to the device's capacity",
    "%",
    90,
    "There is little room left. The next longer batch, another process or fragmentation can end the job, and an "
    "allocator at its limit frees and allocates through the driver, which is slow.",
    "Value: reserved bytes at their peak over the device's memory; in samples, what the driver says is in use. No cost.",
    {"activation checkpointing of transformer blocks",
     "smaller micro-batch, gradient accumulation",
     "bf16 parameters and activations; 8-bit optimizers",
     "FSDP full sharding, ZeRO stage 2 or 3, offloading of optimizer states",
     "free what is not needed: del outputs before backward of the next, zero_grad(set_to_none=True)",
     "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"},
    {.rank = check_memory_near_capacity, .whole = check_memory_near_capacity_samples}};

}  // namespace profgpu
