// Rules on what the host does in a loop, on traces written by hand: loaders, trends of steps, collectives of the host.
#include <gtest/gtest.h>

#include "analyse/rules/measure.h"
#include "base/text.h"
#include "tests/support/hand_steps.h"

namespace profgpu {
namespace {

// Epochs of four batches: the loader's workers end with one and start with the next.
HandTrace epochs(bool persistent) {
  HandTrace hand;
  int64_t t = 0, step = 0;
  const char* const wait = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__";
  for (int epoch = 0; epoch < 5; ++epoch) {
    int64_t begin = t;
    if (epoch > 0) {
      hand.range(wait, t, t + (persistent ? 50 : 36'000));
      t += persistent ? 500 : 84'000;   // the start of the workers is marked by nothing
    }
    for (int batch = 0; batch < 4; ++batch) {
      const int64_t wait_us = batch == 0 ? (persistent ? 6'000 : 30'000) : 2'000;
      hand.range(wait, t, t + wait_us);
      t += wait_us;
      hand.op("aten::mm", t, t + 1'000).range("Optimizer.step#Adam.step", t + 1'000, t + 3'000);
      t += 3'000;
      hand.range("ProfilerStep#" + std::to_string(step++), begin, t);
      begin = t;
    }
  }
  return hand;
}

TEST(DataLoadingBound, WorkersThatStartAtEachEpochShallStay) {
  HandTrace hand = epochs(false);
  const auto f = found(hand, "data-loading-bound");
  ASSERT_TRUE(f);
  EXPECT_EQ(f->what, "the data loader's workers start again at each epoch, so the loop waits");
  EXPECT_TRUE(f->fix.front().starts_with("DataLoader(…, persistent_workers=True)")) << f->fix.front();
  ASSERT_TRUE(f->cost_ns);
  EXPECT_EQ(*f->cost_ns, 4 * (84'000'000 + 30'000'000 - 2'000'000));
}

TEST(DataLoadingBound, WorkersThatStayAreTooFew) {
  HandTrace hand = epochs(true);
  const auto f = found(hand, "data-loading-bound");
  ASSERT_TRUE(f);
  EXPECT_EQ(f->what, "the data loader's workers can't keep up, so the loop waits");
}

TEST(DataLoadingBound, FramesOfARecordingShowWorkers) {
  const auto recorded = [](const char* frame) {
    HandTrace hand = steps_of([&](HandTrace& h, int64_t t) {
      h.range("data_loading", t, t + 600).range("optimizer", t + 700, t + 900);
      h.sampled(frame, t + 100, t + 500);
    });
    return found(hand, "data-loading-bound")->what;
  };
  EXPECT_EQ(recorded("torch/utils/data/dataloader.py(1291): _try_get_data"),
            "the data loader's workers can't keep up, so the loop waits");
  EXPECT_EQ(recorded("torch/utils/data/_utils/fetch.py(54): fetch"), "batches are prepared within the step, so the loop waits");
}

TEST(StepTimeVariance, StepsThatGrowAreATrend) {
  HandTrace hand;
  int64_t t = 0;
  for (int64_t step = 0; step < 40; ++step) {
    const int64_t grown = 1000 + 200 * step;
    hand.range("ProfilerStep#" + std::to_string(step), t, t + grown).op("aten::mm", t, t + 800);
    hand.python("train.py(6): running_mean", t + 850, t + grown - 10);
    t += grown;
  }
  const auto f = found(hand, "step-time-variance");
  ASSERT_TRUE(f);
  EXPECT_EQ(f->what, "steps get longer with their number, from 1.80 ms to 7.80 ms");
  EXPECT_TRUE(contains(f->why, "each step takes 200 µs more than the one before")) << f->why;
  ASSERT_EQ(f->where.size(), 1u);
  EXPECT_EQ(place_text(f->where.front()), "running_mean (train.py:6)");
  ASSERT_TRUE(f->cost_ns);
}

// gloo runs on a thread of its own; the program waits for it after the backward pass.
TEST(ExposedCommunication, OfGlooWithoutADevice) {
  HandTrace hand = steps_of([](HandTrace& h, int64_t t) {
    h.op("aten::mm", t + 10, t + 100).op("autograd::engine::evaluate_function: MmBackward0", t + 110, t + 300);
    h.range("gloo:all_reduce", t + 200, t + 700, "gloo").op("aten::copy_", t + 710, t + 720);
    h.range("Optimizer.step#SGD.step", t + 720, t + 990);
  });
  const auto f = found(hand, "exposed-communication");
  ASSERT_TRUE(f);
  EXPECT_NEAR(*f->value, 40, 0.1);
  EXPECT_TRUE(contains(f->verdict, "the program only waits for collectives")) << f->verdict;
}

}  // namespace
}  // namespace profgpu
