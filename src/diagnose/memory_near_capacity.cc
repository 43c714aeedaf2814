#include <fmt/format.h>

#include "analyse/memory.h"
#include "diagnose/measure.h"

namespace profgpu {
namespace {

std::optional<Finding> check(const Rule& rule, const Evidence& evidence) {
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
  f.fix = {"activation checkpointing: torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)",
           "smaller micro-batch with gradient accumulation; bf16; ZeRO or FSDP sharding"};
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
    "Value: reserved bytes at their peak over the device's memory. No cost.",
    {"activation checkpointing of transformer blocks",
     "smaller micro-batch, gradient accumulation",
     "bf16 parameters and activations; 8-bit optimizers",
     "FSDP full sharding, ZeRO stage 2 or 3, offloading of optimizer states",
     "free what is not needed: del outputs before backward of the next, zero_grad(set_to_none=True)",
     "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"},
    check};

}  // namespace profgpu
