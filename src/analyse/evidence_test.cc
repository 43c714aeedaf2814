#include "analyse/evidence.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/support/hand_trace.h"
#include "tests/support/trace_rows.h"

namespace profgpu {
namespace {

TEST(Evidence, GapsAreLongestFirstWithWhatStandsAround) {
  HandTrace t;
  t.kernel("a", 0, 5, 10, 100).kernel("b", 50, 55, 110, 200).kernel("c", 290, 295, 300, 400);
  t.op("preparing", 205, 285);
  const Trace trace = t.build();
  const Facts facts(trace, {});
  const auto gaps = longest_gaps(facts, 1'000);
  ASSERT_EQ(gaps.size(), 2U);
  EXPECT_EQ(gaps[0].start_ns, 201'000);
  EXPECT_EQ(gaps[0].duration_ns, 100'000);
  EXPECT_EQ(gaps[0].cause, "host_bound");
  EXPECT_EQ(gaps[0].after, "b");
  EXPECT_EQ(gaps[0].before, "c");
  EXPECT_EQ(gaps[0].host, "preparing");
  EXPECT_EQ(gaps[1].cause, "dependency");
  EXPECT_EQ(longest_gaps(facts, 0, 1).size(), 2U);   // one of each cause
}

TEST(Evidence, HistogramsHoldEveryCall) {
  test::TraceRows rows;
  rows.op("aten::mm", 0, 10);
  for (int64_t i = 0; i < 100; ++i) rows.kernel("k", 10'000 * i, 10 + 10 * i);
  rows.kernel("once", 2'000'000, 5);
  const Trace trace = rows.finish();
  const Facts facts(trace, {});
  const auto all = kernel_histograms(facts);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].from_ns, 10);
  EXPECT_EQ(all[0].to_ns, 1000);
  EXPECT_EQ(std::accumulate(all[0].counts.begin(), all[0].counts.end(), int64_t{0}), 100);
  EXPECT_EQ(all[0].counts.front(), 1);   // 10 ns; 20 are beyond the first fortieth
  EXPECT_GT(all[0].counts.back(), 8);    // from 891 ns on
}

TEST(Evidence, KernelsThatAllTakeTheSameFillOneBin) {
  test::TraceRows rows;
  rows.op("aten::mm", 0, 10).kernel("k", 100, 0).kernel("k", 200, 0);
  const Trace trace = rows.finish();
  const Facts facts(trace, {});
  const auto all = kernel_histograms(facts);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].counts.front(), 2);
}

}  // namespace
}  // namespace profgpu
