#include "job/traffic.h"

#include <gtest/gtest.h>

#include "tests/support/hand_job.h"

namespace profgpu {
namespace {

using test::HandJob;

std::vector<Traffic> traffic_of(const HandJob& job) {
  const MatchedCalls met = matched_calls(job.ranks);
  const std::vector<RankClock> clocks = align_clocks(job.ranks, met);
  return traffic(job.ranks, clocks, meetings(job.ranks, met, clocks));
}

TEST(TrafficTest, ClassesOfSizeHaveWaitsAndRates) {
  HandJob job;
  for (int r = 0; r < 4; ++r) {
    job.add("a");
    job.ranks.back().device_name = "NVIDIA H200";
  }
  const auto all_reduce = [&](int i, int64_t bytes) {   // the last comes 600 after the first; 1000 of transfer
    const int64_t t = i * 10'000;
    job.call({.elements = bytes / 4, .message_bytes = bytes, .number = i}, {{0, t, t + 1600}, {1, t + 200, t + 1600}, {2, t + 400, t + 1600}, {3, t + 600, t + 1600}});
  };
  for (int i = 0; i < 3; ++i) all_reduce(i, 40'000);
  for (int i = 3; i < 5; ++i) all_reduce(i, 65'535);   // of the same class
  all_reduce(5, 65'536);
  const std::vector<Traffic> all = traffic_of(job);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].name, "all_reduce");
  EXPECT_EQ(all[0].group_size, 4);
  EXPECT_EQ(all[0].spans_hosts, false);
  EXPECT_EQ(all[0].size_from_bytes, 32'768);
  EXPECT_EQ(all[0].calls, 5);
  EXPECT_EQ(all[0].whole_calls, 5);
  EXPECT_FALSE(all[0].wait_is_lower_bound());
  EXPECT_EQ(all[0].message_bytes, 40'000);
  EXPECT_EQ(all[0].wait_ns, 5 * (600 + 400 + 200));
  EXPECT_EQ(all[0].transfer_ns, 1000);
  EXPECT_DOUBLE_EQ(all[0].algbw_gbps.value(), 40);
  EXPECT_DOUBLE_EQ(all[0].busbw_gbps.value(), 60);   // 2 (n - 1) / n
  EXPECT_DOUBLE_EQ(all[0].link_gbps.value(), 450);
  EXPECT_NEAR(all[0].link_pct().value(), 100 * 60.0 / 450, 1e-9);
  EXPECT_EQ(all[1].size_from_bytes, 65'536);
  EXPECT_EQ(all[1].calls, 1);
}

// Half of the calls take four times as long: one row's time and rate say the same.
TEST(TrafficTest, AMedianBetweenTwoValuesLiesInTheMiddle) {
  HandJob job;
  for (int r = 0; r < 2; ++r) job.add("a");
  for (int i = 0; i < 16; ++i) {
    const int64_t t = i * 10'000, transfer = i < 8 ? 800 : 3200;
    job.call({.elements = 10'000, .message_bytes = 40'000, .number = i}, {{0, t, t + transfer}, {1, t, t + transfer}});
  }
  const std::vector<Traffic> all = traffic_of(job);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].transfer_ns, 2000);
  EXPECT_DOUBLE_EQ(all[0].algbw_gbps.value(), 20);
  EXPECT_DOUBLE_EQ(all[0].busbw_gbps.value(), 20);
}

TEST(TrafficTest, HalfAGroupGivesLowerBoundsAndTheNetworkHasNoKnownRate) {
  HandJob job;
  job.add("a"), job.add("b");
  for (RankDigest& d : job.ranks) d.device_name = "NVIDIA H200";
  for (int i = 0; i < 4; ++i)
    job.call({.message_bytes = -1, .number = i, .group_size = i < 2 ? 4 : 2}, {{0, i * 1000, i * 1000 + 500}, {1, i * 1000 + 100, i * 1000 + 500}});
  const std::vector<Traffic> all = traffic_of(job);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].group_size, 2);
  EXPECT_EQ(all[0].spans_hosts, true);
  EXPECT_EQ(all[0].size_from_bytes, -1);
  EXPECT_EQ(all[0].message_bytes, std::nullopt);
  EXPECT_EQ(all[0].transfer_ns, 400);
  EXPECT_FALSE(all[0].algbw_gbps || all[0].link_gbps);
  EXPECT_EQ(all[1].group_size, 4);
  EXPECT_TRUE(all[1].wait_is_lower_bound());
  EXPECT_EQ(all[1].wait_ns, 200);
  EXPECT_FALSE(all[1].transfer_ns);
}

}  // namespace
}  // namespace profgpu
