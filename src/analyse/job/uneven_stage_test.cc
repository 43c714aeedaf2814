#include "analyse/job/uneven_stage.h"

#include <gtest/gtest.h>

namespace profgpu {
namespace {

/// Four stages of one rank each; stage 2 computes as long as `slow_ns`, the others 100.
struct StagesOf {
  explicit StagesOf(int64_t slow_ns, int64_t kernels, int64_t others_kernels = 10) {
    ways.resize(1);
    Pipeline& p = ways[0].pipeline.emplace();
    p.stages = 4;
    for (int r = 0; r < 4; ++r) {
      const bool slow = r == 2;
      Stage& stage = p.by_stage.emplace_back();
      stage.stage = r, stage.ranks = {r}, stage.compute_ns_per_step = slow ? slow_ns : 100;
      RankDigest d;
      d.rank = r;
      d.steps.push_back({0, 0, 400, true});
      d.work.kernels.push_back({1, "gemm", slow ? kernels : others_kernels, slow ? slow_ns : 100});
      ranks.push_back(std::move(d));
    }
  }
  [[nodiscard]] std::optional<UnevenStage> uneven() const { return uneven_stage(ranks, ways); }
  std::vector<RankDigest> ranks;
  std::vector<Parallelism> ways;
};

TEST(UnevenStage, HasMoreWorkThanTheOthers) {
  const auto found = StagesOf(160, 16).uneven();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->stage, 2);
  EXPECT_EQ(found->ranks, std::vector<int>{2});
  EXPECT_EQ(found->others_ns_per_step, 100);
  EXPECT_EQ(found->excess_pct, 15);
  EXPECT_TRUE(found->more_work);
}

TEST(UnevenStage, OrTheSameKernelsTakeLonger) {
  const auto found = StagesOf(160, 10).uneven();
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->more_work);
}

TEST(UnevenStage, ATenthMoreIsWhatStagesDifferBy) { EXPECT_FALSE(StagesOf(109, 11).uneven()); }

TEST(UnevenStage, IsNotKnownWithoutAllStages) {
  StagesOf three(160, 16);
  three.ways[0].pipeline->by_stage.erase(three.ways[0].pipeline->by_stage.begin());
  EXPECT_FALSE(three.uneven());
  three.ways[0].pipeline.reset();
  EXPECT_FALSE(three.uneven());
}

}  // namespace
}  // namespace profgpu
