#include "analyse/job/traffic.h"

#include <gtest/gtest.h>

#include "analyse/job/job.h"
#include "tests/support/hand_job.h"

namespace profgpu {
namespace {

using test::HandJob;

std::vector<Traffic> traffic_of(const HandJob& job) {
  const MatchedCalls met = matched_calls(job.ranks);
  const std::vector<RankClock> clocks = align_clocks(job.ranks, met);
  return traffic({job.ranks, met, clocks, matched_collectives({job.ranks, met, clocks})});
}

TEST(TrafficTest, ClassesOfSizeHaveWaitsAndRates) {
  HandJob job;
  for (int r = 0; r < 4; ++r) {
    job.add("a");
    job.ranks.back().device_name = "NVIDIA H200";
  }
  const auto all_reduce = [&](int i, int64_t bytes) {   // the last comes 600 after the first; 1000 of transfer
    const int64_t t = i * 10'000;
    job.call({.elements = bytes / 4, .message_bytes = bytes, .number = i},
             {{0, t, t + 1600}, {1, t + 200, t + 1600}, {2, t + 400, t + 1600}, {3, t + 600, t + 1600}});
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
    job.call({.message_bytes = -1, .number = i, .group_size = i < 2 ? 4 : 2},
             {{0, i * 1000, i * 1000 + 500}, {1, i * 1000 + 100, i * 1000 + 500}});
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


using test::HandJob;

/// Stage 0 of rank 4 and stage 1 of rank 6, on two hosts, one clock an hour ahead; a barrier a step ties the clocks.
HandJob pipeline() {
  HandJob job;
  for (int r = 0; r < 7; ++r) job.add(r < 6 ? "a" : "b", {r < 6 ? 0 : 3'600'000'000'000, 0});
  job.steps(5, 100'000);
  for (int i = 0; i < 5; ++i) {
    const int64_t at = i * 100'000;
    job.call({.name = "barrier", .number = i, .step = i}, {{4, at, at + 1000}, {6, at + 10, at + 1000}});
    for (int m = 0; m < 3; ++m) {   // sent at 10'000 m, awaited 2'000 before, here 4'000 after
      const int64_t t = at + 20'000 + 10'000 * m;
      HandJob::Call call{.name = "send",
                         .group = "pp",
                         .members = "[4, 6]",
                         .elements = 500,
                         .message_bytes = 2000,
                         .number = 40 + m,
                         .step = i,
                         .group_size = 2,
                         .peer = 1};
      job.call(call, {{4, t, t + 4'000}});
      call.name = "recv", call.peer = 0, call.number = 7 + m;
      job.call(call, {{6, t - 2'000, t + 4'000}});
    }
  }
  return job;
}

std::vector<Pair> pairs_of(const HandJob& job) {
  return pairs(job.ranks, align_clocks(job.ranks, matched_calls(job.ranks)));
}

TEST(PairsTest, SendsMeetTheirReceives) {
  const std::vector<Pair> all = pairs_of(pipeline());
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].from, 4);
  EXPECT_EQ(all[0].to, 6);
  EXPECT_EQ(all[0].process_group, "pp");
  EXPECT_EQ(all[0].spans_hosts, true);
  EXPECT_EQ(all[0].calls, 15);
  EXPECT_EQ(all[0].bytes, 30'000);
  EXPECT_EQ(all[0].message_bytes, 2000);
  EXPECT_EQ(all[0].receiver_wait_ns, 15 * 2'000);
  EXPECT_EQ(all[0].sender_wait_ns, 0);
  EXPECT_EQ(all[0].transfer_ns, 15 * 4'000);
  EXPECT_DOUBLE_EQ(all[0].bandwidth_gbps.value(), 0.5);
}

TEST(PairsTest, TheOtherOfTwoNeedsNoRecord) {
  HandJob job = pipeline();
  for (RankDigest& d : job.ranks)
    for (CollectiveCall& c : d.calls.calls) c.peer = -1;
  ASSERT_EQ(pairs_of(job).size(), 1u);
  for (RankDigest& d : job.ranks)
    for (CollectiveKind& k : d.calls.kinds) k.members = "";
  EXPECT_TRUE(pairs_of(job).empty());   // now nobody says who the other is
}

TEST(PairsTest, OneEndOrUnknownClocksSayNothing) {
  HandJob job = pipeline();
  std::vector<RankClock> clocks = align_clocks(job.ranks, matched_calls(job.ranks));
  clocks[6].method = "none";
  EXPECT_TRUE(pairs(job.ranks, clocks).empty());
  job.ranks.pop_back();
  EXPECT_TRUE(pairs_of(job).empty());
}

/// Stages 0 and 1, one clock ahead, whose bare kernels are what ranges call them; each end waits for the other in turn.
HandJob bare(int64_t ahead_ns, int32_t first_place = 0) {
  HandJob job;
  for (int r = 0; r < 2; ++r) job.add(r == 0 ? "a" : "b", {r == 0 ? 0 : ahead_ns, 0});
  job.steps(10, 100'000);
  const auto call = [&](int rank, int64_t from, int64_t to, CollectiveOp op, int step) {
    job.call({.name = "ncclDevKernel_SendRecv(x)",
              .group = "",
              .elements = -1,
              .message_bytes = -1,
              .number = step,
              .step = step,
              .described = false},
             {{rank, from, to}});
    RankDigest& d = job.ranks[static_cast<size_t>(rank)];
    d.sites.calls.push_back({.op = op, .own = first_place + rank, .peer = first_place + 1 - rank});
  };
  for (int i = 0; i < 10; ++i) {
    const int64_t at = i * 100'000;
    call(0, at + 20'000, at + 24'000, CollectiveOp::kSend, i);
    call(1, at, at + 24'000, CollectiveOp::kRecv, i);
    call(0, at + 30'000, at + 84'000, CollectiveOp::kRecv, i);
    call(1, at + 80'000, at + 84'000, CollectiveOp::kSend, i);
  }
  return job;
}

TEST(PairsTest, BareKernelsAreWhatRangesCallThem) {
  const Job job = analyse_job(bare(3'600'000'000'000).ranks);
  EXPECT_LE(std::abs(job.clocks[1].offset_ns + 3'600'000'000'000), job.clocks[1].error_ns.value());
  EXPECT_LT(job.clocks[1].error_ns.value(), 30'000);
  EXPECT_TRUE(job.stragglers.empty());
  ASSERT_EQ(job.pairs.size(), 2U);
  EXPECT_EQ(job.pairs[0].calls, 10);
}

TEST(PairsTest, PlacesInAGroupThatNobodyNamesAreNotRanks) { EXPECT_TRUE(pairs_of(bare(0, 4)).empty()); }

TEST(PairsTest, BareExchangesThatNobodyNamesMakeNobodyLate) {
  HandJob unnamed = bare(0);
  for (RankDigest& d : unnamed.ranks) d.sites.calls.clear();
  EXPECT_EQ(matched_calls(unnamed.ranks).size(), 0U);
  EXPECT_TRUE(analyse_job(unnamed.ranks).stragglers.empty());
}

}  // namespace
}  // namespace profgpu
