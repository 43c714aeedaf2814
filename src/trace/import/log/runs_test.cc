// Several trainings in one file, and what stands between their steps, as families print it.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>

#include "trace/import/log/log_text_test.h"

namespace profgpu {
namespace {

std::string bar_clock(double seconds) {
  const auto whole = static_cast<int>(seconds);
  return whole < 3600 ? fmt::format("{:02d}:{:02d}", whole / 60, whole % 60)
                      : fmt::format("{}:{:02d}:{:02d}", whole / 3600, whole / 60 % 60, whole % 60);
}

// Bars and lines of the Trainer, from the step behind `from`.
std::string trainer_lines(int from, int to, int total, double each_s) {
  std::string text;
  for (int step = from + 10; step <= to; step += 10)
    text += fmt::format("{:3d}%|###   | {}/{} [{}<10:00, {:5.2f}s/it]\n"
                        "{{'loss': 2.5, 'grad_norm': 1.2, 'learning_rate': 4.5e-05, 'epoch': {:.3f}}}\n",
                        100 * step / total, step, total, bar_clock((step - from) * each_s), each_s, step * 1.0 / total);
  return text;
}

int64_t restarts(const RunLog& log) { return std::ranges::count(log.events, LogEventKind::kRestart, &LogEvent::kind); }

void expect_told(const RunLog& log, size_t steps, int64_t ns) {
  ASSERT_EQ(log.ranks.size(), 1u);
  size_t told = 0;
  for (const LogStep& s : log.ranks[0].steps) {
    told += !s.other_run;
    if (s.other_run) continue;
    EXPECT_NEAR(static_cast<double>(*s.duration_ns), static_cast<double>(ns), 0.1 * static_cast<double>(ns)) << s.number;
  }
  EXPECT_EQ(told, steps);
}

TEST(RunsOfTrainer, FoldsOneBehindTheOther) {
  const auto end = [](double each_s) {
    return fmt::format("{{'train_runtime': {}, 'train_samples_per_second': 8.0, 'train_steps_per_second': {:.3f}, "
                       "'train_loss': 2.1, 'epoch': 1.0}}\n", 200 * each_s, 1 / each_s);
  };
  const RunLog log = log_of(trainer_lines(0, 200, 200, 1) + end(1) + trainer_lines(0, 200, 200, 3) + end(3));
  expect_told(log, 20, 3'000'000'000);
  EXPECT_EQ(log.ranks[0].steps.size(), 40u);
  EXPECT_EQ(restarts(log), 1);
}

TEST(RunsOfTrainer, ResumedAfterACrash) {
  const RunLog log = log_of(trainer_lines(0, 800, 1000, 2) +
                            "Traceback (most recent call last):\ntorch.OutOfMemoryError: CUDA out of memory. Tried to "
                            "allocate 2.00 GiB.\n" + trainer_lines(500, 1000, 1000, 2));
  EXPECT_EQ(log.ranks.at(0).steps.size(), 130u);
  EXPECT_EQ(restarts(log), 1);
  EXPECT_EQ(log.events.back().step, 510);
}

// An evaluation's bar has as many batches as the training has steps.
TEST(RunsOfTrainer, ABarOfAnEvaluationIsNone) {
  std::string evaluation;
  for (int done = 10; done <= 150; done += 10)
    evaluation += fmt::format("{}%|##| {}/200 [{}<00:10, 10.00it/s]\n", done / 2, done, bar_clock(done / 10.0));
  evaluation += "{'eval_loss': 1.5, 'eval_runtime': 15.0, 'epoch': 0.5}\n";
  std::string text = trainer_lines(0, 100, 200, 1) + evaluation;
  for (int step = 110; step <= 200; step += 10)
    text += fmt::format("{}%|##| {}/200 [{}<10:00, 1.00s/it]\n{{'loss': 2.5, 'learning_rate': 4.5e-05, 'epoch': {:.3f}}}\n", step / 2,
                        step, bar_clock(15 + step), step / 200.0);
  const RunLog log = log_of(text);
  EXPECT_EQ(log.ranks.at(0).steps.size(), 20u);
  EXPECT_EQ(restarts(log), 0);
}

TEST(RunsOfKeras, SeveralFits) {
  std::string text;
  for (const auto& [ms, epochs] : {std::pair(50, 3), std::pair(150, 3)})
    for (int epoch = 1; epoch <= epochs; ++epoch)
      text += fmt::format("Epoch {}/{}\n100/100 [=====] - 5s {}ms/step - loss: 1.5 - val_loss: 1.5\n", epoch, epochs, ms);
  const RunLog log = log_of(text);
  EXPECT_EQ(log.ranks.at(0).steps.size(), 6u);
  EXPECT_EQ(restarts(log), 1);
  expect_told(log, 3, 150'000'000);
}

TEST(RunsOfBars, SeveralFitsAndLoops) {
  std::string fits, loops, epochs;
  for (const double each_s : {1.0, 3.0}) {
    for (int epoch = 0; epoch < 2; ++epoch)
      for (int done = 0; done <= 100; done += 10)
        fits += fmt::format("Epoch {}: {:3d}%|###| {}/100 [{}<00:10, {:5.2f}s/it, v_num=0, train_loss=2.30]\r", epoch, done, done,
                            bar_clock(done * each_s), each_s);
    fits += "\n`Trainer.fit` stopped: `max_epochs=2` reached.\n";
    for (int done = 0; done <= 100; done += 10)
      loops += fmt::format("Steps: {:3d}%|###| {}/100 [{}<10:00, {:.2f}s/it, lr=1e-5, step_loss=0.1]\n", done, done,
                           bar_clock(done * each_s), each_s);
    for (int epoch = 1; epoch <= 3; ++epoch, epochs += '\n')
      for (int done = 0; done <= 100; done += 50)
        epochs += fmt::format("  {}/3  6.5G  0.05  0.06  640: {:3d}%|###| {}/100 [{}<00:10, {:5.2f}s/it]\r", epoch, done, done,
                              bar_clock(done * each_s), each_s);
  }
  for (const std::string& text : {fits, loops, epochs}) {
    const RunLog log = log_of(text);
    ASSERT_EQ(log.ranks.size(), 1u) << text;
    EXPECT_EQ(restarts(log), 1) << text;
    int64_t told = 0, all = 0;
    for (const LogStep& s : log.ranks[0].steps) {
      (s.other_run ? all : told) += s.iterations;
      EXPECT_NEAR(static_cast<double>(*s.duration_ns), s.other_run ? 1e9 : 3e9, 1e8) << text;
    }
    EXPECT_EQ(told, all) << text;
  }
}

TEST(RunsOfLeRobot, RoundedNumbersFallToo) {
  std::string text;
  for (const auto& [from, to] : {std::pair(200, 20000), std::pair(10200, 30000)})
    for (int step = from; step <= to; step += 200)
      text += fmt::format("INFO 2025-04-01 12:00:00 ts/train.py:232 step:{} smpl:2K ep:3 epch:0.04 loss:0.037 lr:7.9e-05 "
                          "updt_s:0.098 data_s:0.050\n", step < 1000 ? std::to_string(step) : fmt::format("{}K", step / 1000));
  const RunLog log = log_of(text);
  EXPECT_EQ(restarts(log), 1);
  EXPECT_NEAR(static_cast<double>(log.ranks.at(0).steps.back().number), 30000, 1000);
}

TEST(RunsOfEpochs, ARunBeginsWithItsFirstEpoch) {
  std::string rows, chat;
  for (int run = 1; run <= 2; ++run)
    for (int epoch = 0; epoch < 3; ++epoch)
      for (int step = 0; step < 100; ++step) {
        rows += fmt::format("{{\"epoch\": {}, \"step\": {}, \"loss\": 2.3, \"step_time\": 0.{}}}\n", epoch, step, run);
        chat += fmt::format("Epoch: {}, Step: {}, Rank: 0, loss = 2.99\nModel Parameters: 1.316 B, Latency: 0.{}0s, TFLOPs: 85.21, "
                            "Samples/sec: 9.52, Time/seq 0.10s, Batch Size: 8, Sequence Length: 512\n", epoch, step, run);
      }
  for (const std::string& text : {rows, chat}) {
    const RunLog log = log_of(text);
    EXPECT_EQ(restarts(log), 1);
    EXPECT_EQ(log.ranks.at(0).steps.size(), 600u);
    EXPECT_EQ(log.ranks[0].steps.back().number, 299);
    expect_told(log, 300, 200'000'000);
  }
}

TEST(RunsOfEpochs, AProcessThatLagsIsInTheEpochBefore) {
  EpochNumbers numbers;
  EXPECT_EQ(numbers(0, 98), 98);
  EXPECT_EQ(numbers(0, 99), 99);
  EXPECT_EQ(numbers(1, 0), 100);
  EXPECT_TRUE(numbers.begins_anew());
  EXPECT_EQ(numbers(0, 99), 99);
  EXPECT_FALSE(numbers.begins_anew());
  EXPECT_EQ(numbers(1, 1), 101);
}

TEST(RunsOfRows, AFileThatIsAppendedTo) {
  std::string text;
  for (const auto& [from, to] : {std::pair(1, 100), std::pair(51, 150)}) {
    text += "step,loss,step_time_ms\n";
    for (int step = from; step <= to; ++step) text += fmt::format("{},2.3,{}\n", step, from == 1 ? 100 : 200);
  }
  const RunLog log = log_of(text);
  EXPECT_EQ(log.ranks.at(0).steps.size(), 200u);
  ASSERT_EQ(log.run_lines, (std::vector<int64_t>{103}));
  expect_told(log, 100, 200'000'000);
}

// Checkpoints.

TEST(Saves, EachIsOneOfItsOwn) {
  std::string text = "  Total optimization steps = 1000\n";
  for (int step = 100; step <= 1000; step += 100) {
    text += fmt::format("{}%|##| {}/1000 [{}<10:00, 2.00s/it]\n", step / 10, step, bar_clock(2 * step));
    if (step % 500 == 0) text += fmt::format("{{'loss': 2.5, 'learning_rate': 4.5e-05, 'epoch': {:.2f}}}\n", step / 1000.0);
    for (int rank = 0; rank < 2; ++rank)
      text += fmt::format("[INFO|trainer.py:3410] 2024-05-01 12:{}:{:02d},{}23 >> Saving model checkpoint to out/checkpoint-{}\n",
                          10 + 2 * step / 60, 2 * step % 60, rank, step);
  }
  const RunLog log = log_of(text);
  ASSERT_EQ(log.events.size(), 10u);
  for (const LogEvent& e : log.events) EXPECT_FALSE(e.duration_ns) << e.line;
  EXPECT_EQ(log.events[2].step, 300);
}

TEST(Saves, InTheBackgroundStepsGoOn) {
  std::string text;
  for (int step = 10; step <= 400; step += 10) {
    const std::string clock = fmt::format("2024-05-01 12:{:02d}:{:02d}", step / 60, step % 60);
    text += fmt::format(" [{}] iteration {}/ 1000 | elapsed time per iteration (ms): 1000.0 | lm loss: 7.1E+00 |\n", clock, step);
    if (step == 100) text += clock + " INFO saving checkpoint at iteration 100 to /ckpt in torch_dist format\n";
    if (step == 200) text += clock + " INFO   successfully saved checkpoint from iteration 100 to /ckpt\n";
  }
  const RunLog log = log_of(text);
  ASSERT_EQ(log.events.size(), 1u);
  EXPECT_FALSE(log.events[0].duration_ns);
}

// Clocks.

std::string dated(double seconds, std::string_view message, bool whole = true) {
  const auto ms = static_cast<int64_t>(seconds * 1000 + 0.5);
  const std::string clock = fmt::format("2024-03-31 {:02d}:{:02d}:{:02d}", ms / 3'600'000, ms / 60'000 % 60, ms / 1000 % 60);
  return fmt::format("{}{} INFO {}\n", clock, whole ? "" : fmt::format(",{:03d}", ms % 1000), message);
}

TEST(Clocks, WholeSecondsTellTheMeanOfAStretch) {
  std::string text;
  for (int step = 1; step <= 300; ++step) text += dated(43200 + 0.4 * step, fmt::format("step {} loss 2.5", step));
  const RunLog log = log_of(text);
  ASSERT_EQ(log.ranks.size(), 1u);
  EXPECT_EQ(log.ranks[0].steps.size(), 299u);
  for (const LogStep& s : log.ranks[0].steps) EXPECT_NEAR(static_cast<double>(*s.duration_ns), 0.4e9, 0.05e9) << s.number;
}

// A step is as long as others, and the evaluation or the checkpoint has the rest.
TEST(Clocks, AStopIsNoPartOfAStep) {
  std::string text;
  double second = 43200;
  for (int step = 10; step <= 300; step += 10) {
    text += dated(second += 10, fmt::format("step {} | loss: 2.5", step));
    if (step % 100 == 0) text += dated(second += 100, fmt::format("step {}: train loss 2.1, val loss 2.3", step));
    if (step % 100 == 50) {
      text += dated(second, "Saving the checkpoint (or staging if async is enabled).");
      text += dated(second += 60, "Finished saving the checkpoint (or staging if async is enabled)in 60.00 seconds.");
    }
  }
  const RunLog log = log_of(text);
  ASSERT_EQ(log.ranks.size(), 1u);
  for (const LogStep& s : log.ranks[0].steps) EXPECT_EQ(s.duration_ns, 1'000'000'000) << s.number;
  for (const LogEvent& e : log.events) {
    if (e.step == 300) continue;   // the last line
    EXPECT_EQ(e.duration_ns, e.kind == LogEventKind::kCheckpoint ? 60'000'000'000 : 100'000'000'000) << e.line;
  }
}

TEST(Clocks, SummerTimeIsNoPause) {
  for (const int change : {3600, -3600}) {
    std::string stated, derived;
    double second = 3 * 3600 - 175;
    for (int step = 10; step <= 600; step += 10, second += 10) {
      const double shown = second + (step > 180 ? change : 0);
      stated += dated(shown, fmt::format("step {} | loss: 2.5 | dt: 1000.0ms", step));
      derived += dated(shown, fmt::format("step {} | loss: 2.5", step));
    }
    for (const std::string& text : {stated, derived}) {
      const RunLog log = log_of(text);
      ASSERT_EQ(log.ranks.size(), 1u);
      const std::vector<LogStep>& steps = log.ranks[0].steps;
      EXPECT_EQ(*steps.back().printed_ns - *steps.front().printed_ns, (steps.size() - 1) * 10'000'000'000) << text;
      for (const LogStep& s : steps) EXPECT_EQ(s.duration_ns, 1'000'000'000);
    }
  }
  // An hour that ends at no full one is a pause.
  const RunLog paused = log_of(dated(36000 + 600, "step 10 | loss: 2.5 | dt: 1000.0ms") +
                               dated(36000 + 600 + 3610, "step 20 | loss: 2.5 | dt: 1000.0ms"));
  EXPECT_EQ(*paused.ranks.at(0).steps[1].printed_ns - *paused.ranks[0].steps[0].printed_ns, 3'610'000'000'000);
}

// Summer time comes while a checkpoint is written, which takes half a minute.
TEST(Clocks, SummerTimeDuringACheckpoint) {
  std::string text;
  for (int i = 1; i <= 40; ++i) {
    const int second = i * 10 + (i > 20 ? 30 + 3600 : 0) + 6990;   // of the day; the clock changes at 02:00
    text += fmt::format(" [2024-03-31 {:02d}:{:02d}:{:02d}] iteration {:8d}/     400 | elapsed time per iteration (ms): 1000.0 | "
                        "lm loss: 7.1E+00 |\n", second / 3600, second / 60 % 60, second % 60, i * 10);
    if (i == 20) text += "saving checkpoint at iteration     200 to /ckpt\n";
  }
  const RunLog log = log_of(text);
  const std::vector<LogStep>& steps = log.ranks.at(0).steps;
  EXPECT_EQ(*steps[20].printed_ns - *steps[19].printed_ns, int64_t{40} * 1'000'000'000);
}

std::string plain_step(int number, int ms) { return fmt::format("step {} | loss 2.50 | time {}.0ms\n", number, ms); }

// An evaluation that is printed as the training is.
TEST(Evaluations, ThatArePrintedAsTheTrainingAreNoRuns) {
  std::string text;
  for (int i = 1; i <= 300; ++i) {
    text += plain_step(i, 1000);
    for (int k = 1; i % 100 == 0 && k <= 20; ++k) text += plain_step(k, 200);
  }
  const RunLog log = log_of(text);
  EXPECT_EQ(restarts(log), 0);
  expect_told(log, 300, 1'000'000'000);
  EXPECT_EQ(std::ranges::count(log.events, LogEventKind::kEvaluation, &LogEvent::kind), 3);
  EXPECT_EQ(log.events.at(0).duration_ns, 4'000'000'000);
  EXPECT_EQ(log.events.at(0).step, 100);
  // One that goes on from its own last number is a run, also if it ends before the other's.
  std::string again;
  for (int i = 1; i <= 100; ++i) again += plain_step(i, 1000);
  for (int i = 1; i <= 120; ++i) again += plain_step(i, 200);
  EXPECT_EQ(restarts(log_of(again)), 1);
  std::string crashed = again.substr(0, again.find("step 100 ")) + "Traceback (most recent call last):\nValueError: x\n";
  for (int i = 1; i <= 20; ++i) crashed += plain_step(i, 200);
  for (int i = 100; i <= 120; ++i) crashed += plain_step(i, 200);
  EXPECT_EQ(restarts(log_of(crashed)), 1) << "behind an error nothing is an evaluation";
}

TEST(Evaluations, WithinAnEpochHaveAnotherTotal) {
  std::string text;
  for (int e = 1; e <= 3; ++e) {
    for (int i = 10; i <= 200; i += 10) text += fmt::format("Epoch [{}/3] Iter [{}/200]  loss: 2.31  time: 0.500\n", e, i);
    for (int i = 10; i <= 50; i += 10) text += fmt::format("Epoch [{}/3] Iter [{}/50]  loss: 2.51  time: 0.100\n", e, i);
  }
  const RunLog log = log_of(text);
  expect_told(log, 60, 500'000'000);
  EXPECT_EQ(restarts(log), 0);
  EXPECT_EQ(log.ranks.at(0).steps.back().number, 600);
}

TEST(Evaluations, OfMMEngineHaveTheirLinesTime) {
  std::string text;
  for (int e = 1; e <= 2; ++e) {
    for (int i = 50; i <= 200; i += 50)
      text += fmt::format("2024/05/06 10:{:02d}:{:02d} - mmengine - INFO - Epoch(train) [{}][{}/200]  lr: 1.0e-02  eta: 0:20:25  "
                          "time: 0.5000  data_time: 0.1000  memory: 4231  loss: 2.5\n", e, i / 5, e, i);
    for (int i = 50; i <= 100; i += 50)
      text += fmt::format("2024/05/06 10:{:02d}:50 - mmengine - INFO - Epoch(val) [{}][{}/100]    eta: 0:00:54  time: 0.2000  "
                          "data_time: 0.0006  memory: 979\n", e, e, i);
    text += fmt::format("2024/05/06 10:{:02d}:50 - mmengine - INFO - Epoch(val) [{}][100/100]    coco/bbox_mAP: 0.3  data_time: "
                        "0.0006  time: 0.2000\n", e, e);
  }
  const RunLog log = log_of(text);
  ASSERT_EQ(log.events.size(), 2u);
  EXPECT_EQ(log.events[0].kind, LogEventKind::kEvaluation);
  EXPECT_EQ(log.events[1].duration_ns, 20'000'000'000);
}

}  // namespace
}  // namespace profgpu
