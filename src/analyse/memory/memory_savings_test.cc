#include "analyse/memory/memory_savings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

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

/// A parameter of `parameter` bytes, its gradient and its states, and an activation made in `forward`.
std::vector<std::string> proposed(int64_t parameter, const std::vector<int64_t>& states,
                                  const std::vector<SnapshotBuilder::Frame>& forward, int64_t* saved = nullptr) {
  SnapshotBuilder b;
  b.alloc(0x1000, parameter, SnapshotBuilder::kMoved);
  uint64_t address = 0x100000;
  for (const int64_t bytes : states) b.alloc(address += 0x100000, bytes, SnapshotBuilder::kOptimizer);
  b.alloc(0x80000, 8000, forward);
  b.alloc(0x90000, parameter, SnapshotBuilder::kGradient);
  b.free(0x80000, 8000);
  const Analysed a(b.finish());
  std::vector<std::string> changes;
  for (const SavingRow& row : memory_savings(a.snapshot, a.history, a.stacks, a.categories, {})) {
    changes.push_back(row.change);
    if (saved != nullptr && row.change == "8-bit optimizer states") *saved = row.saved_bytes;
  }
  return changes;
}

bool has(const std::vector<std::string>& changes, std::string_view part) {
  return std::ranges::any_of(changes, [&](const std::string& c) { return c.find(part) != std::string::npos; });
}

TEST(MemorySavings, WhatIsThereAlreadyIsNotProposed) {
  const std::vector<SnapshotBuilder::Frame> plain{{"forward", "/me/model.py", 12}, {"main", "/me/train.py", 40}};
  const auto all = proposed(4000, {4000, 4000}, plain);
  for (const std::string_view change : {"8-bit", "of every block", "ZeRO stage 3", "bf16 for all", "autocast"})
    EXPECT_TRUE(has(all, change)) << change;
  EXPECT_FALSE(has(proposed(4000, {1000, 1000}, plain), "8-bit"));
  auto checkpointed = plain;
  checkpointed.insert(checkpointed.begin() + 1, {"checkpoint", "/x/site-packages/torch/utils/checkpoint.py", 490});
  EXPECT_FALSE(has(proposed(4000, {4000, 4000}, checkpointed), "checkpointing"));
  auto sharded = plain;
  sharded.push_back({"forward", "/x/site-packages/torch/distributed/fsdp/fully_sharded_data_parallel.py", 855});
  EXPECT_FALSE(has(proposed(4000, {4000, 4000}, sharded), "ZeRO"));
}

TEST(MemorySavings, WideStatesTellThatParametersHave16Bits) {
  const std::vector<SnapshotBuilder::Frame> plain{{"forward", "/me/model.py", 12}, {"main", "/me/train.py", 40}};
  int64_t saved = 0;
  const auto changes = proposed(4000, {8000, 8000, 8000}, plain, &saved);
  EXPECT_FALSE(has(changes, "bf16"));
  EXPECT_NEAR(saved, 2 * 8000 * 0.74, 1) << "the copy of the parameters stays";
}

TEST(MemorySavings, WhatSavesMostComesFirstAndNothingIsBelowZero) {
  const Analysed a(training());
  const std::vector<SavingRow> rows = memory_savings(a.snapshot, a.history, a.stacks, a.categories, {});
  ASSERT_FALSE(rows.empty());
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_GT(rows[i].saved_bytes, 0);
    EXPECT_EQ(rows[i].peak_bytes + rows[i].saved_bytes, a.history.peak_bytes);
    EXPECT_GE(rows[i == 0 ? 0 : i - 1].saved_bytes, rows[i].saved_bytes);
  }
}

}  // namespace
}  // namespace profgpu
