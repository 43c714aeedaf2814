// Bars of epochs and of evaluations, as PyTorch Lightning and the Trainer draw them.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "trace/import/log/log_text_test.h"

namespace profgpu {
namespace {

struct BarTime {
  double seconds = 0;
  [[nodiscard]] std::string clock() const {
    const auto whole = static_cast<int>(seconds);
    return fmt::format("{:02d}:{:02d}", whole / 60, whole % 60);
  }
};

// As tqdm draws it without smoothing: whole seconds, and the mean rate.
std::string epoch_bar(int epoch, int done, int total, double seconds, std::string_view notes = "train_loss=0.5") {
  const std::string rate = done == 0 ? "?it/s" : fmt::format("{:5.2f}it/s", done / seconds);
  return fmt::format("\rEpoch {}: {:3d}%|###       | {}/{} [{}<00:01, {}, {}]", epoch, 100 * done / total, done, total,
                     BarTime{seconds}.clock(), rate, notes);
}

std::string validation_bar(int done, int total, double seconds) {
  const std::string rate = done == 0 ? "?it/s" : fmt::format("{:5.2f}it/s", done / seconds);
  return fmt::format("\nValidation DataLoader 0: {:3d}%|###   | {}/{} [{}<00:00, {}]\x1b[A", 100 * done / total, done, total,
                     BarTime{seconds}.clock(), rate);
}

int64_t iterations_of(const LogRank& rank) {
  int64_t sum = 0;
  for (const LogStep& s : rank.steps) sum += s.iterations;
  return sum;
}

// 37 batches of 50 ms with a bar at each tenth, then an evaluation of 230 ms, after which the bar is drawn again.
TEST(Lightning, EveryIterationOfShortEpochsCounts) {
  std::string text;
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (const int done : {0, 10, 20, 30, 37}) text += epoch_bar(epoch, done, 37, done * 0.05);
    for (const int done : {0, 10, 11}) text += validation_bar(done, 11, done * 0.02);
    text += epoch_bar(epoch, 37, 37, 37 * 0.05 + 0.23, "train_loss=0.5, val_loss=0.7");
    text += epoch_bar(epoch, 0, 37, 0);   // with the old title, before the next epoch
  }
  const RunLog log = log_of(text + "`Trainer.fit` stopped: `max_epochs=3` reached.\n");
  ASSERT_EQ(log.ranks.size(), 1u);
  EXPECT_EQ(iterations_of(log.ranks[0]), 111);
  ASSERT_EQ(log.ranks[0].steps.size(), 12u);
  for (const LogStep& s : log.ranks[0].steps) {
    EXPECT_NEAR(static_cast<double>(*s.duration_ns), 50e6, 1e6) << s.number;
    EXPECT_EQ(s.figures.loss, 0.5);
  }
  EXPECT_EQ(log.ranks[0].steps[3].number, 37);
  EXPECT_EQ(log.ranks[0].steps[3].iterations, 7);
  ASSERT_EQ(log.events.size(), 4u);
  EXPECT_EQ(log.events[0].kind, LogEventKind::kEvaluation);
  EXPECT_EQ(log.events[0].step, 37);
  EXPECT_NEAR(static_cast<double>(*log.events[0].duration_ns), 220e6, 1e6);
  EXPECT_EQ(log.events[3].kind, LogEventKind::kFinished);   // behind the bar, on its line
}

// The bar stands still meanwhile; the time that it shows goes on.
TEST(Lightning, AnEvaluationWithinAnEpochIsNoStep) {
  std::string text;
  for (int done = 0; done <= 40; done += 10) text += epoch_bar(0, done, 80, done * 0.5);
  for (const int done : {0, 10, 20}) text += validation_bar(done, 20, done * 1.0);
  for (int done = 40; done <= 80; done += 10) text += epoch_bar(0, done, 80, 20 + done * 0.5);
  const RunLog log = log_of(text + "\n");
  ASSERT_EQ(log.ranks.size(), 1u);
  EXPECT_EQ(iterations_of(log.ranks[0]), 80);
  for (const LogStep& s : log.ranks[0].steps) EXPECT_NEAR(static_cast<double>(*s.duration_ns), 500e6, 25e6) << s.number;
  ASSERT_EQ(log.events.size(), 1u);
  EXPECT_EQ(log.events[0].duration_ns, 20'000'000'000);
}

// Version 1: the epoch's bar counts batches of the evaluation, too, and moves while that has a bar of its own.
TEST(Lightning, BatchesOfEvaluationsOnTheSameBar) {
  std::string text;
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (int done = 0; done <= 40; done += 10) text += epoch_bar(epoch, done, 60, done * 1.0);
    text += validation_bar(0, 20, 0);
    for (const int done : {10, 20}) {
      text += validation_bar(done, 20, done * 1.0);
      text += epoch_bar(epoch, 40 + done, 60, 40 + done * 1.0);
    }
  }
  const RunLog log = log_of(text + "\n");
  ASSERT_EQ(log.ranks.size(), 1u);
  EXPECT_EQ(iterations_of(log.ranks[0]), 80);
  EXPECT_EQ(log.ranks[0].steps.back().number, 80);
}

TEST(Lightning, EpochsOfUnknownLength) {
  std::string text = "\rTraining: |          | 0/? [00:00<?, ?it/s]\rEpoch 0: |          | 0/? [00:00<?, ?it/s]";
  for (int epoch = 0; epoch < 2; ++epoch)
    for (int done = 20; done <= 100; done += 20)
      text += fmt::format("\rEpoch {}: |          | {}/? [{}<00:00,  2.00it/s, v_num=0, train_loss=1.5]", epoch, done,
                          BarTime{done * 0.5}.clock());
  const RunLog log = log_of(text + "\n");
  ASSERT_EQ(log.ranks.size(), 1u);
  EXPECT_EQ(iterations_of(log.ranks[0]), 200);
  EXPECT_EQ(log.ranks[0].steps.back().number, 200);
  EXPECT_EQ(log.ranks[0].steps.back().duration_ns, 500'000'000);
}

TEST(Lightning, RichBars) {
  std::string text;
  for (int epoch = 0; epoch < 2; ++epoch)
    for (int done = 0; done <= 100; done += 25)
      text += fmt::format("\r\x1b[2K\x1b[1A\x1b[2KEpoch {}/1  \x1b[35m━━━━━━\x1b[0m\x1b[90m━━━\x1b[0m {}/100 \x1b[2m0:00:{:02d} • "
                          "0:00:10\x1b[0m \x1b[2;4m2.00it/s\x1b[0m \x1b[3mv_num: 0.000 train_loss: 0.063 \x1b[0m\r\n",
                          epoch, done, done / 2);
  const RunLog log = log_of(text);
  ASSERT_EQ(log.ranks.size(), 1u);
  EXPECT_EQ(iterations_of(log.ranks[0]), 200);
  EXPECT_EQ(log.ranks[0].steps.back().number, 200);
  EXPECT_NEAR(static_cast<double>(*log.ranks[0].steps.front().duration_ns), 500e6, 25e6);   // whole seconds
  EXPECT_EQ(log.ranks[0].steps.front().figures.loss, 0.063);
  // Not on a terminal: each bar once, at its end.
  const RunLog once = log_of("Epoch 2/2  ━━━━━━━━━━━━━━━━━ 37/37 0:00:01 • 0:00:00 19.10it/s train_loss: 0.010\n");
  ASSERT_EQ(once.ranks.size(), 1u);
  EXPECT_EQ(only_step(once).number, 111);
  EXPECT_EQ(only_step(once).iterations, 37);
  EXPECT_NEAR(static_cast<double>(*only_step(once).duration_ns), 1e9 / 19.1, 1e3);
}

// The bar's clock runs on during an evaluation, whose time a line states.
TEST(HuggingFace, EvaluationsAreNoPartOfSteps) {
  std::string text = "  Total optimization steps = 40\n\r  0%|          | 0/40 [00:00<?, ?it/s]";
  for (int step = 10; step <= 40; step += 10) {
    const int seconds = step * 3 + (step > 20 ? 60 : 0);
    text += fmt::format("\r 25%|##   | {}/40 [{}<00:30,  3.00s/it]\r{{'loss': 2.5, 'learning_rate': 4.5e-05, 'epoch': 0.1}}\n",
                        step, BarTime{static_cast<double>(seconds)}.clock());
    if (step == 20) text += "{'eval_loss': 1.5, 'eval_runtime': 60.0, 'epoch': 0.5}\n";
  }
  const RunLog log = log_of(text);
  ASSERT_EQ(log.ranks.size(), 1u);
  ASSERT_EQ(log.ranks[0].steps.size(), 4u);
  for (const LogStep& s : log.ranks[0].steps) EXPECT_EQ(s.duration_ns, 3'000'000'000) << s.number;
}

TEST(Bars, TwoOnOneLineAreTwo) {
  std::string text;
  for (int i = 1; i <= 100; ++i)
    text += fmt::format("\rSteps:  {}%|###   | {}/100 [{}<00:10,  2.00s/it, step_loss=0.1]Downloading shards:  3%|#  | {}/300 "
                        "[{}<00:09,  1.00it/s]", i, i, BarTime{i * 2.0}.clock(), i, BarTime{i * 1.0}.clock());
  const RunLog log = log_of(text + "\n");
  ASSERT_EQ(log.ranks.size(), 1u);
  EXPECT_EQ(iterations_of(log.ranks[0]), 100);
  for (const LogStep& s : log.ranks[0].steps) EXPECT_NEAR(static_cast<double>(*s.duration_ns), 2e9, 2e8) << s.number;
}

}  // namespace
}  // namespace profgpu
