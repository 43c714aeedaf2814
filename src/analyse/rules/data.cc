#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "analyse/rank/places.h"
#include "analyse/rules/measure.h"

namespace profgpu {
namespace {

constexpr double kFeltPct = 1;

// The device idles for it: in gaps, or before its first activity and after its last if that is not the odd step among
// many in which loading is hidden.
bool is_felt(const Measured& m) {
  if (!m.has_device()) return true;   // the loop itself waits
  if (m.idle_pct(IdleCause::kDataLoading) >= kFeltPct) return true;
  return m.idle_wall_pct(IdleCause::kDataLoading) >= kFeltPct &&
         2 * steps_with_gaps(m, IdleCause::kDataLoading) >= m.steps();
}

struct Loader {
  int64_t longest_ns = 0;
  bool single_process = false, workers = false;
};

Loader loader_of(const Measured& m) {
  const Trace& trace = m.trace();
  const Names& names = m.facts().get<Names>();
  const ThreadId thread = m.facts().get<Steps>().thread;
  Loader loader;
  for (uint32_t i = trace.threads[thread.value].begin.value; i < trace.threads[thread.value].end.value; ++i) {
    if (names.phase[trace.host.name[i].value] != Phase::kDataLoading) continue;
    const std::string_view name = trace.name(HostId(i));
    loader.single_process |= name.find("_SingleProcessDataLoaderIter") != name.npos;
    loader.workers |= name.find("_MultiProcessingDataLoaderIter") != name.npos;
    if (m.in_measured_step(trace.host.start_ns[i]))
      loader.longest_ns = std::max(loader.longest_ns, trace.host.duration_ns[i]);
  }
  return loader;
}

void say_data_loading_bound(const Measured& m, Finding& f) {
  const Loader loader = loader_of(m);
  if (loader.workers) {
    f.what = "the loader's workers do not keep up";
    f.what += m.has_device() ? "; the GPU idles between steps" : ", and the loop waits";
    f.fix = {"DataLoader(…, num_workers=2 * os.cpu_count() // gpus, prefetch_factor=4, persistent_workers=True)",
             "make one sample cheaper: store decoded or resized data, decode on the GPU (torchvision.io, DALI)",
             "DataLoader(…, pin_memory=True) and batch.to(device, non_blocking=True)"};
  } else {
    f.what = loader.single_process ? "one process prepares every batch" : "every batch is prepared in the step";
    f.what += m.has_device() ? " while the GPU idles" : ", and the loop waits";
    f.fix = {"DataLoader(…, num_workers=4, pin_memory=True, persistent_workers=True)",
             "batch.to(device, non_blocking=True), so that the copy overlaps with compute"};
  }
  if (!m.has_device()) {
    f.verdict = fmt::format("The loop waits for data: loading takes {} of each step.", share_text(f));
    f.why = fmt::format("Data loading takes {} of the steps on the thread that runs them.", percent_text(*f.value));
    f.evidence.push_back(fmt::format("longest wait {}", duration_text(static_cast<double>(loader.longest_ns))));
    set_cost(f, m.wall_ns(), m.facts().get<Phases>().measured_wall_ns[static_cast<size_t>(Phase::kDataLoading)]);
    return;
  }
  f.why = fmt::format("Data loading takes {} of the steps, and {} idles {} of them for it.", percent_text(*f.value),
                      m.device_label(), percent_text(m.idle_wall_pct(IdleCause::kDataLoading)));
  f.evidence.push_back(fmt::format("seen in {} of {} steps; longest wait {}",
                                   steps_with_gaps(m, IdleCause::kDataLoading), m.steps(),
                                   duration_text(loader.longest_ns)));
  // With workers it waits for them, whatever they do.
  if (const auto blocked = blocked_thread(m, IdleCause::kDataLoading); blocked && !loader.workers)
    f.evidence.push_back(blocked->said);
}

void say_checkpoint_stall(const Measured& m, Finding& f) {
  f.what = "training stops while checkpoints are written";
  f.why = fmt::format("Saving takes {} of the steps' time on the thread that trains.", percent_text(*f.value));
  f.fix = {"torch.distributed.checkpoint.async_save(…)   # copies to host memory, writes beside the training",
           "save less often, to local NVMe first; sharded checkpoints instead of rank 0 alone"};
  const Intervals& saves = m.facts().get<Phases>().checkpoint;
  f.evidence.push_back(fmt::format("{} saves in the measured steps", intersect(saves, m.measured_time()).size()));
}

struct Copies {
  explicit Copies(const Facts& facts) : places(facts) {}
  std::vector<bool> which;   // by ActivityId
  Intervals time;            // the copies and the host's waits for them, in measured steps
  Intervals on_device;
  int64_t count = 0, bytes = 0;
  Places places;
};

bool is_pageable(const Trace& trace, ActivityId copy) {
  return trace.name(copy).find("Pageable") != std::string_view::npos;
}

// From the host, launched in time, and then behind other work of its stream. On another one it could run beside that.
bool is_late(const Trace& trace, ActivityId copy) {
  const HostId call = trace.activity.launch[copy.value];
  if (is_pageable(trace, copy) || !call.valid() || !is_upload(trace, copy)) return false;
  return trace.activity.start_ns[copy.value] - trace.host.end_ns(call) > trace.activity.duration_ns[copy.value];
}

// A call that waited for work queued before its copy did not wait for the copy until that was done.
Copies copies_of(const Measured& m, bool (*wanted)(const Trace& trace, ActivityId copy)) {
  const Trace& trace = m.trace();
  Copies c(m.facts());
  c.which.resize(trace.activity.size());
  std::vector<int64_t> stream_end(trace.queues.size(), INT64_MIN);
  for (uint32_t i = 0; i < trace.activity.size(); ++i) {
    const ActivityId id(i);
    const int64_t ready = std::exchange(stream_end[trace.activity.queue[i]], trace.activity.end_ns(id));
    if (trace.activity.kind[i] != ActivityKind::kMemcpy || !wanted(trace, id) ||
        !m.in_measured_step(trace.activity.start_ns[i]))
      continue;
    c.which[i] = true;
    ++c.count;
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

// What the copies alone kept the device busy for: idle time has other findings.
Intervals exposed_part(const Measured& m, const Copies& copies) {
  return intersect(intersect(copies.on_device, m.device().exposed_memory), m.measured_time());
}

void set_copies(const Measured& m, const Copies& copies, Finding& f) {
  f.evidence.push_back(fmt::format("{} copies, {:.1f} MiB in all", copies.count, copies.bytes / 1048576.0));
  f.where = copies.places.most_expensive();
  Removal removal;
  removal.activity = copies.which;
  set_cost(f, m.wall_ns(), std::min(total_length(exposed_part(m, copies)), m.replay().saved_by(removal)));
}

std::optional<double> pageable_copies_value(const Measured& m) {
  return m.wall_pct(total_length(copies_of(m, is_pageable).time));
}

void say_pageable_copies(const Measured& m, Finding& f) {
  const Copies copies = copies_of(m, is_pageable);
  f.what = "copies go through pageable memory, and the host waits for them";
  f.why = fmt::format("{} copies take {} of the steps. Pageable memory is staged, cannot overlap, and blocks the host.",
                      copies.count, percent_text(*f.value));
  f.fix = {"DataLoader(…, pin_memory=True) and batch.to(device, non_blocking=True)",
           "tensor.pin_memory() once for buffers that are copied again and again"};
  set_copies(m, copies, f);
}

// Pageable and late ones have findings of their own.
Copies exposed_copies(const Measured& m) {
  return copies_of(m, [](const Trace& trace, ActivityId c) { return !is_pageable(trace, c) && !is_late(trace, c); });
}

std::optional<double> exposed_copies_value(const Measured& m) {
  return m.window_pct(exposed_part(m, exposed_copies(m)));
}

void say_exposed_copies(const Measured& m, Finding& f) {
  const Copies copies = exposed_copies(m);
  std::map<std::string_view, int64_t> by_name;
  for (size_t i = 0; i < copies.which.size(); ++i)
    if (copies.which[i]) by_name[m.trace().name(ActivityId(i))] += m.trace().activity.duration_ns[i];
  const auto most = std::ranges::max_element(by_name, {}, &std::pair<const std::string_view, int64_t>::second);
  f.what = fmt::format("copies that no compute hides, above all {}", shortened(most->first));
  f.why = fmt::format("{} does nothing but copy for {} of the time.", m.device_label(), percent_text(*f.value));
  if (most->first.find("DtoD") != std::string_view::npos)
    f.fix = {"keep one memory layout and dtype: fewer .contiguous(), .clone(), cat and permute before a kernel needs it",
             "write results where they are needed: out=, preallocated buffers, views instead of copies"};
  else
    f.fix = {"prefetch the next batch on a side stream while this one computes: pinned memory, non_blocking=True",
             "keep on the device what is used again; copy results back in one piece, a step later"};
  set_copies(m, copies, f);
}

std::optional<double> late_copy_value(const Measured& m) {
  return m.window_pct(exposed_part(m, copies_of(m, is_late)));
}

void say_late_copy(const Measured& m, Finding& f) {
  const Copies copies = copies_of(m, is_late);
  f.what = "copies of data that is ready wait behind kernels, and then nothing hides them";
  f.why = fmt::format("They were launched in time, but on the stream that computes: {} does nothing else for {} of the "
                      "time.",
                      m.device_label(), percent_text(*f.value));
  f.fix = {"copy the next batch on a side stream: with torch.cuda.stream(side): batch.to(device, non_blocking=True); then "
           "wait_stream and record_stream where it is used",
           "a prefetcher does that: torchtnt, DALI, NVIDIA's data_prefetcher, Accelerate's non_blocking loader"};
  set_copies(m, copies, f);
}

}  // namespace

extern const Rule kDataLoadingBound = {
    .id = "data-loading-bound",
    .summary = "the GPU waits for the next batch",
    .unit = "%",
    .threshold = 10,
    .grave = 25,
    .meaning =
        "The training loop waits for input: fetching a batch takes a large part of each step, and the device has "
        "nothing to do meanwhile. The model is not the bottleneck; a faster GPU would not help.",
    .computation =
        "Value: share of the measured steps' wall time in data-loading ranges on the step's thread "
        "(enumerate(DataLoader)#….__next__ and the like). Fires only if the device idles for it. Cost: the trace is "
        "replayed with that host time taken out; at most the idle time that data loading caused, before the device's "
        "first activity too.",
    .advice = {
        "DataLoader(…, num_workers=N): start with 4 a GPU and raise it until the wait is gone or the CPU is full",
        "DataLoader(…, persistent_workers=True): workers are not started anew every epoch",
        "DataLoader(…, prefetch_factor=4): more batches ready when one takes long",
        "DataLoader(…, pin_memory=True) with batch.to(device, non_blocking=True): the copy overlaps with compute",
        "decode and augment on the GPU (DALI, torchvision.transforms.v2 on CUDA tensors, nvImageCodec)",
        "store data decoded, resized or tokenised; read large shards in sequence (WebDataset, MosaicML Streaming, "
        "Parquet)",
        "copy the data set to local NVMe; a network file system answers small random reads slowly",
        "set OMP_NUM_THREADS=1 in workers so that they do not fight for cores; check cgroup CPU limits",
        "DeepSpeed: deepspeed_io(num_local_io_workers=N); Lightning: the DataLoader's own arguments apply",
    },
    .by_framework =
        {
            {Framework::kTrainer, "TrainingArguments(dataloader_num_workers=4, dataloader_persistent_workers=True, "
             "dataloader_prefetch_factor=4)"},
            {Framework::kLightning, "give trainer.fit a DataLoader(…, num_workers=4, persistent_workers=True)"},
            {Framework::kMegatron, "--num-workers 4 or more"},
            {Framework::kTorchRec, "TrainPipelineSparseDist copies the next batches while one is computed", {}, true},
        },
    .verdict = "The GPU waits for data: loading takes {} of each step.",
    .cause = IdleCause::kDataLoading,
    .rank = {.value = [](const Measured& m) { return only_if(is_felt(m), m.phase_pct(Phase::kDataLoading)); },
             .say = say_data_loading_bound,
             .host_alone = true},
    .job_cost = {.change = "input_free"},
    .checklist = {{.place = 2,
                   .id = "data-loading",
                   .question = "Is data loading under 10 % of the step?",
                   .label = "data loading",
                   .value = [](const RankMeasure& m) -> std::optional<double> {
                     return m.phase_pct(Phase::kDataLoading);
                   },
                   .limit = 10}},
};

extern const Rule kCheckpointStall = {
    .id = "checkpoint-stall",
    .summary = "training stops while checkpoints are written",
    .unit = "%",
    .threshold = 5,
    .meaning =
        "The training thread serialises and writes the model itself, and the devices wait.",
    .computation =
        "Value: share of the measured steps' wall time in checkpoint ranges on the step's thread. Cost: the trace is "
        "replayed with that host time taken out; at most the idle time of cause checkpoint.",
    .advice = {
        "torch.distributed.checkpoint.async_save; Lightning: AsyncCheckpointIO; DeepSpeed: nebula or async I/O",
        "sharded checkpoints: every rank writes its part (FSDP SHARDED_STATE_DICT, DeepSpeed)",
        "write to local NVMe or tmpfs and copy in the background",
        "save less often; keep optimizer states out of intermediate checkpoints",
    },
    .by_framework =
        {
            {Framework::kTrainer, "TrainingArguments(save_steps=…): more steps between checkpoints; "
             "save_only_model=True"},
            {Framework::kLightning, "AsyncCheckpointIO, or ModelCheckpoint(every_n_train_steps=…)"},
            {Framework::kMegatron, "--async-save"},
            {Framework::kFsdp, "torch.distributed.checkpoint.async_save of a sharded state_dict", {}, true},
        },
    .verdict = "Saving checkpoints takes {} of the time.",
    .cause = IdleCause::kCheckpoint,
    .rank = {.value = [](const Measured& m) { return std::optional(m.phase_pct(Phase::kCheckpoint)); },
             .say = say_checkpoint_stall,
             .host_alone = true},
    .job_cost = {.change = "checkpoint_free"},
};

extern const Rule kPageableCopies = {
    .id = "pageable-copies",
    .summary = "copies from or to pageable memory",
    .unit = "%",
    .threshold = 5,
    .meaning =
        "A copy between the device and ordinary (pageable) host memory goes through a staging buffer: half the speed "
        "or less, no overlap with compute, and the call blocks even when it is asynchronous by name.",
    .computation =
        "Value: union of such copies and of the host calls that made them (from when the copy could start), as a "
        "share of the measured steps' wall time. Cost: the trace is replayed with those copies taking no time; at "
        "most the time they ran alone on the device.",
    .advice = {
        "DataLoader(…, pin_memory=True); batch.to(device, non_blocking=True)",
        "custom batch types: define pin_memory() on the class, or the loader leaves them pageable",
        "keep results on the device; copy them back in one piece, into a pinned buffer",
        "prefetch the next batch on a side stream while this one computes",
    },
    .by_framework =
        {
            {Framework::kTrainer, "TrainingArguments(dataloader_pin_memory=True)"},
            {Framework::kAccelerate, "Accelerator(dataloader_config=DataLoaderConfiguration(non_blocking=True)), with "
             "pin_memory=True"},
            {Framework::kLightning, "DataLoader(…, pin_memory=True); Lightning copies with non_blocking=True by itself"},
        },
    .verdict = "Copies through pageable memory take {} of the time.",
    .seen = {Locator::At::kLongestKernel, "Pageable"},
    .rank = {.value = pageable_copies_value, .say = say_pageable_copies},
    .job_cost = {.change = "copies_free"},
};

extern const Rule kExposedCopies = {
    .id = "exposed-copies",
    .summary = "copies that no compute hides",
    .unit = "%",
    .threshold = 10,
    .grave = 30,
    .meaning =
        "Copies between host and device have engines of their own and can run beside kernels, and copies within the "
        "device are work that computes nothing. Where nothing else runs meanwhile, they cost as much as kernels do.",
    .computation =
        "Value: time of copies and memsets, other than pageable and late ones, beside which neither compute nor "
        "communication runs, as a share of the device's window. Cost: the trace is replayed with those copies taking "
        "no time; at most that time.",
    .advice = {
        "prefetch batches on a side stream into pinned buffers; batch.to(device, non_blocking=True)",
        "keep caches, masks and constants on the device instead of copying them in every step",
        "fewer layout and dtype changes: channels_last throughout, one autocast dtype, no .contiguous() by habit",
        "optimizer or activation offloading: overlap it (DeepSpeed overlap_comm, FSDP prefetch), or offload less",
    },
    .verdict = "The GPU does nothing but copy for {} of the time.",
    .seen = {Locator::At::kLongestKernel, "Memcpy"},
    .rank = {.value = exposed_copies_value, .say = say_exposed_copies},
    .job_cost = {.change = "copies_free"},
};

extern const Rule kLateCopy = {
    .id = "late-copy",
    .summary = "copies from the host run late and alone, though the data was ready",
    .unit = "%",
    .threshold = 3,
    .meaning =
        "A copy on the stream that computes waits for all kernels launched before it, and those launched after it wait "
        "for the copy, though a copy engine was free all the time.",
    .computation =
        "Value: time of copies from host to device that started later after their launch than they take, beside which "
        "nothing else runs, as a share of the device's window. Cost: the trace is replayed with those copies taking no "
        "time; at most that time.",
    .advice =
        {
            "a side stream for copies, one batch ahead; tensor.record_stream(stream) where it is used",
            "DataLoader(…, pin_memory=True), else the copy cannot run beside kernels at all",
            "small tensors in one buffer: one copy instead of many",
        },
    .verdict = "Copies of data that is ready wait behind kernels: {} of the time the GPU does nothing else.",
    .seen = {Locator::At::kLongestKernel, "Memcpy HtoD"},
    .rank = {.value = late_copy_value, .say = say_late_copy},
    .job_cost = {.change = "copies_free"},
};

}  // namespace profgpu
