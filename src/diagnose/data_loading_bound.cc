#include <fmt/format.h>

#include "diagnose/blocked_thread.h"
#include "diagnose/measure.h"

namespace profgpu {
namespace {

constexpr double kFeltPct = 1;

// The device idles for it: in gaps, or before its first activity and after its last if that is not the odd step among
// many in which loading is hidden.
bool is_felt(const Measured& m) {
  if (m.idle_pct(IdleCause::kDataLoading) >= kFeltPct) return true;
  return m.idle_wall_pct(IdleCause::kDataLoading) >= kFeltPct &&
         2 * steps_with_gaps(m, IdleCause::kDataLoading) >= m.steps();
}

struct Loader {
  std::string range;        // the longest data-loading range's name
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
    if (trace.host.duration_ns[i] <= loader.longest_ns || !m.in_measured_step(trace.host.start_ns[i])) continue;
    loader.longest_ns = trace.host.duration_ns[i];
    loader.range = name;
  }
  return loader;
}

std::optional<double> data_loading_bound_value(const Measured& m) {
  if (!is_felt(m)) return std::nullopt;
  return m.phase_pct(Phase::kDataLoading);
}

void say_data_loading_bound(const Measured& m, Finding& f) {
  const Loader loader = loader_of(m);
  if (loader.workers) {
    f.what = "the loader's workers do not keep up; the GPU idles between steps";
    f.fix = {"DataLoader(…, num_workers=2 * os.cpu_count() // gpus, prefetch_factor=4, persistent_workers=True)",
             "make one sample cheaper: store decoded or resized data, decode on the GPU (torchvision.io, DALI)",
             "DataLoader(…, pin_memory=True) and batch.to(device, non_blocking=True)"};
  } else {
    f.what = loader.single_process ? "one process prepares every batch while the GPU idles"
                                   : "every batch is prepared in the step while the GPU idles";
    f.fix = {"DataLoader(…, num_workers=4, pin_memory=True, persistent_workers=True)",
             "batch.to(device, non_blocking=True), so that the copy overlaps with compute"};
  }
  f.why = fmt::format("Data loading takes {} of the steps, and {} idles {} of them for it.", percent_text(*f.value),
                      m.device_label(), percent_text(m.idle_wall_pct(IdleCause::kDataLoading)));
  f.evidence.push_back(fmt::format("seen in {} of {} steps; longest wait {} in {}",
                                   steps_with_gaps(m, IdleCause::kDataLoading), m.steps(),
                                   duration_text(static_cast<double>(loader.longest_ns)), shortened(loader.range, 90)));
  // With workers it waits for them, whatever they do.
  if (const auto blocked = blocked_thread(m, IdleCause::kDataLoading); blocked && !loader.workers)
    f.evidence.push_back(blocked->said);
  set_cost(f, m, m.saved_by_cause(IdleCause::kDataLoading));
}

}  // namespace

extern const Rule kDataLoadingBound;
const Rule kDataLoadingBound = {
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
    .verdict = [](const Finding& f, const Job*) {
      return fmt::format("The GPU waits for data: loading takes {} of each step.", share_text(f));
    },
    .seen = longest_gap_of(IdleCause::kDataLoading),
    .rank = {.value = data_loading_bound_value, .say = say_data_loading_bound},
    .job_cost = {.change = "input_free"},
    .checklist = {{.place = 2,
                   .id = "data-loading",
                   .question = "Is data loading under 10 % of the step?",
                   .label = "data loading",
                   .value = [](const RankMeasure& m) -> std::optional<double> {
                     return m.phase_pct[static_cast<size_t>(Phase::kDataLoading)];
                   },
                   .limit = 10}},
};

}  // namespace profgpu
