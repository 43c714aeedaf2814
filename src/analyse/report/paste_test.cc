#include "analyse/report/paste.h"

#include <gtest/gtest.h>

namespace profgpu {
namespace {

std::string part_of(const std::string& fix) { return pasteable({fix}).at(0).value_or(""); }

TEST(Pasteable, CallsOptionsSettingsAndCommands) {
  EXPECT_EQ(part_of("model = torch.compile(model, mode=\"reduce-overhead\")   # fusion and CUDA graphs"),
            "model = torch.compile(model, mode=\"reduce-overhead\")");
  EXPECT_EQ(part_of("Trainer: TrainingArguments(fp16=True)"), "TrainingArguments(fp16=True)");
  EXPECT_EQ(part_of("vLLM: --max-num-batched-tokens 8192"), "--max-num-batched-tokens 8192");
  for (const std::string whole :
       {"--enable-torch-compile", "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", "export NCCL_DEBUG=INFO",
        "torch.optim.SGD(model.parameters(), fused=True)", "BROADCAST_BUFFERS=FALSE",
        "profgpu run --trace -- python train.py"})
    EXPECT_EQ(part_of(whole), whole);
}

TEST(Pasteable, SentencesAreNot) {
  for (const std::string text :
       {"DataLoader(…, num_workers=4, persistent_workers=True); add workers until the wait is gone or the CPU is full",
        "DataLoader(…, pin_memory=True) and batch.to(device, non_blocking=True): the copy overlaps with compute",
        "with torch.autocast(\"cuda\", dtype=torch.float16): …",
        "keep losses and metrics on the device; call .item() or .cpu() every N steps, not every step",
        "fix data-loading-bound first", "model.compile() around forward() and loss()", "", "#", " # nothing", ": ", "=",
        "A=", "--", "--=1", "DDP: ", "NCCL_ALGO=Ring or Tree"})
    EXPECT_EQ(pasteable({text}).at(0), std::nullopt) << text;
}

}  // namespace
}  // namespace profgpu
