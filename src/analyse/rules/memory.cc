#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analyse/rank/memory.h"
#include "analyse/rank/snapshot.h"
#include "analyse/report/quantity.h"
#include "analyse/rules/measure.h"
#include "trace/health.h"

namespace profgpu {
namespace {

constexpr int64_t kMinGrowing = 4;

constexpr double kMiB = 1 << 20;

std::string gib(double bytes) { return fmt::format("{:.1f}", bytes / (1 << 30)); }

// Samples have no steps: growth per minute.
std::optional<double> memory_growth_samples(const DeviceTelemetry& d) {
  const auto total = d.limit(Metric::kMemoryTotal);
  if (!d.memory_growth_bytes_per_s || !total || *total <= 0) return std::nullopt;
  return 100 * 60 * *d.memory_growth_bytes_per_s / *total;
}

// " of GPU 1", where the process uses several: Memory is of the fullest.
std::string of_device(const Measured& m) {
  const int32_t device = m.facts().get<Memory>().device;
  return device >= 0 && m.trace().device_rows.size() > 1 ? fmt::format(" of GPU {}", device) : "";
}

void describe_memory_growth_samples(const DeviceTelemetry& d, Finding& f) {
  f.unit = "%/min";
  f.what = fmt::format("memory of {} keeps growing", d.label());
  const double left = std::max(*d.limit(Metric::kMemoryTotal) - *d.find(Metric::kMemoryUsed)->max, 0.0);
  f.why = fmt::format("It grows by {:.1f} MiB per minute until the end; at that rate the device is full in {:.0f} "
                      "minutes.",
                      60 * *d.memory_growth_bytes_per_s / kMiB, left / *d.memory_growth_bytes_per_s / 60);
}

/// Growth per step in a snapshot's history, of one device.
struct SnapshotGrowth {
  std::vector<const GrowingLine*> lines;   // fastest first; empty: none grow
  int64_t bytes = 0;
  double pct = 0;                          // of the device's memory, or of its peak where the memory is not known
};

int64_t peak_of(const SnapshotSection& snapshot, std::optional<int32_t> device) {
  const auto* own = first_where(snapshot.devices, [&](const SnapshotDevice& d) { return device && d.device == *device; });
  return own != nullptr && own->peak_allocated_bytes > 0 ? own->peak_allocated_bytes : snapshot.peak_allocated_bytes;
}

// Of the device that grows most.
SnapshotGrowth snapshot_growth(const Measured& m) {
  const auto& snapshot = m.facts().get<Snapshot>().section;
  if (!snapshot) return {};
  std::map<std::optional<int32_t>, SnapshotGrowth> by_device;
  for (const GrowingLine& line : snapshot->growth) {
    SnapshotGrowth& of = by_device[line.device];
    of.lines.push_back(&line);
    of.bytes += line.growth_bytes;
  }
  SnapshotGrowth most;
  for (auto& [device, of] : by_device) {
    if (is_little_growth(of.bytes, peak_of(*snapshot, device))) continue;
    of.pct = percent_of(of.bytes, m.facts().get<Memory>().capacity_bytes.value_or(peak_of(*snapshot, device)));
    if (of.pct > most.pct) most = std::move(of);
  }
  return most;
}

std::optional<double> memory_growth_value(const Measured& m) {
  const Memory& memory = m.facts().get<Memory>();
  if (const SnapshotGrowth growth = snapshot_growth(m); growth.pct > 0) return growth.pct;
  if (m.steps() < kMinGrowing || !memory.growth_bytes_per_step || !memory.capacity_bytes) return std::nullopt;
  return 100.0 * *memory.growth_bytes_per_step / *memory.capacity_bytes;
}

std::vector<std::string> growth_fixes(const GrowingLine& line) {
  if (line.cause == "kept_tensors")
    return {fmt::format("a list, a cache or a variable keeps what {} makes: clear it or del the tensors", line.place()),
            "keep numbers or copies on the host: x.item(), x.detach().cpu()",
            "gc.get_referrers(tensor) shows what refers to it"};
  if (line.cause == "retained_graph" && line.per == "forward pass")
    return {"torch.inference_mode() or torch.no_grad() around the forward pass: without it every output keeps its graph",
            "keep outputs without their graph: outputs.append(y.detach().cpu())"};
  return {};
}

void describe_snapshot_growth(const Measured& m, const SnapshotGrowth& growth, Finding& f) {
  const auto bytes = [](int64_t n) { return format_bytes(static_cast<double>(n)); };
  const GrowingLine& first = *growth.lines.front();
  const std::string& per = first.per;
  const std::string device = first.device ? fmt::format(" of GPU {}", *first.device) : "";
  f.what = fmt::format("memory{} grows from {} to {}, most in {}", device, per, per, first.place());
  f.why = fmt::format("Lines that hold more{} after each {}: {}. Together they grow by {} each time, {:.2f} % of the {}.",
                      device, per, growth.lines.size(), bytes(growth.bytes), *f.value,
                      m.facts().get<Memory>().capacity_bytes ? "device's memory" : "peak");
  f.fix = growth_fixes(first);
  for (size_t i = 0; i < std::min<size_t>(growth.lines.size(), 3); ++i) {
    const GrowingLine& line = *growth.lines[i];
    f.evidence.push_back(fmt::format("{}: {} per {}, {} in {} blocks after the last one", line.place(),
                                     bytes(line.growth_bytes), per, bytes(line.bytes), line.blocks));
  }
}

void describe_memory_growth(const Measured& m, Finding& f) {
  if (const SnapshotGrowth growth = snapshot_growth(m); growth.pct > 0) return describe_snapshot_growth(m, growth, f);
  f.what = fmt::format("allocated memory{} grows from step to step", of_device(m));
  f.why = fmt::format("It grows by {:.1f} MiB per step, {:.2f} % of the device's memory.",
                      *m.facts().get<Memory>().growth_bytes_per_step / kMiB, *f.value);
}

std::string why_near_capacity(double peak_bytes, double capacity_bytes, std::string_view held,
                              std::string_view when = "at the peak") {
  return fmt::format("{} of {} GiB is {} {}; a larger batch or fragmentation would end in an out-of-memory error.",
                     gib(peak_bytes), gib(capacity_bytes), held, when);
}

void describe_memory_near_capacity_samples(const DeviceTelemetry& d, Finding& f) {
  f.what = fmt::format("memory of {} peaks at {}", d.label(), format_percent(*f.value));
  f.why = why_near_capacity(*d.find(Metric::kMemoryUsed)->max, *d.limit(Metric::kMemoryTotal), "in use");
  for (size_t i = 0; i < d.processes.size() && i < 3; ++i)
    if (const ProcessTelemetry& p = d.processes[i]; p.memory_peak_bytes)
      f.evidence.push_back(fmt::format("process {} {}: {} GiB", p.process.pid, p.process.name,
                                       gib(static_cast<double>(*p.memory_peak_bytes))));
}

// A snapshot without a history tells the least that the peak can be.
std::optional<double> near_capacity_value(const Measured& m) {
  const auto& snapshot = m.facts().get<Snapshot>().section;
  const Memory& memory = m.facts().get<Memory>();
  const std::optional<double> pct = fullest_reserved_pct(m);
  if (pct || !snapshot || !snapshot->peak.reserved_bytes || !memory.capacity_bytes) return pct;
  return percent_of(*snapshot->peak.reserved_bytes, *memory.capacity_bytes);
}

constexpr double kMuchUnusedPct = 20;   // of the device

void describe_memory_near_capacity(const Measured& m, Finding& f) {
  const Memory& memory = m.facts().get<Memory>();
  const auto& snapshot = m.facts().get<Snapshot>().section;
  const bool only_held = !memory.peak_reserved_bytes && snapshot && !snapshot->history_recorded;
  const std::string_view when = only_held ? held_when(*snapshot) : "at the peak";
  f.what = only_held ? fmt::format("{} of the device's memory is reserved {}", format_percent(*f.value), when)
                     : fmt::format("memory{} peaks at {} of the device", of_device(m), format_percent(*f.value));
  const auto capacity_bytes = static_cast<double>(*memory.capacity_bytes);
  const double peak_bytes = *f.value / 100 * capacity_bytes;
  f.why = why_near_capacity(peak_bytes, capacity_bytes, "reserved", when);
  const double unused_pct = memory.fragmentation_pct.value_or(0);
  if (!memory.peak_reserved_bytes || unused_pct * *f.value / 100 < kMuchUnusedPct) return;
  f.severity = Severity::kInfo;
  f.why = fmt::format("{} of {} GiB is reserved {}, {} GiB of it in the allocator's cache without use: a larger batch "
                      "can use that, other processes can't.",
                      gib(peak_bytes), gib(capacity_bytes), when, gib(unused_pct / 100 * peak_bytes));
}

// The next batch's size is unknown here: a device counts as full when the allocator has little left.
std::optional<Advice> memory_now(const Rule&, const DeviceNow& d) {
  const auto used = d.value(Metric::kMemoryUsed), total = d.value(Metric::kMemoryTotal);
  if (!used || !total || *total <= 0 || 100 * *used / *total <= kMemoryUsedPct.reported) return std::nullopt;
  std::string what = fmt::format("memory is {:.0f} % full", 100 * *used / *total);
  if (d.largest && d.largest->memory_bytes)
    what += fmt::format(", {} of it by process {}", format_bytes(static_cast<double>(*d.largest->memory_bytes)),
                        d.largest->pid);
  return Advice{kMemoryUsedPct.severity, std::move(what), "smaller micro-batch with gradient accumulation"};
}

constexpr double kMinTightPct = 80;   // of the device: below, unused reserved memory does no harm

constexpr int64_t kLittleOfDevice = 100;   // a hundredth of its memory hurts no one

std::optional<double> memory_fragmentation_value(const Measured& m) {
  const Memory& memory = m.facts().get<Memory>();
  if (memory.peak_reserved_bytes && memory.capacity_bytes &&
      *memory.peak_reserved_bytes < *memory.capacity_bytes / kLittleOfDevice)
    return std::nullopt;
  const auto& snapshot = m.facts().get<Snapshot>().section;
  // What is cached when the snapshot is taken may all have been in use before.
  if (!snapshot || !snapshot->history_recorded || !snapshot->peak.reserved_bytes)
    return only_if(memory.reserved_beside_unused, memory.fragmentation_pct.value_or(0));
  // The least that the allocator reserves is 2 MiB for small tensors and 20 MiB for larger ones.
  constexpr int64_t kLeastReserved = int64_t{22} << 20;
  if (*snapshot->peak.unused_bytes <= kLeastReserved) return std::nullopt;
  return percent_of(*snapshot->peak.unused_bytes, *snapshot->peak.reserved_bytes);
}

void describe_memory_fragmentation(const Measured& m, Finding& f) {
  if (fullest_reserved_pct(m).value_or(0) <= kMinTightPct) f.severity = Severity::kInfo;
  f.what = fmt::format("{:.0f} % of the reserved memory{} is unused at the peak", *f.value, of_device(m));
  f.why = "The allocator's free blocks don't fit the requests, so it takes more memory from the device.";
  if (const auto& s = m.facts().get<Snapshot>().section; s && s->replay)
    for (const SettingRow& row : s->replay->settings)
      f.evidence.push_back(fmt::format("replayed with {}: a reserved peak of {} instead of {}", row.settings,
                                       format_bytes(static_cast<double>(row.peak_reserved_bytes)),
                                       format_bytes(static_cast<double>(*s->replay->peak_reserved_bytes))));
}

constexpr int64_t kMinMemorySteps = 2;

std::optional<double> allocator_churn_value(const Measured& m) {
  if (!m.facts().get<Steps>().annotated || m.steps() < kMinMemorySteps) return std::nullopt;
  return percent_of(m.facts().get<Memory>().steps_with_allocator_calls, m.steps());
}

void describe_allocator_churn(const Measured& m, Finding& f) {
  const Memory& memory = m.facts().get<Memory>();
  f.what = "device memory is allocated or freed in steady steps";
  f.why = fmt::format("cudaMalloc and cudaFree wait for the device; {} of {} steps call them.",
                      memory.steps_with_allocator_calls, m.steps());
  f.evidence.push_back(fmt::format("{} allocation calls in the trace", memory.allocator_calls));
}

}  // namespace

extern const Rule kMemoryGrowth = {
    .id = "memory-growth",
    .summary = "allocated memory grows from step to step",
    .unit = "%",
    .threshold = 0.1,
    .meaning =
        "The lowest allocation within a step should be the same in every step: parameters and optimizer states. If it "
        "grows, something keeps tensors alive, and the job will run out of memory.",
    .computation =
        "Value: Theil-Sen slope of the lowest allocation in each measured step (at least four), as a share of the "
        "device's capacity per step; of samples without steps, per minute, over at least half a minute; of a memory "
        "snapshot, the slope of what each line holds after the optimizer's steps, if its 95 % interval is above 0, as a "
        "share of the peak where the capacity is unknown. No cost: it costs nothing until it fails.",
    .advice = {
        "keep numbers, not graphs: losses.append(loss.item()) or loss.detach(), never loss itself",
        "find what stays: torch.cuda.memory._record_memory_history() and _dump_snapshot(), then profgpu analyze",
        "clear lists of outputs, hidden states or metrics",
        "no retain_graph=True where it is not needed",
        "check hooks and callbacks that capture tensors, and exceptions that keep frames alive",
    },
    .seen = {Locator::At::kMemoryPeak, {}},
    .rank = {.value = memory_growth_value, .describe = describe_memory_growth, .host_alone = true},
    .samples = {.value = memory_growth_samples, .describe = describe_memory_growth_samples},
};

extern const Rule kMemoryNearCapacity = {
    .id = "memory-near-capacity",
    .summary = "the memory peak is close to the device's capacity",
    .unit = "%",
    .threshold = 90,
    .meaning =
        "Little memory is left. The next longer batch, another process or fragmentation can end the job, and at its "
        "limit the allocator frees and allocates through the driver, which is slow.",
    .computation =
        "Value: peak reserved bytes as a share of the device's memory; in samples, the driver's figure of memory in "
        "use. No cost.",
    .advice = {
        "activation checkpointing: torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)",
        "smaller micro-batch with gradient accumulation",
        "bf16 parameters and activations; 8-bit optimizers",
        "FSDP full sharding, ZeRO stage 2 or 3, offloading of optimizer states",
        "free early: del outputs before the next backward pass, zero_grad(set_to_none=True)",
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
    },
    .seen = {Locator::At::kMemoryPeak, {}},
    .rank = {.value = near_capacity_value, .describe = describe_memory_near_capacity, .host_alone = true},
    // The driver's figure, for all processes together.
    .samples = {.value = [](const DeviceTelemetry& d) { return d.memory_peak_pct(); },
                .describe = describe_memory_near_capacity_samples},
    .checklist = {{.order = 3,
                   .id = "memory-headroom",
                   .question = "Is over 10 % of the device's memory free at the peak?",
                   .label = "memory headroom",
                   .value = [](const Evidence&, const RankMeasure& m) { return m.device.memory_headroom_pct; },
                   .limit = 10,
                   .above = true,
                   .host_alone = true,
                   .record = "memory: profile_memory=True in torch.profiler"}},
    .now = memory_now,
};

extern const Rule kMemoryFragmentation = {
    .id = "memory-fragmentation",
    .summary = "the allocator reserves much more than is used",
    .unit = "%",
    .threshold = 25,
    .severity = Severity::kInfo,
    .severe = 50,
    .meaning =
        "Reserved memory is what the framework took from the device; allocated memory is what tensors use. A wide gap "
        "at the peak means fragmentation: free memory in pieces of the wrong size.",
    .computation =
        "Value: 100 (reserved - allocated) / reserved at the reserved peak; if the peak lasts, when most is allocated. "
        "Of a memory snapshot: at the allocated peak. Silent where the peak is under a hundredth of the device's memory, and where the recording does not show more "
        "memory being reserved although as much was unused: a larger step before it may have reserved it. Above info only if over 80 % of the device's memory is reserved. No cost.",
    .advice = {
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; max_split_size_mb:128 in older PyTorch",
        "pad or bucket batches to few shapes; run the largest batch first",
        "no large temporary tensors between long-lived ones: allocate buffers once",
    },
    .seen = {Locator::At::kMemoryPeak, {}},
    .rank = {.value = memory_fragmentation_value, .describe = describe_memory_fragmentation, .host_alone = true},
};

extern const Rule kAllocatorChurn = {
    .id = "allocator-churn",
    .summary = "cudaMalloc or cudaFree in steady steps",
    .unit = "%",
    .threshold = 50,
    .meaning =
        "After warm-up a caching allocator serves every request from its own memory. Driver calls in steady steps mean "
        "that shapes change, memory is near its limit, or the cache is emptied; each such call waits for the device.",
    .computation =
        "Value: share of the measured steps with a call that allocates or frees device or pinned memory. Cost: replay "
        "of the trace without those calls; at most the idle time of cause memory_allocation.",
    .advice = {
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (less fragmentation with changing shapes)",
        "pad or bucket batches to few shapes; no torch.cuda.empty_cache() in the loop",
        "leave headroom: near the limit the allocator frees and allocates all the time",
        "custom CUDA code: cudaMallocAsync with a memory pool, or buffers kept between steps",
    },
    .native_advice =
        {"allocate once, before the loop, and use the buffers again",
         "cudaMallocAsync and cudaFreeAsync from a pool that keeps its memory: cudaMemPoolSetAttribute with "
         "cudaMemPoolAttrReleaseThreshold"},
    .verdict = "The GPU waits for memory that is allocated and freed in {} of the steps.",
    .cause = IdleCause::kMemoryAllocation,
    .rank = {.value = allocator_churn_value, .describe = describe_allocator_churn},
    .job_cost = {.change = "allocation_free"},
};

}  // namespace profgpu
