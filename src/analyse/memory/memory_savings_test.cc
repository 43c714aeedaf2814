#include "analyse/memory/memory_savings.h"

#include <gtest/gtest.h>

#include "analyse/memory/memory_phases.h"
#include "support/memory_snapshot_builder.h"

namespace profgpu {
namespace {

struct Analysed {
  explicit Analysed(MemorySnapshot of)
      : snapshot(std::move(of)),
        history(memory_histories(snapshot).front()),
        stacks(snapshot),
        phases(snapshot, history, stacks),
        categories(memory_categories(snapshot, history, stacks, phases)) {}
  MemorySnapshot snapshot;
  MemoryHistory history;
  StackBook stacks;
  MemoryPhases phases;
  std::vector<CategoryOf> categories;
};

MemorySnapshot training() {
  SnapshotBuilder b;
  b.alloc(0x1000, 8000, SnapshotBuilder::kForward);
  b.alloc(0x4000, 1000, SnapshotBuilder::kGradient);
  b.free(0x1000, 8000);
  b.alloc(0x5000, 1000, SnapshotBuilder::kOptimizer);
  b.alloc(0x6000, 5000, SnapshotBuilder::kOptimizer);
  return b.finish();
}

TEST(MemorySavings, WithNothingChangedThePeakIsThePeak) {
  const Analysed a(training());
  std::array<double, kMemoryCategories> ones;
  ones.fill(1);
  EXPECT_EQ(scaled_peak(a.snapshot, a.history, a.categories, ones), a.history.peak_bytes);
}

TEST(MemorySavings, AnotherMomentBecomesThePeak) {
  const Analysed a(training());
  EXPECT_EQ(a.history.peak_bytes, 9000);  // activations and the gradient
  std::array<double, kMemoryCategories> factors;
  factors.fill(1);
  factors[static_cast<size_t>(MemoryCategory::kActivation)] = 0;
  EXPECT_EQ(scaled_peak(a.snapshot, a.history, a.categories, factors), 7000);  // the optimizer's step
}

TEST(MemorySavings, WhatSavesMostComesFirstAndNothingIsBelowZero) {
  const Analysed a(training());
  const std::vector<SavingRow> rows = memory_savings(a.snapshot, a.history, a.stacks, a.categories);
  ASSERT_FALSE(rows.empty());
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_GT(rows[i].saved_bytes, 0);
    EXPECT_EQ(rows[i].peak_bytes + rows[i].saved_bytes, a.history.peak_bytes);
    EXPECT_GE(rows[i == 0 ? 0 : i - 1].saved_bytes, rows[i].saved_bytes);
  }
}

}  // namespace
}  // namespace profgpu
