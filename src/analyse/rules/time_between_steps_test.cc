// What lies between the steps of a loop is no step's, and is not called one.
#include <gtest/gtest.h>

#include "analyse/rules/measure.h"
#include "base/text.h"
#include "tests/support/diagnosed.h"
#include "tests/support/hand_trace.h"

namespace profgpu {
namespace {

constexpr int64_t kPause = 200'000;   // microseconds

/// Twenty steps of 10 ms with 9.5 ms of work; after step 9 `pause`, and in it what `meanwhile` does.
template <class Meanwhile>
Diagnosis paused(int64_t pause, Meanwhile meanwhile, int64_t first = 10'000) {
  HandTrace h;
  int64_t t = 0;
  for (int64_t i = 0; i < 20; ++i) {
    const int64_t step = i == 0 ? first : 10'000;
    h.range("train_step#" + std::to_string(i), t, t + step).op("aten::mm", t + 5, t + 25);
    h.kernel("gemm", t + 10, t + 15, t + step - 9'500, t + step);
    t += step;
    if (i != 9 || pause == 0) continue;
    meanwhile(h, t);
    t += pause;
  }
  return diagnosed(h.build());
}

const auto kNothing = [](HandTrace&, int64_t) {};

TEST(TimeBetweenSteps, IsFoundAndNotBlamedOnTheSteps) {
  for (const int64_t first : {10'000, 100'000}) {   // also beside a warm-up step
    const Diagnosis d = paused(kPause, kNothing, first);
    const Finding* f = finding(d.findings, "time-between-steps");
    ASSERT_NE(f, nullptr);
    EXPECT_FALSE(f->cost_ns);
    EXPECT_NE(f->evidence.front().find("200 ms, follows step 9"), std::string::npos) << f->evidence.front();
    EXPECT_EQ(finding(d.findings, "host-bound-launches"), nullptr);
    EXPECT_EQ(finding(d.findings, "low-gpu-utilization"), nullptr);
    EXPECT_NE(d.verdict.text.find("no step runs"), std::string::npos) << d.verdict.text;
  }
}

TEST(TimeBetweenSteps, IsSilentWhereStepsFollowEachOther) {
  EXPECT_EQ(finding(paused(0, kNothing).findings, "time-between-steps"), nullptr);
  EXPECT_EQ(finding(paused(10'000, kNothing).findings, "time-between-steps"), nullptr);   // 5 % of the time
}

TEST(CheckpointStall, IsFoundBetweenTheSteps) {
  const auto save = [](HandTrace& h, int64_t t) { h.range("save_checkpoint", t + 10, t + kPause - 10); };
  const Diagnosis d = paused(kPause, save);
  const Finding* f = finding(d.findings, "checkpoint-stall");
  ASSERT_NE(f, nullptr);
  EXPECT_NEAR(*f->value, 50, 0.5);
  EXPECT_FALSE(f->cost_ns);
  EXPECT_EQ(finding(d.findings, "time-between-steps"), nullptr);   // it has a name
  EXPECT_NE(d.verdict.text.find("Saving checkpoints takes 50 %"), std::string::npos) << d.verdict.text;
}

TEST(DataLoadingBound, CountsStepsWhoseLoadingPrecedesTheirRange) {
  HandTrace h;
  for (int64_t i = 0; i < 12; ++i) {
    const int64_t t = 15'000 * i;
    h.range("train_step#" + std::to_string(i), t, t + 10'000).kernel("gemm", t + 10, t + 15, t + 50, t + 9'950);
    h.range("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", t + 10'010, t + 14'910);
  }
  const Diagnosis d = diagnosed(h.build());
  const Finding* f = finding(d.findings, "data-loading-bound");
  ASSERT_NE(f, nullptr);
  EXPECT_TRUE(std::ranges::any_of(f->evidence, [](const std::string& e) { return e.starts_with("in 11 of 12 steps"); }));
}

TEST(Evidence, OfKernelsAndLaunchesIsOfTheMeasuredSteps) {
  HandTrace h;
  const auto step = [&](int64_t i, int64_t t, int64_t ns, int64_t kernels) {
    h.range("ProfilerStep#" + std::to_string(i), t, t + ns);
    for (int64_t k = 0; k < kernels; ++k) {
      const int64_t at = t + k * 2'000;
      h.kernel("gemm", at + 10, at + 15, at + 1'000, at + 2'000);
    }
  };
  step(0, 0, 400'000, 200);
  for (int64_t i = 1; i < 8; ++i) step(i, 400'000 + (i - 1) * 10'000, 10'000, 3);
  const Diagnosis d = diagnosed(h.build());
  const Finding *kernel = finding(d.findings, "dominant-kernel"), *launches = finding(d.findings, "host-bound-launches");
  ASSERT_TRUE(kernel != nullptr && launches != nullptr);
  EXPECT_TRUE(kernel->why.starts_with("21 calls of 1.00 ms each")) << kernel->why;
  EXPECT_TRUE(std::ranges::any_of(launches->evidence, [](const std::string& e) { return e.starts_with("21 launches"); }));
}

}  // namespace
}  // namespace profgpu
