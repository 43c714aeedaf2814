// Pipelines: bubbles of few micro-batches, and a stage that has more layers than the others.
#include <gtest/gtest.h>

#include "tests/property/simulated_job.h"

namespace profgpu {
namespace {

sim::SimOptions pipeline(int layers, int micro_batches) {
  sim::SimOptions options;
  options.strategy = sim::Strategy::pp;
  options.ranks = options.group = 4;
  options.layers = layers;
  options.micro_batches = micro_batches;
  options.steps = 6;
  return options;
}

TEST(Pipelines, WaitForAStageWithMoreLayers) {
  const SimulatedJob job(pipeline(17, 8));   // 4, 4, 4 and 5
  ASSERT_EQ(job.error, "");
  ASSERT_TRUE(job.job.uneven_stage);
  EXPECT_EQ(job.job.uneven_stage->stage, 3);
  EXPECT_TRUE(job.job.uneven_stage->more_work);
  const Finding* f = job.finding("straggler-rank");
  ASSERT_NE(f, nullptr);
  EXPECT_EQ(f->ranks, std::vector<int>{3});
  EXPECT_GT(f->cost_ns.value_or(0), 0);
}

// More micro-batches than four per stage leave no bubble to speak of; few cost what the passes then take less.
TEST(Pipelines, WithFewMicroBatchesAreMostlyBubble) {
  const SimulatedJob few(pipeline(16, 4)), many(pipeline(16, 16));
  const Finding* f = few.finding("pipeline-bubble");
  ASSERT_NE(f, nullptr);
  EXPECT_GT(*f->value, 25);
  EXPECT_GT(f->cost_ns.value_or(0), 0);
  EXPECT_TRUE(f->verdict.starts_with("Pipeline stages wait for each other"));
  EXPECT_EQ(many.finding("pipeline-bubble"), nullptr);
}

}  // namespace
}  // namespace profgpu
