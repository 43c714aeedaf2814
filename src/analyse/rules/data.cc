#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "analyse/rank/averaged_time.h"
#include "analyse/rank/places.h"
#include "analyse/rank/roofline.h"
#include "analyse/rules/host_work.h"
#include "analyse/rules/log_checks.h"
#include "analyse/rules/measure.h"
#include "analyse/rules/worker_starts.h"
#include "base/decimal.h"
#include "base/text.h"
#include "trace/copy_kind.h"

namespace profgpu {

extern const Rule kDataLoadingBound;

namespace {

using enum Framework;

constexpr double kMinIdlePct = 1;

// Whether the device idles for it, if not only when the recording begins. Without a device the loop itself waits.
bool delays_steps(const Measured& m) {
  if (!m.has_device()) return true;
  if (m.own_idle_pct(IdleCause::kDataLoading) >= kMinIdlePct) return true;
  return m.idle_wall_pct(IdleCause::kDataLoading) >= kMinIdlePct &&
         2 * steps_with_gaps(m, IdleCause::kDataLoading) >= m.steps();
}

// Loops may load between the ranges that mark their steps: then only the device's waiting shows it.
std::optional<double> loading_value(const Measured& m) {
  if (!delays_steps(m)) return std::nullopt;
  const double idle_pct = m.has_device() ? m.own_idle_pct(IdleCause::kDataLoading) : 0;
  return std::max(m.phase_pct(Phase::kDataLoading), idle_pct);
}

struct Loader {
  Interval longest;
  bool single_process = false, workers = false;
};

// Methods of the loader with workers alone, as frames of stacks have them: profgpu's own ranges do not name the loader.
bool is_frame_of_workers(std::string_view frame) {
  constexpr std::array kMethods = {": _try_get_data", ": _get_data", ": _try_put_index", ": _shutdown_workers"};
  return contains(frame, "torch/utils/data/dataloader.py(") &&
         std::ranges::any_of(kMethods, [&](std::string_view method) { return frame.ends_with(method); });
}

bool samples_show_workers(const Measured& m) {
  const Names& names = m.facts().get<Names>();
  for (size_t i = 0; i < names.on_host.size(); ++i)
    if (names.on_host[i] && is_frame_of_workers(m.trace().strings[StringId(i)])) return true;
  return false;
}

Loader loader_of(const Measured& m) {
  const Trace& trace = m.trace();
  const Names& names = m.facts().get<Names>();
  Loader loader;
  if (!m.facts().get<Steps>().thread.valid()) return loader;
  const Thread& thread = trace.threads[m.facts().get<Steps>().thread.value];
  for (HostId i = thread.begin; i < thread.end; ++i) {
    if (names.phase[trace.host.name[i.value].value] != Phase::kDataLoading) continue;
    loader.single_process |= contains(trace.name(i), "_SingleProcessDataLoaderIter");
    loader.workers |= contains(trace.name(i), "_MultiProcessingDataLoaderIter");
    if (m.in_measured_step(trace.host.start_ns[i.value]) &&
        trace.host.duration_ns[i.value] > loader.longest.length())
      loader.longest = trace.host.interval(i);
  }
  if (!loader.single_process && !loader.workers) loader.workers = samples_show_workers(m);
  return loader;
}

// Workers that start at each epoch: more of them take longer to start.
void blame_worker_starts(const Measured& m, const WorkerStarts& starts, Finding& f) {
  f.what = fmt::format("the data loader's workers start again at each epoch, so the {}",
                       m.has_device() ? "GPU idles" : "loop waits");
  f.fix = {"DataLoader(…, persistent_workers=True): the workers stay from epoch to epoch",
           "longer epochs: several passes over a small dataset in one (RandomSampler(…, replacement=True, "
           "num_samples=…))"};
  f.evidence.push_back(fmt::format("{} times from the end of an epoch to the first batch of the next: {} (median)",
                                   starts.count, format_duration(static_cast<double>(starts.median_ns))));
}

// What `profgpu bench storage` measured where the data lies: no loader is faster.
void add_ceilings(const Measured& m, Finding& f) {
  const AnalysisOptions& options = m.facts().options();
  const Limits& limits = m.facts().get<Limits>();
  const bool here = options.peaks.path.empty() && limits.device && !limits.device->uuid.empty();
  for (const StorageRate& rate : (here ? options.machine : options.peaks).storage)
    f.evidence.push_back(
        fmt::format("measured by profgpu bench: {}: {}", rate.label, format_measured(rate.value, rate.unit)));
}

// Without a device: where the loop's own thread prepares batches. With workers it only waits.
void name_loading_code(const Measured& m, const Loader& loader, Finding& f) {
  constexpr double kMinPart = 0.1;
  const ThreadId thread = m.facts().get<Steps>().thread;
  if (m.has_device() || loader.workers || !thread.valid()) return;
  const Intervals loading = intersect(m.facts().get<Phases>().data_loading, m.measured_time());
  Places places(m.facts(), PlaceOf::kOwnCode);
  places.add_host_time(thread, loading, m.measured_time());
  const double least_ns = kMinPart * static_cast<double>(total_length(loading));
  for (Place& place : places.most_expensive())
    if (!place.file.empty() && static_cast<double>(place.ns) >= least_ns) f.where.push_back(std::move(place));
}

// On how many the recorded process may run; none: not recorded.
std::optional<int64_t> processors_of(const Trace& trace) {
  for (const auto& [key, value] : trace.metadata)
    if (key == "processors") return whole_number(value);
  return std::nullopt;
}

// More workers than processors only take them from each other.
std::string first_workers(const Trace& trace) {
  constexpr int64_t kUsual = 4;
  return fmt::format("DataLoader(…, num_workers={}, persistent_workers=True); add workers until the wait is gone or the CPU is "
                     "full",
                     std::clamp<int64_t>(processors_of(trace).value_or(kUsual), 1, kUsual));
}

Interval longest_loading_gap(const Measured& m) {
  if (!m.has_device()) return {};
  const auto counts = [&](const Gap& gap) { return m.counts(gap, IdleCause::kDataLoading); };
  const std::vector<const Gap*> longest = longest_gaps(m.gaps(), 1, counts);
  return longest.empty() ? Interval() : longest.front()->time();
}

// Where no range says that data are loaded: the device waits by itself, or the host reads.
void name_unmarked_wait(const Measured& m, const Loader& loader, Finding& f) {
  if (loader.longest.length() > 0 || !m.has_device()) return;
  const InputWaits& waits = m.facts().get<InputWaits>();
  if (!waits.infeed.empty()) f.what = "the device waits for its input, in infeed";
  else if (const SystemWait* wait = f.where.empty() ? nullptr : system_wait(f.where.front()); wait != nullptr)
    f.what = fmt::format("the GPU waits while the host waits for {}, in {}", wait->words, f.where.front().name);
}

void describe_data_loading_bound(const Measured& m, Finding& f) {
  const Loader loader = loader_of(m);
  add_ceilings(m, f);
  name_loading_code(m, loader, f);
  const Interval longest_wait = loader.longest.length() > 0 ? loader.longest : longest_loading_gap(m);
  const std::string longest = "longest wait " + format_duration(static_cast<double>(longest_wait.length()));
  if (longest_wait.length() > 0) see(f, longest_wait);
  f.what = fmt::format("{}, so the {}", loader.workers          ? "the data loader's workers can't keep up"
                                          : loader.single_process ? "a single process prepares every batch"
                                                                  : "batches are prepared within the step",
                       m.has_device() ? "GPU idles" : "loop waits");
  name_unmarked_wait(m, loader, f);
  if (!loader.workers && processors_of(m.trace())) {
    f.fix = {first_workers(m.trace())};
    for (const size_t next : {1, 2}) f.fix.emplace_back(kDataLoadingBound.advice[next]);
  }
  if (loader.workers)
    f.fix = {m.facts().get<Frameworks>().has(kTrainer)
                 ? "TrainingArguments(dataloader_num_workers=…): more of them, up to the cores per GPU; "
                   "dataloader_prefetch_factor=4"
                 : "DataLoader(…, num_workers=…): more of them, up to the cores per GPU; prefetch_factor=4, "
                   "persistent_workers=True",
             "make samples cheaper: store decoded or resized data; decode on the GPU (torchvision.io, DALI)",
             "DataLoader(…, pin_memory=True) and batch.to(device, non_blocking=True)"};
  const WorkerStarts starts = loader.workers ? worker_starts(m) : WorkerStarts();
  if (starts.are_most()) blame_worker_starts(m, starts, f);
  if (!m.has_device()) {
    const bool steps = m.facts().get<Steps>().marked();
    f.verdict = fmt::format("The loop waits for data: loading takes {} of {}.", format_percent(*f.value, 0),
                            steps ? "each step" : "the recorded time");
    f.why = fmt::format("Data loading takes {} of the {} on the thread that loads.", format_percent(*f.value),
                        steps ? "steps" : "recorded time");
    f.evidence.push_back(longest);
    if (!steps) return;   // what is recorded of the loop may be a part of one step
    const int64_t loading_ns = m.facts().get<Phases>().measured_wall_ns[static_cast<size_t>(Phase::kDataLoading)];
    set_cost(f, m.wall_ns(), starts.are_most() ? std::min(starts.extra_ns, m.wall_ns()) : loading_ns);
    return;
  }
  const double idle_pct = m.idle_wall_pct(IdleCause::kDataLoading);
  f.why = fmt::format("Data loading takes {} of the steps, and {} idles {} of them because of it.",
                      format_percent(*f.value), m.device_label(), format_percent(idle_pct));
  if (2 * idle_pct < *f.value) {   // the host loads ahead, and most of it costs nothing
    f.severity = kDataLoadingBound.severity_at(idle_pct);
    f.verdict = fmt::format("The GPU waits for data {} of the time.", format_percent(idle_pct, 0));
  }
  if (m.facts().get<Steps>().marked()) {
    f.evidence.push_back(
        fmt::format("in {} of {} steps; {}", steps_with_gaps(m, IdleCause::kDataLoading), m.steps(), longest));
  } else {
    f.verdict = fmt::format("The GPU waits for data: loading takes {} of the time.", format_percent(*f.value, 0));
    f.evidence.push_back(longest);
  }
  // With workers the thread only waits for them.
  if (auto blocked = blocked_thread(m, IdleCause::kDataLoading); blocked && !loader.workers)
    f.evidence.push_back(std::move(blocked->text));
}

/// Saving between the steps, and while the device idles for it in them.
struct SavingTime {
  int64_t ns = 0, between_steps_ns = 0;
  double pct = 0;            // of the measured steps and the pauses between steps
  size_t saves = 0;
};

SavingTime saving_time(const Measured& m) {
  const Intervals& pauses = m.facts().get<AveragedTime>().pauses;
  const Intervals all = unite(m.measured_time(), pauses);
  const Intervals saves = intersect(m.facts().get<Phases>().checkpoint, all);
  const Intervals waits = m.has_device() ? intersect(m.idle().time_of(IdleCause::kCheckpoint), all) : saves;
  SavingTime time;
  time.ns = total_length(waits);
  time.between_steps_ns = total_length(intersect(waits, pauses));
  time.pct = percent_of(time.ns, total_length(all));
  time.saves = saves.size();
  return time;
}

// Loops usually save between the ranges that mark their steps.
std::optional<double> checkpoint_stall_value(const Measured& m) {
  return std::max(m.phase_pct(Phase::kCheckpoint), saving_time(m).pct);
}

void describe_saves_between_steps(const SavingTime& time, Finding& f) {
  f.cost_ns.reset(), f.cost_pct.reset();   // costs are of steps
  const auto text = [](int64_t ns) { return format_duration(static_cast<double>(ns)); };
  f.verdict = fmt::format("Saving checkpoints takes {} of the time, between steps.", format_percent(*f.value, 0));
  f.why = fmt::format("Saving takes {} of the time, {} of it between steps on the training thread.",
                      format_percent(*f.value), text(time.between_steps_ns));
  f.evidence.push_back(fmt::format("{} {}; no step gets shorter without {}", time.saves,
                                   time.saves == 1 ? "save" : "saves", time.saves == 1 ? "it" : "them"));
}

void describe_checkpoint_stall(const Measured& m, Finding& f) {
  f.what = "training stops while checkpoints are saved";
  const SavingTime time = saving_time(m);
  if (2 * time.between_steps_ns > time.ns) return describe_saves_between_steps(time, f);
  f.why = fmt::format("Saving takes {} of the steps' time on the training thread.", format_percent(*f.value));
  const Intervals& saves = m.facts().get<Phases>().checkpoint;
  f.evidence.push_back(fmt::format("{} saves in the measured steps", intersect(saves, m.measured_time()).size()));
  if (!m.has_device())
    set_cost(f, m.wall_ns(), m.facts().get<Phases>().measured_wall_ns[static_cast<size_t>(Phase::kCheckpoint)]);
}

/// Copies of one device.
struct Copies {
  explicit Copies(const Facts& facts) : places(facts) {}
  std::vector<bool> which;   // by ActivityId
  Intervals time;            // the copies and the host's waits for them, in measured steps
  Intervals on_device;
  int64_t count = 0, bytes = 0;
  ActivityId longest;
  Places places;
};

bool is_pageable(const Trace& trace, ActivityId copy) { return contains(trace.name(copy), "Pageable"); }

// An upload launched in time that waited behind other work of its stream; on another stream it could overlap with that.
bool is_late(const Trace& trace, ActivityId copy) {
  const HostId call = trace.activity.launch[copy.value];
  if (is_pageable(trace, copy) || !call.valid() || !is_upload(trace, copy)) return false;
  return trace.activity.start_ns[copy.value] - trace.host.end_ns(call) > trace.activity.duration_ns[copy.value];
}

bool is_migration(const Trace& trace, ActivityId copy) { return contains(trace.name(copy), "(Unified memory)"); }

// Pageable and late copies, and pages that the driver moves, have rules of their own.
bool is_other(const Trace& trace, ActivityId copy) {
  return !is_pageable(trace, copy) && !is_late(trace, copy) && !is_migration(trace, copy);
}

// The part of a copy in which the device does nothing else.
int64_t exposed_ns(const Measured& m, ActivityId copy) {
  return overlap_length(m.device().exposed_memory, m.trace().activity.interval(copy));
}

enum class CopyTime : uint8_t { kAny, kExposed };   // kExposed: not those that run beside other work all the time

// A call that first waits for queued work waits for its copy only from then on.
Copies copies_of(const Measured& m, bool (*wanted)(const Trace& trace, ActivityId copy), CopyTime when) {
  const Trace& trace = m.trace();
  Copies c(m.facts());
  c.which.resize(trace.activity.size());
  std::vector<int64_t> stream_end(trace.queues.size(), INT64_MIN);
  for (uint32_t i = m.device().begin.value; i < m.device().end.value; ++i) {
    const ActivityId id(i);
    const int64_t ready = std::exchange(stream_end[trace.activity.queue[i]], trace.activity.end_ns(id));
    if (trace.activity.kind[i] != ActivityKind::kMemcpy || !wanted(trace, id) ||
        !contains(m.measured_time(), trace.activity.start_ns[i]) ||
        (when == CopyTime::kExposed && exposed_ns(m, id) == 0))
      continue;
    c.which[i] = true;
    ++c.count;
    const auto& duration_ns = trace.activity.duration_ns;
    if (!c.longest.valid() || duration_ns[i] > duration_ns[c.longest.value]) c.longest = id;
    if (trace.activity.args[i].valid())
      c.bytes += std::max<int64_t>(0, trace.activity_args[trace.activity.args[i].value].bytes);
    c.on_device.push_back(trace.activity.interval(id));
    c.places.add(id);
    if (const HostId call = trace.activity.launch[i]; call.valid())
      c.time.push_back({std::max(trace.host.start_ns[call.value], ready), trace.host.end_ns(call)});
  }
  c.on_device = merged(std::move(c.on_device));
  c.time.insert(c.time.end(), c.on_device.begin(), c.on_device.end());
  c.time = intersect(merged(std::move(c.time)), m.measured_time());
  return c;
}

// Time in which the device only copies; idle time has other findings.
Intervals exposed_part(const Measured& m, const Copies& copies) {
  return intersect(intersect(copies.on_device, m.device().exposed_memory), m.measured_time());
}

template <bool (*wanted)(const Trace& trace, ActivityId copy)>
std::optional<double> exposed_pct(const Measured& m) {
  const Copies copies = copies_of(m, wanted, CopyTime::kExposed);
  return only_if(copies.count > 0, m.window_pct(exposed_part(m, copies)));
}

void set_copies(const Measured& m, const Copies& copies, Finding& f) {
  f.evidence.push_back(fmt::format("{} {}, {} in total", format_count(copies.count), copies.count == 1 ? "copy" : "copies",
                                   format_bytes(static_cast<double>(copies.bytes))));
  f.where = copies.places.most_expensive();
  if (copies.longest.valid()) {
    f.seen = {Locator::At::kLongestKernel, std::string(m.trace().name(copies.longest))};
    see(f, m.trace().activity.interval(copies.longest));
  }
  Removal removal;
  removal.activity = copies.which;
  set_saving(m, m.replay().saved_by(removal).up_to(total_length(exposed_part(m, copies))), f);
}

// Of the copies' time, what goes to the device.
double upload_pct(const Trace& trace, const Copies& copies) {
  int64_t all_ns = 0, up_ns = 0;
  for (size_t i = 0; i < copies.which.size(); ++i) {
    if (!copies.which[i]) continue;
    all_ns += trace.activity.duration_ns[i];
    if (is_upload(trace, ActivityId(i))) up_ns += trace.activity.duration_ns[i];
  }
  return percent_of(up_ns, all_ns);
}

void describe_pageable_copies(const Measured& m, Finding& f) {
  const Copies copies = copies_of(m, is_pageable, CopyTime::kAny);
  if (upload_pct(m.trace(), copies) < 50) {
    f.own_fixes = true;   // the loader does not make these copies
    f.fix = {"copy into a pinned buffer that is kept: buffer = torch.empty(…, pin_memory=True); "
             "buffer.copy_(tensor, non_blocking=True)",
             "copy results back in one piece and not in every step; keep metrics on the device",
             "checkpoints: torch.distributed.checkpoint.async_save stages them in pinned memory"};
  }
  f.what = "copies go through pageable memory and block the host";
  f.why = fmt::format("{} copies take {} of the steps. Pageable memory needs a staging buffer, blocks the host and "
                      "can't overlap with compute.",
                      copies.count, format_percent(*f.value));
  set_copies(m, copies, f);
}

// FSDP that keeps parameters in host memory copies them before each module.
void blame_parameters(Finding& f) {
  if (f.where.empty() || !f.where.front().name.starts_with("FSDP::")) return;
  f.fix = {"fully_shard(…) without CPUOffloadPolicy: parameters stay on the GPU, if a rank's shard fits",
           "else CPUOffloadPolicy(pin_memory=True) and set_modules_to_forward_prefetch(…): the next module's parameters "
           "are copied while this one computes"};
}

void describe_exposed_copies(const Measured& m, Finding& f) {
  const Copies copies = copies_of(m, is_other, CopyTime::kExposed);
  std::map<std::string_view, int64_t> by_name;
  for (size_t i = 0; i < copies.which.size(); ++i)
    if (copies.which[i]) by_name[m.trace().name(ActivityId(i))] += exposed_ns(m, ActivityId(i));
  const auto most = std::ranges::max_element(by_name, {}, &std::pair<const std::string_view, int64_t>::second);
  f.what = fmt::format("copies not overlapped with compute, mostly {}", shortened(most->first));
  const double all_pct = m.window_pct(m.device().exposed_memory);
  f.why = fmt::format("For {} of the time {} only copies.", format_percent(all_pct), m.device_label());
  if (all_pct - *f.value >= 0.5) {
    f.why += fmt::format(" {} are these copies; the others have a finding of their own.", format_percent(*f.value));
    f.verdict = fmt::format("For {} of the time the GPU only copies data.", format_percent(all_pct, 0));
  }
  const CopyKind kind = copy_kind(most->first);
  if (kind == CopyKind::kDtoD)
    f.fix = {"keep one memory layout and dtype: fewer .contiguous(), .clone(), cat and permute before kernels",
             "write results directly where they are needed: out=, preallocated buffers, views instead of copies"};
  if (kind == CopyKind::kDtoH)
    f.fix = {"copy results back on a side stream into a pinned buffer, with non_blocking=True, and read them a step later",
             "keep results on the device, and send them in one piece",
             "offloading: overlap its copies with compute, or offload less"};
  set_copies(m, copies, f);
  if (kind == CopyKind::kHtoD) blame_parameters(f);
}

void describe_late_copy(const Measured& m, Finding& f) {
  f.what = "copies of ready data wait behind kernels, then overlap with nothing";
  f.why = fmt::format("They are launched in time, but on the compute stream: for {} of the time {} only runs them.",
                      format_percent(*f.value), m.device_label());
  set_copies(m, copies_of(m, is_late, CopyTime::kExposed), f);
  blame_parameters(f);
}

}  // namespace

extern const Rule kDataLoadingBound = {
    .id = "data-loading-bound",
    .summary = "the GPU waits for the next batch",
    .unit = "%",
    .threshold = 10,
    .severe = 25,
    .meaning =
        "The training loop waits for input: loading a batch takes a large part of each step, and the device has "
        "nothing to do meanwhile. The model is not the bottleneck; a faster GPU would not help.",
    .computation =
        "Value: share of the measured steps' time in data-loading ranges (such as "
        "enumerate(DataLoader)#….__next__) on the step's thread, or idle time of cause data_loading as a share of the "
        "device's window, whichever is more. Calls of the C library that read for a millisecond or longer count as "
        "loading where the device idles, and so does the infeed of a TPU. Fires only if the device idles for it. Cost: replay "
        "of the trace without that host time; at most the idle time that data loading causes, including before the "
        "device's first activity.",
    .advice = {
        "DataLoader(…, num_workers=4, persistent_workers=True); add workers until the wait is gone or the CPU is full",
        "DataLoader(…, pin_memory=True) and batch.to(device, non_blocking=True): the copy overlaps with compute",
        "DataLoader(…, prefetch_factor=4): more batches are ready when one takes long",
        "decode and augment on the GPU (DALI, torchvision.transforms.v2 on CUDA tensors, nvImageCodec)",
        "store data decoded, resized or tokenized; read large shards sequentially (WebDataset, MosaicML Streaming, "
        "Parquet)",
        "copy the dataset to local NVMe; network file systems are slow at small random reads",
        "set OMP_NUM_THREADS=1 in workers so that they don't compete for cores; check cgroup CPU limits",
        "DeepSpeed: deepspeed_io(num_local_io_workers=N); Lightning: the DataLoader's own arguments apply",
    },
    .by_framework = {
        {kTrainer, "TrainingArguments(dataloader_num_workers=4, dataloader_persistent_workers=True, "
                   "dataloader_prefetch_factor=4)", kLoaderWorkers},
        {kLightning, "give trainer.fit a DataLoader(…, num_workers=4, persistent_workers=True)", kLoaderWorkers},
        {kMegatron, "--num-workers 4 or more"},
        {kTorchRec, "TrainPipelineSparseDist copies the next batches during compute", {}, true},
    },
    .native_advice =
        {"read and prepare the next input on another thread while the GPU computes: two buffers in turns",
         "upload it from pinned memory with cudaMemcpyAsync on a second stream"},
    .verdict = "The GPU waits for data: loading takes {} of each step.",
    .cause = IdleCause::kDataLoading,
    .rank = {.value = loading_value,
             .describe = describe_data_loading_bound,
             .host_alone = true},
    .log = {.value = loading_pct, .describe = describe_loading},
    .job_cost = {.change = "input_free"},
    .checklist = {{.order = 2,
                   .id = "data-loading",
                   .question = "Does waiting for data take under 10 % of the time?",
                   .label = "waiting for data",
                   .label_of = [](const RankMeasure& m) -> std::string_view {
                     return m.loads_in_own_code ? "preparing inputs" : "waiting for data";
                   },
                   .value = [](const Evidence&, const RankMeasure& m) { return m.loading_pct; },
                   .limit = 10,
                   .host_alone = true}},
};

extern const Rule kCheckpointStall = {
    .id = "checkpoint-stall",
    .summary = "training stops while checkpoints are saved",
    .unit = "%",
    .threshold = 5,
    .meaning = "The training thread serializes and writes the model itself, and the devices wait.",
    .computation =
        "Value: share of the measured steps' wall time in checkpoint ranges on the step's thread, or idle time of cause "
        "checkpoint as a share of the measured steps and the pauses between steps, whichever is more. Cost: replay of the "
        "trace without that host time; at most the idle time of cause checkpoint. Without a device, that host time. No "
        "cost if most of it lies between steps: costs are of steps.",
    .advice = {
        "torch.distributed.checkpoint.async_save(…): copies to host memory, then writes during training",
        "sharded checkpoints: every rank writes its part (FSDP SHARDED_STATE_DICT, DeepSpeed)",
        "write to local NVMe or tmpfs first, and copy in the background",
        "save less often; leave optimizer states out of intermediate checkpoints",
        "Lightning: AsyncCheckpointIO; DeepSpeed: Nebula or asynchronous I/O",
    },
    .by_framework = {
        {kTrainer, "TrainingArguments(save_steps=…): more steps between checkpoints; save_only_model=True"},
        {kLightning, "AsyncCheckpointIO, or ModelCheckpoint(every_n_train_steps=…)"},
        {kMegatron, "--async-save"},
        {kFsdp, "torch.distributed.checkpoint.async_save of a sharded state_dict", {}, true},
        {kFsdp2, "torch.distributed.checkpoint.async_save of a sharded state_dict", {}, true},
    },
    .verdict = "Saving checkpoints takes {} of the time.",
    .cause = IdleCause::kCheckpoint,
    .rank = {.value = checkpoint_stall_value,
             .describe = describe_checkpoint_stall,
             .host_alone = true},
    .log = {.value = checkpoint_pct, .describe = describe_checkpoints},
    .job_cost = {.change = "checkpoint_free"},
};

extern const Rule kPageableCopies = {
    .id = "pageable-copies",
    .summary = "copies from or to pageable memory",
    .unit = "%",
    .threshold = 5,
    .meaning =
        "A copy between the device and ordinary (pageable) host memory goes through a staging buffer: half the speed "
        "or less, no overlap with compute, and the call blocks even with non_blocking=True.",
    .computation =
        "Value: union of such copies and their host calls (from when the copy could start), as a share of the measured "
        "steps' wall time. Cost: replay of the trace with those copies taking no time; at most the time in which the "
        "device only runs them.",
    .advice = {
        "DataLoader(…, pin_memory=True) and batch.to(device, non_blocking=True)",
        "tensor.pin_memory() once for buffers that are copied repeatedly",
        "custom batch types: define pin_memory() on the class, or the loader leaves them pageable",
        "keep results on the device; copy them back in one piece, into a pinned buffer",
        "prefetch the next batch on a side stream during compute",
    },
    .by_framework = {
        {kTrainer, "TrainingArguments(dataloader_pin_memory=True)"},
        {kAccelerate, "Accelerator(dataloader_config=DataLoaderConfiguration(non_blocking=True)), with "
                      "pin_memory=True"},
        {kLightning, "DataLoader(…, pin_memory=True); Lightning already copies with non_blocking=True"},
    },
    .native_advice =
        {"pinned buffers that are kept: cudaHostAlloc, or cudaHostRegister for memory that exists",
         "then cudaMemcpyAsync on a stream of its own, beside the kernels"},
    .verdict = "Copies through pageable memory take {} of the time.",
    .seen = {Locator::At::kLongestKernel, "Pageable"},
    .rank = {.value = [](const Measured& m) {
               return std::optional(m.wall_pct(total_length(copies_of(m, is_pageable, CopyTime::kAny).time)));
             },
             .describe = describe_pageable_copies},
    .job_cost = {.change = "copies_free"},
};

extern const Rule kExposedCopies = {
    .id = "exposed-copies",
    .summary = "copies not overlapped with compute",
    .unit = "%",
    .threshold = 10,
    .severe = 30,
    .meaning =
        "Copies between host and device use engines of their own and can run alongside kernels; copies within the "
        "device compute nothing. Copies that overlap with nothing cost as much time as kernels.",
    .computation =
        "Value: time of copies and memsets, except pageable and late ones, in which neither compute nor communication "
        "runs, as a share of the device's window. Cost: replay of the trace with those copies taking no time; at most "
        "that time.",
    .advice = {
        "prefetch batches on a side stream into pinned buffers; batch.to(device, non_blocking=True)",
        "keep caches, masks and constants on the device; copy results back in one piece, a step later",
        "fewer layout and dtype changes: channels_last throughout, one autocast dtype, no needless .contiguous()",
        "overlap optimizer or activation offloading (DeepSpeed overlap_comm, FSDP prefetch), or offload less",
    },
    .native_advice =
        {"copy in parts on a second stream while kernels run: cudaMemcpyAsync from pinned memory, and cudaStreamWaitEvent "
         "before the kernel that needs a part",
         "keep data on the device from kernel to kernel; copy results back in one piece"},
    .verdict = "For {} of the time the GPU only copies data.",
    .seen = {Locator::At::kLongestKernel, "Memcpy"},
    .rank = {.value = exposed_pct<is_other>, .describe = describe_exposed_copies},
    .job_cost = {.change = "copies_free"},
};

extern const Rule kLateCopy = {
    .id = "late-copy",
    .summary = "copies of ready data wait behind kernels and overlap with nothing",
    .unit = "%",
    .threshold = 3,
    .meaning =
        "A copy on the compute stream waits for all kernels launched before it, and later kernels wait for the copy, "
        "although a copy engine is free all the time.",
    .computation =
        "Value: time of host-to-device copies that wait longer than they run, and during which "
        "nothing else runs, as a share of the device's window. Cost: replay of the trace with those copies taking no "
        "time; at most that time.",
    .advice = {
        "copy the next batch on a side stream: with torch.cuda.stream(side): batch.to(device, non_blocking=True); then "
        "wait_stream and record_stream where it is used",
        "use a prefetcher: torchtnt, DALI, NVIDIA's data_prefetcher, Accelerate's non_blocking loader",
        "DataLoader(…, pin_memory=True); otherwise copies can't overlap with kernels at all",
        "pack small tensors into one buffer: one copy instead of many",
    },
    .native_advice =
        {"copy the next input on a second stream, with cudaStreamWaitEvent where it is used",
         "pinned buffers (cudaHostAlloc): other copies can't overlap with kernels",
         "pack small buffers into one: one copy instead of many"},
    .verdict = "Copies of ready data wait behind kernels: for {} of the time the GPU does nothing else.",
    .seen = {Locator::At::kLongestKernel, "Memcpy HtoD"},
    .rank = {.value = exposed_pct<is_late>, .describe = describe_late_copy},
    .job_cost = {.change = "copies_free"},
};

}  // namespace profgpu
