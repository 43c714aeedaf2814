// Lines of trainers without step numbers or times of their own, blocks of metrics, and inference servers.
#include <gtest/gtest.h>

#include "trace/import/log/log_text_test.h"

namespace profgpu {
namespace {

const char* const kDictLines =
    "{'loss': '1.241', 'grad_norm': '2.655', 'learning_rate': '4.75e-05', 'epoch': '0.5'}\n"
    "{'loss': '1.462', 'grad_norm': '3.541', 'learning_rate': '4.438e-05', 'epoch': '1'}\n"
    "{'eval_loss': '1.523', 'eval_runtime': '20', 'eval_samples_per_second': '258.3', 'epoch': '1'}\n"
    "{'loss': '1.325', 'grad_norm': '2.541', 'learning_rate': '4.125e-05', 'epoch': '1.5'}\n"
    "{'loss': 'nan', 'grad_norm': 'nan', 'learning_rate': '3.812e-05', 'epoch': '2'}\n";

TEST(HuggingFace, WithoutABarTheEndTellsTheSteps) {
  const RunLog log = log_of(std::string(kDictLines) +
                            "{'train_runtime': '100', 'train_samples_per_second': '3.2', 'train_steps_per_second': '0.8', "
                            "'train_loss': '1.3', 'epoch': '2'}\n");
  ASSERT_EQ(log.ranks.size(), 1u);
  const std::vector<LogStep>& steps = log.ranks[0].steps;
  ASSERT_EQ(steps.size(), 4u);
  EXPECT_EQ(steps[0].number, 20);
  EXPECT_EQ(steps[3].number, 80);
  EXPECT_EQ(steps[1].iterations, 20);
  EXPECT_EQ(steps[1].duration_ns, 1'000'000'000);   // of 100 s, of which 20 were an evaluation
  EXPECT_EQ(steps[1].figures.loss, 1.462);
  EXPECT_EQ(steps[1].figures.grad_norm, 3.541);
  EXPECT_EQ(steps[1].figures.learning_rate, 4.438e-05);
  EXPECT_EQ(steps[3].figures.not_finite, 1);
}

// Without an end, nothing tells their number or their time.
TEST(HuggingFace, WithoutABarAndAnEndLinesAreCounted) {
  const RunLog log = log_of(kDictLines);
  EXPECT_TRUE(log.ranks.empty());
  EXPECT_EQ(log.untimed, 4);
}

// A rate of three decimals over a day leaves several numbers of steps.
TEST(HuggingFace, AResumedTrainingsTimeIsOfItsOwnSteps) {
  const RunLog log = log_of("  Continuing training from global step 1500\n"
                            "{'train_runtime': 1000.0, 'train_samples_per_second': 64.0, 'train_steps_per_second': 2.0, "
                            "'train_loss': 1.5, 'epoch': 1.0}\n");
  ASSERT_EQ(log.ranks.at(0).steps.size(), 1u);
  EXPECT_EQ(log.ranks[0].steps[0].iterations, 500);
  EXPECT_EQ(log.ranks[0].steps[0].duration_ns, 2'000'000'000);
  EXPECT_EQ(log.ranks[0].steps[0].figures.samples_per_s, 16);
}

TEST(HuggingFace, ARoundedRateNumbersNoSteps) {
  const RunLog log = log_of(
      "{'loss': 1.2, 'learning_rate': 4e-05, 'epoch': 0.5}\n{'loss': 1.2, 'learning_rate': 4e-05, 'epoch': 1.0}\n"
      "{'train_runtime': 90000.0, 'train_steps_per_second': 0.017, 'epoch': 1.0}\n");
  ASSERT_EQ(log.ranks.size(), 1u);
  EXPECT_EQ(log.ranks[0].steps.size(), 1u);   // the whole training
  EXPECT_EQ(log.untimed, 2);
}

TEST(HuggingFace, LoggingStepsNumberTheLines) {
  const RunLog log = log_of("logging_steps=25,\n" + std::string(kDictLines) +
                            "{'train_runtime': 90000.0, 'train_steps_per_second': 0.017, 'epoch': 2.0}\n");
  ASSERT_EQ(log.ranks.size(), 1u);
  ASSERT_EQ(log.ranks[0].steps.size(), 4u);
  EXPECT_EQ(log.ranks[0].steps[3].number, 100);
}

// Lines of 2020 and 2021, whose ranks print at once and whose heads do not name them.
TEST(DeepSpeed, OldLinesNameTheirRank) {
  std::string text;
  for (int step = 0; step < 3; ++step)
    for (const char* rank : {"0", "1"})
      text += std::string("rank=") + rank + " time (ms) | forward: 80.00 | backward: 160.00 | backward_inner: 120.00 | " +
              "backward_allreduce: 4" + rank + ".00 | step: 3" + rank + ".00\n";
  const RunLog log = log_of(text);
  ASSERT_EQ(log.ranks.size(), 2u);
  for (const LogRank& r : log.ranks) ASSERT_EQ(r.steps.size(), 3u);
  EXPECT_EQ(log.ranks[1].rank, 1);
  EXPECT_EQ(log.ranks[1].steps[2].duration_ns, 271'000'000);
  EXPECT_EQ(log.ranks[1].steps[2].phase(LogPhase::kCommunication), 41'000'000);
}

TEST(DeepSpeed, TimersOfMicroBatchesOnly) {
  const std::string micro =
      "[2021-05-01 12:00:01,500] [INFO] [logging.py:60:log_dist] [Rank 0] rank=0 time (ms) | forward_microstep: 40.00 | "
      "backward_microstep: 80.00 | backward_inner_microstep: 60.00 | backward_allreduce_microstep: 20.00 | "
      "step_microstep: 10.00\n";
  const RunLog log = log_of(micro + micro);
  ASSERT_EQ(log.ranks.size(), 1u);
  ASSERT_EQ(log.ranks[0].steps.size(), 2u);
  EXPECT_EQ(log.ranks[0].steps[1].duration_ns, 130'000'000);
  EXPECT_EQ(log.ranks[0].steps[1].phase(LogPhase::kBackward), 60'000'000);
  EXPECT_EQ(log.settings.at("step_time"), "micro_batch");
  // Beside steps they are parts of these.
  const RunLog whole = log_of(micro + micro +
                              "[2021-05-01 12:00:01,500] [INFO] [logging.py:60:log_dist] [Rank 0] rank=0 time (ms) | "
                              "forward: 80.00 | backward: 160.00 | step: 20.00\n");
  ASSERT_EQ(whole.ranks.at(0).steps.size(), 1u);
  EXPECT_EQ(only_step(whole).duration_ns, 260'000'000);
  EXPECT_FALSE(whole.settings.contains("step_time"));
}

TEST(Loop, NanochatAndPeaksOfMemory) {
  const RunLog log = log_of(
      "step 00010/21400 (0.05%) | loss: 9.125000 | grad norm: 0.1250 | lrm: 1.00 | dt: 450.25ms | tok/sec: 1,164,000 | "
      "bf16_mfu: 47.30 | epoch: 1 | total time: 1.20m | eta: 100.0m\n"
      "peak memory allocated: 31695 MiB reserved: 32988 MiB\n");
  ASSERT_EQ(log.ranks.size(), 1u);
  EXPECT_EQ(only_step(log).number, 10);
  EXPECT_EQ(only_step(log).duration_ns, 450'250'000);
  EXPECT_EQ(only_step(log).figures.tokens_per_s, 1'164'000);
  EXPECT_EQ(only_step(log).figures.mfu_pct, 47.3);
  EXPECT_EQ(only_step(log).figures.grad_norm, 0.125);
  ASSERT_EQ(log.memory.size(), 1u);
  EXPECT_EQ(log.memory[0].max_allocated_bytes, 31695LL << 20);
  EXPECT_EQ(log.memory[0].max_reserved_bytes, 32988LL << 20);
}

TEST(Torchtune, LinesAndBars) {
  const RunLog log = log_of(
      "  0%|          | 0/200 [00:00<?, ?it/s]\r1|10|Loss: 1.25:   5%|5         | 10/200 [00:20<06:20,  2.00s/it]Step 10 | "
      "loss:1.25 lr:2e-05 tokens_per_second_per_gpu:1234.5 peak_memory_active:12 peak_memory_alloc:12.25 "
      "peak_memory_reserved:13.5 \n"
      "1|20|Loss: 1.5:   5%|5         | 20/200 [00:40<06:20,  2.00s/it]Step 20 | loss:1.5 lr:2e-05 "
      "tokens_per_second_per_gpu:1234.5 \n"
      "Step 3 | of the guide\n");
  ASSERT_EQ(log.ranks.size(), 1u);
  ASSERT_EQ(log.ranks[0].steps.size(), 2u);
  EXPECT_EQ(log.ranks[0].steps[1].number, 20);
  EXPECT_EQ(log.ranks[0].steps[1].iterations, 10);
  EXPECT_EQ(log.ranks[0].steps[1].duration_ns, 2'000'000'000);
  EXPECT_EQ(log.ranks[0].steps[0].figures.loss, 1.25);
  EXPECT_EQ(log.ranks[0].steps[0].figures.device_tokens_per_s, 1234.5);
  EXPECT_EQ(log.memory.at(0).max_allocated_bytes, 49LL << 28);
  EXPECT_EQ(log.memory.at(0).max_reserved_bytes, 27LL << 29);
}

TEST(MetricBlocks, OlmoAndComposer) {
  struct Case {
    const char* text;
    double loss;
    std::optional<double> mfu_pct;
  };
  const Case all[] = {
      {"2025-05-01 12:00:00\thost:0\tolmo_core.train.callbacks.console_logger:99\tINFO\t[step=10/1000,epoch=1,eta=1h]\n"
       "    train/CE loss=7.125\n    gpu_memory/GPU reserved mem (GiB)=61.25\n    throughput/device/TPS=12,345\n"
       "    throughput/device/BPS=0.5000\n    throughput/device/data loading (s)=0.0125\n    throughput/device/MFU=41.25\n",
       7.125, 41.25},
      {"[step=10/739328,epoch=0]\n    train/CrossEntropyLoss=7.125\n    throughput/device/tokens_per_second=12,345\n"
       "    throughput/device/batches_per_second=0.5000\n",
       7.125, std::nullopt},
      {"[rank0]:[step=10/739328,epoch=0]\n[rank0]:    train/CrossEntropyLoss=7.125\n[rank0]:    "
       "throughput/device/tokens_per_second=12,345\n[rank0]:    throughput/device/batches_per_second=0.5000\n",
       7.125, std::nullopt},
      {"[batch=10/100]:\n\t Train time/batch: 9\n\t Train loss/train/total: 7.1250\n\t Train throughput/batches_per_sec: 0.5000\n"
       "\t Train throughput/device/tokens_per_sec: 12345.0000\n\t Train throughput/device/mfu: 0.4125\n[Eval batch=1/10] Eval on "
       "eval data\n",
       7.125, 41.25},
      {"[epoch=2][batch=4/6]:\n\t Train throughput/batches_per_sec: 0.5000\n\t Train loss/train/total: 7.1250\n\t Train "
       "throughput/device/tokens_per_sec: 12345.0000\n",
       7.125, std::nullopt},
  };
  for (const Case& c : all) {
    const RunLog log = log_of(c.text);
    ASSERT_EQ(log.ranks.size(), 1u) << c.text;
    EXPECT_EQ(log.ranks[0].steps.size(), 1u) << c.text;
    EXPECT_EQ(only_step(log).number, 10) << c.text;
    EXPECT_EQ(only_step(log).duration_ns, 2'000'000'000) << c.text;
    EXPECT_EQ(only_step(log).figures.loss, c.loss) << c.text;
    EXPECT_EQ(only_step(log).figures.device_tokens_per_s, 12345) << c.text;
    EXPECT_EQ(only_step(log).figures.mfu_pct, c.mfu_pct) << c.text;
  }
  const RunLog first = log_of(all[0].text);
  EXPECT_EQ(only_step(first).phase(LogPhase::kDataLoading), 12'500'000);
  EXPECT_TRUE(only_step(first).printed_ns.has_value());
  EXPECT_EQ(first.memory.at(0).max_reserved_bytes, 245LL << 28);
  for (const char* other : {"[batch=10/100]: no metrics\nthroughput/batches_per_sec: 3\n", "[batch=10/100]:\n", "[step=x/y,epoch=1]\n"})
    EXPECT_TRUE(log_of(other).ranks.empty()) << other;
}

// Samples count from the start of a block to its end; a row stands for the iterations that they are.
TEST(Mlperf, BlocksCountTheirSamples) {
  std::string text;
  const auto record = [&](int64_t ms, const std::string& key, const std::string& value, const std::string& metadata) {
    text += ":::MLLOG {\"namespace\": \"\", \"time_ms\": " + std::to_string(1592428880000 + ms) +
            ", \"event_type\": \"INTERVAL_START\", \"key\": \"" + key + "\", \"value\": " + value + ", \"metadata\": {" + metadata +
            "}}\n";
  };
  record(0, "global_batch_size", "8", "");
  record(1000, "block_start", "null", "\"samples_count\": 0");
  record(20'990, "tracked_stats", "{\"throughput\": 3.9}", "\"step\": 80");
  record(21'000, "block_stop", "null", "\"samples_count\": 80");
  record(25'000, "block_start", "null", "\"samples_count\": 80");
  record(35'000, "block_stop", "null", "\"samples_count\": 120");
  const RunLog log = log_of(text);
  const std::vector<LogStep>& steps = log.ranks.at(0).steps;
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].number, 10);
  EXPECT_EQ(steps[0].iterations, 10);
  EXPECT_EQ(steps[0].duration_ns, 2'000'000'000);
  EXPECT_EQ(steps[0].figures.samples_per_s, 4);
  EXPECT_EQ(steps[0].figures.samples, 8);
  EXPECT_EQ(steps[1].number, 15);
  EXPECT_EQ(steps[1].iterations, 5);
}

TEST(Mlperf, EpochsOfAKnownSizeCountTheirSamples) {
  const auto line = [](int64_t ms, const std::string& key, const std::string& rest) {
    return ":::MLLOG {\"namespace\": \"\", \"time_ms\": " + std::to_string(1592428880000 + ms) + ", \"key\": \"" + key + "\", " + rest +
           "}\n";
  };
  const std::string sizes = line(0, "global_batch_size", "\"value\": 100") + line(0, "train_samples", "\"value\": 1000");
  const RunLog log = log_of(
      sizes + line(1000, "block_start", "\"value\": null, \"metadata\": {\"first_epoch_num\": 1, \"epoch_count\": 4}") +
      line(41'000, "block_stop", "\"value\": null, \"metadata\": {\"first_epoch_num\": 1, \"epoch_count\": 4}"));
  EXPECT_EQ(only_step(log).iterations, 40);
  EXPECT_EQ(only_step(log).duration_ns, 1'000'000'000);
  EXPECT_EQ(only_step(log).figures.samples_per_s, 100);
  std::string epochs = sizes + line(1000, "block_start", "\"metadata\": {\"first_epoch_num\": 1, \"epoch_count\": 2}");
  for (const int64_t epoch : {1, 2})
    epochs += line(epoch * 20'000 - 19'000, "epoch_start", "\"metadata\": {\"epoch_num\": " + std::to_string(epoch) + "}") +
              line(epoch * 20'000 + 1000, "epoch_stop", "\"metadata\": {\"epoch_num\": " + std::to_string(epoch) + "}");
  const RunLog within = log_of(epochs);
  ASSERT_EQ(within.ranks.at(0).steps.size(), 2u) << "epochs of a block";
  EXPECT_EQ(within.ranks[0].steps[0].iterations, 10);
  EXPECT_EQ(within.ranks[0].steps[0].duration_ns, 2'000'000'000);
  // Programs that count tokens as epochs: how many samples these are is not known.
  const RunLog tokens = log_of(
      sizes + line(1000, "block_start", "\"value\": null, \"metadata\": {\"first_epoch_num\": 0, \"epoch_count\": 786432}") +
      line(41'000, "block_stop", "\"value\": null, \"metadata\": {\"first_epoch_num\": 0}"));
  EXPECT_EQ(only_step(tokens).iterations, 1);
  EXPECT_EQ(only_step(tokens).duration_ns, 40'000'000'000);
}

TEST(Serving, EnginesOfVllm) {
  const RunLog log = log_of(
      "(EngineCore_0 pid=7) INFO 05-01 12:00:10 [loggers.py:116] Engine 001: Avg prompt throughput: 1234.5 tokens/s, Avg "
      "generation throughput: 567.8 tokens/s, Running: 12 reqs, Waiting: 3 reqs, Preemptions: 4, GPU KV cache usage: 97.5%, "
      "Prefix cache hit rate: 12.5%\n"
      "INFO 05-01 12:00:20 metrics.py:455] Avg prompt throughput: 12.5 tokens/s, Avg generation throughput: 67.8 tokens/s, "
      "Running: 2 reqs, Swapped: 0 reqs, Pending: 1 reqs, GPU KV cache usage: 7.5%, CPU KV cache usage: 0.0%.\n");
  EXPECT_TRUE(log.ranks.empty());
  ASSERT_EQ(log.serving.size(), 2u);
  const ServingLine& first = log.serving[0];
  EXPECT_EQ(first.program, "vllm");
  EXPECT_EQ(first.rank, 1);
  EXPECT_EQ(first.prompt_tokens_per_s, 1234.5);
  EXPECT_EQ(first.generated_tokens_per_s, 567.8);
  EXPECT_EQ(first.running, 12);
  EXPECT_EQ(first.waiting, 3);
  EXPECT_EQ(first.cache_pct, 97.5);
  EXPECT_EQ(first.prefix_hit_pct, 12.5);
  EXPECT_EQ(first.preempted, 4);
  EXPECT_EQ(log.serving[1].waiting, 1);
  EXPECT_EQ(*log.serving[1].printed_ns - *first.printed_ns, 10'000'000'000);
  EXPECT_FALSE(log.serving[1].prefix_hit_pct);
}

TEST(Serving, BatchesOfSglang) {
  const RunLog log = log_of(
      "[2025-05-01 12:00:00 TP0] Prefill batch. #new-seq: 1, #new-token: 30, #cached-token: 10, token usage: 0.00, "
      "#running-req: 0, #queue-req: 0, \n"
      "[2025-05-01 12:00:10 DP1 TP0] Decode batch, #running-req: 12, #token: 3456, token usage: 0.45, cuda graph: True, gen "
      "throughput (token/s): 567.89, #queue-req: 3\n"
      "#running-req: of the guide\n");
  ASSERT_EQ(log.serving.size(), 2u);
  EXPECT_EQ(log.serving[0].program, "sglang");
  EXPECT_EQ(log.serving[0].prefix_hit_pct, 25);
  EXPECT_FALSE(log.serving[0].generated_tokens_per_s);
  EXPECT_EQ(log.serving[1].rank, 1);
  EXPECT_EQ(log.serving[1].cache_pct, 45);
  EXPECT_EQ(log.serving[1].generated_tokens_per_s, 567.89);
  EXPECT_EQ(log.serving[1].waiting, 3);
  EXPECT_EQ(*log.serving[1].printed_ns - *log.serving[0].printed_ns, 10'000'000'000);
}

TEST(TensorRtLlm, IterationsWithRequests) {
  const auto line = [](const char* iteration, const char* requests, const char* ms) {
    return std::string("[05/01/2025-12:00:00] [TRT-LLM] [I] [_torch][RANK 3] iter = ") + iteration +
           ", global_rank = 3, rank = 3, currank_total_requests = 0/1, host_step_time = " + ms +
           ", prev_device_step_time = N/A, timestamp = 2025-05-01 12:00:00, " + requests + ", states = {'num_ctx_requests': 1}\n";
  };
  const RunLog log = log_of(line("7", "num_scheduled_requests: 2", "7.5ms") + line("8", "num_scheduled_requests: 0", "1456.7ms") +
                            line("9", "num_scheduled_requests = 2", "8.25ms") + "host_step_time = some time\n");
  ASSERT_EQ(log.ranks.size(), 1u);
  EXPECT_EQ(log.ranks[0].rank, 3);
  ASSERT_EQ(log.ranks[0].steps.size(), 2u);
  EXPECT_EQ(log.ranks[0].steps[0].duration_ns, 7'500'000);
  EXPECT_EQ(log.ranks[0].steps[1].number, 9);
  EXPECT_EQ(log.ranks[0].steps[1].duration_ns, 8'250'000);
}

}  // namespace
}  // namespace profgpu
