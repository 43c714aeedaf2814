#include "devices/sampler.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/clock.h"

namespace profgpu {
namespace {

// Devices that answer at once, fail from some call on, or hang until told otherwise.
class FakeBackend : public Backend {
 public:
  explicit FakeBackend(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      DeviceInfo info;
      info.index = i;
      info_.push_back(info);
    }
  }
  ~FakeBackend() override { release(); }
  std::string_view name() const override { return "fake"; }
  const std::vector<DeviceInfo>& devices() const override { return info_; }
  Status read(const ReadRequest& request, Reading& reading) override {
    ++calls_;
    if (request.everything) ++everything_;
    if (request.until_ns) ++limited_, until_after_ns_ = request.until_ns - request.tick_ns;
    if (static_cast<int>(reading.device) == lost_) return Error{"GPU is lost"};
    if (static_cast<int>(reading.device) == hanging_) {
      std::unique_lock lock(mutex_);
      released_.wait(lock, [&] { return free_; });
    }
    if (meeting_ > 0 && request.everything) {
      std::unique_lock lock(mutex_);
      ++met_;
      released_.notify_all();
      released_.wait_for(lock, std::chrono::minutes(1), [&] { return met_ >= meeting_; });
    }
    if (delay_ns_) std::this_thread::sleep_for(std::chrono::nanoseconds(delay_ns_));
    reading.add(Metric::kUtilization, 50 + reading.device);
    if (request.processes) reading.has_processes = true;
    return ok();
  }
  std::string why_absent(uint32_t, Metric) const override { return {}; }
  int64_t calls() const override { return calls_; }
  void release() {
    std::lock_guard lock(mutex_);
    free_ = true;
    released_.notify_all();
  }

  std::atomic<int> lost_{-1}, hanging_{-1};
  std::atomic<int> meeting_{0};   // readings in full that wait for each other
  int met_ = 0;                   // of these
  std::atomic<int64_t> calls_{0}, everything_{0}, limited_{0}, until_after_ns_{0}, delay_ns_{0};

 private:
  std::vector<DeviceInfo> info_;
  std::mutex mutex_;
  std::condition_variable released_;
  bool free_ = false;
};

struct Counts {
  std::mutex mutex;
  std::vector<int> readings = std::vector<int>(16, 0);
  std::vector<int> with_processes = std::vector<int>(16, 0);
  Sampler::Consumer consumer() {
    return [this](const Reading& r) {
      std::lock_guard lock(mutex);
      ++readings[r.device];
      with_processes[r.device] += r.has_processes;
    };
  }
  int of(size_t device) {
    std::lock_guard lock(mutex);
    return readings[device];
  }
};

constexpr int64_t kMs = 1'000'000;

void wait_ms(int64_t ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

/// Within a minute: a machine may stall.
template <class Is>
bool comes_true(Is is) {
  for (int i = 0; i < 12'000; ++i) {
    if (is()) return true;
    wait_ms(5);
  }
  return false;
}

TEST(Sampler, ReadsEveryDeviceFirstAndLastInFull) {
  auto backend = std::make_shared<FakeBackend>(3);
  Counts counts;
  Sampler sampler(backend, {.interval_ns = 3600 * 1000 * kMs}, counts.consumer());
  sampler.start();
  EXPECT_TRUE(comes_true([&] { return counts.of(2) > 0; }));
  EXPECT_EQ(counts.of(0), 1);
  EXPECT_EQ(counts.of(2), 1);
  const int64_t begun = monotonic_ns();
  sampler.stop();
  EXPECT_LT(monotonic_ns() - begun, 60'000 * kMs) << "stop() waits for no tick: the next one is in an hour";
  EXPECT_EQ(counts.of(0), 2);
  EXPECT_EQ(backend->everything_, 6);
  EXPECT_EQ(counts.with_processes[1], 2);
  sampler.stop();
  EXPECT_EQ(counts.of(0), 2) << "stop() twice is once";
  EXPECT_EQ(sampler.statistics().ticks, 6);
  EXPECT_FALSE(sampler.any_stuck());
}

TEST(Sampler, KeepsToTheScheduleWhateverATickTakes) {
  auto backend = std::make_shared<FakeBackend>(1);
  backend->delay_ns_ = 5 * kMs;
  Counts counts;
  Sampler sampler(backend, {.interval_ns = 20 * kMs}, counts.consumer());
  const int64_t begun = monotonic_ns();
  sampler.start();
  wait_ms(1000);
  const int64_t stopping = monotonic_ns();
  sampler.stop();
  const int64_t ended = monotonic_ns();
  const SamplerStatistics s = sampler.statistics();
  // One each interval, and the last reading; a busy machine may miss some, and then says so.
  EXPECT_GE(s.ticks + s.missed_ticks, (stopping - begun) / (20 * kMs) - 1);
  EXPECT_LE(s.ticks + s.missed_ticks, (ended - begun) / (20 * kMs) + 3);
  EXPECT_GT(s.jitter_max_ns, 0);
  EXPECT_LE(s.jitter_p50_ns, s.jitter_max_ns);
}

TEST(Sampler, TheIntervalChangesWhileItWaits) {
  auto backend = std::make_shared<FakeBackend>(2);
  Counts counts;
  Sampler sampler(backend, {.interval_ns = 3600 * 1000 * kMs}, counts.consumer());
  sampler.start();
  EXPECT_TRUE(comes_true([&] { return counts.of(1) > 0; }));
  sampler.set_interval(10 * kMs);
  EXPECT_TRUE(comes_true([&] { return counts.of(1) >= 6; }));
  EXPECT_LT(sampler.statistics().missed_ticks, 10'000) << "those of the time before were none";
  sampler.set_interval(3600 * 1000 * kMs);
  bool quiet = false;
  for (int i = 0; i < 50 && !quiet; ++i) {   // what had begun ends
    const int before = counts.of(1);
    wait_ms(200);
    quiet = counts.of(1) == before;
  }
  EXPECT_TRUE(quiet);
  sampler.stop();
}

TEST(Sampler, CountsTicksThatItCannotTake) {
  auto backend = std::make_shared<FakeBackend>(1);
  backend->delay_ns_ = 50 * kMs;
  Counts counts;
  Sampler sampler(backend, {.interval_ns = 10 * kMs}, counts.consumer());
  sampler.start();
  wait_ms(400);
  sampler.stop();
  EXPECT_GT(sampler.statistics().missed_ticks, 10);
}

TEST(Sampler, AHungDeviceDoesNotStopTheOthers) {
  auto backend = std::make_shared<FakeBackend>(4);
  backend->hanging_ = 1;
  Counts counts;
  Sampler sampler(backend, {.interval_ns = 20 * kMs, .deadline_ns = 1000 * kMs}, counts.consumer());
  sampler.start();
  EXPECT_TRUE(comes_true([&] { return counts.of(3) >= 5; }));
  EXPECT_GE(counts.of(0), 2);
  EXPECT_EQ(counts.of(1), 0);
  auto troubles = sampler.troubles();
  ASSERT_EQ(troubles.size(), 1u);
  EXPECT_EQ(troubles[0].device, 1u);
  EXPECT_EQ(troubles[0].message, "does not answer");
  EXPECT_GT(troubles[0].since_ns, 0);
  EXPECT_FALSE(troubles[0].over);
  auto health = sampler.health();
  ASSERT_EQ(health.size(), 4u);
  EXPECT_EQ(health[1].trouble, "does not answer");
  EXPECT_EQ(health[1].errors, 1);
  EXPECT_EQ(health[1].good_at_ns, 0);
  EXPECT_EQ(health[3].trouble, "");
  EXPECT_EQ(health[3].errors, 0);
  EXPECT_GT(health[3].good_at_ns, 0);
  // It comes back: the worker that waited for it goes on with it.
  backend->release();
  EXPECT_TRUE(comes_true([&] { return counts.of(1) >= 3; }));
  EXPECT_TRUE(sampler.troubles()[0].over);
  EXPECT_EQ(sampler.health()[1].trouble, "");
  EXPECT_GT(sampler.health()[1].good_at_ns, 0);
  sampler.stop();
  EXPECT_FALSE(sampler.any_stuck());
}

TEST(Sampler, StopLeavesAStuckDeviceBehind) {
  auto backend = std::make_shared<FakeBackend>(2);
  backend->hanging_ = 0;
  Counts counts;
  {
    Sampler sampler(backend, {.interval_ns = 20 * kMs, .deadline_ns = 100 * kMs}, counts.consumer());
    sampler.start();
    EXPECT_TRUE(comes_true([&] { return counts.of(1) >= 2; }));
    sampler.stop();
    EXPECT_TRUE(sampler.any_stuck());
  }
  const int before = counts.of(0);
  backend->release();
  wait_ms(100);
  EXPECT_EQ(counts.of(0), before) << "nobody is called after stop()";
}

TEST(Sampler, ALostDeviceIsReportedWithTheTime) {
  auto backend = std::make_shared<FakeBackend>(2);
  Counts counts;
  Sampler sampler(backend, {.interval_ns = 10 * kMs}, counts.consumer());
  sampler.start();
  EXPECT_TRUE(comes_true([&] { return counts.of(1) >= 3; }));
  backend->lost_ = 0;
  const int before = counts.of(1);
  EXPECT_TRUE(comes_true([&] { return counts.of(1) >= before + 5; }));
  sampler.stop();
  auto troubles = sampler.troubles();
  ASSERT_EQ(troubles.size(), 1u);
  EXPECT_EQ(troubles[0].message, "GPU is lost");
  EXPECT_LE(troubles[0].since_ns, unix_ns());
  EXPECT_GE(sampler.health()[0].errors, 4);
  EXPECT_EQ(sampler.health()[0].trouble, "GPU is lost");
}

TEST(Sampler, FailedReadingsAreForConsumersThatAskForThem) {
  for (const bool asked : {false, true}) {
    auto backend = std::make_shared<FakeBackend>(1);
    backend->lost_ = 0;
    std::atomic<int> failed{0}, other{0};
    Sampler sampler(backend, {.interval_ns = 5 * kMs, .failures = asked},
                    [&](const Reading& reading) { ++(reading.failed && reading.samples.empty() ? failed : other); });
    sampler.start();
    EXPECT_TRUE(comes_true([&] { return sampler.health()[0].errors >= 3; }));
    sampler.stop();
    EXPECT_EQ(failed > 0, asked);
    EXPECT_EQ(other, 0);
  }
}

TEST(Sampler, TheEndsTakeAsLongAsTheyMay) {
  auto backend = std::make_shared<FakeBackend>(2);
  Counts counts;
  Sampler sampler(backend, {.interval_ns = 10 * kMs, .ends_ns = 4 * kMs}, counts.consumer());
  sampler.start();
  EXPECT_TRUE(comes_true([&] { return counts.of(1) >= 3; }));
  EXPECT_EQ(backend->limited_, 2) << "ordinary readings have no such limit";
  EXPECT_LE(backend->until_after_ns_, 4 * kMs);
  wait_ms(1000);
  sampler.stop();
  EXPECT_EQ(backend->limited_, 4);
  EXPECT_EQ(backend->everything_, 4);
  EXPECT_GT(backend->until_after_ns_, 4 * kMs) << "a hundredth of what was sampled";
}

TEST(Sampler, LastReadingsOfManyDevicesAreTakenSideBySide) {
  auto backend = std::make_shared<FakeBackend>(16);
  Counts counts;
  Sampler sampler(backend, {.interval_ns = 3600 * 1000 * kMs, .deadline_ns = 60'000 * kMs, .ends_ns = 4 * kMs},
                  counts.consumer());
  sampler.start();
  EXPECT_TRUE(comes_true([&] { return counts.of(15) > 0; }));
  backend->meeting_ = 4;   // four at once, or the test takes a minute
  const int64_t begun = monotonic_ns();
  sampler.stop();
  EXPECT_LT(monotonic_ns() - begun, 60'000 * kMs);
  EXPECT_FALSE(sampler.any_stuck());
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(counts.of(i), 2) << i;
  EXPECT_EQ(sampler.statistics().ticks, 32);
}

TEST(Sampler, StopDoesNotWaitForAConsumerThatBlocks) {
  auto backend = std::make_shared<FakeBackend>(1);
  std::mutex mutex;
  std::unique_lock blocking(mutex);
  std::atomic<int> called = 0;
  Sampler sampler(backend, {.interval_ns = 10 * kMs, .deadline_ns = 100 * kMs}, [&](const Reading&) {
    ++called;
    std::lock_guard wait(mutex);
  });
  sampler.start();
  while (called == 0) wait_ms(1);
  wait_ms(300);
  EXPECT_TRUE(sampler.troubles().empty()) << "the device answers";
  sampler.stop();
  EXPECT_TRUE(sampler.any_stuck());
  EXPECT_TRUE(sampler.troubles().empty());
  blocking.unlock();
  wait_ms(50);
  EXPECT_EQ(called, 1);
}

TEST(Sampler, NoDevicesIsNoWork) {
  Sampler sampler(std::make_shared<FakeBackend>(0), {}, [](const Reading&) { FAIL(); });
  sampler.start();
  sampler.stop();
  EXPECT_EQ(sampler.statistics().ticks, 0);
}

}  // namespace
}  // namespace profgpu
