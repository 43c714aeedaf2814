#include "watch/live/switch_watch.h"

#include <gtest/gtest.h>

namespace profgpu {
namespace {

constexpr int64_t kMs = 1'000'000;
using Kind = SwitchRecord::Kind;

SwitchRecord record(Kind kind, uint32_t tid, int64_t time_ns, uint64_t lost = 0) {
  return {kind, 1000, tid, time_ns, lost};
}

TEST(SwitchTimes, blocked_preempted_and_long_waits) {
  SwitchTimes times;
  EXPECT_FALSE(times.totals(7, 0));
  times.take(record(Kind::kScheduled, 7, 1 * kMs));
  ASSERT_TRUE(times.totals(7, 9 * kMs));
  EXPECT_EQ(times.totals(7, 9 * kMs)->blocked_ns, 0);
  times.take(record(Kind::kBlocked, 7, 2 * kMs));
  EXPECT_EQ(times.totals(7, 3 * kMs)->blocked_ns, 1 * kMs) << "so far";
  EXPECT_EQ(times.totals(7, 3 * kMs)->waits, 1);
  times.take(record(Kind::kScheduled, 7, 5 * kMs));
  times.take(record(Kind::kPreempted, 7, 6 * kMs));
  EXPECT_EQ(times.totals(7, 7 * kMs)->preempted_ns, 1 * kMs);
  times.take(record(Kind::kScheduled, 7, 10 * kMs));
  times.take(record(Kind::kBlocked, 7, 11 * kMs));
  times.take(record(Kind::kScheduled, 7, 11 * kMs + 999'999));
  const SwitchTotals totals = *times.totals(7, 20 * kMs);
  EXPECT_EQ(totals.blocked_ns, 3 * kMs + 999'999);
  EXPECT_EQ(totals.preempted_ns, 4 * kMs);
  EXPECT_EQ(totals.waits, 2);
  const std::vector<LongWait> waits = times.take_waits();
  ASSERT_EQ(waits.size(), 1U) << "shorter ones are in the sums alone, and who is preempted does not wait";
  EXPECT_EQ(waits[0].start_ns, 2 * kMs);
  EXPECT_EQ(waits[0].duration_ns, 3 * kMs);
  EXPECT_EQ(waits[0].pid, 1000U);
  EXPECT_EQ(waits[0].tid, 7U);
  EXPECT_TRUE(times.take_waits().empty());
}

TEST(SwitchTimes, a_number_that_is_given_again_begins_anew) {
  SwitchTimes times;
  times.take(record(Kind::kBlocked, 7, 0));
  times.take(record(Kind::kScheduled, 7, 5 * kMs));
  times.take(record(Kind::kEnded, 7, 6 * kMs));
  EXPECT_EQ(times.totals(7, 6 * kMs)->blocked_ns, 5 * kMs);   // the look that still finds it in /proc
  times.forget_ended();
  EXPECT_FALSE(times.totals(7, 6 * kMs));
  times.take(record(Kind::kScheduled, 7, 60 * kMs));
  EXPECT_EQ(times.totals(7, 70 * kMs)->blocked_ns, 0);
  EXPECT_EQ(times.take_waits().size(), 1U);
  // Nobody.
  times.take(record(Kind::kBlocked, 0, 0));
  EXPECT_FALSE(times.totals(0, 10));
}

TEST(SwitchTimes, a_loss_ends_sums_and_no_wait_spans_it) {
  SwitchTimes times;
  for (const uint32_t tid : {7U, 8U}) {
    times.take(record(Kind::kScheduled, tid, 0));
    times.take(record(Kind::kBlocked, tid, 1 * kMs));
  }
  times.take(record(Kind::kLost, 8, 50 * kMs, 3));
  EXPECT_EQ(times.lost(), 3U);
  times.take(record(Kind::kScheduled, 7, 100 * kMs));
  EXPECT_TRUE(times.take_waits().empty()) << "it may have run in between";
  EXPECT_FALSE(times.totals(7, 100 * kMs));
  times.take(record(Kind::kBlocked, 7, 110 * kMs));
  times.take(record(Kind::kScheduled, 7, 120 * kMs));
  ASSERT_EQ(times.take_waits().size(), 1U);
  times.end_waits(200 * kMs);
  EXPECT_TRUE(times.take_waits().empty()) << "8 may have run after the loss";
}

TEST(SwitchTimes, when_nothing_more_is_told_nothing_more_is_known) {
  SwitchTimes times;
  times.take(record(Kind::kBlocked, 7, 0));
  times.interrupt();
  EXPECT_FALSE(times.totals(7, 10 * kMs));
  times.end_waits(50 * kMs);
  EXPECT_TRUE(times.take_waits().empty());
  EXPECT_EQ(times.lost(), 0U);
}

TEST(SwitchTimes, waits_that_are_not_over_end_with_the_recording) {
  SwitchTimes times;
  times.take(record(Kind::kBlocked, 7, 10 * kMs));
  times.take(record(Kind::kPreempted, 8, 10 * kMs));
  times.end_waits(30 * kMs);
  const std::vector<LongWait> waits = times.take_waits();
  ASSERT_EQ(waits.size(), 1U);
  EXPECT_EQ(waits[0].duration_ns, 20 * kMs);
}

TEST(SwitchTimes, of_very_many_waits_the_longest_are_kept) {
  SwitchTimes times;
  const int64_t many = 10 * SwitchTimes::kMostWaits;
  for (int64_t i = 0; i < many; ++i) {
    times.take(record(Kind::kBlocked, 7, i * 1000 * kMs));
    times.take(record(Kind::kScheduled, 7, i * 1000 * kMs + kMs + i));
  }
  const std::vector<LongWait> waits = times.take_waits();
  ASSERT_EQ(waits.size(), SwitchTimes::kMostWaits);
  for (const LongWait& w : waits) EXPECT_GE(w.duration_ns, times.shortest_ns());
  EXPECT_EQ(times.shortest_ns(), kMs + many - static_cast<int64_t>(SwitchTimes::kMostWaits));
  EXPECT_EQ(times.totals(7, 0)->waits, many) << "the sums have all";
}

}  // namespace
}  // namespace profgpu
