#include <fmt/format.h>

#include "analyse/memory.h"
#include "diagnose/measure.h"

namespace profgpu {
namespace {

std::optional<Finding> check_memory_fragmentation(const Rule& rule, const RankEvidence& evidence) {
  auto hit = fired(rule, evidence, {.severity = Severity::kInfo},
                   [](const Measured& m) { return m.facts().get<Memory>().fragmentation_pct; });
  if (!hit) return std::nullopt;
  Finding& f = hit->finding;
  if (*f.value > 50) f.severity = Severity::kWarning;
  f.what = fmt::format("{:.0f} % of the reserved memory holds nothing at its peak", *f.value);
  f.why = "The allocator holds blocks that do not fit what is asked for, so it takes more from the device.";
  f.fix = {"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", "pad or bucket batches to few shapes"};
  return f;
}

}  // namespace

extern const Rule kMemoryFragmentation;
const Rule kMemoryFragmentation = {
    "memory-fragmentation",
    "the allocator reserves much more than is used",
    "%",
    25,
    "Reserved is what the framework took from the device, allocated what tensors use. A wide gap at the peak means "
    "fragmentation: memory that is free but in pieces of the wrong size.",
    "Value: 100 (reserved - allocated) / reserved at the reserved peak; where that lasts, at its fullest. No cost.",
    {"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
     "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128 (older PyTorch)",
     "pad or bucket batches to few shapes; run the largest batch first",
     "no large temporary tensors between long-lived ones: allocate buffers once"},
    {.rank = check_memory_fragmentation}};

}  // namespace profgpu
