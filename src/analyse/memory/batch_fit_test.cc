#include "analyse/memory/batch_fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "support/memory_snapshot_builder.h"

namespace profgpu {
namespace {

TEST(BatchLevels, NothingThatGrowsHasNoLargest) {
  BatchLevels levels;
  EXPECT_FALSE(levels.largest(100));
  levels.add(50, 0);
  EXPECT_FALSE(levels.largest(100));
  levels.add(40, 10);
  EXPECT_EQ(levels.largest(100), 6);
  EXPECT_EQ(levels.largest(20), 0) << "what stays does not fit";
}

TEST(BatchFit, ACacheThatAnEngineAllocatesOnceStays) {
  const auto growing = [](const SnapshotBuilder::Frame& outer) {
    SnapshotBuilder b;
    b.alloc(0x1000, 9000, {{"_allocate_kv_cache", "/x/site-packages/engine/runner.py", 2500}, outer});
    b.alloc(0x8000, 100, SnapshotBuilder::kForward);
    return snapshot_section(b.finish()).batch->scaling_bytes;
  };
  EXPECT_EQ(growing({"initialize", "/x/site-packages/engine/worker.py", 270}), 100);
  EXPECT_EQ(growing({"forward", "/me/model.py", 27}), 9100);
}

TEST(BatchLevels, PropertyAsEveryMomentAsked) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    BatchLevels levels;
    std::vector<std::pair<int64_t, int64_t>> all;
    const int64_t most = 1 + static_cast<int64_t>(random() % 40);
    for (int i = 0; i < 60; ++i) {
      all.emplace_back(random() % most, 1 + random() % most);
      levels.add(all.back().first, all.back().second);
      for (const double capacity : {0.0, 7.0, 50.0, 1000.0}) {
        double batch = INFINITY;
        for (const auto& [fixed, grows] : all)
          batch = std::min(batch, (capacity - static_cast<double>(fixed)) / static_cast<double>(grows));
        ASSERT_EQ(levels.largest(capacity), std::max(batch, 0.0));
      }
    }
  }
}

}  // namespace
}  // namespace profgpu
