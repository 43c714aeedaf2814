// Programs whose steps are read by families of their own, and figures that were once left out or wrong.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "trace/import/log/log_text_test.h"

namespace profgpu {
namespace {

std::vector<int64_t> durations_ms(const RunLog& log) {
  std::vector<int64_t> out;
  if (log.ranks.empty()) return out;
  for (const LogStep& s : log.ranks[0].steps) out.push_back(*s.duration_ns / 1'000'000);
  return out;
}

using Numbers = std::vector<int64_t>;

// What is left of a bar where only its last drawing is captured. The second epoch takes as long, longer, or less long.
TEST(Bars, AFinishedBarOfEachEpoch) {
  for (const auto& [seconds, ms] : {std::pair(40, 400), std::pair(52, 520), std::pair(28, 280)}) {
    const std::string second = fmt::format("00:{}<00:00, {:5.2f}it/s", seconds, 100.0 / seconds);
    const RunLog epochs = log_of(fmt::format("Epoch 1/2: 100%|####| 100/100 [00:40<00:00,  2.50it/s, loss=0.5]\n"
                                             "Epoch 2/2: 100%|####| 100/100 [{}, loss=0.4]\n", second));
    EXPECT_EQ(durations_ms(epochs), (Numbers{400, ms}));
    EXPECT_EQ(epochs.ranks.at(0).steps.at(1).number, 200);
    const RunLog boxes = log_of(fmt::format("  41/300      6.5G     1.05      0.9       640: 100%|####| 100/100 [00:40<00:00,  2.50it/s]\n"
                                            "             Class  Images  mAP50: 100%|####| 8/8 [00:03<00:00,  2.00it/s]\n"
                                            "  42/300      6.5G     1.05      0.9       640: 100%|####| 100/100 [{}]\n", second));
    EXPECT_EQ(durations_ms(boxes), (Numbers{400, ms}));
    EXPECT_EQ(boxes.ranks.at(0).steps.at(1).number, 4200);
  }
}

// Its rate is smoothed, and no mean since the start.
TEST(Bars, TheNextEpochBeginsAtZeroWhateverItsRate) {
  const RunLog log = log_of("1/3  6.5G  0.05  640: 100%|####| 100/100 [00:40<00:00,  3.90it/s]\n"
                            "2/3  6.5G  0.05  640: 100%|####| 100/100 [00:50<00:00,  3.90it/s]\n");
  ASSERT_FALSE(log.ranks.empty());
  EXPECT_EQ(log.ranks[0].steps.back().duration_ns, 500'000'000);
}

TEST(Lightning, OtherProgramsCountEpochsFromOne) {
  EXPECT_EQ(log_of("Epoch 1/1:   1%|#   | 20/3000 [00:40<99:00,  2.00s/it, loss: 11.4]\n").ranks.at(0).steps.back().number, 20);
  EXPECT_EQ(log_of("Epoch 0/1:   1%|#   | 20/3000 [00:40<99:00,  2.00s/it, loss: 11.4]\n"
                   "Epoch 1/1:   1%|#   | 20/3000 [00:40<99:00,  2.00s/it, loss: 11.4]\n").ranks.at(0).steps.back().number, 40);
}

constexpr const char* kMegatronLine =
    " iteration {:8}/ 1000 | consumed samples: 40 | elapsed time per iteration (ms): {:.1f} | global batch size: 4 | lm loss: 1.0E+00 |\n";

// Timers of the parts stand before that of all or behind it.
TEST(Megatron, ReductionsOfGradientsCountOnce) {
  const std::string line = fmt::format(kMegatronLine, 10, 800.0);
  for (const char* timers :
       {"backward-params-all-reduce: 60.00 | backward-layernorm-all-reduce: 1.00 | backward-embedding-all-reduce: 2.00 | backward-reduce-model-grads: 63.50",
        "backward-reduce-model-grads: 63.50 | backward-params-all-reduce: 60.00 | backward-layernorm-all-reduce: 1.00 | backward-embedding-all-reduce: 2.00"})
    EXPECT_EQ(only_step(log_of(line + "time (ms) | forward-compute: 200.00 | " + timers + "\n")).phase(LogPhase::kCommunication), 63'500'000);
  const std::string parts = "time (ms) | backward-params-all-reduce: 60.00 | backward-embedding-all-reduce: 2.00\n";
  EXPECT_EQ(only_step(log_of(line + parts)).phase(LogPhase::kCommunication), 62'000'000);
}

TEST(Megatron, TimersTellTheirWarmUpApart) {
  const RunLog log = log_of(fmt::format(kMegatronLine, 10, 900.0) + "time (ms) | forward-compute: 600.00\n" +
                            fmt::format(kMegatronLine, 20, 300.0) + "time (ms) | forward-compute: 100.00\n" +
                            fmt::format(kMegatronLine, 30, 300.0) + "time (ms) | forward-compute: 120.00\n");
  const LogTimer& timer = log.ranks.at(0).timers.at(0);
  EXPECT_EQ(timer.from(0).count, 3);
  EXPECT_EQ(timer.from(log.ranks[0].steps.at(1).line).sum_ns, 220e6);
  EXPECT_EQ(timer.from(log.ranks[0].steps.at(1).line).max_ns, 120e6);
  EXPECT_EQ(timer.from(1000).count, 3);   // not none
}

TEST(Megatron, BridgesRateIsOfTheNextIteration) {
  const RunLog log = log_of(fmt::format(kMegatronLine, 10, 900.0) + "Step Time : 0.30s GPU utilization: 41.5TFLOP/s/GPU\n" +
                            fmt::format(kMegatronLine, 20, 300.0));
  EXPECT_FALSE(log.ranks.at(0).steps.at(0).figures.tflops);
  EXPECT_EQ(log.ranks.at(0).steps.at(1).figures.tflops, 41.5);
}

TEST(DeepSpeed, APipelinesTimeGoesWithTheLineOfItsRank) {
  const RunLog log = log_of(
      "[2025-02-03 04:00:00,200] [INFO] [logging.py:107:log_dist] [Rank 0] step=1, skipped=0, lr=[1e-07], mom=[0.0]\n"
      "steps: 1 loss: 0.0614 iter time (s): 51.250 samples/sec: 0.080\n"
      "[2025-02-03 04:00:55,200] [INFO] [logging.py:107:log_dist] [Rank 0] step=2, skipped=0, lr=[2e-07], mom=[0.0]\n"
      "steps: 2 loss: 0.0571 iter time (s): 52.500 samples/sec: 0.080\n");
  EXPECT_EQ(durations_ms(log), (Numbers{51250, 52500}));
}

TEST(HuggingFace, MsSwiftStatesStepsAndTheTimeSinceTheStart) {
  const RunLog log = log_of(
      "{'loss': 0.51, 'learning_rate': 6e-07, 'memory(GiB)': 40.0, 'train_speed(iter/s)': 0.02, 'epoch': 0.1, "
      "'global_step/max_steps': '10/90', 'percentage': '11%', 'elapsed_time': '8m 20s', 'remaining_time': '1h 6m 40s'}\n"
      "{'loss': 0.41, 'learning_rate': 6e-07, 'memory(GiB)': 41.5, 'train_speed(iter/s)': 0.0198, 'epoch': 0.2, "
      "'global_step/max_steps': '20/90', 'percentage': '22%', 'elapsed_time': '17m 20s', 'remaining_time': '59m'}\n");
  EXPECT_EQ(durations_ms(log), (Numbers{50000, 54000}));
  EXPECT_EQ(log.ranks[0].steps[1].number, 20);
  EXPECT_EQ(log.memory.at(1).reserved_bytes, (int64_t{83} << 30) / 2);
  // Of a training that goes on from step 60 the first time is not known.
  const RunLog resumed = log_of(
      "{'loss': 0.51, 'learning_rate': 6e-07, 'train_speed(iter/s)': 0.02, 'epoch': 0.7, 'global_step/max_steps': '70/90', "
      "'elapsed_time': '8m 20s'}\n");
  EXPECT_TRUE(resumed.ranks.empty());
}

TEST(Programs, LinesOfTheirOwn) {
  struct Program {
    const char* lines;
    Numbers numbers, ms;
  };
  for (const auto& [lines, numbers, ms] : {
           Program{"INFO 2025-02-03 04:05:06 ts/train.py:232 step:200 smpl:2K ep:3 epch:0.04 loss:0.3 grdn:0.7 lr:1e-05 updt_s:0.200 data_s:0.050\n"
                   "INFO 2025-02-03 04:06:06 ts/train.py:232 step:400 smpl:3K ep:6 epch:0.09 loss:0.2 grdn:0.7 lr:1e-05 updt_s:0.210 data_s:0.040\n",
                   {200, 400}, {250, 250}},
           Program{"04:05:06 SUCCESS Step 7 | Time: 1.50s | Loss: 2.5 | Grad. Norm: 1.1 | LR: 1e-06 | Throughput: 900 tokens/s | MFU: 12.5%\n", {7}, {1500}},
           Program{"[02/03/2025-04:05:06] [TRT-LLM] [I] iter = 31, global_rank = 0, rank = 0, currank_total_requests = 4/4, elapsed_time = 0.0125s, "
                   "timestamp = 2025-02-03 04:05:06, states = {'num_generation_tokens': 4}\n", {31}, {12}},
           Program{"2025-02-03 04:05:06,000 - mindformers[callback.py:327] - INFO - { Epoch:[  2/  3], step:[   10/  500], loss: 4.5, "
                   "per_step_time: 1250ms, lr: 1e-06, train_throughput_per_npu: 90.5T}\n", {510}, {1250}},
           Program{"2025-02-03 04:05:06,000 [INFO] Epoch 1/9, Step 100/700, step time: 654.40 ms\n", {100}, {654}},
           Program{"2025-02-03T04:05:06 - 0 - tqdm_logging.py:145 - INFO :: Progress on:train 40it/2.0kit rate:2.5s/it remaining:1:00:00 elapsed:01:40 "
                   "postfix:loss=3.5\n", {40}, {2500}},
           Program{"[02/03 04:05:06 lb.utils.events]:  eta: 1:00:00  iteration: 39/9000  consumed_samples: 160  total_loss: 9.0  time: 3.2500 s/iter  "
                   "data_time: 0.0500 s/iter total_throughput: 1.2 samples/s lr: 1.50e-04\n", {39}, {3250}},
           Program{"INFO:tensorflow:loss = 3.5, step = 500 (50.000 sec)\nINFO:tensorflow:loss = 3.4, step = 600 (60.000 sec)\n", {500, 600}, {500, 600}},
           Program{"2025-02-03 04:05:06,000 INFO [train.py:756] Epoch 0, batch 50, loss[loss=0.5, over 2.00 frames.], tot_loss[loss=0.6, over 4.00 frames.]\n"
                   "2025-02-03 04:05:26,000 INFO [train.py:756] Epoch 0, batch 100, loss[loss=0.4, over 2.00 frames.], tot_loss[loss=0.5, over 4.00 frames.]\n",
                   {100}, {400}},
           Program{"| epoch 002  100 / 500 loss=1.27 (1.50), wps=1000, wpb=500, bsz=16, lr=0.001, gnorm=2.1\n", {600}, {500}},
           Program{"Iter 30: Train loss 2.5, Learning Rate 1e-05, It/sec 0.500, Tokens/sec 90.4, Trained Tokens 192, Peak mem 5.4 GB\n", {30}, {2000}},
       }) {
    const RunLog log = log_of(lines);
    ASSERT_EQ(log.ranks.size(), 1u) << lines;
    Numbers found;
    for (const LogStep& s : log.ranks[0].steps) found.push_back(s.number);
    EXPECT_EQ(found, numbers) << lines;
    EXPECT_EQ(durations_ms(log), ms) << lines;
    EXPECT_TRUE(head_of_log(lines));
  }
}

TEST(Programs, PartsOfAStepOfReinforcementLearning) {
  const RunLog nemo = log_of(
      "========================= Step 4/90 =========================\n▶ Training policy...\n\n📊 Training Results:\n  • Loss: 0.25\n  • Avg Reward: 0.3\n\n"
      "⏱️  Timing:\n  • Total step time: 40.50s\n  • generation: 30.25s (74.7%)\n  • policy_training: 8.00s (19.8%)\n");
  const LogStep& step = only_step(nemo);
  EXPECT_EQ(step.number, 4);
  EXPECT_EQ(step.duration_ns, 40'500'000'000);
  EXPECT_EQ(step.figures.loss, 0.25);
  ASSERT_EQ(nemo.ranks[0].timers.size(), 2u);
  EXPECT_EQ(nemo.ranks[0].timers[0].from(0).sum_ns, 30.25e9);
  const RunLog slime = log_of("(Actor pid=7) [2025-02-03 04:05:06] utils.py:44 - perf 3: {'perf/rollout_time': 60.5, 'perf/total_train_time': 79.0, "
                              "'perf/train_time': 18.0, 'perf/step_time': 80.0, 'perf/wait_time_ratio': 0.7}\n");
  EXPECT_EQ(only_step(slime).duration_ns, 80'000'000'000);
  ASSERT_EQ(slime.ranks[0].timers.size(), 2u);   // neither that of all nor a ratio
  EXPECT_EQ(slime.ranks[0].timers[0].name, "rollout_time");
}

TEST(MetricRows, DlLoggerBehindABar) {
  const RunLog log = log_of(
      "Iteration:  23%|##   | 650/2771 [01:23<04:25,  7.98it/s]DLL 2025-02-03 04:05:06.000000 - Training Epoch: 0 Training Iteration: 651  step_loss : 2.0\n"
      "Iteration:  25%|##   | 700/2771 [01:30<04:19,  7.97it/s]DLL 2025-02-03 04:05:16.000000 - Training Epoch: 0 Training Iteration: 701  step_loss : 1.5\n");
  ASSERT_EQ(log.ranks.size(), 1u);
  EXPECT_EQ(log.ranks[0].steps.back().number, 701);
  EXPECT_EQ(log.ranks[0].steps.back().duration_ns, 200'000'000);
}

TEST(Serving, LlamaCppsTimingsAndPreemptions) {
  const RunLog llama = log_of(
      "slot print_timing: id  0 | task 0 |\n"
      "prompt eval time =     900.00 ms /    45 tokens (   20.00 ms per token,    50.00 tokens per second)\n"
      "       eval time =   20000.00 ms /   250 tokens (   80.00 ms per token,    12.50 tokens per second)\n"
      "2.02.846.974 I slot print_timing: id  3 | task 0 | n_decoded =   1081, tg =  12.25 t/s, tg_3s =  12.57 t/s\n");
  ASSERT_EQ(llama.serving.size(), 3u);
  EXPECT_EQ(llama.serving[0].prompt_tokens_per_s, 50.0);
  EXPECT_FALSE(llama.serving[0].generated_tokens_per_s);
  EXPECT_EQ(llama.serving[1].generated_tokens_per_s, 12.5);
  EXPECT_EQ(llama.serving[2].generated_tokens_per_s, 12.25);
  const std::string line = "INFO 02-03 04:05:06 metrics.py:406] Avg prompt throughput: 5.0 tokens/s, Avg generation throughput: 9.0 tokens/s, Running: 8 reqs, "
                           "Swapped: 0 reqs, Pending: 1 reqs, GPU KV cache usage: 99.1%, CPU KV cache usage: 0.0%.\n";
  const RunLog vllm = log_of("WARNING 02-03 04:05:01 scheduler.py:1057] Sequence group 9 is preempted. total_num_cumulative_preemption=51\n" + line);
  EXPECT_EQ(vllm.serving.at(0).preempted_in_all, 51);
  const RunLog sglang = log_of(
      "[2025-02-03 04:05:06 TP0] Decode batch, #running-req: 8, #token: 9, token usage: 0.99, gen throughput (token/s): 7.5, #queue-req: 2\n"
      "[2025-02-03 04:05:07 TP0] KV cache pool is full. Retract requests. #retracted_reqs: 3, #new_token_ratio: 0.5 -> 0.6\n");
  EXPECT_EQ(sglang.serving.at(0).preempted, 3);
}

TEST(Serving, ANewYearBeginsBehindTheOld) {
  std::string text;
  for (const char* time : {"12-31 23:59:50", "01-01 00:00:00", "01-01 00:00:10"})
    text += "INFO " + std::string(time) + " [loggers.py:116] Engine 000: Avg prompt throughput: 10.0 tokens/s, Avg "
            "generation throughput: 20.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.0%\n";
  const RunLog log = log_of(text);
  ASSERT_EQ(log.serving.size(), 3u);
  for (size_t i = 1; i < 3; ++i)
    EXPECT_EQ(*log.serving[i].printed_ns - *log.serving[i - 1].printed_ns, 10'000'000'000) << i;
}

TEST(Serving, DraftsSinceTheStartAreSaidAsSuch) {
  const RunLog log = log_of(
      "INFO 05-01 12:00:00 [metrics.py:1] Avg prompt throughput: 10.0 tokens/s, Avg generation throughput: 20.0 "
      "tokens/s, Running: 1 reqs, Swapped: 0 reqs, Pending: 0 reqs, GPU KV cache usage: 1.0%\n"
      "INFO 05-01 12:00:00 [metrics.py:2] Speculative metrics: Draft acceptance rate: 0.121, System efficiency: 0.2, "
      "Number of speculative tokens: 5, Number of accepted tokens: 2900, Number of draft tokens: 24000, Number of "
      "emitted tokens: 7000.\n");
  ASSERT_EQ(log.serving.at(0).speculation.size(), 1u);
  EXPECT_TRUE(log.serving[0].speculation[0].in_all);
  EXPECT_EQ(log.serving[0].speculation[0].drafted, 24000);
  EXPECT_EQ(log.serving[0].speculation[0].accepted, 2900);
}

TEST(Serving, DraftedTokens) {
  const std::string engine = "(APIServer pid=1) INFO 05-30 07:27:20 [loggers.py:271] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg "
                             "generation throughput: 45.1 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.4%, Prefix cache hit rate: 60.9%\n";
  const std::string drafts = "(APIServer pid=1) INFO 05-30 07:27:20 [metrics.py:101] SpecDecoding metrics: Mean acceptance length: 1.50, Accepted "
                             "throughput: 5.00 tokens/s, Drafted throughput: 20.00 tokens/s, Accepted: 50 tokens, Drafted: 200 tokens, "
                             "Per-position acceptance rate: 0.375, 0.125, Avg Draft acceptance rate: 25.0%\n";
  const RunLog log = log_of(engine + drafts);
  ASSERT_EQ(log.serving.size(), 1u);
  ASSERT_EQ(log.serving[0].speculation.size(), 1u);
  const Speculation& s = log.serving[0].speculation[0];
  EXPECT_EQ(s.drafted, 200);
  EXPECT_EQ(s.accepted, 50);
  EXPECT_EQ(s.accepted_pct, 25);
  EXPECT_EQ(s.length, 1.5);
  EXPECT_EQ(s.position_pct, (std::vector<double>{37.5, 12.5}));
  EXPECT_EQ(log_of(drafts).serving.at(0).program, "vllm") << "without the engine's lines";
  const RunLog before = log_of(engine + "INFO 05-01 12:00:00 [metrics.py:86] SpecDecoding metrics: Draft acceptance rate: 50.0%, Accepted: 5 tokens, Drafted: 10 tokens\n"
                                        "INFO 05-01 12:00:10 metrics.py:362] Speculative metrics: Draft acceptance rate: 0.250, System efficiency: 0.400, Number of speculative tokens: 4, "
                                        "Number of accepted tokens: 10, Number of draft tokens: 40, Number of emitted tokens: 20.\n");
  ASSERT_EQ(before.serving.at(0).speculation.size(), 2u);
  EXPECT_EQ(before.serving[0].speculation[1].accepted_pct, 25);
  const RunLog sglang = log_of("[2025-02-03 04:05:06 TP0] Decode batch, #running-req: 8, #token: 9, token usage: 0.99, accept len: 2.50, accept rate: 0.75, cuda graph: True, "
                               "gen throughput (token/s): 7.5, #queue-req: 2\n");
  EXPECT_EQ(sglang.serving.at(0).speculation.at(0).length, 2.5);
  EXPECT_EQ(sglang.serving[0].speculation[0].accepted_pct, 75);
}

TEST(Nvbandwidth, Matrices) {
  const RunLog log = log_of(
      "nvbandwidth Version: v0.8\n\nDevice 0: NVIDIA H100 80GB HBM3 (00000000:19:00)\n\n"
      "Running host_to_device_memcpy_ce.\nmemcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)\n           0         1\n 0     55.33     55.25\n\n"
      "SUM host_to_device_memcpy_ce 110.58\n\n"
      "Running device_to_device_bidirectional_memcpy_read_ce.\nmemcpy CE GPU(row) <-> GPU(column) Read1 bandwidth (GB/s)\n"
      "          0         1\n0       N/A    394.52\n1    394.66       N/A\n\nSUM device_to_device_bidirectional_memcpy_read_ce_read1 789.18\n\n"
      "memcpy CE GPU(row) <-> GPU(column) Total bandwidth (GB/s)\n          0         1\n0       N/A    788.00\n1    788.50       N/A\n\n"
      "SUM device_to_device_bidirectional_memcpy_read_ce_total 1576.50\n\n"
      "Running all_to_host_memcpy_sm.\nWaived: not on this machine\n\n"
      "Running device_to_device_latency_sm.\nDevice to Device Latency SM GPU(row) <-> GPU(column) (ns)\n          0         1\n0       N/A    826.00\n");
  ASSERT_EQ(log.copies.size(), 4u);
  EXPECT_EQ(log.copies[0].test, "host_to_device_memcpy_ce");
  EXPECT_EQ(log.copies[0].rows, (std::vector<std::vector<std::optional<double>>>{{55.33, 55.25}}));
  EXPECT_EQ(log.copies[0].sum, 110.58);
  EXPECT_EQ(log.copies[1].test, "device_to_device_bidirectional_memcpy_read_ce_read1");
  EXPECT_EQ(log.copies[1].rows[1][0], 394.66);
  EXPECT_FALSE(log.copies[1].rows[1][1]);
  EXPECT_EQ(log.copies[2].test, "device_to_device_bidirectional_memcpy_read_ce_total");
  EXPECT_TRUE(log.copies[3].is_latency());
  EXPECT_EQ(log.copies[3].rows.size(), 1u) << "cut";
  EXPECT_TRUE(log_of("Running tests.\nscores by model(row) and task(column) (ns)\nnothing\n1 2 3\n").copies.empty());
}

// What a line tells while a request runs is of the request that the last one tells.
TEST(Serving, ALlamaCppRequestCountsOnce) {
  std::string text;
  for (const char* rate : {"12.00", "12.50", "13.00"})
    text += std::string("slot print_timing: id  3 | task 0 | n_decoded =    100, tg =  ") + rate + " t/s, tg_3s =  12.00 t/s\n";
  const std::string end = "slot print_timing: id  3 | task 0 |\n       eval time =   20000.00 ms /   250 tokens (   80.00 ms per token,    "
                          "14.00 tokens per second)\n";
  RunLog log = log_of(text);
  ASSERT_EQ(log.serving.size(), 1u);
  EXPECT_EQ(log.serving[0].generated_tokens_per_s, 13.0);
  log = log_of(text + end + "slot print_timing: id  3 | task 9 | n_decoded =    100, tg =  60.00 t/s, tg_3s =  60.00 t/s\n");
  ASSERT_EQ(log.serving.size(), 2u);
  EXPECT_EQ(log.serving[0].generated_tokens_per_s, 14.0);
  EXPECT_EQ(log.serving[1].generated_tokens_per_s, 60.0);
}

TEST(Serving, PreemptionsOfEveryEngineAndStart) {
  const auto preempted = [](const char* label, int count) {
    return std::string(label) + "WARNING 02-03 04:05:01 scheduler.py:1057] Sequence group 9 is preempted. total_num_cumulative_preemption=" +
           std::to_string(count) + "\n";
  };
  const std::string first = "(EngineCore_0 pid=7) ", other = "(EngineCore_1 pid=8) ";
  const RunLog log = log_of(preempted(first.c_str(), 1) + preempted(other.c_str(), 51) + preempted(first.c_str(), 20) +
                            preempted(other.c_str(), 1));
  EXPECT_EQ(log.preempted, (std::map<int64_t, double>{{7, 20}, {8, 52}}));
}

}  // namespace
}  // namespace profgpu
