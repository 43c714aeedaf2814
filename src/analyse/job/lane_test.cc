#include "analyse/job/lane.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/support/trace_rows.h"

namespace profgpu {
namespace {

using test::TraceRows;

/// One step of 705 µs: compute to 400, a collective from 402 to 600, compute from 602 to 700. Times are microseconds.
class LaneTest : public testing::Test {
 protected:
  void kernel(int64_t launch, int64_t start, int64_t end) {
    rows.call("cudaLaunchKernel", launch * 1000, 3000, ++correlation);
    rows.kernel("gemm", start * 1000, (end - start) * 1000, correlation);
  }
  void collective(int64_t launch, int64_t start, int64_t end) {
    rows.call("cudaLaunchKernelExC", launch * 1000, 3000, ++correlation);
    rows.collective({.name = "allreduce", .in = 8, .out = 8}, start * 1000, (end - start) * 1000, correlation);
  }
  // "arrive 402", one a point.
  std::vector<std::string> points() {
    rows.annotation("ProfilerStep#0", 0, 705'000);
    trace = rows.finish();
    const Facts facts(trace, {});
    lane = Lane::compute(facts);
    std::vector<std::string> all;
    const char* names[] = {"restart", "arrive", "wait", "end", "begin"};
    for (const LanePoint& p : lane.points)
      all.push_back(names[static_cast<size_t>(p.what)] + (" " + std::to_string(p.time_ns / 1000)));
    return all;
  }
  // Microseconds by kind before a point.
  [[nodiscard]] std::map<std::string_view, int64_t> before(size_t point) const {
    std::map<std::string_view, int64_t> parts;
    for (uint32_t i = point > 0 ? lane.points[point - 1].parts_end : 0; i < lane.points[point].parts_end; ++i)
      parts[lane_time_name(lane.parts[i].kind)] += lane.parts[i].ns / 1000;
    return parts;
  }

  TraceRows rows;
  Trace trace;
  Lane lane;
  uint32_t correlation = 0;
};

using Parts = std::map<std::string_view, int64_t>;

TEST_F(LaneTest, ArrivesAndWaits) {
  kernel(10, 20, 400);
  collective(30, 402, 600);
  kernel(40, 602, 700);
  EXPECT_EQ(points(), (std::vector<std::string>{"restart 0", "begin 0", "arrive 402", "wait 600", "end 705"}));
  EXPECT_EQ(before(2), (Parts{{"host_bound", 20}, {"compute", 380}, {"launch_latency", 2}}));
  EXPECT_EQ(before(3), Parts{});
  EXPECT_EQ(before(4), (Parts{{"launch_latency", 2}, {"compute", 98}, {"host_bound", 5}}));
  ASSERT_EQ(lane.steps.size(), 1U);
  EXPECT_EQ(lane.steps[0].host_ns, 705'000);   // it never waits for the device
}

TEST_F(LaneTest, ALateLaunchIsNoWait) {
  kernel(10, 20, 400);
  collective(30, 402, 600);
  kernel(640, 650, 700);
  EXPECT_EQ(points(), (std::vector<std::string>{"restart 0", "begin 0", "arrive 402", "end 705"}));
  EXPECT_EQ(before(3)["compute"], 50);
  EXPECT_EQ(before(3)["host_bound"], 198 + 50 + 5);   // beside the collective, in the gap, at the end
}

TEST_F(LaneTest, AHostThatWaitsForTheCollectiveWaits) {
  kernel(10, 20, 400);
  collective(30, 402, 600);
  rows.call("cudaStreamSynchronize", 50'000, 555'000);
  kernel(640, 650, 700);
  EXPECT_EQ(points(), (std::vector<std::string>{"restart 0", "begin 0", "arrive 402", "wait 600", "end 705"}));
  EXPECT_EQ(lane.steps[0].host_ns, 150'000);
}

// A thread that sleeps while it waits is woken late; what ran since may be what it waited for.
TEST_F(LaneTest, AHostThatReturnsLateWaitedForTheCollectiveIfNothingRanSince) {
  kernel(10, 20, 400);
  collective(30, 402, 500);
  rows.call("cudaDeviceSynchronize", 50'000, 550'000);
  kernel(610, 650, 700);
  EXPECT_EQ(points(), (std::vector<std::string>{"restart 0", "begin 0", "arrive 402", "wait 500", "end 705"}));
  int64_t idle = 0;
  for (const auto& [kind, us] : before(4)) idle += kind == "compute" ? 0 : us;
  EXPECT_EQ(idle, 150 + 5);
}

TEST_F(LaneTest, AHostThatReturnsLateMayHaveWaitedForWhatRanSince) {
  kernel(10, 20, 400);
  collective(30, 402, 500);
  rows.call("cudaDeviceSynchronize", 50'000, 550'000);
  rows.call("cudaMemcpyAsync", 40'000, 3000, ++correlation);
  rows.copy("Memcpy DtoH (Device -> Pinned)", 540'000, 40'000, correlation);
  kernel(610, 650, 700);
  EXPECT_EQ(points(), (std::vector<std::string>{"restart 0", "begin 0", "arrive 402", "end 705"}));
}

TEST_F(LaneTest, WhatIsHiddenBesideComputeIsNotWaitedFor) {
  kernel(10, 20, 650);
  collective(30, 402, 600);
  kernel(40, 651, 700);
  EXPECT_EQ(points(), (std::vector<std::string>{"restart 0", "begin 0", "arrive 402", "end 705"}));
}

// The second was ready when the compute before it had ended; its stream was not. What waits for it waits from then on.
TEST_F(LaneTest, ACollectiveBehindAnotherWasReadyBefore) {
  kernel(10, 20, 400);
  collective(30, 402, 500);
  collective(35, 501, 600);
  kernel(40, 602, 700);
  EXPECT_EQ(points(),
            (std::vector<std::string>{"restart 0", "begin 0", "arrive 400", "arrive 400", "wait 600", "end 705"}));
}

// The host launched the second while the device waited: only the wait for it counts, not its way there.
TEST_F(LaneTest, WhatHappensWithinAWaitIsPlacedAtItsStart) {
  kernel(10, 20, 400);
  collective(30, 402, 600);
  rows.call("cudaLaunchKernelExC", 450'000, 3000, ++correlation);
  rows.collective({.name = "allreduce", .in = 9, .out = 9}, 460'000, 50'000, correlation, 21);
  kernel(40, 602, 700);
  EXPECT_EQ(points(),
            (std::vector<std::string>{"restart 0", "begin 0", "arrive 402", "arrive 402", "wait 600", "end 705"}));
}

TEST_F(LaneTest, LoadingIsNamed) {
  rows.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 200'000);
  kernel(210, 220, 400);
  collective(230, 402, 600);
  kernel(240, 602, 700);
  points();
  EXPECT_EQ(before(2)["data_loading"], 200);
  EXPECT_EQ(before(2)["host_bound"], 20);
  EXPECT_EQ(lane.steps[0].loading_ns, 200'000);
}

TEST_F(LaneTest, WithoutADeviceThereIsNone) {
  EXPECT_TRUE(points().empty());
  EXPECT_TRUE(lane.steps.empty());
}

}  // namespace
}  // namespace profgpu
