#include "analyse/rank/steps.h"

#include <gtest/gtest.h>

#include <random>

#include "analyse/rank/rank_report.h"
#include "tests/support/hand_trace.h"

namespace profgpu {
namespace {

/// Runs names one after the other, 10 µs each.
class Runner {
 public:
  Runner& run(const std::string& name) {
    trace_.orphan(name, at_, at_ + 10);
    at_ += 10;
    return *this;
  }
  Runner& pause(int64_t us) { return at_ += us, *this; }
  [[nodiscard]] int64_t now_ns() const { return at_ * 1000; }
  Trace build() {
    Trace t = trace_.build();
    t.recorded = true;
    return t;
  }

 private:
  HandTrace trace_;
  int64_t at_ = 0;
};

// Layers that are all alike, loss, the layers again, an optimizer.
void training_step(Runner& r, int layers, int micro_batches = 1) {
  r.pause(500);
  for (int m = 0; m < micro_batches; ++m) {
    r.run("embed");
    for (int i = 0; i < layers; ++i) r.run("norm").run("gemm").run("attention").run("gemm").run("gelu").run("gemm");
    r.run("loss");
    for (int i = 0; i < layers; ++i) r.run("gemm").run("dgelu").run("gemm").run("gemm").run("dattention").run("gemm");
  }
  for (int i = 0; i < 6; ++i) r.run("adam");
  r.run("zero");
}

TEST(StepPeriod, layers_within_a_step_are_not_taken_for_steps) {
  Runner r;
  for (int i = 0; i < 30; ++i) r.run("init" + std::to_string(i));   // warm-up differs
  std::vector<int64_t> begins;
  for (int step = 0; step < 8; ++step) {
    begins.push_back(r.now_ns() + 500'000);
    training_step(r, 12);
  }
  const Trace t = r.build();
  const PeriodicSteps found = periodic_steps(t);
  ASSERT_EQ(found.steps.size(), 7U);
  for (size_t i = 0; i < 7; ++i) EXPECT_EQ(found.steps[i], (Interval{begins[i], begins[i + 1]}));
  EXPECT_GT(found.confidence, 0.9);
}

TEST(StepPeriod, micro_batches_are_parts_of_a_step) {
  Runner r;
  for (int step = 0; step < 10; ++step) training_step(r, 8, 4);
  EXPECT_EQ(periodic_steps(r.build()).steps.size(), 9U);
}

TEST(StepPeriod, something_done_every_fifth_step_is_not_the_step) {
  Runner r;
  for (int step = 0; step < 40; ++step) {
    training_step(r, 8);
    if (step % 5 == 4) r.run("log");
  }
  const size_t steps = periodic_steps(r.build()).steps.size();
  EXPECT_GE(steps, 38U);
  EXPECT_LE(steps, 39U);
}

TEST(StepPeriod, a_loop_of_two_kernels) {
  Runner r;
  for (int step = 0; step < 20; ++step) r.pause(100).run("a").run("b");
  EXPECT_EQ(periodic_steps(r.build()).steps.size(), 19U);
}

TEST(StepPeriod, what_does_not_repeat_has_none) {
  std::mt19937 random(1);
  Runner r, one, few;
  for (int i = 0; i < 2000; ++i) r.run("k" + std::to_string(random() % 50));
  EXPECT_TRUE(periodic_steps(r.build()).steps.empty());
  for (int i = 0; i < 2000; ++i) one.run("same");
  EXPECT_TRUE(periodic_steps(one.build()).steps.empty());
  for (int i = 0; i < 4; ++i) training_step(few, 6);
  EXPECT_TRUE(periodic_steps(few.build()).steps.empty());
  EXPECT_TRUE(periodic_steps(Trace()).steps.empty());
}

TEST(StepPeriod, estimated_steps_are_named_so_and_only_in_recordings) {
  Runner r;
  for (int step = 0; step < 8; ++step) training_step(r, 6);
  Trace t = r.build();
  {
    const Facts facts(t, {});
    const Steps& steps = facts.get<Steps>();
    ASSERT_EQ(steps.steps.size(), 7U);
    EXPECT_EQ(steps.steps[3].name, "estimated step 3");
    EXPECT_FALSE(steps.annotated);
    EXPECT_GT(steps.steps[3].device_busy_ns, 0);
    EXPECT_NE(facts.get<Quality>().issues[1].text.find("estimated"), std::string::npos);
  }
  t.recorded = false;
  const Facts facts(t, {});
  ASSERT_EQ(facts.get<Steps>().steps.size(), 1U);
  EXPECT_EQ(facts.get<Steps>().steps[0].name, "trace");
}

}  // namespace
}  // namespace profgpu
