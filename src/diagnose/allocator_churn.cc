#include <fmt/format.h>

#include "analyse/memory.h"
#include "diagnose/measure.h"

namespace profgpu {
namespace {

constexpr int64_t kFewestSteps = 2;

std::optional<double> allocator_churn_value(const Measured& m) {
  if (!m.facts().get<Steps>().annotated || m.steps() < kFewestSteps) return std::nullopt;
  return 100.0 * static_cast<double>(m.facts().get<Memory>().steps_with_allocator_calls) /
         static_cast<double>(m.steps());
}

void say_allocator_churn(const Measured& m, Finding& f) {
  const Memory& memory = m.facts().get<Memory>();
  f.what = "device memory is allocated or freed in steady steps";
  f.why = fmt::format("cudaMalloc and cudaFree wait for the device; {} of {} steps call them.",
                      memory.steps_with_allocator_calls, m.steps());
  f.fix = {"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
           "equal batch shapes (pad or bucket), and no torch.cuda.empty_cache() in the loop"};
  f.evidence.push_back(fmt::format("{} allocation calls in the trace", memory.allocator_calls));
  set_cost(f, m, m.saved_by_cause(IdleCause::kMemoryAllocation));
}

}  // namespace

extern const Rule kAllocatorChurn;
const Rule kAllocatorChurn = {
    .id = "allocator-churn",
    .summary = "cudaMalloc or cudaFree in steady steps",
    .unit = "%",
    .threshold = 50,
    .meaning =
        "After warm-up a caching allocator serves every request from memory it holds. Calls to the driver in steady "
        "steps mean that shapes change, memory is near its limit, or the cache is emptied; each such call waits for "
        "the device.",
    .computation =
        "Value: share of the measured steps with a call that allocates or frees device or pinned memory. Cost: the "
        "trace is replayed without those calls; at most the idle time of cause memory_allocation.",
    .advice = {
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (less fragmentation with changing shapes)",
        "no torch.cuda.empty_cache() in the loop",
        "pad or bucket to few shapes",
        "leave head room: near the limit the allocator frees and allocates all the time",
        "custom CUDA code: cudaMallocAsync with a memory pool, or buffers kept between steps",
    },
    .verdict = [](const Finding& f, const Job*) {
      return fmt::format("Memory is allocated and freed in {} of the steps, and the GPU waits for it.", share_text(f));
    },
    .seen = longest_gap_of(IdleCause::kMemoryAllocation),
    .rank = {.value = allocator_churn_value, .say = say_allocator_churn},
    .job_cost = {.change = "allocation_free"},
};

}  // namespace profgpu
