#include "analyse/memory/batch_fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

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

constexpr int64_t kMiB = 1 << 20, kFixed = 100 * kMiB;
const std::vector<SnapshotBuilder::Frame> kOfBlocks{{"forward", "/me/model.py", 20}, {"main", "/me/train.py", 9}};

/// Two lines of a forward pass and its backward pass with an optimizer; `batch` scales what they make.
void add_complete_step(SnapshotBuilder& b, int64_t batch, bool first) {
  b.alloc(0x10000000, batch * 10 * kMiB, SnapshotBuilder::kForward);
  b.alloc(0x20000000, batch * 30 * kMiB, kOfBlocks);
  b.alloc(0x30000000, kMiB, SnapshotBuilder::kBackward);
  b.free(0x20000000, batch * 30 * kMiB), b.free(0x10000000, batch * 10 * kMiB);
  if (first) b.alloc(0x40000000, 50 * kMiB, SnapshotBuilder::kOptimizer);
  b.alloc(0x50000000, kMiB, SnapshotBuilder::kOptimizer), b.free(0x50000000, kMiB);
  b.free(0x30000000, kMiB);
}

/// Reserved is what is allocated; the device has `capacity` in all.
SnapshotSection failing(int64_t capacity, const std::vector<int64_t>& before, int64_t batch,
                        const std::vector<int64_t>& after = {}) {
  SnapshotBuilder b;
  b.action(AllocationAction::kSegmentAlloc, 0x1000, capacity);
  b.alloc(0x1000, kFixed, SnapshotBuilder::kMoved);
  bool first = true;
  for (const int64_t n : before) add_complete_step(b, n, std::exchange(first, false));
  b.alloc(0x10000000, batch * 10 * kMiB, SnapshotBuilder::kForward);
  SnapshotBuilder::Frame at = kOfBlocks.front();
  b.fail(0, batch * 30 * kMiB, {at, kOfBlocks.back()});
  if (!after.empty()) b.free(0x10000000, batch * 10 * kMiB);
  for (const int64_t n : after) add_complete_step(b, n, std::exchange(first, false));
  std::vector<SnapshotBuilder::Block> blocks{{0x1000, kFixed, kFixed}};
  if (!first) blocks.push_back({0x40000000, 50 * kMiB, 50 * kMiB});
  if (after.empty()) blocks.push_back({0x10000000, batch * 10 * kMiB, batch * 10 * kMiB});
  b.segment(0, 0x1000, capacity, blocks);
  return snapshot_section(b.finish());
}

TEST(BatchFit, AnUnfinishedPassTellsNoPeak) {
  const SnapshotSection s = failing(kFixed + 30 * kMiB, {}, 1);
  ASSERT_TRUE(s.batch);
  EXPECT_EQ(s.batch->outcome, BatchOutcome::kUnfinished);
  EXPECT_FALSE(s.batch->largest || s.batch->largest_low || s.batch->double_peak_bytes);
  EXPECT_LE(s.batch->largest_high, 1);
  EXPECT_NE(batch_sentence(*s.batch).find("does not fit"), std::string::npos);
}

TEST(BatchFit, ACompleteStepTellsWhatTheFailedPassWouldHaveTaken) {
  // Ten times the batch of the steps before: 100 MiB, states of 50 MiB, and 10 * 41 MiB that grow.
  const SnapshotSection s = failing(450 * kMiB, {1, 1}, 10);
  ASSERT_TRUE(s.batch);
  EXPECT_EQ(s.batch->outcome, BatchOutcome::kFailed);
  EXPECT_NEAR(static_cast<double>(*s.batch->full_peak_bytes) / kMiB, 150 + 401, 12);
  EXPECT_NEAR(*s.batch->largest_high, 300.0 / 401, 0.03);
  EXPECT_LT(s.batch->largest, 1);
  EXPECT_EQ(s.oom->cause, OomCause::kNeed) << "the whole step does not fit, however its memory lies";
}

TEST(BatchFit, StatesThatTheFirstStepMakesAreThereInTheNext) {
  const SnapshotSection s = failing(180 * kMiB, {1}, 1);
  ASSERT_TRUE(s.batch);
  EXPECT_NEAR(static_cast<double>(*s.batch->full_peak_bytes) / kMiB, 150 + 41, 2);
  EXPECT_NEAR(*s.batch->largest_high, 30.0 / 40, 0.03);
  EXPECT_EQ(s.oom->new_state_bytes, 50 * kMiB);
  EXPECT_FALSE(failing(180 * kMiB, {1, 1}, 1).oom->new_state_bytes);
}

TEST(BatchFit, WhereTheProgramGoesOnTheBatchIsThatOfTheStepsAfter) {
  const SnapshotSection s = failing(352 * kMiB, {}, 8, {2, 2, 2});
  ASSERT_TRUE(s.batch && s.oom);
  EXPECT_EQ(s.oom->steps_after, 3);
  EXPECT_EQ(s.batch->outcome, BatchOutcome::kFits);
  EXPECT_NEAR(*s.batch->largest_high, 200.0 / 80, 0.1);
}

TEST(BatchFit, ARequestThatNothingCouldServeSaysNothingOfTheBatch) {
  const SnapshotSection s = failing(300 * kMiB, {1}, 11);
  EXPECT_EQ(s.oom->cause, OomCause::kRequest);
  EXPECT_FALSE(s.batch);
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
