#include "analyse/threads.h"

#include <gtest/gtest.h>

#include "analyse/analysis.h"

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
  EXPECT_NEAR(all[0].blocked_pct(), 33.3, 0.1);
  EXPECT_DOUBLE_EQ(all[1].cpu_pct(), 0);
  EXPECT_DOUBLE_EQ(all[1].blocked_pct(), 100);
  ASSERT_EQ(all[1].calls.size(), 3U);
  EXPECT_EQ(system_call_name(all[1].calls[0].number), "futex");
  EXPECT_EQ(all[1].calls[0].samples, 2);
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
