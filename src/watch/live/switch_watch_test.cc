#include "watch/live/switch_watch.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "watch/live/child_process.h"

namespace profgpu {
namespace {

constexpr int64_t kMs = 1'000'000;

// The memory of one ring, with switches in it.
struct Ring {
  explicit Ring(const std::vector<std::pair<uint16_t, uint32_t>>& switches) : data(4096) {
    for (const auto& [misc, time_ns] : switches) {
      const struct {
        perf_event_header header;
        uint32_t pid, tid;
        uint64_t time_ns;
      } record{{PERF_RECORD_SWITCH, misc, sizeof record}, 1000, 7, time_ns};
      std::memcpy(data.data() + page.data_head, &record, sizeof record);
      page.data_head += sizeof record;
    }
  }
  perf_event_mmap_page page{};
  std::vector<uint8_t> data;
};

TEST(SwitchWatch, a_thread_that_goes_from_processor_to_processor) {
  constexpr uint16_t kOut = PERF_RECORD_MISC_SWITCH_OUT;
  Ring one({{kOut, 1 * kMs}, {0, 20 * kMs}, {kOut, 90 * kMs}}), other({{0, 5 * kMs}, {kOut, 10 * kMs}, {0, 95 * kMs}});
  std::vector<SwitchRing> rings{{&one.page, one.data.data(), 4096}, {&other.page, other.data.data(), 4096}};
  SwitchTimes times;
  drain_in_order(rings, 50 * kMs, times);
  EXPECT_EQ(times.totals(7, 50 * kMs)->blocked_ns, 14 * kMs);
  EXPECT_EQ(times.totals(7, 50 * kMs)->waits, 2);
  drain_in_order(rings, 92 * kMs, times);
  EXPECT_EQ(times.totals(7, 92 * kMs)->blocked_ns, 16 * kMs);
  drain_in_order(rings, 100 * kMs, times);
  EXPECT_EQ(times.totals(7, 100 * kMs)->blocked_ns, 19 * kMs);
  EXPECT_EQ(times.take_waits().size(), 3U);
  EXPECT_EQ(one.page.data_tail, one.page.data_head);
}

TEST(SwitchWatch, so_many_switches_that_they_cost_too_much) {
  constexpr int64_t kSecond = 1'000'000'000;
  // Each record is taken to cost 2 us: 10,000 a second are 2 %.
  SwitchBudget steady(100), burst(100), much(100);
  int64_t now_ns = 77 * kSecond;
  for (int i = 0; i < 10'000; ++i, now_ns += kSecond / 20) {
    EXPECT_TRUE(steady.allows(now_ns, 500)) << i;
    EXPECT_TRUE(burst.allows(now_ns, i % 200 == 0 ? 50'000 : 0)) << "made up for in ten seconds";
  }
  int rounds = 0;
  while (much.allows(now_ns, 1000)) ++rounds, now_ns += kSecond / 20;
  EXPECT_NEAR(rounds, 100, 5) << "twice as many as may be, for five seconds";
}

// The kernel may not allow it here: then what it says is a test of its own.
class RealSwitches : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = SwitchWatch::open();
    if (!opened) GTEST_SKIP() << opened.error().message;
    watch_ = std::move(*opened);
  }
  std::vector<LongWait> waits_of(const std::vector<std::string>& command) {
    CommandRunner runner(false);
    EXPECT_FALSE(runner.start(command));
    EXPECT_EQ(runner.wait().exit_code, 0);
    watch_->drain();
    std::vector<LongWait> waits = watch_->times().take_waits();
    std::erase_if(waits, [](const LongWait& w) { return w.pid == static_cast<uint32_t>(::getpid()); });
    return waits;
  }
  std::unique_ptr<SwitchWatch> watch_;
};

TEST_F(RealSwitches, of_the_command_and_what_it_starts) {
  const std::vector<LongWait> waits = waits_of({"sh", "-c", "sleep 0.2; (sleep 0.3) & wait"});
  const auto longer_than = [&](int64_t ns) {
    return std::count_if(waits.begin(), waits.end(), [&](const LongWait& w) { return w.duration_ns >= ns; });
  };
  // Each sleeper, and the shell that waits for it.
  EXPECT_GE(longer_than(290 * kMs), 2);
  EXPECT_GE(longer_than(190 * kMs), 4);
  EXPECT_EQ(watch_->times().lost(), 0U);
}

TEST_F(RealSwitches, of_each_command_in_turn) {
  EXPECT_FALSE(waits_of({"sleep", "0.05"}).empty());
  EXPECT_FALSE(waits_of({"sleep", "0.05"}).empty());
}

// In a process of its own, which may not open the event any more.
TEST(SwitchWatch, says_why_the_kernel_does_not_tell) {
  const pid_t child = ::fork();
  if (child == 0) {
    sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_perf_event_open, 0, 1),
                            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    sock_fprog program{4, filter};
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
      ::_exit(2);
    const auto opened = SwitchWatch::open();
    ::_exit(!opened && opened.error().message.find("not allowed") != std::string::npos ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 2) GTEST_SKIP() << "no seccomp here";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace profgpu
