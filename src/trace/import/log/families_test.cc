// A few lines of each family, as its programs print them.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <utility>

#include "trace/import/log/log_text_test.h"

namespace profgpu {
namespace {

const LogTimer* timer(const LogRank& rank, std::string_view name) {
  for (const LogTimer& t : rank.timers)
    if (t.name == name) return &t;
  return nullptr;
}

TEST(Megatron, NewFormatWithTimersAcrossRanks) {
  const RunLog log = log_of(R"(
(min, max) time across ranks (ms):
    model-and-optimizer-setup ......................: (1345.37, 1359.59)
 [2024-05-01 12:00:10] iteration       10/     100 | consumed samples:          640 | elapsed time per iteration (ms): 512.3 | throughput per GPU (TFLOP/s/GPU): 50.7 | learning rate: 1.000000E-04 | global batch size:    64 | lm loss: 9.1E+00 | loss scale: 1.0 | grad norm: 1.234 | number of skipped iterations:   1 | number of nan iterations:   2 |
(min, max) time across ranks (ms):
    forward-backward ...............................: (400.00, 420.00)
    forward-compute ................................: (150.00, 160.00)
    backward-compute ...............................: (220.00, 230.00)
    batch-generator ................................: (2.00, 10.00)
    forward-recv ...................................: (5.00, 90.00)
    all-grads-sync .................................: (30.00, 33.00)
    optimizer ......................................: (20.00, 21.00)
 [2024-05-01 12:00:16] iteration       20/     100 | consumed samples:         1280 | elapsed time per iteration (ms): 500.0 | throughput per GPU (TFLOP/s/GPU): 52.0 | learning rate: 1.000000E-04 | global batch size:    64 | lm loss: 8.1E+00 |
saving checkpoint at iteration      20 to /ckpt in torch_dist format
  successfully saved checkpoint from iteration      20 to /ckpt
(min, max) time across ranks (ms):
    save-checkpoint ................................: (2500.00, 2600.00)
)");
  const LogStep& first = only_step(log);
  EXPECT_EQ(first.number, 10);
  EXPECT_EQ(first.iterations, 10);
  EXPECT_EQ(first.duration_ns, 512300000);
  EXPECT_EQ(first.figures.tflops, 50.7);
  EXPECT_EQ(first.figures.samples, 64);
  EXPECT_EQ(first.figures.loss, 9.1);
  EXPECT_EQ(first.figures.grad_norm, 1.234);
  EXPECT_EQ(first.figures.skipped, 1);
  EXPECT_EQ(first.figures.not_finite, 2);
  EXPECT_EQ(first.phase(LogPhase::kForward), 150000000);  // less the batches that are fetched in it
  EXPECT_EQ(first.phase(LogPhase::kDataLoading), 10000000);
  EXPECT_EQ(first.phase(LogPhase::kBackward), 230000000);
  EXPECT_EQ(first.phase(LogPhase::kCommunication), 35000000);  // least of each: the rest is waiting
  EXPECT_EQ(first.phase(LogPhase::kOptimizer), 21000000);
  EXPECT_EQ(first.phase(LogPhase::kForwardBackward), 0);
  EXPECT_EQ(timer(log.ranks[0], "forward-recv")->from(0).max_ns, 90e6);
  EXPECT_EQ(timer(log.ranks[0], "model-and-optimizer-setup"), nullptr);
  EXPECT_TRUE(log.dated);
  // Printed at :16, ten of 500 ms before that.
  EXPECT_EQ(log.ranks[0].steps[1].start_ns - first.start_ns,
            16'000'000'000 - 5'000'000'000 - (10'000'000'000 - 5'123'000'000));
  int64_t saved = 0;
  for (const LogEvent& e : log.events)
    if (e.kind == LogEventKind::kCheckpoint) saved = std::max(saved, e.duration_ns.value_or(0));
  EXPECT_EQ(saved, 2600000000);
}

TEST(Megatron, DescendantsWriteFieldsTheirWay) {
  const RunLog log = log_of(
      "[2024-09-16 22:59:19.287338][INFO][training_log:661] -  iteration=       1/  635782 | consumed_samples=         "
      "768 | "
      "elapsed_time_per_iteration_ms=29570.0 | learning_rate=9.4372e-09 | global_batch_size=768 | lm loss=11.167250 | "
      "samples_per_second=25.972 | tokens_per_gpu_per_second_tgs=4432.597 | [LM]TFLOPs=20.30 | [DS]TFLOPs=26.18 |\n"
      "09/12/2024 13:00:00 [INFO|DP=0]: iteration: 2 / 100 | consumed_tokens: 262K | elapsed_time_per_iteration_ms: "
      "2.6K | "
      "tokens_per_sec: 101K | tokens_per_sec_per_gpu: 50.5K | global_batch_size: 256 | lm_loss: 10.8 | lr: 3e-05 | "
      "model_tflops_per_gpu: 12.5 | grad_norm: 2\n");
  ASSERT_EQ(log.ranks.size(), 1u);
  ASSERT_EQ(log.ranks[0].steps.size(), 2u);
  EXPECT_EQ(log.ranks[0].steps[0].duration_ns, 29570000000);
  EXPECT_EQ(log.ranks[0].steps[0].figures.tflops, 20.30);
  EXPECT_EQ(log.ranks[0].steps[0].figures.device_tokens_per_s, 4432.597);
  EXPECT_EQ(log.ranks[0].steps[1].duration_ns, 2600000000);
  EXPECT_EQ(log.ranks[0].steps[1].figures.tokens_per_s, 101000);
  EXPECT_EQ(log.ranks[0].steps[1].figures.loss, 10.8);
}

TEST(DeepSpeed, BreakdownOfOldAndNewVersions) {
  for (const bool old : {true, false}) {
    std::string text;
    const std::string head = "[2024-05-01 12:00:00,500] [INFO] [logging.py:96:log_dist] [Rank 0] ";
    for (int step = 1; step <= 3; ++step) {
      const std::string f = old ? "forward" : "fwd", b = old ? "backward" : "bwd";
      text += head + (old ? "rank=0 " : "") + "time (ms) | " + f + "_microstep: 40.00 | " + b + "_microstep: 80.00 | " +
              b + "_inner_microstep: 60.00 | " + b + "_allreduce_microstep: 20.00 | step_microstep: 30.00\n";
      text += head + "time (ms) | " + f + ": 40.00 | " + b + ": 80.00 | " + b + "_inner: 60.00 | " + b +
              "_allreduce: 20.00 | step: 30.25\n";
      text += head + "step=" + std::to_string(step) + ", skipped=1, lr=[1e-05], mom=[(0.9, 0.999)]\n";
      text += "[2024-05-01 12:00:01,500] [INFO] [timer.py:199:stop] epoch=0/micro_step=" + std::to_string(step) +
              "/global_step=" + std::to_string(step) +
              ", RunningAvgSamplesPerSec=10.5, CurrSamplesPerSec=11.5, MemAllocated=3.5GB, MaxMemAllocated=7.25GB\n";
    }
    const RunLog log = log_of(text);
    ASSERT_EQ(log.ranks.size(), 1u) << old;
    ASSERT_EQ(log.ranks[0].steps.size(), 3u) << old;
    const LogStep& s = log.ranks[0].steps[2];
    EXPECT_EQ(s.number, 3);
    EXPECT_EQ(s.duration_ns, 150250000);
    EXPECT_EQ(s.phase(LogPhase::kForward), 40000000);
    EXPECT_EQ(s.phase(LogPhase::kBackward), 60000000);
    EXPECT_EQ(s.phase(LogPhase::kCommunication), 20000000);
    EXPECT_EQ(s.phase(LogPhase::kOptimizer), 30250000);
    EXPECT_EQ(s.figures.samples_per_s, 11.5);
    EXPECT_EQ(s.figures.learning_rate, 1e-05);
    EXPECT_EQ(log.memory.at(0).max_allocated_bytes, 7784628224);
    EXPECT_EQ(log.settings.at("skipped_steps"), "1");
  }
}

TEST(DeepSpeed, RatesTellTheTimeWithTheBatch) {
  std::string text = "[2024-05-01 12:00:00,500] [INFO] [config.py:752:print]   train_batch_size ............. 64\n";
  for (int step = 10; step <= 30; step += 10)
    text += "epoch=0/micro_step=0/global_step=" + std::to_string(step) +
            ", RunningAvgSamplesPerSec=10, CurrSamplesPerSec=32, MemAllocated=3GB, MaxMemAllocated=7GB\n";
  const RunLog log = log_of(text);
  ASSERT_EQ(log.ranks.at(0).steps.size(), 3u);
  EXPECT_EQ(log.ranks[0].steps[1].duration_ns, 2000000000);
  EXPECT_TRUE(log.ranks[0].steps[1].derived);
  EXPECT_EQ(log.ranks[0].steps[1].iterations, 10);
}

TEST(DeepSpeed, PipelineEngine) {
  const RunLog log = log_of(
      "steps: 10 loss: 7.4010 iter time (s): 0.512 samples/sec: 31.250\n"
      "steps: 20 loss: 7.1010 iter time (s): 0.500 samples/sec: 32.000\n");
  EXPECT_EQ(only_step(log).duration_ns, 512000000);
  EXPECT_EQ(only_step(log).figures.loss, 7.401);
  EXPECT_EQ(only_step(log).iterations, 10);
}

TEST(DeepSpeed, GluedBehindAProgressBar) {
  const RunLog log = log_of(
      "  0%|          | 0/3 [00:00<?, ?it/s]time (ms) | fwd: 1.00 | bwd: 2.00 | bwd_inner: 1.50 | bwd_allreduce: 0.50 "
      "| step: 3.00\n");
  EXPECT_EQ(only_step(log).duration_ns, 6000000);
}

TEST(MemoryLines, SeveralRanksOnOneLine) {
  const RunLog log = log_of(
      "[Rank 7] (after 20 iterations) memory (MB) | allocated: 1.5 | max allocated: 2.0 | reserved: 3.0 | max "
      "reserved: 4.0"
      "[Rank 6] (after 20 iterations) memory (MB) | allocated: 5.0 | max allocated: 6.0 | reserved: 7.0 | max "
      "reserved: 8.0\n"
      "[2021-05-25 06:37:59,223] [INFO] [utils.py:589:see_memory_usage] MA 3.62 GB         Max_MA 4.93 GB         CA "
      "6.08 GB         Max_CA 6 GB \n");
  ASSERT_EQ(log.memory.size(), 3u);
  EXPECT_EQ(log.memory[0].rank, 7);
  EXPECT_EQ(log.memory[1].rank, 6);
  EXPECT_EQ(log.memory[1].max_reserved_bytes, 8 << 20);
  EXPECT_EQ(log.memory[0].allocated_bytes, 3 << 19);
  EXPECT_EQ(log.memory[0].step, 20);
  EXPECT_EQ(log.memory[2].max_reserved_bytes, 6528350290);  // not less than what is reserved now
}

TEST(TorchTitan, WithColours) {
  std::string text =
      "[rank0]:[titan] 2024-12-05 12:00:00,000 - root - INFO - Building 2-D device mesh with ['dp_shard', 'tp'], [4, "
      "2]\n"
      "[rank0]:[titan] 2024-12-05 12:00:00,100 - root - INFO - Trainer is initialized with local batch size 8, global "
      "batch "
      "size 32, gradient accumulation steps 1, sequence length 2048, total steps 1000 (warmup 200)\n";
  for (int step = 1; step <= 21; step += 10)
    text += "[rank0]:[titan] 2024-12-05 12:00:" + std::to_string(10 + step) +
            ",250 - root - INFO - \x1b[31mstep: " + std::to_string(step) +
            "  \x1b[32mloss: 12.2718  \x1b[38;2;180;60;0mgrad_norm:  1.2345  \x1b[33mmemory:  5.52GiB(5.81%)  "
            "\x1b[34mtps: 8,192  \x1b[36mtflops: 1.23  \x1b[35mmfu: 12.34%\x1b[39m\n";
  const RunLog log = log_of(text);
  ASSERT_EQ(log.ranks.size(), 1u);
  EXPECT_EQ(log.ranks[0].rank, 0);
  ASSERT_EQ(log.ranks[0].steps.size(), 3u);
  const LogStep& s = log.ranks[0].steps[1];
  EXPECT_EQ(s.number, 11);
  EXPECT_EQ(s.iterations, 10);
  EXPECT_EQ(s.duration_ns, 1000000000);  // 8 * 2048 tokens of a device, of which two share each batch
  EXPECT_EQ(s.figures.mfu_pct, 12.34);
  EXPECT_EQ(s.figures.device_tokens_per_s, 8192);
  EXPECT_EQ(s.figures.tokens_per_s, 65536);
  EXPECT_EQ(s.figures.loss, 12.2718);
  EXPECT_EQ(log.setting("world_size"), 8);
  EXPECT_NEAR(static_cast<double>(*log.memory.at(0).capacity_bytes), 95.0 * (1 << 30), 1e8);
}

TEST(TorchTitan, EachRankSaysTheMesh) {
  std::string text;
  for (int rank = 0; rank < 8; ++rank)
    text += "[rank" + std::to_string(rank) + "]:[titan] 2024-12-05 12:00:00,000 - root - INFO - Building 2-D device mesh "
            "with ['dp_shard', 'tp'], [4, 2]\n";
  text += "[rank0]:[titan] 2024-12-05 12:00:00,100 - root - INFO - Trainer is initialized with local batch size 8, global "
          "batch size 32, gradient accumulation steps 1, sequence length 2048, total steps 1000 (warmup 200)\n";
  EXPECT_EQ(log_of(text).settings.at("tokens_per_device"), "8192");
}

TEST(TorchTitan, WithoutSizesByTheClock) {
  const RunLog log = log_of(
      "[titan] 2024-12-05 12:00:10,000 - root - INFO - step: 10  loss:  7.9  memory: 5.00GiB(5.00%)  tps: 1,234  "
      "tflops: 1.23  mfu: 12.34%\n"
      "[titan] 2024-12-05 12:00:15,500 - root - INFO - step: 20  loss:  7.8  memory: 5.00GiB(5.00%)  tps: 1,234  "
      "tflops: 1.23  mfu: 12.34%\n");
  ASSERT_EQ(log.ranks.at(0).steps.size(), 1u);  // of the first one no time is known
  EXPECT_EQ(log.ranks[0].untimed, 1);
  EXPECT_EQ(log.ranks[0].steps[0].duration_ns, 550000000);
}

TEST(Loop, ElapsedIsSinceTheStartWhereItNeverFalls) {
  std::string course, each;
  for (int i = 1; i <= 6; ++i) {
    const std::string begin = "step " + std::to_string(10 * i) + " | loss 2.9 | elapsed ";
    course += begin + std::to_string(4 * i) + ".0s\n";
    each += begin + (i % 2 == 0 ? "0.40s\n" : "0.41s\n");
  }
  const RunLog since = log_of(course), alone = log_of(each);
  ASSERT_EQ(since.ranks.at(0).steps.size(), 6u);
  for (const LogStep& s : since.ranks[0].steps) EXPECT_EQ(s.duration_ns, 400'000'000);
  ASSERT_EQ(alone.ranks.at(0).steps.size(), 6u);
  EXPECT_EQ(alone.ranks[0].steps[1].duration_ns, 400'000'000);
}

TEST(Loop, ALineWithALossOfBothKindsIsAStep) {
  EXPECT_EQ(log_of("Iter 10 | loss 2.3 | val loss 2.5 | dt: 100.0ms\n").ranks.at(0).steps.size(), 1u);
}

TEST(Stalls, AWordThatBeginsLikeSecondsIsNoTime) {
  const RunLog log = log_of("iter 10: loss 2.3, time 12ms\nCheckpoint saved in 16 shards to /ckpt\n"
                            "iter 20: loss 2.3, time 12ms\nCheckpoint saved in 16.5 seconds to /ckpt\n");
  ASSERT_EQ(log.events.size(), 2u);
  EXPECT_FALSE(log.events[0].duration_ns);
  EXPECT_EQ(log.events[1].duration_ns, 16'500'000'000);
}

TEST(Loop, MfuMayBeAShare) {
  EXPECT_EQ(log_of("iter 10: loss 2.3, time 12.34ms, mfu 0.452\n").ranks.at(0).steps.at(0).figures.mfu_pct, 45.2);
  EXPECT_EQ(log_of("iter 10: loss 2.3, time 12.34ms, mfu 0.45%\n").ranks.at(0).steps.at(0).figures.mfu_pct, 0.45);
}

TEST(Loop, LinesAfterNanoGpt) {
  const StepCase all[] = {
      {"iter 10: loss 2.3170, time 12.34ms, mfu 12.34%", 10, 12340000, 0, 2.317},
      {"step    7 | loss: 4.231000 | lr 6.0000e-04 | norm: 1.2000 | dt: 100.12ms | tok/sec: 5200.12", 7, 100120000,
       0, 4.231},
      {"step 10/1000 | train loss 3.250000 | norm 1.2 | lr 1e-4 | (100.25 ms | 5200 tok/s)", 10, 100250000, 0, 3.25},
      {"2024-05-01 12:00:00,000 - INFO - step 3: loss=1.5, time=0.25s", 3, 250000000, 0, 1.5},
      {"[step 12/500] loss 2.5 time: 0.5", 12, 500000000, 0, 2.5},
      {"step   10/18865 | loss 7.125000 (+nanz)| norm 1.5 (+nanz)| lr 1.00e-05 | 250.33 ms | 45.2% bf16 MFU | 20123 tok/s",
       10, 250330000, 0, 7.125},
  };
  expect_steps(all);
  for (const StepCase& c : all) EXPECT_EQ(only_step(log_of(c.line)).iterations, 1) << c.line;
  EXPECT_TRUE(log_of("step 3 of the guide: the loss is what you time").ranks.empty());
}

TEST(Loop, ModdedNanoGptPrintsTheTimeSinceTheStart) {
  const RunLog log = log_of(
      "step:1/1480 train_time:150ms step_avg:150.00ms\n"
      "step:2/1480 train_time:290ms step_avg:145.00ms\n"
      "step:125/1480 val_loss:4.1234 train_time:17500ms step_avg:140.00ms\n"
      "step:4/1480 train_time:590ms step_avg:147.50ms\n");
  ASSERT_EQ(log.ranks.at(0).steps.size(), 3u);
  EXPECT_EQ(log.ranks[0].steps[1].duration_ns, 140'000'000);
  EXPECT_EQ(log.ranks[0].steps[2].duration_ns, 150'000'000);
  EXPECT_EQ(log.ranks[0].steps[2].iterations, 2);
  EXPECT_EQ(log.events.at(0).kind, LogEventKind::kEvaluation);
}

TEST(Vision, LinesOfExamples) {
  const StepCase all[] = {
      {"Epoch: [2][ 11/500]\tTime  0.123 ( 0.130)\tData  0.001 ( 0.020)\tLoss 6.5e+00 (6.9e+00)\tAcc@1   0.00 (  0.10)",
       1011, 123000000, 1000000, 6.5},
      {"Epoch: [0]  [  10/5004]  eta: 0:53:12  lr: 0.1  img/s: 250.5  loss: 6.875 (7.0)  time: 0.5125  data: 0.0125  max "
       "mem: 3000",
       10, 512500000, 12500000, 6.875},
      {"2024-05-01 12:00:00,000 - INFO - Train: 1 [  50/1251 (  4%)]  Loss: 6.5 (6.95)  Time: 0.520s,  492.34/s  (0.530s,  "
       "483.05/s)  LR: 1.000e-06  Data: 0.010 (0.020)",
       1301, 520000000, 10000000, 6.5},
      {"Train: [1/300][10/1251]\teta 1:00:00 lr 0.0001\t wd 0.05\ttime 0.5123 (0.6000)\tloss 6.5 (7.0)\tmem 3000MB", 1261,
       512300000, 0, 6.5},
  };
  expect_steps(all);
  for (const char* other : {"Epoch: [3] Time to go home", "Train: 0 of 3 Time: 0.5", "Epoch: [1][9/5] Time 0.1",
                            "Epoch: [99999999999999999999][1/5] Time 0.1", "Train: [", "Epoch: [0][1/2] Time"})
    EXPECT_TRUE(log_of(other).ranks.empty()) << other;
}

TEST(OpenMmLab, IterationsByEpochOrNot) {
  const StepCase all[] = {
      {"2023/07/01 12:00:07 - mmengine - INFO - Epoch(train)  [2][  50/1000]  lr: 2.0000e-02  eta: 0:30:11  time: 0.4112  "
       "data_time: 0.0112  memory: 3000  loss: 1.5",
       1050, 411200000, 11200000, 1.5},
      {"07/01 12:00:07 - mmengine - INFO - Iter(train) [   50/80000]  lr: 2.0e-02  eta: 0:30:11  time: 0.4112  data_time: "
       "0.0112  memory: 3000  loss: 1.5",
       50, 411200000, 11200000, 1.5},
      {"2021-07-01 12:00:07,123 - mmdet - INFO - Epoch [2][50/1000]\tlr: 2.000e-02, eta: 0:30:11, time: 0.411, data_time: "
       "0.011, memory: 3000, loss_cls: 1.0, loss: 1.5, grad_norm: 3.5",
       1050, 411000000, 11000000, 1.5},
      {"[07/01 12:00:07 d2.utils.events]:  eta: 0:30:11  iter: 19  total_loss: 1.5  loss_cls: 0.4  time: 0.4112  last_time: "
       "0.4100  data_time: 0.0121  last_data_time: 0.0101   lr: 0.001  max_mem: 3000M",
       19, 411200000, 12100000, 1.5},
  };
  expect_steps(all);
  for (const StepCase& c : all) EXPECT_EQ(log_of(c.line).memory.at(0).max_allocated_bytes, 3000LL << 20) << c.line;
  EXPECT_TRUE(log_of("Epoch(val) [1][50/100]    eta: 0:00:11  time: 0.4112  data_time: 0.0112  memory: 3000").ranks.empty());
  EXPECT_TRUE(log_of("the data_time: 0.1 and the time: 0.2 are measured").ranks.empty());
}

TEST(Paddle, CostsOfABatchAndRates) {
  const StepCase all[] = {
      {"[2024/01/01 12:00:03] ppocr INFO: epoch: [1/500], global_step: 10, lr: 0.001, loss: 1.5, avg_reader_cost: 0.10 s, "
       "avg_batch_cost: 0.50 s, avg_samples: 24.0, ips: 48.0 samples/s, eta: 1:00:00",
       10, 500000000, 100000000, 1.5},
      {"[2024/01/01 12:00:03] ppcls INFO: [Train][Epoch 1/100][Iter: 10/500]lr(LinearWarmup): 0.1, loss: 1.5, batch_cost: "
       "0.50s, reader_cost: 0.10, ips: 24.0 samples/s, eta: 1:00:00",
       510, 500000000, 100000000, 1.5},
      {"2024-01-01 12:00:03 [INFO]\t[TRAIN] epoch: 1, iter: 10/1000, loss: 1.5, lr: 0.01, batch_cost: 0.5000, reader_cost: "
       "0.1000, ips: 19.8 samples/sec | ETA 00:00:10",
       10, 500000000, 100000000, 1.5},
      {"2021-01-19 07:02:41 [INFO]\t[TRAIN] epoch=1, iter=5/100, loss=1.5, lr=0.009639, batch_cost=0.5, reader_cost=0.1 | ETA "
       "00:01:24",
       5, 500000000, 100000000, 1.5},
      {"2020-11-04 17:25:52 INFO: epoch:0  , train step:50  , loss: 1.5, top1: 0.0, lr: 0.1, batch_cost: 0.5 s, "
       "reader_cost: 0.1 s, ips: 225.20036 images/sec.",
       50, 500000000, 100000000, 1.5},
      {"[2021/02/23 22:52:57] root INFO: epoch: [5/500], iter: 11550, lr: 0.001000, loss: 1.5, reader_cost: 0.1 s, "
       "batch_cost: 0.5 s, samples: 960, ips: 16.05686",
       11550, 500000000, 100000000, 1.5},
      {"[01/01 12:00:03] ppdet.engine INFO: Epoch: [2] [ 20/1000] learning_rate: 0.1 loss: 1.5 eta: 0:01:00 batch_cost: 0.5 "
       "data_cost: 0.1 ips: 12.0 images/s",
       2020, 500000000, 100000000, 1.5},
      {"[2024-01-01 12:00:03,123] [    INFO] - loss: 1.5, learning_rate: 1e-05, global_step: 10, interval_runtime: 5.0, "
       "interval_samples_per_second: 12.5, interval_steps_per_second: 2.0, epoch: 0.01",
       10, 500000000, 0, 1.5},
  };
  expect_steps(all);
}

TEST(Fairseq, SimpleAndJson) {
  for (const char* line :
       {"2023-03-01 12:00:01 | INFO | train_inner | epoch 001:    100 / 1000 loss=9.5, nll_loss=8.4, ppl=340, wps=23451, "
        "ups=2.5, wpb=10923, bsz=512, num_updates=100, lr=1e-05, gnorm=1.5, loss_scale=128, train_wall=47, gb_free=21.2",
        "2023-03-01 12:00:01 | INFO | train_inner | {\"epoch\": 1, \"update\": 0.1, \"loss\": \"9.5\", \"wps\": \"23451\", "
        "\"ups\": \"2.5\", \"bsz\": \"512\", \"num_updates\": \"100\", \"lr\": \"1e-05\", \"gnorm\": \"1.5\"}"}) {
    const RunLog log = log_of(line);
    ASSERT_EQ(log.ranks.size(), 1u) << line;
    const LogStep& step = only_step(log);
    EXPECT_EQ(step.number, 100) << line;
    EXPECT_EQ(step.duration_ns, 400'000'000) << line;
    EXPECT_EQ(step.figures.loss, 9.5) << line;
    EXPECT_EQ(step.figures.tokens_per_s, 23451) << line;
    EXPECT_EQ(step.figures.samples, 512) << line;
    EXPECT_EQ(step.figures.grad_norm, 1.5) << line;
  }
}

TEST(Verl, TimersOfAStep) {
  for (const char* line :
       {"(TaskRunner pid=12345) step:1 - actor/pg_loss:0.5 - perf/mfu/actor:0.25 - perf/max_memory_allocated_gb:43.5 - "
        "timing_s/gen:12.5 - timing_s/update_actor:20.5 - timing_s/step:40.5 - perf/throughput:1234.5",
        "step:1 - actor/pg_loss:np.float64(0.5) - perf/mfu/actor:np.float64(0.25) - "
        "perf/max_memory_allocated_gb:np.float64(43.5) - timing_s/gen:np.float64(12.5) - "
        "timing_s/update_actor:np.float64(20.5) - timing_s/step:np.float64(40.5) - perf/throughput:np.float64(1234.5)"}) {
    const RunLog log = log_of(line);
    ASSERT_EQ(log.ranks.size(), 1u) << line;
    EXPECT_EQ(only_step(log).duration_ns, 40'500'000'000) << line;
    EXPECT_EQ(only_step(log).figures.mfu_pct, 25) << line;
    EXPECT_EQ(only_step(log).figures.device_tokens_per_s, 1234.5) << line;
    EXPECT_EQ(log.memory.at(0).max_allocated_bytes, 87LL << 29) << line;
    ASSERT_EQ(log.ranks[0].timers.size(), 2u) << line;
    EXPECT_EQ(log.ranks[0].timers[0].name, "gen") << line;
    EXPECT_EQ(log.ranks[0].timers[1].from(0).sum_ns, 20.5e9) << line;
  }
}

TEST(Keras, PredictingBeforeAnyEpochIsNoTraining) {
  const RunLog log = log_of("313/313 ━━━━━━━━━━━━━━━━━━━━ 10s 32ms/step\nEpoch 1/1\n"
                            "100/100 ━━━━━━━━━━━━━━━━━━━━ 5s 50ms/step - accuracy: 0.5 - loss: 1.2\n");
  ASSERT_EQ(log.ranks.at(0).steps.size(), 1u);
  EXPECT_EQ(log.ranks[0].steps[0].duration_ns, 50'000'000);
}

TEST(Keras, EndsOfEpochs) {
  const RunLog log = log_of(
      "Epoch 1/2\n"
      "  1/100 [..............................] - ETA: 1:40 - loss: 2.5\b\b\r"
      "100/100 [==============================] - 5s 50ms/step - loss: 1.5 - accuracy: 0.5\n"
      "25/25 [==============================] - 0s 10ms/step - loss: 1.2\n"
      "Epoch 2/2\n"
      "\x1b[1m100/100\x1b[0m \x1b[32m━━━━━━━━━━\x1b[0m\x1b[37m\x1b[0m \x1b[1m4s\x1b[0m 850us/step - accuracy: 0.5 - loss: 1.25\n");
  ASSERT_EQ(log.ranks.size(), 1u);
  const std::vector<LogStep>& steps = log.ranks[0].steps;
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].number, 100);
  EXPECT_EQ(steps[0].iterations, 100);
  EXPECT_EQ(steps[0].duration_ns, 50'000'000);
  EXPECT_EQ(steps[0].figures.loss, 1.5);
  EXPECT_EQ(steps[1].number, 200);
  EXPECT_EQ(steps[1].duration_ns, 850'000);
}

TEST(HuggingFace, DictLinesBetweenBars) {
  std::string text = "  Total optimization steps = 40\n\r  0%|          | 0/40 [00:00<?, ?it/s]";
  for (int step = 10; step <= 40; step += 10) {
    text +=
        "\r 25%|##        | " + std::to_string(step) + "/40 [00:" + std::to_string(step + 5) + "<00:30,  2.00it/s]\r";
    text += "                                        \r{'loss': '2.31" + std::to_string(step) +
            "', 'grad_norm': '1.5', 'learning_rate': '4.5e-05', 'epoch': '0.1'}\n";
  }
  text +=
      "{'train_runtime': 45.0, 'train_samples_per_second': 10.0, 'train_steps_per_second': 0.9, 'train_loss': 2.0, "
      "'epoch': 1.0}\n";
  const RunLog log = log_of(text);
  ASSERT_EQ(log.ranks.size(), 1u);
  ASSERT_EQ(log.ranks[0].steps.size(), 4u);
  EXPECT_EQ(log.ranks[0].steps[1].number, 20);
  EXPECT_EQ(log.ranks[0].steps[1].iterations, 10);
  EXPECT_EQ(log.ranks[0].steps[1].figures.loss, 2.3120);
  EXPECT_EQ(log.ranks[0].steps[1].duration_ns, 500000000);  // ten seconds are too few to trust a bar's clock
  EXPECT_EQ(log.events.back().kind, LogEventKind::kFinished);
}

TEST(HuggingFace, PeaksOfMemoryByOldAndNewNames) {
  const RunLog log = log_of(
      "{'loss': 4.75, 'memory/max_mem_allocated(gib)': 25.5, 'memory/device_mem_reserved(gib)': 30.25, 'epoch': 1.0}\n"
      "{'loss': 4.25, 'tokens_per_second_per_gpu': 1234.5, 'memory/max_allocated (GiB)': 26, 'epoch': 2.0, 'step': 7}\n");
  ASSERT_EQ(log.memory.size(), 2u);
  EXPECT_EQ(log.memory[0].max_allocated_bytes, 51LL << 29);
  EXPECT_EQ(log.memory[0].reserved_bytes, 121LL << 28);
  EXPECT_EQ(log.memory[1].max_allocated_bytes, 26LL << 30);
  EXPECT_EQ(log.memory[1].step, 7);
}

TEST(HuggingFace, WithoutABarStepsHaveTheMean) {
  const RunLog log = log_of(
      "  Num Epochs = 2\n  Total optimization steps = 40\n"
      "{'loss': 2.3, 'grad_norm': 1.5, 'learning_rate': 4.5e-05, 'epoch': 1.0}\n"
      "{'loss': 2.1, 'grad_norm': 1.5, 'learning_rate': 4.5e-05, 'epoch': 2.0}\n"
      "{'train_runtime': 80.0, 'train_steps_per_second': 0.5, 'epoch': 2.0}\n");
  ASSERT_EQ(log.ranks.at(0).steps.size(), 2u);
  EXPECT_EQ(log.ranks[0].steps[0].number, 20);
  EXPECT_EQ(log.ranks[0].steps[0].duration_ns, 2000000000);
  EXPECT_EQ(log.settings.at("step_time"), "mean");
}

TEST(Lightning, BarsOfEpochs) {
  std::string text;
  for (int batch = 0; batch <= 100; batch += 10)
    text += "\rEpoch 1:  10%|#         | " + std::to_string(batch) + "/100 [00:" + std::string(batch < 20 ? "0" : "") +
            std::to_string(batch / 2) + "<00:45,  2.00it/s, v_num=0, train_loss=2.5]";
  const RunLog log = log_of(text + "\n");
  ASSERT_EQ(log.ranks.size(), 1u);
  EXPECT_EQ(log.ranks[0].steps.front().duration_ns, 500000000);
  EXPECT_EQ(log.ranks[0].steps.back().number, 200);
  EXPECT_EQ(log.ranks[0].steps.back().figures.loss, 2.5);
}

TEST(Lightning, CsvOfTheThroughputMonitor) {
  const RunLog log = log_of(
      "device/batches_per_sec,device/mfu,epoch,step,train_loss\n"
      "2.0,0.25,0,9,\n"
      ",,0,9,3.5\n"
      "4.0,0.5,0,19,\n");
  ASSERT_EQ(log.ranks.at(0).steps.size(), 2u);
  EXPECT_EQ(log.ranks[0].steps[0].duration_ns, 500000000);
  EXPECT_EQ(log.ranks[0].steps[0].figures.mfu_pct, 25);
  EXPECT_EQ(log.ranks[0].steps[0].figures.loss, 3.5);
  EXPECT_EQ(log.ranks[0].steps[1].iterations, 10);
}

TEST(Nemo, LinesOfItsPrinter) {
  std::string text;
  for (int step = 120; step < 123; ++step)
    text += "Training epoch 0, iteration " + std::to_string(step) + "/149 | lr: 3e-05 | consumed_samples: 242 | " +
            "global_batch_size: 2 | global_step: " + std::to_string(step) + " | reduced_train_loss: 1.233 | " +
            "train_step_timing in s: 0.03" + std::to_string(step) + " | val_loss: 4.106\n";
  const RunLog log = log_of(text);
  ASSERT_EQ(log.ranks.at(0).steps.size(), 3u);
  const LogStep& last = log.ranks[0].steps.back();
  EXPECT_EQ(last.number, 122);
  EXPECT_EQ(last.duration_ns, 31'220'000);
  EXPECT_FALSE(last.derived);
  EXPECT_EQ(last.figures.loss, 1.233);
  EXPECT_EQ(last.figures.learning_rate, 3e-5);
  EXPECT_EQ(last.figures.samples, 2);
}

TEST(Nemo, NotesOfABarSayWhatAStepTook) {
  std::string text;
  for (const char* done : {"8998", "8999", "9000"})
    text += "\rEpoch 0: :   3%|#         | " + std::string(done) + "/301500 [1:42:42<55:37:46, v_num=0-56, " +
            "reduced_train_loss=2.10, global_step=9e+3, consumed_samples=6.3e+5, train_step_timing in s=0.615]";
  const RunLog log = log_of(text + "\n");
  ASSERT_EQ(log.ranks.at(0).steps.size(), 3u);
  EXPECT_EQ(log.ranks[0].steps[1].number, 8999);
  EXPECT_EQ(log.ranks[0].steps[1].duration_ns, 615'000'000);
  EXPECT_EQ(log.ranks[0].steps[1].figures.loss, 2.1);
}

TEST(MaxText, LinesOfEachStep) {
  const RunLog log = log_of(
      "I0811 21:54:55.531340 138304841739136 metric_logger.py:226] completed step: 1, seconds: 0.631, TFLOP/s/device: "
      "568.25, Tokens/s/device: 31162.521, total_weights: 1572864, loss: 12.979, lm_loss: 11, perplexity: 433358.281\n"
      "completed step: 2, seconds: 2.164, TFLOP/s: 36.771, loss: 2.173\n"
      "completed step: many\n");
  ASSERT_EQ(log.ranks.at(0).steps.size(), 2u);
  const LogStep& first = only_step(log);
  EXPECT_EQ(first.number, 1);
  EXPECT_EQ(first.duration_ns, 631'000'000);
  EXPECT_EQ(first.figures.tflops, 568.25);
  EXPECT_EQ(first.figures.device_tokens_per_s, 31162.521);
  EXPECT_EQ(first.figures.loss, 12.979);
  EXPECT_EQ(log.ranks[0].steps[1].figures.tflops, 36.771);
  EXPECT_EQ(log.ranks[0].steps[1].figures.loss, 2.173);
}

TEST(Mlperf, BlocksAreSteps) {
  std::string text;
  const auto record = [&](int64_t ms, const std::string& key, const std::string& metadata) {
    text += ":::MLLOG {\"namespace\": \"\", \"time_ms\": " + std::to_string(1592428880000 + ms) +
            ", \"event_type\": \"INTERVAL_START\", \"key\": \"" + key + "\", \"value\": null, \"metadata\": {" +
            metadata + "}}\n";
  };
  for (int block = 1; block <= 3; ++block) {
    record(block * 10000, "block_start", "\"first_epoch_num\": " + std::to_string(block));
    record(block * 10000 + 8500, "block_stop", "\"first_epoch_num\": " + std::to_string(block));
    record(block * 10000 + 8600, "eval_start", "");
    record(block * 10000 + 9600, "eval_stop", "");
  }
  record(50000, "run_stop", "\"status\": \"success\"");
  const RunLog log = log_of(text);
  ASSERT_EQ(log.ranks.at(0).steps.size(), 3u);
  EXPECT_EQ(log.ranks[0].steps[2].number, 3);
  EXPECT_EQ(log.ranks[0].steps[2].duration_ns, 8500000000);
  EXPECT_EQ(log.events.front().kind, LogEventKind::kEvaluation);
  EXPECT_EQ(log.events.front().duration_ns, 1000000000);
  EXPECT_EQ(log.events.back().kind, LogEventKind::kFinished);
}

TEST(JobSetup, ArgumentsAndConfigurations) {
  const RunLog log = log_of(R"(
using world size: 64, data-parallel-size: 2, tensor-model-parallel size: 4, pipeline-model-parallel size: 8
------------------------ arguments ------------------------
  micro_batch_size ................................ 4
  virtual_pipeline_model_parallel_size ............ 2
  deepspeed_activation_checkpointing  True
  secret_token .................................... abcdef
  seq_length ...................................... 2048
-------------------- end of arguments ---------------------
    "zero_optimization": {
        "stage": 3,
        "offload_optimizer": {
            "device": "cpu",
        },
        "overlap_comm": true,
        "reduce_bucket_size": 5.0e+07,
)");
  EXPECT_EQ(log.settings.at("world_size"), "64");
  EXPECT_EQ(log.settings.at("data_parallel"), "2");
  EXPECT_EQ(log.settings.at("tensor_parallel"), "4");
  EXPECT_EQ(log.settings.at("pipeline_parallel"), "8");
  EXPECT_EQ(log.settings.at("virtual_pipeline"), "2");
  EXPECT_EQ(log.settings.at("micro_batch_size"), "4");
  EXPECT_EQ(log.settings.at("sequence_length"), "2048");
  EXPECT_EQ(log.settings.at("zero_stage"), "3");
  EXPECT_EQ(log.settings.at("offload_optimizer"), "cpu");
  EXPECT_EQ(log.settings.at("overlap_comm"), "true");
  EXPECT_EQ(log.settings.at("reduce_bucket_size"), "50000000");
  for (const auto& [name, value] : log.settings) EXPECT_EQ(value.find("abcdef"), value.npos) << name;
}

// A step that a line names before its timers keeps its number; updates that were skipped are counted from line to line.
TEST(DeepSpeed, NamedStepsKeepTheirNumbers) {
  std::string text;
  for (int i = 1; i <= 4; ++i)
    text += "[2024-05-01 10:00:0" + std::to_string(2 * i) + ",100] [INFO] [logging.py:96:log_dist] [Rank 0] step=" +
            std::to_string(i) + ", skipped=" + std::to_string(i / 2) + ", lr=[1e-05], mom=[(0.9, 0.95)]\n" +
            "[2024-05-01 10:00:0" + std::to_string(2 * i) + ",101] [INFO] [logging.py:96:log_dist] [Rank 0] time (ms) | "
            "fwd: 600.00 | bwd: 1000.00 | bwd_inner: 800.00 | bwd_allreduce: 200.00 | step: 700.00\n";
  const RunLog log = log_of(text);
  std::vector<int64_t> numbers, skipped;
  for (const LogStep& s : log.ranks.at(0).steps) {
    numbers.push_back(s.number), skipped.push_back(s.figures.skipped.value_or(-1));
    EXPECT_EQ(s.duration_ns, 2'300'000'000);
  }
  EXPECT_EQ(numbers, (std::vector<int64_t>{1, 2, 3, 4}));
  EXPECT_EQ(skipped, (std::vector<int64_t>{0, 1, 0, 1}));
}

TEST(Nemo, LinesHavePeaksOfMemory) {
  const RunLog log = log_of("Training epoch 0, iteration 8/29 | lr: 5.389e-06 | global_batch_size: 512 | global_step: 8 | "
                            "max_memory_reserved: 57466159104 | max_memory_allocated: 53930270720 | "
                            "reduced_train_loss: 10.22 | train_step_timing in s: 27.01\n");
  ASSERT_EQ(log.memory.size(), 1u);
  EXPECT_EQ(log.memory[0].max_reserved_bytes, 57466159104);
  EXPECT_EQ(log.memory[0].max_allocated_bytes, 53930270720);
}

TEST(Vision, TimmsRateFollowsTheTime) {
  const RunLog log = log_of("Train: 0 [  50/1251 (  3%)]  Loss: 6.93 (6.94)  Time: 0.512s, 2000.00/s  (0.520s, 1969.23/s)  "
                            "LR: 1.000e-05  Data: 0.210 (0.215)\n");
  EXPECT_EQ(only_step(log).figures.samples_per_s, 2000);
}

// torchrun's error stands for the worker that a signal ended, which its last lines name.
TEST(RunEnd, AKilledWorkerIsNoException) {
  const RunLog log = log_of(R"(iter 1: loss 2.3170, time 12.34ms, mfu 12.34%
E0910 10:00:00.000000 139 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: -9) local_rank: 5 (pid: 4711) of binary: /usr/bin/python
Traceback (most recent call last):
    sys.exit(main())
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
Root Cause (first observed failure):
[0]:
  time      : 2024-09-10_10:00:00
  host      : node7
  rank      : 13 (local_rank: 5)
  exitcode  : -9 (pid: 4711)
)");
  ASSERT_FALSE(log.events.empty());
  for (const LogEvent& e : log.events) EXPECT_EQ(e.kind, LogEventKind::kKilled) << e.text;
  EXPECT_TRUE(log.events.back().first_failure);
  EXPECT_EQ(log.events.back().rank, 13);
  EXPECT_EQ(log.events.back().node, "node7");
}

// Such lines are steps; what they lack is a loss.
TEST(Losses, ThatAreNoNumbersAreCounted) {
  const auto lost = [](std::string_view text) {
    std::vector<int64_t> steps;
    const RunLog log = log_of(text);
    for (const LogStep& s : log.ranks.at(0).steps)
      if (s.figures.not_finite.value_or(0) > 0) steps.push_back(s.number);
    return steps;
  };
  EXPECT_EQ(lost("iter 1: loss 9.0, time 432.10ms, mfu 39.21%\niter 2: loss nan, time 432.10ms, mfu 39.21%\n"
                 "iter 3: loss -inf, time 432.10ms, mfu 39.21%\niter 4: loss 8.0, time 432.10ms, mfu 39.21%\n"),
            (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(lost("step 1 loss 8.9000 time 0.5s\nstep 2 loss NaN time 0.5s\n"), std::vector<int64_t>{2});
  EXPECT_EQ(lost("step 1 loss 8.9000 time 0.5s\nstep 2 loss 8.8 nanoseconds time 0.5s\n"), std::vector<int64_t>());
  EXPECT_EQ(lost("{'loss': 2.31, 'grad_norm': 1.2, 'learning_rate': 1e-05, 'epoch': 0.1}\n"
                 "  1%|  | 1/1000 [00:01<10:00,  1.00s/it]\n"
                 "{'loss': nan, 'grad_norm': nan, 'learning_rate': 1e-05, 'epoch': 0.2}\n"
                 "  1%|  | 2/1000 [00:02<10:00,  1.00s/it]\n"
                 "{'loss': 'nan', 'grad_norm': 'nan', 'learning_rate': '1e-05', 'epoch': '0.3'}\n"
                 "  1%|  | 3/1000 [00:03<10:00,  1.00s/it]\n"),
            (std::vector<int64_t>{1, 2}));
}

TEST(RunEnd, WordsWithinOthersAreNoSigns) {
  for (const char* line : {"nvmlDeviceGetMemoryErrorCounter is loaded", "except torch.cuda.OutOfMemoryError:",
                           "tip: on \"CUDA out of memory\" lower the batch size", "MemoryError handling is on"})
    EXPECT_TRUE(log_of(line).events.empty()) << line;
}

TEST(RunEnd, FirstSignsAreKept) {
  struct Case {
    const char* line;
    LogEventKind kind;
  };
  const Case all[] = {
      {"[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of "
       "79.15 GiB of which 1.06 GiB is free.",
       LogEventKind::kOutOfMemory},
      {"RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 31.75 GiB total capacity; 29.00 GiB "
       "already allocated; 5 MiB free; 30.00 GiB reserved in total by PyTorch)",
       LogEventKind::kOutOfMemory},
      {"[rank1]:[E512 12:00:00.1 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation timeout: "
       "WorkNCCL(SeqNum=7, OpType=ALLREDUCE)",
       LogEventKind::kCollectiveTimeout},
      {"slurmstepd: error: *** JOB 12 ON node1 CANCELLED AT 2021-05-23T08:45:57 DUE TO TIME LIMIT ***",
       LogEventKind::kTimeLimit},
      {"slurmstepd: error: *** JOB 12 ON node1 CANCELLED AT 2021-05-23T08:45:57 DUE TO PREEMPTION ***",
       LogEventKind::kPreempted},
      {"slurmstepd: error: Detected 1 oom-kill event(s) in StepId=1.0.", LogEventKind::kHostOutOfMemory},
      {"torch.distributed.DistBackendError: NCCL error in: x.cpp:1, unhandled system error, ncclSystemError",
       LogEventKind::kNcclError},
      {"RuntimeError: CUDA error: an illegal memory access was encountered", LogEventKind::kDeviceError},
      {"Segmentation fault (core dumped)", LogEventKind::kKilled},
      {"srun: error: node07: task 3: Killed", LogEventKind::kKilled},
      {"XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 12884901888 bytes.",
       LogEventKind::kOutOfMemory},
      {"Main process received SIGTERM, exiting", LogEventKind::kTerminated},
      {"MemoryError", LogEventKind::kHostOutOfMemory},
      {"[rank3]: numpy.core._exceptions._ArrayMemoryError: Unable to allocate 2.0 GiB", LogEventKind::kHostOutOfMemory},
  };
  for (const Case& c : all) {
    const RunLog log = log_of(c.line);
    ASSERT_EQ(log.events.size(), 1u) << c.line;
    EXPECT_EQ(log.events[0].kind, c.kind) << c.line;
  }
  EXPECT_EQ(log_of(all[0].line).events[0].rank, 3);
  EXPECT_EQ(log_of(all[0].line).events[0].bytes, int64_t{2} << 30);
  EXPECT_EQ(log_of("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 12884901888 bytes.").events.at(0).bytes,
            12884901888);
  EXPECT_EQ(log_of(all[1].line).memory.at(0).capacity_bytes, 34091302912);
  const RunLog traced = log_of("Traceback (most recent call last):\n  File \"x.py\", line 1\nValueError: bad\n");
  ASSERT_EQ(traced.events.size(), 1u);
  EXPECT_EQ(traced.events[0].kind, LogEventKind::kException);
  EXPECT_TRUE(log_of("ValueError: bad\n").events.empty());
}

// "load time" is that of a part, "latency p50 12 ms" that of something else.
TEST(Loop, TheTimeOfAStepIsAKeyOfItsOwn) {
  for (const char* line : {"step 1 | loss 2.3 | load time 0.010s | compute time 0.49s", "step 1 | loss 2.3 | latency p50 12 ms",
                           "step 1 | loss 2.3 | eta time: 10.0s"})
    EXPECT_TRUE(log_of(std::string(line) + "\n").ranks.empty()) << line;
  const RunLog untimed = log_of("step 1/90 | loss 2.3 | load time 0.010s | compute time 0.49s\n");
  EXPECT_TRUE(untimed.ranks.empty());
  EXPECT_EQ(untimed.no_times.lines, 1);
  for (const char* line : {"step 1 | loss 2.3 | load time 0.010s | time 0.50s", "Iter [1/9]  loss: 2.3  time: 0.5",
                           "step 1, loss 2.3, batch time: 500ms", "step 1 | loss 2.3 | 500.00 ms | x", "step 1: loss nan time 0.5"})
    EXPECT_EQ(only_step(log_of(std::string(line) + "\n")).duration_ns, 500'000'000) << line;
}

TEST(Loop, ATimeSinceTheStartIsACourse) {
  std::string text;
  for (int i = 1; i <= 20; ++i) text += "iter " + std::to_string(10 * i) + ": loss 2.9, time " + std::to_string(4 * i) + ".00s\n";
  const RunLog log = log_of(text);
  ASSERT_EQ(log.ranks.size(), 1u);
  for (const LogStep& s : log.ranks[0].steps) EXPECT_EQ(s.duration_ns, 400'000'000);
  std::string slower;   // a run that slows down
  for (int i = 0; i < 20; ++i) slower += "iter " + std::to_string(i) + ": loss 2.9, time " + std::to_string(100 + i) + ".00ms\n";
  EXPECT_EQ(log_of(slower).ranks.at(0).steps[19].duration_ns, 119'000'000);
}

TEST(DeepSpeed, AnOverflowCountsOnce) {
  std::string text;
  for (int r = 0; r < 8; ++r)
    text += "[deepspeed] OVERFLOW! Rank " + std::to_string(r) + " Skipping step. Attempted loss scale: 65536, reducing to 32768\n";
  EXPECT_EQ(log_of(text + text).events.size(), 2u);
}

TEST(DeepSpeed, SummariesOfCollectivesAreOfAllCallsSoFar) {
  const auto summary = [](int calls) {
    return "Comm. Op            Message Size        Count               Total Latency(ms)   Avg Latency(ms)     tput_avg (Gbps)     "
           "busbw_avg (Gbps)\nall_reduce\n                    2.0 KB              " + std::to_string(calls) +
           "                 11.12               0.08                0.43                0.41\n\n";
  };
  const RunLog log = log_of(summary(100) + "x\n" + summary(200) + "x\n" + summary(50));
  ASSERT_EQ(log.rates.size(), 2u);
  EXPECT_EQ(log.rates[0].calls, 200);
  EXPECT_EQ(log.rates[1].calls, 50);   // of a run that began anew
}

TEST(JobSetup, AutoIsNoSetting) {
  const RunLog log = log_of("    \"train_batch_size\": \"auto\",\n[2024-05-01 11:59:00,000] [INFO] [config.py:1001:print]   "
                            "train_batch_size ............. 64\n");
  EXPECT_EQ(log.setting("global_batch_size"), 64);
}

TEST(NcclDebug, NetworksOfProcessesAreCompared) {
  std::string text;
  for (int p = 0; p < 8; ++p)
    text += "node" + std::to_string(p / 4) + ":" + std::to_string(100 + p) + ":200 [0] NCCL INFO Using network " + (p == 3 ? "Socket" : "IB") + "\n";
  RunLog log = log_of(text);
  EXPECT_EQ(log.nccl.network, "IB");
  ASSERT_EQ(log.nccl.remarks.size(), 1u);
  EXPECT_EQ(log.nccl.remarks[0].kind, "different_networks");
  EXPECT_EQ(log.nccl.remarks[0].line, 4);
  log = log_of("node0:100:300 [0] transport/net_ib.cc:96 NCCL WARN NET/IB : mlx5_0:1 Got async event : client reregistration\n"
               "node0:100:300 [0] transport/net_ib.cc:96 NCCL WARN NET/IB : mlx5_0:1 Got async event : port error\n");
  ASSERT_EQ(log.nccl.remarks.size(), 1u);
  EXPECT_EQ(log.nccl.remarks[0].count, 1);
}

// train_time is of an update of several batches.
TEST(Espnet, TimesOfBatches) {
  for (const int batches : {1, 4}) {
    std::string text;
    for (int epoch = 1; epoch <= 2; ++epoch)
      for (int i = 0; i < 4; ++i)
        text += fmt::format("[gpu01:0/2] 2024-05-06 1{}:{:02d}:00,080 (trainer:464) INFO: {}epoch:train:{}-{}batch: iter_time=2.0e-04, "
                            "forward_time=0.134, loss={}.5, backward_time=0.111, optim_step_time=0.040, lr_0=3.4e-06, "
                            "train_time={}\n", epoch, 5 * (i + 1), epoch, i * 600 + 1, (i + 1) * 600, 9 - i, 0.5 * batches);
    const RunLog log = log_of(text);
    ASSERT_EQ(log.ranks.size(), 1u);
    ASSERT_EQ(log.ranks[0].steps.size(), 8u);
    EXPECT_EQ(log.ranks[0].family, "espnet");
    EXPECT_EQ(log.ranks[0].steps.back().number, 4800);
    for (const LogStep& s : log.ranks[0].steps) {
      EXPECT_EQ(s.iterations, 600);
      EXPECT_EQ(s.duration_ns, 500'000'000) << s.number;
      EXPECT_EQ(s.phase(LogPhase::kForward), 134'000'000);
      EXPECT_EQ(s.phase(LogPhase::kOptimizer), 40'000'000 / batches);
    }
  }
}

}  // namespace
}  // namespace profgpu
