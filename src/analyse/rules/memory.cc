#include <fmt/format.h>

#include <algorithm>

#include "analyse/rank/memory.h"
#include "analyse/report/quantity.h"
#include "analyse/rules/measure.h"
#include "trace/health.h"

namespace profgpu {
namespace {

constexpr int64_t kMinGrowing = 4;

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
  if (m.steps() < kMinGrowing || !memory.growth_bytes_per_step || !memory.capacity_bytes) return std::nullopt;
  return 100.0 * *memory.growth_bytes_per_step / *memory.capacity_bytes;
}

void say_memory_growth(const Measured& m, Finding& f) {
  const Memory& memory = m.facts().get<Memory>();
  f.what = "allocated memory grows from step to step";
  f.why = fmt::format("It grows by {:.1f} MiB a step, {:.2f} % of the device's memory.",
                      *memory.growth_bytes_per_step / 1048576, *f.value);
  f.fix = {"keep numbers, not graphs: losses.append(loss.item()) or loss.detach(), never loss",
           "torch.cuda.memory._record_memory_history() and a snapshot name the allocations that stay"};
}

std::vector<std::string> first_steps() {
  return {"activation checkpointing: torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)",
          "smaller micro-batch with gradient accumulation; bf16; ZeRO or FSDP sharding"};
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
  if (!used || !total || *total <= 0 || 100 * *used / *total <= kMemoryUsedPct.reported) return std::nullopt;
  std::string what = fmt::format("memory is {:.0f} % full", 100 * *used / *total);
  if (d.largest && d.largest->memory_bytes)
    what += fmt::format(", {} of it by process {}", format_bytes(static_cast<double>(*d.largest->memory_bytes)),
                        d.largest->pid);
  return Advice{kMemoryUsedPct.severity, std::move(what), std::string(rule.advice[1])};
}

constexpr double kRoomPct = 80;   // of the device: up to here what is held in vain is wanted by nobody

void say_memory_fragmentation(const Measured& m, Finding& f) {
  if (reserved_pct(m).value_or(0) <= kRoomPct) f.severity = Severity::kInfo;
  f.what = fmt::format("{:.0f} % of the reserved memory holds nothing at its peak", *f.value);
  f.why = "The allocator holds blocks that do not fit what is asked for, so it takes more from the device.";
  f.fix = {"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", "pad or bucket batches to few shapes"};
}

constexpr int64_t kMinSteps = 2;

std::optional<double> allocator_churn_value(const Measured& m) {
  if (!m.facts().get<Steps>().annotated || m.steps() < kMinSteps) return std::nullopt;
  return percent_of(m.facts().get<Memory>().steps_with_allocator_calls, m.steps());
}

void say_allocator_churn(const Measured& m, Finding& f) {
  const Memory& memory = m.facts().get<Memory>();
  f.what = "device memory is allocated or freed in steady steps";
  f.why = fmt::format("cudaMalloc and cudaFree wait for the device; {} of {} steps call them.",
                      memory.steps_with_allocator_calls, m.steps());
  f.fix = {"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
           "equal batch shapes (pad or bucket), and no torch.cuda.empty_cache() in the loop"};
  f.evidence.push_back(fmt::format("{} allocation calls in the trace", memory.allocator_calls));
}

}  // namespace

extern const Rule kMemoryGrowth = {
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

extern const Rule kMemoryNearCapacity = {
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
    .rank = {.value = reserved_pct, .say = say_memory_near_capacity, .host_alone = true},
    // What the driver says is in use, by all processes together.
    .samples = {.value = [](const DeviceTelemetry& d) { return d.memory_peak_pct(); },
                .say = say_memory_near_capacity_samples},
    .checklist = {{.place = 3,
                   .id = "memory-headroom",
                   .question = "Is over 10 % of the device's memory free at the peak?",
                   .label = "memory headroom",
                   .value = [](const RankMeasure& m) { return m.memory_headroom_pct; },
                   .limit = 10,
                   .above = true}},
    .now = memory_now,
};

extern const Rule kMemoryFragmentation = {
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
        "Value: 100 (reserved - allocated) / reserved at the reserved peak; where that lasts, at its fullest. Above info "
        "only where over 80 % of the device's memory is reserved. No cost.",
    .advice = {
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128 (older PyTorch)",
        "pad or bucket batches to few shapes; run the largest batch first",
        "no large temporary tensors between long-lived ones: allocate buffers once",
    },
    .seen = {Locator::At::kMemoryPeak, {}},
    .rank = {.value = [](const Measured& m) { return m.facts().get<Memory>().fragmentation_pct; },
             .say = say_memory_fragmentation,
             .host_alone = true},
};

extern const Rule kAllocatorChurn = {
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
    .verdict = "Memory is allocated and freed in {} of the steps, and the GPU waits for it.",
    .cause = IdleCause::kMemoryAllocation,
    .rank = {.value = allocator_churn_value, .say = say_allocator_churn},
    .job_cost = {.change = "allocation_free"},
};

}  // namespace profgpu
