#include <fmt/format.h>

#include "analyse/memory.h"
#include "diagnose/measure.h"

namespace profgpu {
namespace {

constexpr int64_t kFewestSteps = 2;

std::optional<Finding> check_allocator_churn(const Rule& rule, const RankEvidence& evidence) {
  auto hit = fired(rule, evidence, {}, [](const Measured& m) -> std::optional<double> {
    if (!m.has_device() || !m.facts().get<Steps>().annotated || m.steps() < kFewestSteps) return std::nullopt;
    return 100.0 * static_cast<double>(m.facts().get<Memory>().steps_with_allocator_calls) /
           static_cast<double>(m.steps());
  });
  if (!hit) return std::nullopt;
  Finding& f = hit->finding;
  const Measured& m = hit->worst;
  const Memory& memory = m.facts().get<Memory>();
  f.what = "device memory is allocated or freed in steady steps";
  f.why = fmt::format("cudaMalloc and cudaFree wait for the device; {} of {} steps call them.",
                      memory.steps_with_allocator_calls, m.steps());
  f.fix = {"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
           "equal batch shapes (pad or bucket), and no torch.cuda.empty_cache() in the loop"};
  f.evidence.push_back(fmt::format("{} allocation calls in the trace", memory.allocator_calls));
  set_cost(f, m, m.saved_by_cause(IdleCause::kMemoryAllocation));
  return f;
}

}  // namespace

extern const Rule kAllocatorChurn;
const Rule kAllocatorChurn = {
    "allocator-churn",
    "cudaMalloc or cudaFree in steady steps",
    "%",
    50,
    "After warm-up a caching allocator serves every request from memory it holds. Calls to the driver in steady steps "
    "mean that shapes change, memory is near its limit, or the cache is emptied; each such call waits for the device.",
    "Value: share of the measured steps with a call that allocates or frees device or pinned memory. Cost: the trace is "
    "replayed without those calls; at most the idle time of cause memory_allocation.",
    {"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (less fragmentation with changing shapes)",
     "no torch.cuda.empty_cache() in the loop",
     "pad or bucket to few shapes",
     "leave head room: near the limit the allocator frees and allocates all the time",
     "custom CUDA code: cudaMallocAsync with a memory pool, or buffers kept between steps"},
    {.rank = check_allocator_churn}};

}  // namespace profgpu
