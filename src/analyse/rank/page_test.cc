#include "analyse/rank/page.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string>

#include "tests/support/hand_trace.h"
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


TEST(Evidence, GapsAreLongestFirstWithWhatStandsAround) {
  HandTrace t;
  t.kernel("a", 0, 5, 10, 100).kernel("b", 50, 55, 110, 200).kernel("c", 290, 295, 300, 400);
  t.op("preparing", 205, 285);
  const Trace trace = t.build();
  const Facts facts(trace, {});
  const auto gaps = page_gaps(facts, 1'000);
  ASSERT_EQ(gaps.size(), 3U);   // and the time before the first kernel
  EXPECT_EQ(gaps[0].start_ns, 201'000);
  EXPECT_EQ(gaps[0].duration_ns, 100'000);
  EXPECT_EQ(gaps[0].cause, "host_bound");
  EXPECT_EQ(gaps[0].after, "b");
  EXPECT_EQ(gaps[0].before, "c");
  EXPECT_EQ(gaps[0].host, "preparing");
  const auto between = std::ranges::find(gaps, 101'000, &PageGap::start_ns);
  ASSERT_NE(between, gaps.end());
  EXPECT_EQ(between->cause, "dependency");
  const auto one_of_each = page_gaps(facts, 0, 1);
  std::set<std::string> causes;
  for (const PageGap& gap : one_of_each) EXPECT_TRUE(causes.insert(std::string(gap.cause)).second) << gap.cause;
  for (const PageGap& gap : gaps) EXPECT_TRUE(causes.contains(std::string(gap.cause))) << gap.cause;
}

TEST(Evidence, GapsHaveWhatIsIdleBeforeTheFirstActivity) {
  HandTrace t;
  t.range("ProfilerStep#1", 0, 400).kernel("a", 290, 295, 300, 400);
  const Trace trace = t.build();
  const Facts facts(trace, {});
  const auto gaps = page_gaps(facts, 0);
  ASSERT_EQ(gaps.size(), 1U);
  EXPECT_EQ(gaps[0].start_ns, 0);
  EXPECT_EQ(gaps[0].duration_ns, 300'000);
  EXPECT_EQ(gaps[0].after, "");
  EXPECT_EQ(gaps[0].before, "a");
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


using test::TraceRows;

int64_t sum(const std::vector<int64_t>& v) { return std::accumulate(v.begin(), v.end(), int64_t{0}); }

int64_t roots(const PageFlame& f, const std::vector<int64_t>& v) {
  int64_t total = 0;
  for (size_t i = 0; i < v.size(); ++i)
    if (f.parent[i] == 0) total += v[i];
  return total;
}

TEST(Flame, CallsOfOneNameBelowOneParentAreTogether) {
  TraceRows rows;
  rows.annotation("ProfilerStep#1", 0, 100).python("train.py: step", 5, 90).op("aten::mm", 10, 30);
  rows.call("cudaLaunchKernel", 20, 10, 1).op("aten::mm", 50, 20);
  rows.annotation("ProfilerStep#2", 100, 50).python("train.py: step", 100, 50);
  rows.kernel("sgemm", 60, 500, 1);
  const Trace trace = rows.finish();
  const Facts facts(trace, {});
  PageStrings strings;
  const std::vector<PageFlame> all = flames(facts, strings);
  ASSERT_EQ(all.size(), 1U);
  const PageFlame& f = all[0];
  std::vector<std::string> names;
  for (const uint32_t n : f.name) names.push_back(strings[n]);
  EXPECT_EQ(names, (std::vector<std::string>{"ProfilerStep*", "train.py: step", "aten::mm", "cudaLaunchKernel",
                                             "sgemm"}));
  EXPECT_EQ(f.parent, (std::vector<uint32_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(f.calls, (std::vector<int64_t>{2, 2, 2, 1, 1}));
  EXPECT_EQ(f.total_ns, (std::vector<int64_t>{150, 140, 50, 10, 0}));
  EXPECT_EQ(f.self_ns, (std::vector<int64_t>{10, 90, 40, 10, 0}));
  EXPECT_EQ(f.device_ns, (std::vector<int64_t>{500, 500, 500, 500, 500}));
}

TEST(Flame, SmallPartsAreJoinedAndSumsStay) {
  TraceRows rows;
  for (int i = 0; i < 200; ++i) {
    const std::string name = "f" + std::to_string(i);
    rows.op(name, 1000 * i, 100 + i)
        .op("inner", 1000 * i + 10, 50)
        .call("launch", 1000 * i + 20, 5, static_cast<uint32_t>(i + 1));
    rows.kernel("k", 1000 * i + 100, 7, static_cast<uint32_t>(i + 1));
  }
  const Trace trace = rows.finish();
  const Facts facts(trace, {});
  PageStrings strings;
  const PageFlame whole = flames(facts, strings).at(0), small = flames(facts, strings, 50).at(0);
  EXPECT_EQ(whole.parent.size(), 800U);
  EXPECT_LE(small.parent.size(), 101U);
  for (const PageFlame* f : {&whole, &small}) {
    EXPECT_EQ(roots(*f, f->total_ns), 200 * 100 + 199 * 100);
    EXPECT_EQ(sum(f->self_ns), roots(*f, f->total_ns));
    EXPECT_EQ(roots(*f, f->device_ns), 200 * 7);
  }
}

}  // namespace
}  // namespace profgpu
