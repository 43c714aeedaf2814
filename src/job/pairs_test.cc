#include "job/pairs.h"

#include <gtest/gtest.h>

#include "tests/support/hand_job.h"

namespace profgpu {
namespace {

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
      HandJob::Call call{.name = "send", .group = "pp", .members = "[4, 6]", .elements = 500, .message_bytes = 2000, .number = 40 + m,
                         .step = i, .group_size = 2, .peer = 1};
      job.call(call, {{4, t, t + 4'000}});
      call.name = "recv", call.peer = 0, call.number = 7 + m;
      job.call(call, {{6, t - 2'000, t + 4'000}});
    }
  }
  return job;
}

std::vector<Pair> pairs_of(const HandJob& job) { return pairs(job.ranks, align_clocks(job.ranks, matched_calls(job.ranks))); }

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

}  // namespace
}  // namespace profgpu
