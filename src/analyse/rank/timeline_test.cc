#include "analyse/rank/timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "analyse/rank/collectives.h"
#include "tests/support/hand_trace.h"
#include "tests/support/trace_rows.h"

namespace profgpu {
namespace {

using test::TraceRows;

struct Page {
  explicit Page(Trace t, const StepChoice& choice = {}, int64_t budget = 1000) : trace(std::move(t)), facts(trace, {}) {
    const Interval window = trace.windows.empty() ? Interval{} : trace.windows.front();
    rank = {3, &facts, -window.start};
    data.span_ns = window.length();
    KeptEvents kept = kept_events({rank}, {0, data.span_ns}, choice, budget);
    data.categories = page_category_names();
    add_timeline(rank, {{10, static_cast<size_t>(data.span_ns / 10 + 1), kept.windows}, kept.host_least_ns}, {}, data);
  }
  [[nodiscard]] const PageTrack* track(std::string_view kind) const {
    for (const PageTrack& t : data.tracks)
      if (t.kind == kind) return &t;
    return nullptr;
  }
  [[nodiscard]] std::string name(const PageTrack& t, size_t i) const { return data.strings[t.name.at(i)]; }
  [[nodiscard]] std::string category(const PageTrack& t, size_t i) const { return data.categories[t.category.at(i)]; }

  Trace trace;
  Facts facts;
  PlacedRank rank;
  PageData data;
};

TraceRows two_steps() {
  TraceRows rows;
  rows.annotation("ProfilerStep#1", 1000, 100).op("aten::mm", 1010, 40).call("cudaLaunchKernel", 1020, 10, 1);
  rows.annotation("ProfilerStep#2", 1100, 100).op("aten::add", 1110, 40).call("cudaLaunchKernel", 1120, 10, 2);
  rows.kernel("sgemm", 1040, 50, 1).kernel("elementwise_kernel", 1140, 20, 2);
  return rows;
}

TEST(Timeline, ColumnsAreThoseOfTheTrace) {
  TraceRows rows = two_steps();
  const Page page(rows.finish());
  const PageTrack* stream = page.track("stream");
  ASSERT_NE(stream, nullptr);
  EXPECT_EQ(stream->group, "GPU 0");
  EXPECT_EQ(stream->title, "stream 7");
  EXPECT_EQ(stream->rank, 3);
  EXPECT_EQ(stream->start_ns, (std::vector<int64_t>{40, 140}));
  EXPECT_EQ(stream->duration_ns, (std::vector<int64_t>{50, 20}));
  EXPECT_EQ(page.name(*stream, 0), "sgemm");
  EXPECT_EQ(page.category(*stream, 0), "gemm");
  EXPECT_EQ(page.category(*stream, 1), "elementwise");
  const PageTrack* thread = page.track("thread");
  ASSERT_NE(thread, nullptr);
  EXPECT_EQ(thread->depth, (std::vector<uint16_t>{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(page.category(*thread, 1), "op");
  const PageTrack* step = page.track("step");
  ASSERT_NE(step, nullptr);
  EXPECT_EQ(page.name(*step, 1), "ProfilerStep#2");
  EXPECT_EQ(page.data.events, page.data.events_kept);
}

TEST(Timeline, ListsOfArgumentsAreOnOneLine) {
  HandTrace hand;
  hand.shaped_op("aten::mm", 0, 10, "[\n  [\n    96,\n    128\n  ],\n  []\n]", "[\n  \"float\",\n  \"long int\"\n]");
  const Page page(hand.build());
  const PageTrack* thread = page.track("thread");
  ASSERT_NE(thread, nullptr);
  EXPECT_EQ(page.data.args.at(thread->args.at(0)),
            (PageArgs{{"shapes", "[[96, 128], []]"}, {"types", R"(["float", "long int"])"}}));
}

TEST(Timeline, LinksNameTheLaunchingCall) {
  TraceRows rows = two_steps();
  const Page page(rows.finish());
  const PageTrack *stream = page.track("stream"), *thread = page.track("thread");
  ASSERT_TRUE(stream && thread);
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_GT(stream->link.at(i), thread->first);
    const size_t call = stream->link[i] - 1 - thread->first;
    EXPECT_EQ(page.name(*thread, call), "cudaLaunchKernel");
    EXPECT_LT(thread->start_ns.at(call), stream->start_ns[i]);
  }
}

TEST(Timeline, NumbersCountThroughAllTracks) {
  TraceRows rows = two_steps();
  const Page page(rows.finish());
  uint32_t next = 0;
  for (const PageTrack& t : page.data.tracks) {
    EXPECT_EQ(t.first, next) << t.title;
    next += static_cast<uint32_t>(t.start_ns.size());
    EXPECT_EQ(t.name.size(), t.start_ns.size()) << t.title;
    EXPECT_EQ(t.category.size(), t.start_ns.size()) << t.title;
  }
}

TEST(Timeline, OfAChosenStepOnlyTheEventsAreKeptAndTheRestHasDensity) {
  TraceRows rows = two_steps();
  const Page page(rows.finish(), {.all = false, .indices = {{2, 3}}});
  const PageTrack* stream = page.track("stream");
  ASSERT_NE(stream, nullptr);
  EXPECT_EQ(stream->start_ns, (std::vector<int64_t>{140}));
  EXPECT_EQ(stream->density.busy.at(5), 255);   // of the kernel in the other step
  EXPECT_EQ(page.data.categories[stream->density.category.at(5)], "gemm");
  EXPECT_LT(page.data.events_kept, page.data.events);
}

// What launches stays, so that kernels keep their links.
TEST(Timeline, ShortRangesGoFirstWhereOneStepIsTooLarge) {
  TraceRows rows;
  rows.annotation("ProfilerStep#1", 0, 10'000);
  for (int i = 0; i < 100; ++i) rows.op("short", 10 + 90 * i, 5);
  rows.op("long", 9200, 500).call("cudaLaunchKernel", 9300, 3, 1).kernel("k", 9400, 10, 1);
  const Page page(rows.finish(), {}, 4);
  const PageTrack *stream = page.track("stream"), *thread = page.track("thread");
  ASSERT_TRUE(stream && thread);
  std::multiset<std::string> kept;
  for (size_t i = 0; i < thread->name.size(); ++i) kept.insert(page.name(*thread, i));
  EXPECT_EQ(kept, (std::multiset<std::string>{"ProfilerStep#1", "cudaLaunchKernel", "long"}));
  EXPECT_NE(stream->link.at(0), 0U);
  EXPECT_EQ(page.data.events - page.data.events_kept, 100);
}

TEST(Timeline, RangesThatOverlapWithoutNestingDoNotShareADepth) {
  TraceRows rows;
  rows.op("a", 0, 60).op("b", 40, 50).op("c", 50, 5);
  const Page page(rows.finish());
  EXPECT_EQ(page.track("thread")->depth, (std::vector<uint16_t>{0, 1, 2}));
}

TEST(Timeline, OfCollectivesTheWaitingPartLiesInside) {
  TraceRows rows;
  rows.op("aten::mm", 0, 10).collective({.name = "allreduce", .in = 64, .out = 64}, 100, 50);
  const Trace trace = rows.finish();
  Facts facts(trace, {});
  CallTimings met;
  met.calls.push_back({trace.collectives.at(0).activity, 30, 20, true});
  facts.provide(met);
  PageData data;
  data.categories = page_category_names();
  add_timeline({0, &facts, 0}, {{10, 16, {{0, 150}}}, 0}, {}, data);
  const auto track =
      std::find_if(data.tracks.begin(), data.tracks.end(), [](const PageTrack& t) { return t.kind == "collective"; });
  ASSERT_NE(track, data.tracks.end());
  EXPECT_EQ(track->start_ns, (std::vector<int64_t>{100, 100}));
  EXPECT_EQ(track->duration_ns, (std::vector<int64_t>{50, 30}));
  EXPECT_EQ(track->depth, (std::vector<uint16_t>{0, 1}));
  EXPECT_EQ(data.strings[track->name[0]], "all_reduce");
  EXPECT_EQ(data.categories[track->category[1]], "wait");
  EXPECT_EQ(data.args.at(track->args.at(0)).front(), (std::pair<std::string, std::string>{"type", "Float"}));
}

TEST(Timeline, LongWaitsOfAThreadLieBelowIt) {
  TraceRows rows = two_steps();
  Trace trace = rows.finish();
  const ThreadId thread = trace.host.thread.front();
  ThreadSample sample;
  sample.thread = thread;
  sample.time_ns = 1110;
  sample.system_call = 202;
  trace.thread_samples = {sample};
  trace.thread_waits = {{1100, 30, thread}, {1150, 20, thread}};
  const Page page(std::move(trace));
  const PageTrack *waits = page.track("sync"), *ranges = page.track("thread");
  ASSERT_TRUE(waits && ranges);
  EXPECT_EQ(waits, ranges + 1);
  EXPECT_EQ(waits->title, "blocked: " + page.trace.threads[thread.value].id);
  EXPECT_EQ(waits->group, ranges->group);
  EXPECT_EQ(waits->start_ns, (std::vector<int64_t>{100, 150}));
  EXPECT_EQ(waits->duration_ns, (std::vector<int64_t>{30, 20}));
  EXPECT_EQ(page.name(*waits, 0), "futex");
  EXPECT_EQ(page.name(*waits, 1), "blocked");
  EXPECT_EQ(page.category(*waits, 0), "blocked");
}

TEST(Timeline, ReducedClocksMarkComputeKernelsOnly) {
  TraceRows rows;
  rows.op("aten::mm", 0, 10).kernel("sgemm", 100, 50).copy("Memcpy HtoD", 200, 50);
  const Trace trace = rows.finish();
  const Facts facts(trace, {});
  SampleLog log;
  log.devices.resize(1);
  log.series = {{0, Metric::kSmClock, {1000, 1400}, {750, 750}},
                {0, Metric::kSmClockMax, {1000}, {1000}},
                {0, Metric::kClockEventReasons, {1000}, {static_cast<double>(ClockReason::kSwPowerCap)}}};
  DeviceClocks clocks;
  clocks.shift_ns = 1000;
  clocks.courses.emplace(0, *ClockCourse::of(log, 0));
  PageData data;
  add_timeline({0, &facts, 0}, {{10, 30, {{0, 250}}}, 0}, clocks, data);
  const auto track =
      std::find_if(data.tracks.begin(), data.tracks.end(), [](const PageTrack& t) { return t.kind == "stream"; });
  ASSERT_NE(track, data.tracks.end());
  EXPECT_EQ(track->slow, (std::vector<uint16_t>{250, 0}));
}

TEST(Timeline, OfAnEmptyTraceIsEmpty) {
  const Page page(Trace{});
  EXPECT_EQ(page.data.events_kept, 0);
}

}  // namespace
}  // namespace profgpu
