// Metrics written for programs, bars alone, and what a file says without a time.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "trace/import/log/log_text_test.h"

namespace profgpu {
namespace {

const LogStep& step_of(const RunLog& log, size_t place) { return log.ranks.at(0).steps.at(place); }

TEST(MetricRows, JsonLinesAndCsv) {
  const RunLog json = log_of(R"({"step": 1, "loss": 2.3, "step_time": 0.251, "tokens_per_sec": 1234.5, "tflops": 123.4}
{"step": 2, "loss": 2.2, "step_time": 0.253, "tokens_per_sec": 1230.5, "tflops": 123.0}
)");
  const RunLog csv = log_of("step,loss,step_time_ms,tokens_per_sec\n1,2.3,251,1234.5\n2,2.2,253,1230.5\nthe end\n");
  for (const RunLog* log : {&json, &csv}) {
    ASSERT_EQ(log->ranks.size(), 1u);
    ASSERT_EQ(log->ranks[0].steps.size(), 2u);
    EXPECT_EQ(step_of(*log, 1).number, 2);
    EXPECT_EQ(step_of(*log, 1).duration_ns, 253'000'000);
    EXPECT_EQ(step_of(*log, 1).figures.loss, 2.2);
    EXPECT_EQ(step_of(*log, 0).figures.tokens_per_s, 1234.5);
  }
  EXPECT_EQ(step_of(json, 0).figures.tflops, 123.4);
}

TEST(MetricRows, TimeThatHasPassed) {
  const RunLog log = log_of(R"({"current_steps": 10, "total_steps": 100, "loss": 1.1, "epoch": 0.1, "elapsed_time": "0:00:05"}
{"current_steps": 20, "total_steps": 100, "loss": 1.2, "epoch": 0.2, "elapsed_time": "0:01:05"}
)");
  ASSERT_EQ(log.ranks.at(0).steps.size(), 2u);
  EXPECT_EQ(step_of(log, 0).duration_ns, 500'000'000);
  EXPECT_EQ(step_of(log, 1).duration_ns, 6'000'000'000);
  EXPECT_EQ(step_of(log, 1).iterations, 10);
  EXPECT_TRUE(step_of(log, 1).derived);
  EXPECT_EQ(log.untimed, 0);
}

TEST(MetricRows, DlLoggerAsJsonAndText) {
  const RunLog json = log_of(
      R"(DLLL {"timestamp": "1610000000.1", "elapsedtime": "0.0", "type": "LOG", "step": [0, 0], "data": {"train.loss": 7.0, "train.total_ips": 2500.5, "train.data_time": 0.02, "train.compute_time": 0.1}}
DLLL {"timestamp": "1610000001.1", "elapsedtime": "0.3", "type": "LOG", "step": [0, 1], "data": {"train.loss": 6.0, "train.total_ips": 2600.5, "train.data_time": 0.02, "train.compute_time": 0.1}}
DLLL {"timestamp": "1610000002.1", "elapsedtime": "0.6", "type": "LOG", "step": [1, 0], "data": {"train.loss": 5.0, "train.total_ips": 2600.5, "train.data_time": 0.03, "train.compute_time": 0.1}}
)");
  ASSERT_EQ(json.ranks.at(0).steps.size(), 3u);
  EXPECT_EQ(step_of(json, 0).duration_ns, 120'000'000);
  EXPECT_EQ(step_of(json, 0).phase(LogPhase::kDataLoading), 20'000'000);
  EXPECT_EQ(step_of(json, 1).figures.samples_per_s, 2600.5);
  EXPECT_EQ(step_of(json, 2).number, 2);  // of the next epoch
  const RunLog text = log_of(
      "DLL 2021-01-07 06:13:00.500 - Epoch: 0 Iteration: 10  train.loss : 7.05 None train.total_ips : 2500.52 img/s\n"
      "DLL 2021-01-07 06:13:02.500 - Epoch: 0 Iteration: 20  train.loss : 7.01 None train.total_ips : 2500.52 img/s\n"
      "DLL 2021-01-07 06:13:04.500 - Epoch: 0 Iteration: 30  train.loss : 6.90 None train.total_ips : 2500.52 img/s\n");
  ASSERT_EQ(text.ranks.at(0).steps.size(), 2u);  // what the first took is not known
  EXPECT_EQ(step_of(text, 1).duration_ns, 200'000'000);
  EXPECT_EQ(step_of(text, 1).figures.loss, 6.9);
}

TEST(MetricRows, OtherRowsAreNone) {
  EXPECT_TRUE(log_of("{\"step\": 1, \"name\": \"x\"}\n{\"step\": 2}\n").ranks.empty());
  EXPECT_TRUE(log_of("step,name\n1,a\n2,b\n").families.empty());
  EXPECT_TRUE(log_of("one step, then another\n").families.empty());
}

TEST(Bars, OfStepsWithoutAnotherLine) {
  std::string text = "\r", epochs;
  for (int i = 1; i <= 100; ++i)
    text += "Steps:   " + std::to_string(i) + "%|\xE2\x96\x88 | " + std::to_string(i) + "/100 [00:" +
            (i / 2 < 10 ? "0" : "") + std::to_string(i / 2) + "<00:49,  2.00it/s, lr=1e-5, step_loss=0.123]\r";
  const RunLog log = log_of(text);
  ASSERT_EQ(log.ranks.size(), 1u);
  EXPECT_EQ(log.ranks[0].steps.back().number, 100);
  EXPECT_NEAR(static_cast<double>(*log.ranks[0].steps.back().duration_ns), 5e8, 5e6);
  EXPECT_TRUE(log_of("Downloading: 10%|# | 1/10 [00:01<00:09, 1.00s/it]\n").families.empty());
}

TEST(Bars, CountEpochsOn) {
  std::string text;
  for (int epoch = 1; epoch <= 2; ++epoch)
    for (int i = 1; i <= 100; ++i)
      text += "      " + std::to_string(epoch) + "/300   6.5G   0.05:  " + std::to_string(i) + "%|# | " + std::to_string(i) +
              "/100 [00:" + (i / 4 < 10 ? "0" : "") + std::to_string(i / 4) + "<00:24,  4.00it/s]\r";
  const RunLog log = log_of(text);
  ASSERT_EQ(log.ranks.size(), 1u);
  EXPECT_EQ(log.ranks[0].steps.back().number, 200);
  EXPECT_EQ(log.families, std::vector<std::string>{"bars"});
}

TEST(StepsWithoutTimes, TheirRatesAreTold) {
  std::string text;
  for (const auto& [step, rate] : {std::pair{1, "50.5"}, {2, "400.25"}, {3, "600.75"}})
    text += "Step " + std::to_string(step) + " | loss:2.0 lr:2e-05 tokens_per_second_per_gpu:" + rate + "\n";
  const RunLog log = log_of(text);
  EXPECT_TRUE(log.ranks.empty()) << "no line says how many tokens a step has";
  EXPECT_EQ(log.no_times.lines, 3);
  EXPECT_EQ(log.no_times.device_tokens_per_s, 400.25);
  EXPECT_FALSE(log.no_times.tokens_per_s);
}

TEST(Bars, MemoryColumnOfUltralytics) {
  const auto bar = [](int epoch, const std::string& memory) {
    const std::string e = std::to_string(epoch);
    return "      " + e + "/3      " + memory + "      1.156      1.342         13        640: 100%|##########| 20/20 "
           "[00:05<00:00,  4.00it/s]\n";
  };
  const RunLog log = log_of(bar(1, "2.1G") + bar(2, "2.3G") + bar(3, "2.3G"));
  ASSERT_EQ(log.memory.size(), 2u);
  EXPECT_EQ(log.memory[1].step, 40);
  EXPECT_EQ(log.memory[1].reserved_bytes, 2'300'000'000);
  const RunLog newer = log_of("Ultralytics 8.3.100 Python-3.12.3 torch-2.8.0+cu128 CUDA:0\n" + bar(1, "2.5G"));
  EXPECT_EQ(newer.memory.at(0).reserved_bytes, int64_t{5} << 29);
  EXPECT_TRUE(log_of(bar(1, "0G")).memory.empty()) << "on the CPU";
}

TEST(StepsWithoutTimes, AreSummedUp) {
  const RunLog log = log_of("{\"epoch\": 0.1, \"learning_rate\": 1e-05, \"loss\": 1.95, \"step\": 10}\n"
                            "{\"epoch\": 0.2, \"learning_rate\": 1e-05, \"loss\": 1.85, \"step\": 20}\n");
  EXPECT_TRUE(log.ranks.empty());
  EXPECT_EQ(log.no_times.lines, 2);
  EXPECT_EQ(log.no_times.last_step, 20);
  EXPECT_EQ(log.no_times.first_loss, 1.95);
  EXPECT_EQ(log.no_times.last_loss, 1.85);
}

TEST(HuggingFace, StepTimesOfTrl) {
  std::string bars, lines;
  for (int i = 1; i <= 20; ++i) {
    const std::string dict = "{'loss': 0.01, 'learning_rate': 1e-06, 'step_time': 12." + std::to_string(10 + i) +
                             ", 'epoch': " + std::to_string(i) + ".0}\n";
    lines += dict;
    bars += " 1%|# | " + std::to_string(i) + "/100 [00:12<20:17, 12.30s/it]" + dict;
  }
  for (const std::string& text : {bars, lines}) {
    const RunLog log = log_of(text);
    ASSERT_EQ(log.ranks.at(0).steps.size(), 20u);
    EXPECT_EQ(log.untimed, 0);
    EXPECT_EQ(step_of(log, 4).number, 5);
    EXPECT_EQ(step_of(log, 4).duration_ns, 12'150'000'000);
    EXPECT_FALSE(step_of(log, 4).derived);
  }
}

TEST(DeepSpeedChat, LatencyOfAStep) {
  const RunLog sft = log_of(
      "Epoch: 0, Step: 1, Rank: 0, loss = 2.99\n"
      "Model Parameters: 1.316 B, Latency: 0.84s, TFLOPs: 85.21, Samples/sec: 9.52, Time/seq 0.10s, Batch Size: 8, Sequence Length: 512\n"
      "Epoch: 0, Step: 2, Rank: 0, loss = 2.98\n"
      "Model Parameters: 1.316 B, Latency: 0.85s, TFLOPs: 85.20, Samples/sec: 9.41, Time/seq 0.10s, Batch Size: 8, Sequence Length: 512\n");
  ASSERT_EQ(sft.ranks.at(0).steps.size(), 2u);
  EXPECT_EQ(step_of(sft, 1).number, 2);
  EXPECT_EQ(step_of(sft, 1).duration_ns, 850'000'000);
  EXPECT_EQ(step_of(sft, 1).figures.loss, 2.98);
  EXPECT_EQ(step_of(sft, 1).figures.tflops, 85.2);
  EXPECT_EQ(step_of(sft, 1).figures.samples, 8);
  const RunLog ppo = log_of(
      "Epoch: 0 | Step: 1 | PPO Epoch: 1 | Actor Loss: -0.02 | Critic Loss: 0.03 | Unsupervised Loss: 0.0\n"
      "End-to-End => Latency: 5.30s, TFLOPs: 41.20, Samples/sec: 12.31, Time/seq 0.08s, Batch Size: 64, Total Seq. Length: 512\n"
      "Generation => Latency: 3.20s, Per-token Latency 12.5 ms, TFLOPs: 10.0, BW: 100.1 GB/sec, Answer Seq. Length: 256\n"
      "Training   => Latency: 2.10s, TFLOPs: 88.10\n");
  EXPECT_EQ(only_step(ppo).duration_ns, 5'300'000'000);
  EXPECT_EQ(only_step(ppo).figures.loss, -0.02);
  ASSERT_EQ(ppo.ranks[0].timers.size(), 2u);
  EXPECT_EQ(ppo.ranks[0].timers[0].name, "generation");
  EXPECT_EQ(ppo.ranks[0].timers[1].from(0).sum_ns, 2.1e9);
}

TEST(DeepSpeedProfile, NumbersHaveTheirUnits) {
  const RunLog log = log_of(
      " -------------------------- DeepSpeed Flops Profiler --------------------------\n"
      "batch size per GPU:                                                     80\n"
      "params per GPU:                                                         336.23 M\n"
      "fwd latency:                                                            76.67 ms\n"
      "fwd+bwd FLOPS per GPU = 3 * fwd flops per GPU / (fwd+bwd latency):      102.0 TFLOPS\n"
      "step latency:                                                           34.09 us\n"
      "iter latency:                                                           184.73 ms\n"
      "samples/second:                                                         433.07\n"
      "------------------------------------------------------------------------------\n");
  EXPECT_EQ(log.setting("profiled_parameters"), 336'230'000);
  EXPECT_EQ(log.setting("micro_batch_size"), 80);
  EXPECT_EQ(log.setting("profiled_iteration_ns"), 184'730'000);
  EXPECT_EQ(log.setting("profiled_optimizer_ns"), 34'090);
  EXPECT_EQ(log.settings.at("profiled_samples_per_s"), "433.07");
}

TEST(Loop, EpochsFirstAndRatesBeforeTheirUnits) {
  const RunLog litgpt = log_of(
      "Epoch 1 | iter 4 step 1 | loss train: 1.01, val: n/a | iter time: 358.02 ms (step)\n"
      "Epoch 1 | iter 8 step 2 | loss train: 1.02, val: n/a | iter time: 359.02 ms (step) remaining time: 2 days, 3:04:05\n");
  ASSERT_EQ(litgpt.ranks.at(0).steps.size(), 2u);
  EXPECT_EQ(step_of(litgpt, 1).number, 8);
  EXPECT_EQ(step_of(litgpt, 1).duration_ns, 359'020'000);
  EXPECT_EQ(step_of(litgpt, 1).figures.loss, 1.02);
  const RunLog own = log_of("Step 1/100 - loss: 2.3 - step_time: 0.251s - 1,234 tokens/s\n");
  EXPECT_EQ(only_step(own).figures.tokens_per_s, 1234);
  std::string epochs;
  for (int epoch = 1; epoch <= 2; ++epoch)
    for (int i = 1; i <= 10; ++i)
      epochs += "epoch " + std::to_string(epoch) + " step " + std::to_string(i) + " loss 2.31 time/step 0.25s 256.0 samples/s\n";
  const RunLog twice = log_of(epochs);
  EXPECT_EQ(twice.ranks.at(0).steps.size(), 20u);
  EXPECT_EQ(step_of(twice, 19).number, 20);
  EXPECT_EQ(step_of(twice, 19).figures.samples_per_s, 256);
  EXPECT_TRUE(twice.events.empty());
}

TEST(Mlperf, AnEpochWithoutACountIsOne) {
  const auto record = [](int64_t ms, const char* key, const char* rest) {
    return ":::MLLOG {\"namespace\": \"\", \"time_ms\": " + std::to_string(1700000000000 + ms) +
           ", \"event_type\": \"POINT_IN_TIME\", \"key\": \"" + key + "\", " + rest + "}\n";
  };
  std::string text = record(0, "global_batch_size", "\"value\": 3264, \"metadata\": {}") +
                     record(0, "train_samples", "\"value\": 1281167, \"metadata\": {}");
  for (int epoch = 1; epoch <= 2; ++epoch) {
    text += record((epoch - 1) * 30000, "epoch_start", "\"value\": null, \"metadata\": {\"epoch_num\": 1}");
    text += record(epoch * 30000, "epoch_stop", "\"value\": null, \"metadata\": {\"epoch_num\": 1}");
  }
  text += record(60000, "run_stop", "\"value\": null, \"metadata\": {\"status\": \"aborted\"}");
  const RunLog log = log_of(text);
  ASSERT_EQ(log.ranks.at(0).steps.size(), 2u);
  EXPECT_EQ(step_of(log, 0).iterations, 392);
  EXPECT_EQ(step_of(log, 0).duration_ns, 30'000'000'000 / 392);
  EXPECT_NEAR(*step_of(log, 0).figures.samples_per_s, 42705.6, 0.1);
  ASSERT_EQ(log.events.size(), 1u);
  EXPECT_EQ(log.events[0].kind, LogEventKind::kTerminated);
}

// Between epochs there is more than a step: an evaluation, a checkpoint, new workers.
TEST(EpochNumbers, APauseBetweenEpochsIsNoStep) {
  std::string icefall;
  std::string rows = "epoch,step,loss,elapsed_time\n";
  std::string timed = "epoch,step,loss,step_time\n";
  int64_t second = 0;
  for (int epoch = 0; epoch < 3; ++epoch, second += 40)
    for (int batch = 50; batch <= 200; batch += 50, second += 20) {
      char clock[32];
      std::snprintf(clock, sizeof clock, "10:%02d:%02d", static_cast<int>(second / 60), static_cast<int>(second % 60));
      icefall += std::string("2025-02-03 ") + clock + ",000 INFO [train.py:756] Epoch " + std::to_string(epoch) + ", batch " +
                 std::to_string(batch) + ", loss[loss=0.5, over 2.00 frames.], tot_loss[loss=0.6, over 4.00 frames.]\n";
      const std::string row = std::to_string(epoch) + "," + std::to_string(batch) + ",3.0,";
      rows += row + std::to_string(second + 20) + ".0\n";
      timed += row + "0.4\n";
    }
  for (const std::string& text : {icefall, rows, timed}) {
    const RunLog log = log_of(text);
    ASSERT_EQ(log.ranks.size(), 1u) << text;
    for (const LogStep& step : log.ranks[0].steps) EXPECT_EQ(step.duration_ns, 400'000'000) << step.number << text;
    EXPECT_TRUE(std::ranges::none_of(log.events, [](const LogEvent& e) { return e.kind == LogEventKind::kRestart; })) << text;
  }
  EXPECT_EQ(log_of(icefall).ranks[0].untimed, 3) << "the first line of each epoch";
}

// A step has its wait for data, where only the computation's time is apart.
TEST(MetricRows, TheWaitForDataIsPartOfAStep) {
  const RunLog log = log_of("{\"step\": 1, \"loss\": 2.3, \"step_time\": 0.5, \"data_time\": 0.2}\n");
  EXPECT_EQ(only_step(log).duration_ns, 500'000'000);
  EXPECT_EQ(only_step(log).phase(LogPhase::kDataLoading), 200'000'000);
}

TEST(MetricRows, JsonBehindALoggersHead) {
  const RunLog log = log_of("2024-05-01 12:00:01,123 - train - INFO - {\"step\": 1, \"loss\": 2.3, \"step_time\": 0.5}\n");
  EXPECT_EQ(only_step(log).duration_ns, 500'000'000);
}

}  // namespace
}  // namespace profgpu
