#include "analyse/rank/clock_scale.h"

#include <gtest/gtest.h>

#include "support/hand_trace.h"
#include "support/worked_trace.h"

namespace profgpu {
namespace {

int64_t part_ns(const Distance& d, std::string_view part) {
  const DistancePart* found = first_where(d.parts, [&](const DistancePart& p) { return p.name == part; });
  return found != nullptr ? found->total_ns : 0;
}

// A product at half and a copy at half of their limits, in one step of 1 ms; an H100's peaks are at 1830 MHz.
RankReport half_of_both() {
  HandTrace hand;
  hand.range("ProfilerStep#1", 0, 1000);
  hand.op("aten::mm", 10, 20).kernel("gemm", 11, 12, 100, 300);
  hand.op("aten::add", 30, 40).kernel("add", 31, 32, 300, 500);
  const WorkedTrace t(hand.build(), {kHundred, kBytes});
  RankReport rank;
  rank.limits = t.facts.get<Limits>();
  rank.roofline = t.facts.get<Roofline>();
  rank.distance = t.facts.get<Distance>();
  return rank;
}

TEST(ClockScale, ProductsAreNearerToWhatALowerClockAllows) {
  RankReport rank = half_of_both();
  at_clock(rank, 1830 * 0.8);
  EXPECT_NEAR(*rank.limits.clock_ratio(), 0.8, 1e-9);
  EXPECT_NEAR(*rank.roofline.mfu_pct, 10, 1e-6);
  EXPECT_NEAR(*rank.roofline.clock_mfu_pct, 12.5, 1e-6);
  for (const RooflineRow& row : rank.roofline.ops) {
    EXPECT_NEAR(*row.limit_pct(), 50, 1e-6);
    // The memory's rate does not follow the clock.
    EXPECT_NEAR(*row.clock_limit_pct, row.name == "aten::mm" ? 62.5 : 50, 1e-4) << row.name;
  }
  for (const PeakRow& peak : rank.limits.peaks()) EXPECT_NEAR(*peak.clock_tflops, 0.8 * peak.tflops, 1e-9);
}

// Of the 100 us beyond the limit, the product needs 25 us more at this clock.
TEST(ClockScale, TheDistanceHasAPartForTheClockAndAddsUp) {
  RankReport rank = half_of_both();
  at_clock(rank, 1830 * 0.8);
  EXPECT_EQ(part_ns(rank.distance, kReducedClock), 25'000);
  EXPECT_EQ(part_ns(rank.distance, "products"), 75'000);
  EXPECT_EQ(part_ns(rank.distance, "memory_bound"), 100'000);
  int64_t sum = 0;
  for (const DistancePart& p : rank.distance.parts) sum += p.total_ns;
  EXPECT_EQ(sum, rank.distance.wall_ns);
}

TEST(ClockScale, ALowClockExplainsNoMoreThanThereIs) {
  RankReport rank = half_of_both();
  at_clock(rank, 1830 * 0.1);
  EXPECT_EQ(part_ns(rank.distance, kReducedClock), 100'000);
  EXPECT_EQ(part_ns(rank.distance, "products"), 0);
}

TEST(ClockScale, AHigherClockAllowsMoreAndCostsNothing) {
  RankReport rank = half_of_both();
  at_clock(rank, 1830 * 1.25);
  EXPECT_NEAR(*rank.roofline.clock_mfu_pct, 8, 1e-6);
  EXPECT_EQ(part_ns(rank.distance, kReducedClock), 0);
  EXPECT_EQ(part_ns(rank.distance, "products"), 100'000);
}

TEST(ClockScale, MeasuredPeaksHaveNoClock) {
  RankReport rank = half_of_both();
  rank.limits.device->clock_mhz = 0;
  at_clock(rank, 1000);
  EXPECT_FALSE(rank.limits.clock_mhz);
  EXPECT_FALSE(rank.roofline.clock_mfu_pct);
}

}  // namespace
}  // namespace profgpu
