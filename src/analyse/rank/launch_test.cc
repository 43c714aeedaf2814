#include "analyse/rank/launch.h"

#include <gtest/gtest.h>

#include "tests/support/trace_rows.h"

namespace profgpu {
namespace {

Launch launch_of(test::TraceRows& rows) {
  const Trace trace = rows.finish();
  const Facts facts(trace, {});
  return facts.get<Launch>();
}

TEST(Launch, LatencyIsFromTheCallToItsActivity) {
  test::TraceRows t;
  t.call("cudaLaunchKernel", 100, 10, 1).kernel("a", 115, 5, 1);     // 15, short: 5 < 10
  t.call("cudaMemcpyAsync", 200, 10, 2).copy("Memcpy HtoD", 240, 5, 2);   // 40, no kernel
  t.call("cuLaunchKernelEx", 300, 10, 3).kernel("b", 310, 10, 3);    // 10, as long as its call: not short
  t.call("cudaStreamSynchronize", 400, 10, 4);
  t.kernel("lost launch", 500, 10, 77);
  const Launch l = launch_of(t);
  EXPECT_EQ(l.launches, 3);
  EXPECT_EQ(l.median_latency_ns, 15);
  EXPECT_DOUBLE_EQ(*l.p95_latency_ns, 37.5);
  EXPECT_EQ(l.short_kernels, 1);
  EXPECT_EQ(l.short_kernel_pct, 50);
  EXPECT_EQ(l.median_queue_depth, 0);
}

TEST(Launch, AGraphHasOneLatencyAndNoShortKernels) {
  test::TraceRows t;
  t.call("cudaGraphLaunch", 0, 100, 1);
  for (int i = 0; i < 5; ++i) t.kernel("k", 150 + 10 * i, 1, 1);
  t.call("cudaGraphLaunch", 300, 100, 2).kernel("alone", 420, 1, 2);
  t.call("hipLaunchSomething", 500, 100, 3).kernel("x", 600, 1, 3).kernel("y", 610, 1, 3);
  const Launch l = launch_of(t);
  EXPECT_EQ(l.launches, 3);
  EXPECT_EQ(l.median_latency_ns, 120);   // 150, 120, 100
  EXPECT_EQ(l.short_kernels, 0);
  EXPECT_EQ(l.short_kernel_pct, std::nullopt);
}

TEST(Launch, QueueDepthCountsWhatIsLaunchedAndNotEnded) {
  test::TraceRows t;
  // At 0: none. At 10: the first (runs 20..100). At 20: two. At 100: the first has ended, the second runs from 100.
  t.call("cudaLaunchKernel", 0, 5, 1).kernel("a", 20, 80, 1);
  t.call("cudaLaunchKernel", 10, 5, 2).kernel("a", 100, 50, 2);
  t.call("cudaLaunchKernel", 20, 5, 3).kernel("a", 150, 50, 3);
  t.call("cudaLaunchKernel", 100, 5, 4).kernel("a", 200, 50, 4);
  // Another device has a queue of its own.
  t.call("cudaLaunchKernel", 101, 5, 5, "2").kernel("a", 200, 50, 5, 1);
  const Launch l = launch_of(t);
  EXPECT_EQ(l.median_queue_depth, 1);   // 0, 1, 2, 2 and 0
}

TEST(Launch, GraphKernelsWaitInTheQueueOneByOne) {
  test::TraceRows t;
  t.call("cudaGraphLaunch", 0, 5, 1);
  for (int i = 0; i < 10; ++i) t.kernel("k", 10 + 10 * i, 10, 1);
  t.call("cudaLaunchKernel", 40, 5, 2).kernel("k", 200, 1, 2);   // three have ended
  const Launch l = launch_of(t);
  EXPECT_EQ(l.median_queue_depth, 3.5);   // 0 and 7
}

TEST(Launch, CallsOfTwoThreadsAtOneInstantBothCount) {
  test::TraceRows t;
  t.call("cudaLaunchKernel", 0, 5, 1).kernel("a", 100, 10, 1);
  t.call("cudaLaunchKernel", 50, 5, 2, "1").kernel("a", 110, 10, 2);
  t.call("cudaLaunchKernel", 50, 5, 3, "2").kernel("a", 120, 10, 3);
  EXPECT_EQ(launch_of(t).median_queue_depth, 1);   // 0, 1, 1
}

TEST(Launch, NothingIsKnownWithoutLaunches) {
  test::TraceRows t;
  t.op("aten::mm", 0, 10).kernel("a", 0, 10);
  const Launch l = launch_of(t);
  EXPECT_EQ(l.launches, 0);
  EXPECT_EQ(l.median_latency_ns, std::nullopt);
  EXPECT_EQ(l.short_kernel_pct, std::nullopt);
  EXPECT_EQ(l.median_queue_depth, std::nullopt);
}

}  // namespace
}  // namespace profgpu
