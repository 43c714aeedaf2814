#include "analyse/memory/memory_growth.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "analyse/memory/snapshot_section.h"
#include "support/memory_snapshot_builder.h"

namespace profgpu {
namespace {

using Frames = std::vector<SnapshotBuilder::Frame>;
constexpr int64_t kKept = 512;

SnapshotSection training(const SnapshotBuilder::Frame& keeper) {
  SnapshotBuilder b;
  for (uint64_t pass = 0; pass < 8; ++pass) {
    b.alloc(0x10000, 4000, SnapshotBuilder::kForward);
    b.alloc(0x20000, 1000, SnapshotBuilder::kBackward);
    b.free(0x10000, 4000), b.free(0x20000, 1000);
    b.alloc(0x1000000 + 0x1000 * pass, kKept, Frames{keeper, {"main", "/me/train.py", 9}});
  }
  return snapshot_section(b.finish());
}

TEST(MemoryGrowth, WithoutAnOptimizerBackwardPassesAreCompared) {
  const SnapshotSection s = training({"forward", "/me/model.py", 55});
  ASSERT_EQ(s.growth.size(), 1U);
  EXPECT_EQ(s.growth.front().per, "backward pass");
  EXPECT_EQ(s.growth.front().growth_bytes, kKept);
  EXPECT_EQ(s.growth.front().line, 55);
  EXPECT_EQ(s.growth.front().cause, "retained_graph");
}

SnapshotSection forwards(bool keeps, const SnapshotBuilder::Frame& keeper) {
  SnapshotBuilder b;
  for (uint64_t pass = 0; pass < 12; ++pass) {
    b.alloc(0x10000, 4000, SnapshotBuilder::kForward);
    for (uint64_t layer = 0; layer < 3; ++layer) {
      b.alloc(0x20000, 1000, Frames{{"forward", "/me/layer.py", 7}, {"main", "/me/eval.py", 9}});
      b.free(0x20000, 1000);
    }
    b.free(0x10000, 4000);
    const Frames keeping{keeper, {"forward", "/me/model.py", 73}, {"main", "/me/eval.py", 9}};
    b.alloc(0x1000000 + 0x1000 * pass, kKept, keeping);
    if (!keeps) b.free(0x1000000 + 0x1000 * pass, kKept);
  }
  return snapshot_section(b.finish());
}

TEST(MemoryGrowth, WithoutABackwardPassForwardPassesAreCompared) {
  const SnapshotSection s = forwards(true, {"head", "/me/model.py", 80});
  ASSERT_EQ(s.growth.size(), 1U);
  EXPECT_EQ(s.growth.front().per, "forward pass");
  EXPECT_EQ(s.growth.front().growth_bytes, kKept);
  EXPECT_EQ(s.growth.front().cause, "kept_tensors") << "there may be no graph";
  EXPECT_TRUE(forwards(false, {"head", "/me/model.py", 80}).growth.empty());
}

TEST(MemoryGrowth, WhatManyLinesOfAForwardPassKeepTogetherIsAGraph) {
  SnapshotBuilder b;
  for (uint64_t pass = 0; pass < 8; ++pass)
    for (int32_t line = 10; line < 14; ++line) {
      const Frames frames{{"forward", "/me/model.py", line}, {"main", "/me/eval.py", 9}};
      b.alloc(0x1000000 + 0x10000 * pass + 0x1000 * static_cast<uint64_t>(line), kKept, frames);
      b.alloc(0x20000, 1000, Frames{{"forward", "/me/model.py", line + 10}, {"main", "/me/eval.py", 9}});
      b.free(0x20000, 1000);
    }
  const SnapshotSection s = snapshot_section(b.finish());
  ASSERT_EQ(s.growth.size(), 4U);
  for (const GrowingLine& line : s.growth) EXPECT_EQ(line.cause, "retained_graph");
  EXPECT_EQ(s.growth.front().per, "forward pass");
  const auto row = std::ranges::find_if(s.savings, [](const SavingRow& r) { return r.change.starts_with("torch.inference_mode"); });
  ASSERT_NE(row, s.savings.end());
  EXPECT_EQ(row->peak_bytes, 8 * kKept + 1000) << "the last line's output stays";
}

TEST(MemoryGrowth, WhatNoForwardMakesIsNoGraph) {
  const SnapshotSection s = training({"sample_noise", "/me/train.py", 33});
  ASSERT_EQ(s.growth.size(), 1U);
  EXPECT_EQ(s.growth.front().cause, "kept_tensors");
}

TEST(MemoryGrowth, LayersOfOneForwardPassAreNoPasses) {
  SnapshotBuilder b;
  const SnapshotBuilder::Frame main{"main", "/me/eval.py", 9};
  b.alloc(0x10000, 4000, Frames{{"forward", "/me/model.py", 68}, main});
  for (uint64_t layer = 0; layer < 24; ++layer) {
    b.alloc(0x20000, 1000, Frames{{"forward", "/me/layer.py", 7}, {"forward", "/me/model.py", 70}, main});
    b.alloc(0x1000000 + 0x1000 * layer, kKept, Frames{{"forward", "/me/model.py", 71}, main});
    b.free(0x20000, 1000);
  }
  EXPECT_TRUE(snapshot_section(b.finish()).growth.empty());
}

TEST(MemoryGrowth, KeysAndValuesOfTheTokensSoFarAreNoLeak) {
  EXPECT_TRUE(forwards(true, {"update", "/x/site-packages/transformers/cache_utils.py", 400}).growth.empty());
}

TEST(ReferenceCycles, WhatTheCollectorFreesIsACycleOfTheLineThatAllocatedIt) {
  const Frames collector{{"gc_collect_main", "??", 0}, {"next_batch", "/me/data.py", 7}, {"main", "/me/train.py", 9}};
  SnapshotBuilder b;
  for (uint64_t step = 0; step < 12; ++step) {
    b.alloc(0x10000, 4000, SnapshotBuilder::kForward);
    b.alloc(0x1000000 + 0x1000 * (step % 4), 700, Frames{{"forward", "/me/model.py", 55}, {"main", "/me/train.py", 9}});
    b.alloc(0x20000, 1000, SnapshotBuilder::kBackward);
    b.free(0x10000, 4000);
    b.alloc(0x30000, 100, SnapshotBuilder::kOptimizer), b.free(0x30000, 100), b.free(0x20000, 1000);
    if (step % 4 == 3)
      for (uint64_t i = 0; i < 4; ++i) b.free(0x1000000 + 0x1000 * i, 700, collector);
  }
  const SnapshotSection s = snapshot_section(b.finish());
  ASSERT_EQ(s.cycles.size(), 1U);
  EXPECT_EQ(s.cycles.front().line, 55);
  EXPECT_EQ(s.cycles.front().collected_bytes, 12 * 700);
  EXPECT_EQ(s.cycles.front().runs, 3);
  EXPECT_EQ(s.cycles.front().bytes, 4 * 700) << "at the peak";
  ASSERT_FALSE(s.early_frees.empty());
  EXPECT_TRUE(s.early_frees.front().collected);
  EXPECT_NE(early_free_sentence(s.early_frees.front()).find("garbage collector"), std::string::npos);
}

}  // namespace
}  // namespace profgpu
