#include "analyse/memory/snapshot_section.h"

#include <gtest/gtest.h>

#include "analyse/memory/lifetimes.h"
#include "support/memory_snapshot_builder.h"

namespace profgpu {
namespace {

constexpr int64_t kMiB = 1 << 20;

int64_t bytes_of(const SnapshotSection& s, MemoryCategory category) {
  for (const CategoryRow& c : s.peak.categories)
    if (c.category == category) return c.bytes;
  return 0;
}

TEST(SnapshotSection, PairsAsPyTorchsViewerDoes) {
  SnapshotBuilder b;
  b.alloc(0x1000, 100);
  b.free(0x9000, 70);  // made before the recording
  b.alloc(0x2000, 50);
  b.free(0x1000, 100);
  b.alloc(0x1000, 30);
  b.segment(0, 0x1000, 4 * kMiB, {{0x1000, 512, 30}, {0x2000, 512, 50}, {0x5000, 512, 7}});
  const SnapshotSection s = snapshot_section(b.finish());
  // Before: what was freed and what is alive without an event.
  EXPECT_EQ(s.peak_allocated_bytes, 77 + 100);
  EXPECT_EQ(s.peak_event, 0);
  EXPECT_TRUE(s.truncated);
  EXPECT_EQ(s.timeline.back().allocated_bytes, 30 + 50 + 7);
  EXPECT_EQ(s.requested_bytes, 87);
  EXPECT_EQ(s.allocated_bytes, 3 * 512);
  EXPECT_EQ(s.segments, 1);
  EXPECT_EQ(s.blocks, 3);
}

TEST(SnapshotSection, APeakBeforeTheFirstEventHasNone) {
  SnapshotBuilder b;
  b.free(0x1000, 100);
  b.alloc(0x2000, 50);
  const SnapshotSection s = snapshot_section(b.finish());
  EXPECT_EQ(s.peak_allocated_bytes, 100);
  EXPECT_FALSE(s.peak_event);
}

TEST(SnapshotSection, ReservedIsCountedBackwardsFromTheSnapshot) {
  SnapshotBuilder b;
  b.action(AllocationAction::kSegmentAlloc, 0x1000, 20 * kMiB);
  b.alloc(0x1000, 10 * kMiB);
  b.action(AllocationAction::kSegmentFree, 0x90000000, 2 * kMiB);
  b.segment(0, 0x1000, 20 * kMiB, {{0x1000, 10 * kMiB, 10 * kMiB}});
  const SnapshotSection s = snapshot_section(b.finish());
  EXPECT_EQ(s.peak.reserved_bytes, 22 * kMiB);
  EXPECT_EQ(s.peak.unused_bytes, 12 * kMiB);
  EXPECT_EQ(s.devices.front().peak_reserved_bytes, 22 * kMiB);
  EXPECT_EQ(s.timeline.back().reserved_bytes, 20 * kMiB);
}

/// A step of a model of two parameters, of which the recording sees all but the parameters' making.
void add_step(SnapshotBuilder& b, bool first) {
  b.alloc(0x10000, 4000, SnapshotBuilder::kForward);
  b.alloc(0x20000, 500, SnapshotBuilder::kForward);
  b.free(0x20000, 500);  // within the forward: temporary
  b.alloc(0x30000, 1000, SnapshotBuilder::kGradient);
  b.alloc(0x40000, 2000, SnapshotBuilder::kBackward);  // its gradient is taken over as it is
  b.free(0x10000, 4000);
  if (first)
    for (uint64_t i = 0; i < 2; ++i)
      b.alloc(0x50000 + 0x1000 * i, 1000, SnapshotBuilder::kOptimizer),
          b.alloc(0x60000 + 0x1000 * i, 2000, SnapshotBuilder::kOptimizer);
  b.alloc(0x70000, 2000, SnapshotBuilder::kOptimizer);
  b.free(0x70000, 2000);
  b.free(0x30000, 1000);
  b.free(0x40000, 2000);
}

TEST(SnapshotSection, CategoriesAddUpToThePeakAndFollowStacksAndLifetimes) {
  SnapshotBuilder b;
  add_step(b, true);
  b.segment(0, 0x1000, 4 * kMiB, {{0xa000, 1024, 1000}, {0xb000, 2048, 2000}, {0xc000, 512, 333}});
  const SnapshotSection s = snapshot_section(b.finish());
  EXPECT_EQ(s.steps, 1);
  EXPECT_EQ(s.peak.phase, "optimizer");
  EXPECT_EQ(bytes_of(s, MemoryCategory::kParameter), 3000);
  EXPECT_EQ(bytes_of(s, MemoryCategory::kGradient), 3000);
  EXPECT_EQ(bytes_of(s, MemoryCategory::kOptimizerState), 6000);
  EXPECT_EQ(bytes_of(s, MemoryCategory::kTemporary), 2000);
  EXPECT_EQ(bytes_of(s, MemoryCategory::kUnknown), 333);
  int64_t sum = 0;
  for (const CategoryRow& c : s.peak.categories) sum += c.bytes;
  EXPECT_EQ(sum, s.peak_allocated_bytes);
  int64_t held = 0;
  for (const HolderRow& h : s.peak.holders) held += h.bytes;
  EXPECT_EQ(held, s.peak_allocated_bytes);
}

TEST(SnapshotSection, ActivationsAreWhatTheBackwardPassFrees) {
  SnapshotBuilder b;
  b.alloc(0x10000, 9000, SnapshotBuilder::kForward);
  b.alloc(0x20000, 500, SnapshotBuilder::kForward);
  b.free(0x20000, 500);
  b.alloc(0x30000, 1000, SnapshotBuilder::kBackward);
  b.free(0x10000, 9000);
  b.free(0x30000, 1000);
  const SnapshotSection s = snapshot_section(b.finish());
  EXPECT_EQ(bytes_of(s, MemoryCategory::kActivation), 9000);
  EXPECT_EQ(bytes_of(s, MemoryCategory::kTemporary), 1000);
  EXPECT_EQ(s.peak.holders.front().function, "forward");
  EXPECT_EQ(s.peak.holders.front().file, "job/model.py");
  EXPECT_EQ(s.peak.holders.front().line, 12);
}

TEST(SnapshotSection, WhatAForwardKeepsEveryStepIsARetainedGraph) {
  SnapshotBuilder b;
  for (uint64_t step = 0; step < 8; ++step) {
    add_step(b, step == 0);
    b.alloc(0x1000000 + 0x1000 * step, 512, SnapshotBuilder::kForward);  // nobody frees it
  }
  const SnapshotSection s = snapshot_section(b.finish());
  ASSERT_EQ(s.growth.size(), 1U);
  EXPECT_EQ(s.growth.front().cause, "retained_graph");
  EXPECT_EQ(s.growth.front().growth_bytes, 512);
  EXPECT_GT(s.growth.front().low_bytes, 0);
}

TEST(SnapshotSection, SteadyStepsDoNotGrow) {
  SnapshotBuilder b;
  for (int step = 0; step < 8; ++step) add_step(b, step == 0);
  EXPECT_TRUE(snapshot_section(b.finish()).growth.empty());
}

TEST(SnapshotSection, TellsFragmentationFromNeed) {
  const auto cause = [](int64_t asked) {
    SnapshotBuilder b;
    b.action(AllocationAction::kSegmentAlloc, 0x1000, 20 * kMiB);
    b.alloc(0x1000, 8 * kMiB);
    b.action(AllocationAction::kOom, kMiB, asked);
    b.segment(0, 0x1000, 20 * kMiB,
              {{0x1000, 8 * kMiB, 8 * kMiB},
               {0x801000, 7 * kMiB, 0, BlockState::kInactive},
               {0xf01000, 5 * kMiB, 0, BlockState::kInactive}});
    return snapshot_section(b.finish()).oom;
  };
  const auto pieces = cause(10 * kMiB);
  ASSERT_TRUE(pieces);
  EXPECT_EQ(pieces->cause, OomCause::kFragmentation);
  EXPECT_EQ(pieces->requested_bytes, 10 * kMiB);
  EXPECT_EQ(pieces->device_free_bytes, kMiB);
  EXPECT_EQ(pieces->unused_bytes, 12 * kMiB);
  EXPECT_EQ(pieces->largest_free_block_bytes, 7 * kMiB);
  EXPECT_EQ(cause(14 * kMiB)->cause, OomCause::kNeed);
}

TEST(SnapshotSection, WhereTheDeviceHasEnoughALimitOfTheProcessRefuses) {
  const auto section = [](int64_t device_free, int64_t asked) {
    SnapshotBuilder b;
    b.action(AllocationAction::kSegmentAlloc, 0x1000, 20 * kMiB);
    b.alloc(0x1000, 8 * kMiB, SnapshotBuilder::kForward);
    b.action(AllocationAction::kOom, static_cast<uint64_t>(device_free), asked);
    b.segment(0, 0x1000, 20 * kMiB, {{0x1000, 8 * kMiB, 8 * kMiB}, {0x801000, 12 * kMiB, 0, BlockState::kInactive}});
    return snapshot_section(b.finish());
  };
  const SnapshotSection s = section(40960 * kMiB, 96 * kMiB);
  EXPECT_EQ(s.oom->cause, OomCause::kLimit);
  ASSERT_TRUE(s.batch);
  EXPECT_EQ(s.batch->capacity_bytes, 20 * kMiB);
  // A request of 2 MiB takes a segment of 20 MiB, which is not there.
  EXPECT_EQ(section(19 * kMiB, 2 * kMiB).oom->cause, OomCause::kFragmentation);
}

TEST(SnapshotSection, LittleThatIsUnusedIsNoFragmentation) {
  const auto failed = [](int64_t allocated, int64_t asked, std::optional<int64_t> capacity = {}) {
    SnapshotBuilder b;
    const int64_t reserved = 200 * kMiB;
    b.action(AllocationAction::kSegmentAlloc, 0x1000, reserved);
    b.alloc(0x1000, allocated * kMiB);
    b.action(AllocationAction::kOom, kMiB, asked * kMiB);
    b.segment(0, 0x1000, reserved,
              {{0x1000, allocated * kMiB, allocated * kMiB},
               {0x20000000, reserved - allocated * kMiB, 0, BlockState::kInactive}});
    return *snapshot_section(b.finish(), capacity).oom;
  };
  EXPECT_EQ(failed(190, 9).cause, OomCause::kNeed);
  EXPECT_TRUE(failed(190, 9).fits_in_pieces());
  EXPECT_EQ(failed(150, 45).cause, OomCause::kFragmentation);
  EXPECT_EQ(failed(150, 300).cause, OomCause::kRequest) << "more than all that is reserved and free";
  EXPECT_EQ(failed(150, 300, 1000 * kMiB).cause, OomCause::kOutside) << "others hold most of the device";
  EXPECT_EQ(failed(150, 300, 1000 * kMiB).outside_bytes, 799 * kMiB);
  EXPECT_EQ(failed(150, 45, 300 * kMiB).cause, OomCause::kFragmentation);
}

TEST(SnapshotSection, WhatTheRequestCannotHaveIsNotInPieces) {
  SnapshotBuilder b;
  b.action(AllocationAction::kSegmentAlloc, 0x1000, 20 * kMiB);
  b.action(AllocationAction::kSegmentAlloc, 0x8000000, 20 * kMiB);
  b.alloc(0x1000, 18 * kMiB);
  b.action(AllocationAction::kOom, kMiB, 10 * kMiB);
  b.segment(0, 0x1000, 20 * kMiB, {{0x1000, 18 * kMiB, 18 * kMiB}, {0x2000000, 2 * kMiB, 0, BlockState::kInactive}});
  b.segment(0, 0x8000000, 20 * kMiB, {{0x8000000, 20 * kMiB, 0, BlockState::kInactive}}, false);   // of small sizes
  const auto oom = snapshot_section(b.finish()).oom;
  EXPECT_EQ(oom->usable_bytes, 2 * kMiB);
  EXPECT_EQ(oom->unused_bytes, 22 * kMiB);
  EXPECT_EQ(oom->cause, OomCause::kNeed);
}

TEST(SnapshotSection, WithoutCompletedFreesTheRequestsCount) {
  SnapshotBuilder b;
  for (int i = 0; i < 5; ++i) {
    b.alloc(0x1000, 1000, SnapshotBuilder::kForward);
    b.alloc(0x9000, 500, SnapshotBuilder::kForward);
    b.action(AllocationAction::kFreeRequested, 0x1000, 1000);
    b.action(AllocationAction::kFreeRequested, 0x9000, 500);
  }
  const SnapshotSection s = snapshot_section(b.finish());
  EXPECT_EQ(s.peak_allocated_bytes, 1500);
  EXPECT_EQ(s.timeline.back().allocated_bytes, 0);
  EXPECT_EQ(s.left_out, std::vector<std::string>{"free_completed"});
}

TEST(SnapshotSection, AnAllocationEndsWhatWasAtItsAddress) {
  SnapshotBuilder b;
  b.alloc(0x1000, 1000, SnapshotBuilder::kForward);
  b.alloc(0x1000, 700, SnapshotBuilder::kForward);   // no event frees the first
  b.alloc(0x2000, 100, SnapshotBuilder::kForward);
  b.free(0x2000, 100);
  const SnapshotSection s = snapshot_section(b.finish());
  EXPECT_EQ(s.peak_allocated_bytes, 1000);
  EXPECT_EQ(s.timeline.back().allocated_bytes, 700);
}

TEST(SnapshotSection, WithoutEventsOfSegmentsReservedMemoryIsUnknown) {
  SnapshotBuilder b;
  b.alloc(0x1000, 4 * kMiB, SnapshotBuilder::kForward);
  b.free(0x1000, 4 * kMiB);
  b.segment(0, 0x1000, 20 * kMiB, {{0x1000, 20 * kMiB, 0, BlockState::kInactive}});
  const SnapshotSection s = snapshot_section(b.finish());
  EXPECT_FALSE(s.peak.reserved_bytes);
  EXPECT_EQ(s.left_out, std::vector<std::string>{"segments"});
}

TEST(SnapshotSection, AnOptimizersTemporariesAreASpikeHoweverManyThereAre) {
  SnapshotBuilder b;
  b.alloc(0x1000, 100, SnapshotBuilder::kForward);
  for (uint64_t i = 0; i < 200; ++i) b.alloc(0x100000 + 0x100 * i, 100, SnapshotBuilder::kOptimizer);
  for (uint64_t i = 0; i < 200; ++i) b.free(0x100000 + 0x100 * i, 100);
  const SnapshotSection s = snapshot_section(b.finish());
  ASSERT_TRUE(s.spike);
  EXPECT_EQ(s.spike->peak_without_bytes, 100);
}

TEST(SnapshotSection, WhatAnotherPoolHasFreeIsNotInPieces) {
  SnapshotBuilder b;
  b.action(AllocationAction::kSegmentAlloc, 0x1000, 20 * kMiB);
  b.action(AllocationAction::kSegmentAlloc, 0x8000000, 500 * kMiB);
  b.alloc(0x1000, 8 * kMiB);
  b.action(AllocationAction::kOom, kMiB, 200 * kMiB);
  b.segment(0, 0x1000, 20 * kMiB, {{0x1000, 8 * kMiB, 8 * kMiB}, {0x801000, 12 * kMiB, 0, BlockState::kInactive}});
  b.segment(0, 0x8000000, 500 * kMiB, {{0x8000000, 500 * kMiB, 0, BlockState::kInactive}});
  MemorySnapshot snapshot = b.finish();
  EXPECT_EQ(snapshot_section(snapshot).oom->cause, OomCause::kFragmentation);
  snapshot.pools.emplace_back(0, 1);
  snapshot.segments.back().pool = 1;
  AllocationEvents events;   // the same, with the pool that each asked
  for (size_t i = 0; i < snapshot.events.size(); ++i) {
    AllocationKind kind = snapshot.events.kind_of(i);
    kind.pool = 0;
    events.push({events.kind(kind), snapshot.events.address(i), snapshot.events.bytes(i), snapshot.events.time_us(i),
                 snapshot.events.stack(i)});
  }
  snapshot.events = std::move(events);
  const auto oom = snapshot_section(snapshot).oom;
  ASSERT_TRUE(oom);
  EXPECT_EQ(oom->cause, OomCause::kNeed);
  EXPECT_EQ(oom->largest_free_block_bytes, 12 * kMiB);
}

TEST(SnapshotSection, AShortLivedPeakIsASpike) {
  SnapshotBuilder b;
  b.alloc(0x1000, 1000, SnapshotBuilder::kForward);
  for (uint64_t i = 0; i < 100; ++i) {
    b.alloc(0x2000 + i, 100, SnapshotBuilder::kForward);
    b.free(0x2000 + i, 100);
  }
  b.alloc(0x3000, 5000, SnapshotBuilder::kOptimizer);
  b.free(0x3000, 5000);
  const SnapshotSection s = snapshot_section(b.finish());
  ASSERT_TRUE(s.spike);
  EXPECT_EQ(s.spike->function, "main");  // the line of the program, not the library's
  EXPECT_EQ(s.spike->bytes, 5000);
  EXPECT_EQ(s.spike->peak_without_bytes, 1100);
}

TEST(SnapshotSection, AShortHistoryHasSpikesToo) {
  SnapshotBuilder b;
  b.alloc(0x1000, 1000, SnapshotBuilder::kForward);
  b.alloc(0x3000, 9000, SnapshotBuilder::kForward);
  b.free(0x3000, 9000);
  const SnapshotSection s = snapshot_section(b.finish());
  ASSERT_TRUE(s.spike);
  EXPECT_EQ(s.spike->peak_without_bytes, 1000);
}

TEST(SnapshotSection, WhatHasNoStackIsNoLineThatSpikes) {
  SnapshotBuilder b;
  b.alloc(0x1000, 1000, {{"forward", "/me/model.py", 12}, {"main", "/me/train.py", 40}});
  b.alloc(0x3000, 9000);  // autograd's threads have no frames of Python
  b.free(0x3000, 9000), b.free(0x1000, 1000);
  const SnapshotSection s = snapshot_section(b.finish());
  EXPECT_EQ(bytes_of(s, MemoryCategory::kTemporary), 9000);
  EXPECT_FALSE(s.spike);
}

TEST(SnapshotSection, StatesOfEightBitsOfBeforeAreNoParameters) {
  for (const int64_t part : {4, 2}) {
    SnapshotBuilder b;
    std::vector<SnapshotBuilder::Block> blocks;
    uint64_t address = 0x1000000;
    for (const int64_t bytes : {40000, 72000, 96000}) {
      for (const int64_t size : {bytes, bytes / part, bytes / part}) blocks.push_back({address += 0x20000, size, size});
      b.alloc(static_cast<uint64_t>(bytes) << 16, bytes, SnapshotBuilder::kGradient);
    }
    b.segment(0, 0x1000000, 64 * kMiB, blocks);
    const SnapshotSection s = snapshot_section(b.finish());
    EXPECT_EQ(bytes_of(s, MemoryCategory::kParameter), 208000) << part;
    EXPECT_EQ(bytes_of(s, MemoryCategory::kOptimizerState), 2 * 208000 / part);
  }
}

TEST(SnapshotSection, TellsCopiesOfAModelFromLayersAlike) {
  const auto copied = [](const std::vector<int64_t>& moved, const std::vector<int64_t>& converted) {
    SnapshotBuilder b;
    uint64_t address = 0x1000;
    for (const int64_t bytes : moved) b.alloc(address += 0x10000, bytes, SnapshotBuilder::kMoved);
    for (const int64_t bytes : converted) b.alloc(address += 0x10000, bytes, SnapshotBuilder::kConverted);
    return snapshot_section(b.finish()).duplicate_parameter_bytes;
  };
  EXPECT_EQ(copied({4000, 2000, 40, 40}, {2000, 1000, 20, 20}), 3040);
  EXPECT_EQ(copied({4000, 2000, 40, 40}, {2000, 40, 4000, 40}), 6080);
  EXPECT_EQ(copied({4000, 2000, 40, 40}, {2000, 1000, 20, 40}), std::nullopt);
  EXPECT_EQ(copied({4000, 40, 4000, 40}, {4000, 40, 4000, 40}), std::nullopt);  // weights and biases of alike layers
}

TEST(SnapshotSection, CopiesOfParametersTellHowManyStatesThereAre) {
  const auto bytes = [](int64_t states, MemoryCategory category) {
    SnapshotBuilder b;
    std::vector<SnapshotBuilder::Block> blocks;
    uint64_t address = 0x100000;
    for (int64_t size = 4096; size <= 65536; size *= 2) {
      b.alloc(address += 0x20000, size / 2, SnapshotBuilder::kForward);
      for (int64_t i = 0; i <= states; ++i) blocks.push_back({address += 0x20000, size, size});
    }
    b.segment(0, 0x1000000, 64 * kMiB, blocks);
    MemorySnapshot snapshot = b.finish();
    snapshot.annotations.push_back({1, snapshot.strings.intern("Optimizer.zero_grad#AdamW.zero_grad"), 0, true});
    return bytes_of(snapshot_section(snapshot), category);
  };
  constexpr int64_t kModel = 2 * 65536 - 4096;
  EXPECT_EQ(bytes(0, MemoryCategory::kParameter), kModel);
  EXPECT_EQ(bytes(0, MemoryCategory::kUnknown), 0);
  EXPECT_EQ(bytes(2, MemoryCategory::kParameter), kModel);
  EXPECT_EQ(bytes(2, MemoryCategory::kOptimizerState), 2 * kModel);
}

TEST(SnapshotSection, AnOptimizerThatAllocatesNothingHasStepsByItsRanges) {
  SnapshotBuilder b;
  for (int step = 0; step < 3; ++step) {  // nine events of 10 us each
    b.alloc(0x10000, 4096, SnapshotBuilder::kForward);
    b.alloc(0x20000, 2048, SnapshotBuilder::kBackward);
    b.free(0x10000, 4096);
    b.alloc(0x30000, 512, SnapshotBuilder::kBackward);
    b.free(0x20000, 2048);
    b.free(0x30000, 512);
  }
  MemorySnapshot snapshot = b.finish();
  EXPECT_FALSE(snapshot_section(snapshot).steps);
  const StringId name = snapshot.strings.intern("Optimizer.step#SGD.step");
  const int64_t begin = snapshot.events.time_us(0);
  snapshot.annotations.push_back({begin - 90, name, 0, true});   // of a step before the first event
  snapshot.annotations.push_back({begin - 80, name, 0, false});
  for (int64_t step = 0; step < 3; ++step) {
    snapshot.annotations.push_back({begin + 90 * step + 44, name, 0, true});
    snapshot.annotations.push_back({begin + 90 * step + 45, name, 0, false});
  }
  const SnapshotSection s = snapshot_section(snapshot);
  EXPECT_EQ(s.steps, 3);
  EXPECT_EQ(bytes_of(s, MemoryCategory::kGradient), 2048);
}

/// Two segments of 4 MiB with a block of 1 MiB each, of which the second's is in the pool `id`; neither event tells it.
MemorySnapshot with_pool(std::pair<int64_t, int64_t> id, SnapshotBuilder::Stack where) {
  SnapshotBuilder b;
  b.alloc(0x1000000, kMiB, SnapshotBuilder::kForward);
  b.alloc(0x8000000, kMiB, where);
  b.segment(0, 0x1000000, 4 * kMiB, {{0x1000000, kMiB, kMiB}});
  b.segment(0, 0x8000000, 4 * kMiB, {{0x8000000, kMiB, kMiB}});
  MemorySnapshot snapshot = b.finish();
  snapshot.pools.push_back(id);
  snapshot.segments.back().pool = 1;
  return snapshot;
}

TEST(SnapshotSection, TellsAProgramsPoolFromACudaGraphs) {
  const SnapshotSection graph = snapshot_section(with_pool({1, 0}, SnapshotBuilder::kForward));
  EXPECT_EQ(bytes_of(graph, MemoryCategory::kGraphPool), kMiB);
  EXPECT_EQ(bytes_of(graph, MemoryCategory::kActivation), kMiB);
  const SnapshotSection own = snapshot_section(with_pool({0, 1}, SnapshotBuilder::kForward));
  EXPECT_EQ(bytes_of(own, MemoryCategory::kMemoryPool), kMiB);
  EXPECT_EQ(bytes_of(own, MemoryCategory::kGraphPool), 0);
  EXPECT_EQ(own.peak_allocated_bytes, 2 * kMiB);
}

TEST(SnapshotSection, InAProgramsPoolTheStackSaysWhatItIsOrThatGraphsShareIt) {
  const SnapshotSection weights = snapshot_section(with_pool({0, 1}, SnapshotBuilder::kMoved));
  EXPECT_EQ(bytes_of(weights, MemoryCategory::kParameter), kMiB);
  const SnapshotSection shared = snapshot_section(with_pool({0, 1}, SnapshotBuilder::kCaptured));
  EXPECT_EQ(bytes_of(shared, MemoryCategory::kGraphPool), kMiB);
  const auto row = std::ranges::find(shared.peak.categories, MemoryCategory::kGraphPool, &CategoryRow::category);
  EXPECT_EQ(row->certain_bytes, 0);
}

TEST(SnapshotSection, APoolOfTheSegmentIsNotThatOfAnEarlierOneAtItsAddress) {
  SnapshotBuilder b;
  b.action(AllocationAction::kSegmentAlloc, 0x1000000, 4 * kMiB);
  b.alloc(0x1000000, 3 * kMiB, SnapshotBuilder::kForward);
  b.free(0x1000000, 3 * kMiB);
  b.action(AllocationAction::kSegmentFree, 0x1000000, 4 * kMiB);
  b.action(AllocationAction::kSegmentAlloc, 0x1000000, 4 * kMiB);
  b.alloc(0x1000000, kMiB, SnapshotBuilder::kForward);
  b.segment(0, 0x1000000, 4 * kMiB, {{0x1000000, kMiB, kMiB}});
  MemorySnapshot snapshot = b.finish();
  snapshot.pools.emplace_back(0, 1);
  snapshot.segments.back().pool = 1;
  const SnapshotSection s = snapshot_section(snapshot);
  EXPECT_EQ(s.peak_allocated_bytes, 3 * kMiB);
  EXPECT_EQ(bytes_of(s, MemoryCategory::kMemoryPool), 0);
  EXPECT_EQ(bytes_of(s, MemoryCategory::kTemporary), 3 * kMiB);
}

TEST(SnapshotSection, SaysWhatTheFileLacks) {
  SnapshotBuilder b;
  b.alloc(0x1000, 1000);
  const SnapshotSection s = snapshot_section(b.finish());
  EXPECT_FALSE(s.stacks_recorded);
  const std::string empty = peak_sentence(snapshot_section(MemorySnapshot()), {});
  EXPECT_NE(empty.find("neither memory nor a history"), std::string::npos);
  SnapshotBuilder expandable;
  expandable.alloc(0x1000, 1000, SnapshotBuilder::kForward);
  MemorySnapshot snapshot = expandable.finish();
  snapshot.settings.expandable_segments = true;
  const auto replay = snapshot_section(snapshot).replay;
  ASSERT_TRUE(replay);
  EXPECT_FALSE(replay->exact);
  EXPECT_NE(replay->departure.find("expandable"), std::string::npos);
}

TEST(SnapshotSection, NothingGivesNothing) {
  const SnapshotSection s = snapshot_section(MemorySnapshot());
  EXPECT_EQ(s.peak_allocated_bytes, 0);
  EXPECT_TRUE(s.devices.empty());
}

// The backward pass of a line makes four times what the line keeps.
TEST(SnapshotSection, ASpikeOfTheBackwardPassNamesTheLineOfItsOperator) {
  const auto spike = [](bool other_line) {
    SnapshotBuilder b;
    b.alloc(0x10000, 4000, SnapshotBuilder::kForward);   // mul
    if (other_line)
      b.alloc(0x18000, 4000, {{"at::_ops::mul_Tensor::call(at::Tensor const&)", "??", 0}, {"loss", "/me/job/train.py", 9}});
    for (const uint64_t at : {0x20000, 0x30000, 0x40000, 0x50000}) b.alloc(at, 4000, SnapshotBuilder::kBackward);
    for (const uint64_t at : {0x20000, 0x30000, 0x40000, 0x50000}) b.free(at, 4000);
    b.free(0x10000, 4000);
    if (other_line) b.free(0x18000, 4000);
    return *snapshot_section(b.finish()).spike;
  };
  EXPECT_EQ(spike(false).node, "MulBackward0");
  EXPECT_EQ(spike(false).forward, "forward (job/model.py:12)");
  EXPECT_EQ(spike(true).forward, "forward (job/model.py:12) or loss (job/train.py:9)");
}

}  // namespace
}  // namespace profgpu
