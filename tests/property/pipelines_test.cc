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
  options.steps = 3;
  return options;
}

TEST(Pipelines, WaitForAStageWithMoreLayers) {
  const SimulatedJob job(pipeline(5, 4));   // 1, 1, 1 and 2
  ASSERT_EQ(job.error, "");
  ASSERT_TRUE(job.job.uneven_stage);
  EXPECT_EQ(job.job.uneven_stage->stage, 3);
  EXPECT_TRUE(job.job.uneven_stage->more_work);
  const Finding* f = job.finding("straggler-rank");
  ASSERT_NE(f, nullptr);
  EXPECT_EQ(f->ranks, std::vector<int>{3});
  EXPECT_GT(f->cost_ns.value_or(0), 0);
}

// Few micro-batches cost what four per stage would save; with as many there is nothing more to gain that way.
TEST(Pipelines, WithFewMicroBatchesAreMostlyBubble) {
  const SimulatedJob few(pipeline(4, 2)), many(pipeline(4, 16));
  const Finding* f = few.finding("pipeline-bubble");
  ASSERT_NE(f, nullptr);
  EXPECT_GT(*f->value, 25);
  EXPECT_GT(f->cost_ns.value_or(0), 0);
  EXPECT_TRUE(f->verdict.starts_with("Pipeline stages wait for each other"));
  const Finding* less = many.finding("pipeline-bubble");
  if (less == nullptr) return;
  EXPECT_FALSE(less->cost_ns);
  EXPECT_LT(*less->value, *f->value);   // the rest is transfers
}

}  // namespace
}  // namespace profgpu
