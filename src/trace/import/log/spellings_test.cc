// Spellings of steps, timers and stops that were once read wrongly or not at all.
#include <gtest/gtest.h>

#include "trace/import/log/log_text_test.h"

namespace profgpu {
namespace {

LogStep step_of_line(const std::string& line) {
  const RunLog log = log_of(line + "\n");
  return log.ranks.empty() || log.ranks[0].steps.empty() ? LogStep{} : log.ranks[0].steps[0];
}

TEST(Loop, WhatLlmCHasInParenthesesIsNoTime) {
  const LogStep step = step_of_line(
      "step  200/19560 | loss 7.577051 (+0.43z)| norm 1.1461 (+0.12z)| lr 1.50e-06 | 1620.51 ms | 54.3% bf16 MFU | 323519 tok/s");
  EXPECT_EQ(step.duration_ns, 1'620'510'000);
  EXPECT_EQ(step.figures.loss, 7.577051);
  EXPECT_EQ(step.figures.mfu_pct, 54.3);
  EXPECT_EQ(step.figures.tokens_per_s, 323519);
  EXPECT_EQ(step_of_line("step 2/10 | train loss 3.2 | norm 1.2 (+0.1z)| (100.2 ms | 5200 tok/s)").duration_ns, 100'200'000);
}

TEST(Loop, WordsOfManyPrograms) {
  struct Spelling {
    const char* line;
    int64_t ns;
  };
  constexpr int64_t kTime_ns = 3'210'000'000;
  for (const auto& [line, ns] : {
           Spelling{"Epoch: 0 | Step: 7 | Loss: 0.2 | Time: 3.21s | LR: 1e-4", kTime_ns},
           Spelling{"Epoch 0 | Step 7 | Loss 0.2 | Time 3.21s", kTime_ns},
           Spelling{"Epoch: 0, Step: 7, Loss: 0.2, Time: 3.21s", kTime_ns},
           Spelling{"Epoch [1/2], Step [7/600], Loss: 0.2, Time: 3.21s", kTime_ns},
           Spelling{"Step: 7 | Loss: 0.2 | Total time: 99s | Time: 3.21s | Step_time: 3.21s", kTime_ns},
           Spelling{"step      7 | train_loss 0.2 | tok/s 12,345 | 3210.0ms/step | MFU 41.2% | mem 40.1GB", kTime_ns},
           Spelling{"Step 7: loss = 0.2 (3.210 sec)", kTime_ns},
           Spelling{"global_step: 7 loss: 0.2 samples/s: 99.1 time per step: 3.21 s", kTime_ns},
           Spelling{"Iter [7/1000]  loss: 0.2  time: 3.21", kTime_ns},
           Spelling{"2026-11-20 10:00:01 INFO step 7 loss 0.2 step_time 3.21", kTime_ns},
           Spelling{"I1120 10:00:00.000 123 trainer.py:50] step: 7, loss: 0.2, step_time_sec: 3.21, examples_per_sec: 99.0", kTime_ns},
           Spelling{"{'step': 7, 'loss': 0.2, 'step_time': 3.21}", kTime_ns},
           Spelling{"| epoch   1 |     7/ 2983 batches | lr 20.00 | ms/batch 3210.00 | loss  0.2 | ppl  2076.40", kTime_ns},
       }) {
    const LogStep step = step_of_line(line);
    EXPECT_EQ(step.number, 7) << line;
    EXPECT_EQ(step.duration_ns, ns) << line;
    EXPECT_EQ(step.figures.loss, 0.2) << line;
  }
}

TEST(Loop, TimesThatAreNoStepsAreNone) {
  EXPECT_FALSE(step_of_line("Step: 7 | Loss: 0.2 | Total time: 99s").duration_ns);
  EXPECT_FALSE(step_of_line("Step: 7 | Loss: 0.2 | Elapsed time: 99s").duration_ns);
  EXPECT_FALSE(step_of_line("Step: 7 | Loss: 0.2 | Time: 12:00:10").duration_ns);
  EXPECT_EQ(step_of_line("Epoch: 0 | Step: 10 | PPO Epoch: 1 | Actor Loss: 1.2 | Critic Loss: 0.5").number, 0);
}

TEST(Loop, BatchesOfALineShareItsMean) {
  const RunLog log = log_of(
      "| epoch   1 |   200/ 2983 batches | lr 20.00 | ms/batch 32.10 | loss  7.64 | ppl  2076.40\n"
      "| epoch   1 |   400/ 2983 batches | lr 20.00 | ms/batch 30.10 | loss  6.64 | ppl  1076.40\n");
  ASSERT_EQ(log.ranks.size(), 1u);
  ASSERT_EQ(log.ranks[0].steps.size(), 2u);
  EXPECT_EQ(log.ranks[0].steps[1].iterations, 200);
  EXPECT_EQ(log.ranks[0].steps[1].duration_ns, 30'100'000);
}

constexpr const char* kIteration =
    " [2026-11-20 10:00:10] iteration       10/     500 | elapsed time per iteration (ms): 1000.0 | lm loss: 9.9E+00 |\n";

TEST(Megatron, TimersRankByRankAreOneTimer) {
  const RunLog log = log_of(std::string(kIteration) +
                            "times across ranks (ms):\n"
                            "  forward-backward:\n     rank  0: 800.00\n     rank  1: 810.00\n"
                            "  optimizer:\n     rank  0: 100.00\n     rank  1: 100.00\n"
                            "  all-grads-sync:\n     rank  0: 50.00\n     rank  1: 60.00\n");
  const LogStep& step = only_step(log);
  EXPECT_EQ(step.phase(LogPhase::kOptimizer), 100'000'000);
  EXPECT_EQ(step.phase(LogPhase::kCommunication), 50'000'000);
  EXPECT_EQ(step.phase(LogPhase::kForwardBackward), 810'000'000);
  ASSERT_EQ(log.ranks[0].timers.size(), 3u);
  EXPECT_EQ(log.ranks[0].timers[0].from(0).count, 1);
  EXPECT_EQ(log.ranks[0].timers[0].from(0).min_ns, 800e6);
  EXPECT_EQ(log.ranks[0].timers[0].from(0).max_ns, 810e6);
}

TEST(Megatron, AStopIsOneEventHoweverManyLinesTellOfIt) {
  const RunLog log = log_of(std::string(kIteration) +
                            "saving checkpoint at iteration      10 to /ckpt in torch_dist format\n"
                            "  successfully saved checkpoint from iteration      10 to /ckpt [ t 1/4, p 1/2 ]\n"
                            "(min, max) time across ranks (ms):\n"
                            "    save-checkpoint ................................: (90000.12, 90010.34)\n"
                            "(min, max) time across ranks (ms):\n"
                            "    evaluate .......................................: (60000.10, 60001.20)\n"
                            "----------------------------------------------------------------\n"
                            " validation loss at iteration 10 | lm loss value: 7.1E+00 |\n"
                            " validation loss at iteration 10 on test set | lm loss value: 7.1E+00 |\n");
  ASSERT_EQ(log.events.size(), 3u);
  EXPECT_EQ(log.events[0].kind, LogEventKind::kCheckpoint);
  EXPECT_EQ(log.events[0].duration_ns, 90'010'340'000);
  EXPECT_EQ(log.events[1].kind, LogEventKind::kEvaluation);
  EXPECT_EQ(log.events[1].duration_ns, 60'001'200'000);
  EXPECT_FALSE(log.events[2].duration_ns);
  EXPECT_TRUE(log.ranks.at(0).timers.empty());
}

TEST(HuggingFace, LinesOfATrainerThatCountsTokensAreSteps) {
  const RunLog log = log_of(
      "  Total optimization steps = 100\n"
      " 10%|#         | 10/100 [00:20<02:00,  2.00s/it]\n"
      "{'loss': 'nan', 'grad_norm': '1.0', 'learning_rate': '1e-05', 'num_input_tokens_seen': 1310720, 'train_runtime': '20.0', "
      "'train_tokens_per_second': '65536', 'epoch': '0.1'}\n"
      " 20%|##        | 20/100 [00:40<02:00,  2.00s/it]\n"
      "{'loss': '1.5', 'grad_norm': '1.0', 'learning_rate': '1e-05', 'num_input_tokens_seen': 2621440, 'train_runtime': '40.0', "
      "'train_tokens_per_second': '65536', 'epoch': '0.2'}\n"
      "{'train_runtime': '41.0', 'train_samples_per_second': '3.1', 'train_steps_per_second': '0.5', 'train_loss': '1.5', "
      "'epoch': '0.2'}\n");
  ASSERT_EQ(log.ranks.size(), 1u);
  ASSERT_EQ(log.ranks[0].steps.size(), 2u);
  EXPECT_EQ(log.ranks[0].steps[0].figures.not_finite, 1);
  EXPECT_EQ(log.ranks[0].steps[1].figures.loss, 1.5);
  EXPECT_EQ(log.ranks[0].steps[1].figures.tokens_per_s, 65536);
  ASSERT_EQ(log.events.size(), 1u);
  EXPECT_EQ(log.events[0].kind, LogEventKind::kFinished);
}

TEST(HuggingFace, LlamaFactorysLineAddsTokens) {
  const RunLog log = log_of(
      "  Total optimization steps = 100\n"
      " 10%|#         | 10/100 [00:20<02:00,  2.00s/it]\n"
      "{'loss': 1.2, 'grad_norm': 0.5, 'learning_rate': 0.0001, 'epoch': 0.01}\n"
      "[INFO|2026-11-20 10:00:30] llamafactory.train.callbacks:143 >> {'loss': 1.2, 'learning_rate': '1.0000e-04', 'epoch': 0.01, "
      "'throughput': '3204.12'}\n");
  EXPECT_EQ(only_step(log).figures.tokens_per_s, 3204.12);
}

TEST(Bars, OfUltralytics) {
  std::string text;
  for (const char* drawing : {"1% ━━━╸──────── 1/100 4.0it/s 0.2s<25.0s", "50% ━━━╸──────── 50/100 4.0it/s 12.5s<25.0s",
                              "100% ━━━━━━━━━━━━ 100/100 4.0it/s 25.0s"})
    text += std::string("\x1b[K        1/3      8.42G      1.234      1.567         45        640: ") + drawing + "\n";
  const RunLog log = log_of(text + "3 epochs completed in 0.028 hours.\n");
  ASSERT_EQ(log.ranks.size(), 1u);
  EXPECT_EQ(log.ranks[0].steps.back().number, 100);
  EXPECT_EQ(log.ranks[0].steps.back().duration_ns, 250'000'000);
  EXPECT_EQ(log.events.at(0).kind, LogEventKind::kFinished);
}

TEST(MetricBlocks, ComposersRatesAndMemoryAreOfTheJob) {
  const RunLog log = log_of(
      "[batch=1/1000]:\n\t Train memory/peak_allocated_mem: 42.1\n\t Train memory/peak_reserved_mem: 50.2\n"
      "\t Train throughput/batches_per_sec: 0.2\n\t Train throughput/samples_per_sec: 51.2\n"
      "\t Train throughput/tokens_per_sec: 104857.6\n");
  EXPECT_EQ(only_step(log).figures.samples_per_s, 51.2);
  EXPECT_EQ(only_step(log).figures.tokens_per_s, 104857.6);
  ASSERT_EQ(log.memory.size(), 2u);
  EXPECT_EQ(log.memory[0].max_allocated_bytes, 42'100'000'000);
  EXPECT_EQ(log.memory[1].max_reserved_bytes, 50'200'000'000);
}

}  // namespace
}  // namespace profgpu
