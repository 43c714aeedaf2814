#include "analyse/rank/threads.h"

#include <gtest/gtest.h>

namespace profgpu {
namespace {

Trace sampled(const std::vector<ThreadSample>& samples) {
  Trace t;
  t.threads = {{"100", "100", "python", {}, {}}, {"100", "101", "pin_memory", {}, {}}};
  t.thread_samples = samples;
  return t;
}
constexpr int64_t kMs = 1'000'000;

TEST(Threads, processor_time_and_what_they_wait_in) {
  const Trace t = sampled({{0, ThreadId(size_t{0}), 'R', -1, 50, 5},
                           {10 * kMs, ThreadId(size_t{0}), 'R', -1, 50 + 8 * kMs, 5 + 1 * kMs},
                           {20 * kMs, ThreadId(size_t{0}), 'S', 7, 50 + 9 * kMs, 5 + 1 * kMs, 4 * kMs},
                           {0, ThreadId(size_t{1}), 'S', 202, 0, 0},
                           {10 * kMs, ThreadId(size_t{1}), 'S', 202, 0, 0},
                           {20 * kMs, ThreadId(size_t{1}), 'D', 0, 0, 0},
                           {30 * kMs, ThreadId(size_t{1}), 'S', -1, 0, 0}});
  const Facts facts(t, {});
  const auto& all = facts.get<ThreadTimes>().threads;
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].thread, ThreadId(size_t{0}));
  EXPECT_EQ(all[0].user_ns, 9 * kMs);
  EXPECT_EQ(all[0].system_ns, 1 * kMs);
  EXPECT_EQ(all[0].waited_ns, 4 * kMs);
  EXPECT_DOUBLE_EQ(all[0].cpu_pct(), 50);
  EXPECT_EQ(all[0].blocked_ns, 6 * kMs) << "what is left of 20 ms";
  EXPECT_DOUBLE_EQ(all[0].blocked_pct(), 30);
  EXPECT_FALSE(all[0].from_switches);
  EXPECT_EQ(all[0].waits, -1);
  EXPECT_EQ(all[0].longest_wait_ns, -1);
  EXPECT_DOUBLE_EQ(all[1].cpu_pct(), 0);
  EXPECT_DOUBLE_EQ(all[1].blocked_pct(), 100);
  ASSERT_EQ(all[1].calls.size(), 3U);
  EXPECT_EQ(system_call_name(all[1].calls[0].number), "futex");
  EXPECT_EQ(all[1].calls[0].samples, 2);
}

TEST(Threads, blocked_as_context_switches_say) {
  const ThreadId one(size_t{0}), two(size_t{1});
  // After blocking for 5 ms it waited 2 ms for a processor, and 1 ms since it had to give way.
  Trace t = sampled({{0, one, 'R', -1, 0, 0, 0},
                     {10 * kMs, one, 'S', 202, 2 * kMs, 0, 0, 1 * kMs, 0, 4},
                     {20 * kMs, one, 'R', -1, 12 * kMs, 0, 3 * kMs, 7 * kMs, 1 * kMs, 10},
                     {0, two, 'S', 0, 0, 0, 0, 0, 0, 0},
                     {10 * kMs, two, 'S', 0, 0, 0, 1 * kMs, 0, 0, 0},
                     {20 * kMs, two, 'S', 0, 2 * kMs, 0, 1 * kMs, -1, -1, -1}});
  const Facts facts(t, {});
  const auto& all = facts.get<ThreadTimes>().threads;
  ASSERT_EQ(all.size(), 2U);
  EXPECT_TRUE(all[0].from_switches);
  EXPECT_EQ(all[0].blocked_ns, 5 * kMs);
  EXPECT_EQ(all[0].waits, 10);
  EXPECT_FALSE(all[1].from_switches) << "some were lost in the end";
  EXPECT_EQ(all[1].blocked_ns, 17 * kMs);
  EXPECT_EQ(all[1].waits, -1);
}

TEST(Threads, long_waits_go_to_the_system_call_that_a_sample_saw) {
  const ThreadId one(size_t{0}), two(size_t{1});
  Trace t = sampled({{10 * kMs, two, 'S', 7, 0, 0}, {50 * kMs, two, 'S', 7, 0, 0}, {60 * kMs, two, 'S', 202, 0, 0}});
  t.thread_waits = {{0, 5 * kMs, one}, {5 * kMs, 5 * kMs, two}, {10 * kMs, 45 * kMs, two}, {55 * kMs, 30 * kMs, two}};
  const Facts facts(t, {});
  const ThreadTimes& times = facts.get<ThreadTimes>();
  EXPECT_EQ(times.wait_calls, (std::vector<int32_t>{-1, -1, 7, 202}));
  ASSERT_EQ(times.threads.size(), 1U);
  EXPECT_EQ(times.threads[0].longest_wait_ns, 45 * kMs);
  ASSERT_EQ(times.threads[0].calls.size(), 3U);
  EXPECT_EQ(times.threads[0].calls[0].number, 7);
  EXPECT_EQ(times.threads[0].calls[0].samples, 2);
  EXPECT_EQ(times.threads[0].calls[0].long_waits, 1);
  EXPECT_EQ(times.threads[0].calls[0].long_waits_ns, 45 * kMs);
  EXPECT_EQ(times.threads[0].calls[2].number, -1);
  EXPECT_EQ(times.threads[0].calls[2].long_waits_ns, 5 * kMs) << "between two looks";
}

TEST(Threads, numbers_that_cannot_be_stay_within_the_time) {
  const ThreadId one(size_t{0});
  Trace t = sampled({{0, one, 'S', 0, 5, 5, 0, INT64_MIN, INT64_MAX, INT64_MAX},
                     {10, one, 'S', 0, UINT64_MAX, 9, UINT64_MAX, INT64_MAX, 0, 0},
                     {20, one, 'S', 0, 0, UINT64_MAX, 0, 0, INT64_MAX, INT64_MIN},
                     {30, one, 'S', 0, 2, 3, UINT64_MAX, INT64_MAX, INT64_MAX, 3}});
  t.thread_waits = {{5, INT64_MAX / 2, one}, {6, INT64_MAX / 2, one}, {7, INT64_MAX / 2, one}};
  const Facts facts(t, {});
  const ThreadTime& time = facts.get<ThreadTimes>().threads[0];
  EXPECT_LE(time.user_ns + time.system_ns + time.blocked_ns, 30);
  EXPECT_GE(time.blocked_ns, 0);
  EXPECT_GE(time.waits, 0);
}

TEST(Threads, counters_that_go_back_or_beyond_the_time_do_not_count) {
  const Trace t = sampled({{0, ThreadId(size_t{0}), 'R', -1, 900, 0},
                           {10, ThreadId(size_t{0}), 'R', -1, 3, 0},
                           {20, ThreadId(size_t{0}), 'R', -1, UINT64_MAX, UINT64_MAX}});
  const Facts facts(t, {});
  EXPECT_DOUBLE_EQ(facts.get<ThreadTimes>().threads[0].cpu_pct(), 100);
  const Trace none = sampled({});
  EXPECT_TRUE(Facts(none, {}).get<ThreadTimes>().threads.empty());
}

}  // namespace
}  // namespace profgpu
