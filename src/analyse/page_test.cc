#include "analyse/page.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/trace_rows.h"

namespace profgpu {
namespace {

using test::TraceRows;

Trace trace_at(int64_t start, int64_t base_time = 0) {
  TraceRows rows;
  rows.annotation("ProfilerStep#1", start, 100).op("aten::mm", start + 10, 20).kernel("sgemm", start + 20, 50);
  rows.header().base_time_ns = base_time;
  return rows.finish();
}

const PageTrack* track(const PageData& page, int rank, std::string_view kind) {
  for (const PageTrack& t : page.tracks)
    if (t.rank == rank && t.kind == kind) return &t;
  return nullptr;
}

TEST(Page, TimesCountFromTheFirstEvent) {
  const Trace trace = trace_at(5'000, 70'000);
  const Facts facts(trace, {});
  const auto page = make_page({{{2, &facts}}, {}, nullptr}, {});
  ASSERT_TRUE(page);
  EXPECT_EQ((*page)->origin_ns, 5'000);
  EXPECT_EQ((*page)->unix_origin_ns, 75'000);
  EXPECT_EQ((*page)->span_ns, 100);
  EXPECT_EQ(track(**page, 2, "stream")->start_ns, (std::vector<int64_t>{20}));
  EXPECT_EQ((*page)->kept, (std::vector<std::pair<int64_t, int64_t>>{{0, 100}}));
}

TEST(Page, RanksStandOnTheFirstOnesClock) {
  const Trace a = trace_at(1'000, 500), b = trace_at(30, 1'500);   // 30 ns later
  const Facts first(a, {}), second(b, {});
  const auto page = make_page({{{0, &first}, {1, &second}}, {{0, 0}, {1, -10}}, nullptr}, {});
  ASSERT_TRUE(page);
  EXPECT_EQ(track(**page, 0, "step")->start_ns, (std::vector<int64_t>{0}));
  EXPECT_EQ(track(**page, 1, "step")->start_ns, (std::vector<int64_t>{20}));
  EXPECT_EQ((*page)->span_ns, 120);
}

TEST(Page, RanksWhoseClocksHaveNothingInCommonStartTogether) {
  const Trace a = trace_at(1'000), b = trace_at(9'000'000'000);
  const Facts first(a, {}), second(b, {});
  const auto page = make_page({{{0, &first}, {1, &second}}, {}, nullptr}, {});
  ASSERT_TRUE(page);
  EXPECT_EQ((*page)->span_ns, 100);
  EXPECT_EQ(track(**page, 1, "step")->start_ns, (std::vector<int64_t>{0}));
}

TEST(Page, SamplesNeedATraceThatKnowsUnixTime) {
  SampleLog log;
  log.devices.resize(1);
  log.series = {{0, Metric::kPower, {5'010, 5'050}, {100, 200}}};
  const Trace known = trace_at(1'000, 4'000), unknown = trace_at(1'000);
  const Facts facts(known, {}), others(unknown, {});
  const auto page = make_page({{{0, &facts}}, {}, &log}, {});
  ASSERT_EQ((*page)->samples.size(), 1U);
  EXPECT_EQ((*page)->samples[0].time_ns, (std::vector<int64_t>{10, 50}));
  EXPECT_EQ((*page)->samples[0].rank, 0);
  EXPECT_FALSE((*page)->reasons.empty());
  EXPECT_TRUE((*make_page({{{0, &others}}, {}, &log}, {}))->samples.empty());
}

TEST(Page, OfSamplesAlone) {
  SampleLog log;
  log.devices.resize(1);
  log.first_ns = 5'000, log.last_ns = 6'000;
  log.series = {{0, Metric::kPower, {5'000, 6'000}, {100, 200}}};
  const auto page = make_page({{}, {}, &log}, {});
  ASSERT_TRUE(page);
  EXPECT_EQ((*page)->span_ns, 1'000);
  EXPECT_EQ((*page)->samples.at(0).time_ns, (std::vector<int64_t>{0, 1'000}));
}

TEST(Page, StepsThatAreNotThereAreAnError) {
  const Trace trace = trace_at(0);
  const Facts facts(trace, {});
  EXPECT_FALSE(make_page({{{0, &facts}}, {}, nullptr}, {.all = false, .indices = {{7, 8}}}));
}

TEST(Page, OfAnEmptyTrace) {
  const Trace trace;
  const Facts facts(trace, {});
  const auto page = make_page({{{0, &facts}}, {}, nullptr}, {});
  ASSERT_TRUE(page);
  EXPECT_EQ((*page)->events, 0);
}

}  // namespace
}  // namespace profgpu
