#include "cli/topics.h"

#include <fmt/format.h>

#include "cli/terminal.h"
#include "view/layout.h"

namespace profgpu {

// DeepSpeed's settings as its configuration names them, with the defaults of deepspeed 0.19.
const std::vector<Topic>& topics() {
  static const std::vector<Topic> all = {
      {.name = "deepspeed",
       .summary = "what DeepSpeed's own figures tell, and the settings that change the speed",
       .parts =
           {{"Have it print its figures",
             {"\"wall_clock_breakdown\": true times forward, backward, gradient reduction and update. The timers "
              "synchronize, so the run gets a little slower: turn them off again.",
              "\"steps_per_print\": 10 prints samples per second and device memory.",
              "\"flops_profiler\": {\"enabled\": true, \"profile_step\": 10} shows which modules take the time.",
              "\"comms_logger\": {\"enabled\": true} sums up collectives by size, with their bandwidth in gigabits.",
              "profgpu analyze train.log reads all of these; with traces beside it, profgpu analyze traces/ "
              "train.log."}},
            {"ZeRO stage: the lowest one that fits",
             {"Stage 1 shards optimizer states, stage 2 gradients as well: both move as much data as plain data "
              "parallelism.",
              "Stage 3 shards parameters too. It gathers them for the forward and again for the backward pass: half as "
              "much traffic again, and it pays off only where the model does not fit otherwise.",
              "On several nodes with a slow network, shard parameters within a node: \"zero_hpz_partition_size\": "
              "GPUS_PER_NODE (stage 3), or MiCS."}},
            {"If bwd_allreduce is a large part of bwd",
             {"\"overlap_comm\": true reduces gradients while the backward pass goes on. It needs memory for twice the "
              "bucket.",
              "\"reduce_bucket_size\": 5e8 elements is the default. Much smaller buckets mean many small reductions; "
              "much larger ones start late.",
              "\"gradient_accumulation_steps\": fewer reductions for the same work (stages 0 and 1 reduce once a step; "
              "stage 2 reduces each micro-batch).",
              "Stage 3: \"stage3_prefetch_bucket_size\" and \"stage3_max_live_parameters\" let gathers start earlier; "
              "\"stage3_param_persistence_threshold\" keeps small parameters whole."}},
            {"If step is a large part",
             {"\"offload_optimizer\": {\"device\": \"none\"} if memory allows: an update on the CPU often takes longer "
              "than the backward pass.",
              "If it must stay: \"pin_memory\": true, DeepSpeedCPUAdam, and cores bound to each rank with deepspeed "
              "--bind_cores_to_rank.",
              "\"allgather_bucket_size\": 5e8: gathering the updated parameters is part of this time."}},
            {"If memory is left, or short",
             {"Memory left: a larger train_micro_batch_size_per_gpu, before anything else; then a lower stage, then no "
              "activation checkpointing.",
              "Memory short: activation checkpointing, a higher stage, and only then offloading.",
              "MA is allocated, CA is reserved by PyTorch's allocator. CA far above MA is fragmentation: "
              "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True."}},
            {"If steps are skipped",
             {"\"bf16\": {\"enabled\": true} instead of fp16 needs no loss scale. With fp16 the first 10 to 20 steps "
              "are "
              "skipped until the scale is found; later ones should be rare."}}},
       .rules = {"exposed-communication", "optimizer-offload", "skipped-updates", "memory-near-capacity"}},
  };
  return all;
}

const Topic* find_topic(std::string_view name) {
  for (const Topic& t : topics())
    if (t.name == name) return &t;
  return nullptr;
}

std::string topic_text(const Topic& topic, int width) {
  std::string out = wrap(fmt::format("{}: {}", topic.name, topic.summary), width, "");
  for (const Topic::Part& part : topic.parts) {
    out += fmt::format("\n{}\n", part.title);
    for (const std::string_view entry : part.entries) out += wrap(entry, width, "  - ");
  }
  std::vector<std::string> rules;
  for (const std::string_view rule : topic.rules) rules.push_back(fmt::format("profgpu explain {}", rule));
  return out + "\n" + rendered(next_lines(rules, width), width, false);
}

}  // namespace profgpu
