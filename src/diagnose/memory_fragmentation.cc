#include <fmt/format.h>

#include "analyse/memory.h"
#include "diagnose/measure.h"

namespace profgpu {
namespace {

std::optional<double> memory_fragmentation_value(const Measured& m) {
  return m.facts().get<Memory>().fragmentation_pct;
}

void say_memory_fragmentation(const Measured&, Finding& f) {
  f.what = fmt::format("{:.0f} % of the reserved memory holds nothing at its peak", *f.value);
  f.why = "The allocator holds blocks that do not fit what is asked for, so it takes more from the device.";
  f.fix = {"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", "pad or bucket batches to few shapes"};
}

}  // namespace

extern const Rule kMemoryFragmentation;
const Rule kMemoryFragmentation = {
    .id = "memory-fragmentation",
    .summary = "the allocator reserves much more than is used",
    .unit = "%",
    .threshold = 25,
    .severity = Severity::kInfo,
    .grave = 50,
    .meaning =
        "Reserved is what the framework took from the device, allocated what tensors use. A wide gap at the peak "
        "means fragmentation: memory that is free but in pieces of the wrong size.",
    .computation =
        "Value: 100 (reserved - allocated) / reserved at the reserved peak; where that lasts, at its fullest. No "
        "cost.",
    .advice = {
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128 (older PyTorch)",
        "pad or bucket batches to few shapes; run the largest batch first",
        "no large temporary tensors between long-lived ones: allocate buffers once",
    },
    .seen = {Locator::At::kMemoryPeak, {}},
    .rank = {.value = memory_fragmentation_value, .say = say_memory_fragmentation, .host_alone = true},
};

}  // namespace profgpu
