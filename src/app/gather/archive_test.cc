#include "app/gather/archive.h"

#include <gtest/gtest.h>

#include <limits>

#include "app/gather/job_report.h"
#include "tests/support/trace_rows.h"

namespace profgpu {
namespace {

/// A rank of which most things are known.
RankResult a_rank(int number) {
  test::TraceRows rows;
  rows.header().host_name = "node-a";
  rows.header().distributed.rank = number;
  for (int i = 0; i < 4; ++i) {
    rows.annotation("ProfilerStep#" + std::to_string(i), i * 1000, 1000);
    rows.kernel("gemm", i * 1000 + 10, 500);
    rows.collective({.name = "allreduce", .ranks = "[0, 1]", .in = 1000, .out = 1000, .sequence = i}, i * 1000 + 400,
                    300);
  }
  const Trace trace = rows.finish();
  const Facts facts(trace, {});
  RankResult result = reduced(number, facts, {}, 2);
  result.number(number);
  return result;
}

std::string bytes_of(const RankResult& result) {
  ShareRead share;
  share.names = 7;
  share.outcomes.emplace_back(3, UnitOutcome{});
  share.outcomes.back().second.left_out = {"x: not a trace"};
  share.outcomes.back().second.parts.emplace_back().window.processes = {"12", "34"};
  share.outcomes.back().second.result = result;
  return encoded(share);
}

TEST(Archive, WhatIsReadIsWhatWasWritten) {
  const std::string bytes = bytes_of(a_rank(5));
  auto share = decoded_share(bytes);
  ASSERT_TRUE(share) << share.error().message;
  ASSERT_EQ(share->outcomes.size(), 1u);
  EXPECT_EQ(share->names, 7u);
  EXPECT_EQ(share->outcomes[0].first, 3u);
  const UnitOutcome& o = share->outcomes[0].second;
  EXPECT_EQ(o.left_out, (std::vector<std::string>{"x: not a trace"}));
  EXPECT_EQ(o.parts.at(0).window.processes, (std::set<std::string>{"12", "34"}));
  ASSERT_TRUE(o.result);
  EXPECT_EQ(o.result->digest.rank, 5);
  EXPECT_EQ(o.result->digest.host, "node-a");
  EXPECT_EQ(o.result->digest.steps.size(), 4u);
  EXPECT_EQ(o.result->digest.calls.calls.size(), 4u);
  EXPECT_FALSE(o.result->report.phases.empty());
  EXPECT_EQ(bytes_of(*o.result), bytes);
}

TEST(Archive, ExtremesComeBack) {
  const std::tuple<int64_t, uint64_t, double> extremes{INT64_MIN, UINT64_MAX, -0.0};
  archive::Writer to;
  to.put(std::get<0>(extremes));
  to.put(std::get<1>(extremes));
  to.put(std::numeric_limits<double>::infinity());
  to.put(std::string("a\0b", 3));
  archive::Reader from(to.bytes);
  int64_t low = 0;
  uint64_t high = 0;
  double infinite = 0;
  std::string text;
  from.get(low), from.get(high), from.get(infinite), from.get(text);
  EXPECT_EQ(low, INT64_MIN);
  EXPECT_EQ(high, UINT64_MAX);
  EXPECT_EQ(infinite, std::numeric_limits<double>::infinity());
  EXPECT_EQ(text.size(), 3u);
  EXPECT_TRUE(from.at_end());
  EXPECT_FALSE(from.failed());
}

TEST(Archive, BytesCutShortOrChangedAreRefusedOrRead) {
  const std::string bytes = bytes_of(a_rank(1));
  for (size_t n = 0; n < bytes.size(); n += 7) EXPECT_FALSE(decoded_share(bytes.substr(0, n))) << n;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 0xFF);
    (void)decoded_share(changed);   // whatever it says, it comes back
  }
}

}  // namespace
}  // namespace profgpu
