#include "analyse/rules/measure.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/hand_trace.h"

namespace profgpu {
namespace {

constexpr int32_t kRead = 0, kSleep = 230;

/// Steps of a millisecond: a kernel for 100 µs, the host waits for it, and does something else until the next.
Trace waiting(int64_t steps) {
  HandTrace hand;
  for (int64_t t = 0; t < steps * 1000; t += 1000)
    hand.range("ProfilerStep#" + std::to_string(t / 1000), t, t + 1000)
        .kernel("k", t + 1, t + 4, t + 5, t + 105)
        .call("cudaDeviceSynchronize", t + 10, t + 107);
  return hand.build();
}

/// What is said where, twice a step, the thread is sampled: `call` gives the system call that the i-th sample finds it
/// in, -2 where it runs.
std::optional<BlockedThread> said_of(int32_t (*call)(int), int steps = 20) {
  Trace trace = waiting(steps);
  for (int i = 0; i < 2 * steps; ++i) {
    const int32_t number = call(i);
    const int64_t step = i / 2 * 1'000'000;
    trace.thread_samples.push_back(
        {step + (i % 2 + 1) * 300'000, trace.host.thread[0], number == -2 ? 'R' : 'S', number});
    trace.thread_samples.push_back({step + 50'000, trace.host.thread[0], 'S', 16});   // while the device works
  }
  std::stable_sort(trace.thread_samples.begin(), trace.thread_samples.end(),
                   [](const ThreadSample& a, const ThreadSample& b) { return a.time_ns < b.time_ns; });
  const Facts facts(trace, {});
  const Measured measured(0, facts, 0);
  EXPECT_GT(measured.idle_pct(IdleCause::kSynchronization), 80);
  return blocked_thread(measured, IdleCause::kSynchronization);
}

TEST(BlockedThread, SaysInWhatAndWhatToDo) {
  const auto b = said_of([](int i) { return i % 10 == 0 ? kSleep : kRead; });
  ASSERT_TRUE(b);
  EXPECT_EQ(b->text, "meanwhile the launching thread is blocked 100 % of the time, mostly in read (file input)");
  EXPECT_NE(b->fix.find("read ahead"), std::string::npos);
}

TEST(BlockedThread, ForPartOfTheTimeItIsNoRemedy) {
  const auto b = said_of([](int i) { return i % 5 < 2 ? kSleep : -2; });
  ASSERT_TRUE(b);
  EXPECT_EQ(b->text, "meanwhile the launching thread is blocked 42 % of the time, in clock_nanosleep (sleep)");
  EXPECT_EQ(b->fix, "");
}

TEST(BlockedThread, WithoutACallItIsStillBlocked) {
  const auto b = said_of([](int) { return -1; });
  ASSERT_TRUE(b);
  EXPECT_EQ(b->text, "meanwhile the launching thread is blocked 100 % of the time");
  EXPECT_EQ(b->fix, "");
}

TEST(BlockedThread, AThreadThatWorksIsNot) { EXPECT_FALSE(said_of([](int i) { return i % 5 == 0 ? kRead : -2; })); }

TEST(BlockedThread, AFewSamplesSayNothing) { EXPECT_FALSE(said_of([](int) { return kRead; }, 5)); }

TEST(BlockedThread, BecomesTheFirstEvidenceAndFix) {
  Trace trace = waiting(20);
  for (int64_t i = 0; i < 20; ++i)
    trace.thread_samples.push_back({i * 1'000'000 + 500'000, trace.host.thread[0], 'D', kRead});
  const Facts facts(trace, {});
  Finding finding;
  finding.evidence = {"aten::item waits"}, finding.fix = {"less of it"};
  add_blocked_thread(finding, Measured(0, facts, 0), IdleCause::kSynchronization);
  ASSERT_EQ(finding.evidence.size(), 2U);
  EXPECT_NE(finding.evidence[0].find("in read"), std::string::npos);
  ASSERT_EQ(finding.fix.size(), 2U);
  EXPECT_EQ(finding.fix[1], "less of it");
}

}  // namespace
}  // namespace profgpu
