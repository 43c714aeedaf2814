#include <fmt/format.h>

#include "diagnose/measure.h"

namespace profgpu {
namespace {

std::optional<double> checkpoint_stall_value(const Measured& m) {
  return m.phase_pct(Phase::kCheckpoint);
}

void say_checkpoint_stall(const Measured& m, Finding& f) {
  f.what = "training stops while checkpoints are written";
  f.why = fmt::format("Saving takes {} of the steps' time on the thread that trains.", percent_text(*f.value));
  f.fix = {"torch.distributed.checkpoint.async_save(…)   # copies to host memory, writes beside the training",
           "save less often, to local NVMe first; sharded checkpoints instead of rank 0 alone"};
  const Intervals& saves = m.facts().get<Phases>().checkpoint;
  f.evidence.push_back(fmt::format("{} saves in the measured steps", intersect(saves, m.measured_time()).size()));
  if (m.has_device()) set_cost(f, m, m.saved_by_cause(IdleCause::kCheckpoint));
}

}  // namespace

extern const Rule kCheckpointStall;
const Rule kCheckpointStall = {
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
    .verdict = [](const Finding& f, const Job*) {
      return fmt::format("Saving checkpoints takes {} of the time.", share_text(f));
    },
    .seen = longest_gap_of(IdleCause::kCheckpoint),
    .rank = {.value = checkpoint_stall_value, .say = say_checkpoint_stall, .host_alone = true},
    .job_cost = {.change = "checkpoint_free"},
};

}  // namespace profgpu
