#include "watch/live/snapshot.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/clock.h"

namespace profgpu {
namespace {

// So late may a machine that stalls make those that answer.
constexpr int64_t kDeadline_ns = 2'000'000'000;

// Device 0 is well, 1 is lost, 2 hangs until it is let go, 3 knows its utilization only at the second look.
class Fake : public Backend {
 public:
  explicit Fake(uint32_t count) {
    devices_.resize(count);
    for (uint32_t i = 0; i < count; ++i) devices_[i].index = i, devices_[i].vendor = i == 3 ? "Intel" : "NVIDIA";
  }
  [[nodiscard]] std::string_view name() const override { return "fake"; }
  [[nodiscard]] const std::vector<DeviceInfo>& devices() const override { return devices_; }
  Status read(const ReadRequest& request, Reading& reading) override {
    const int64_t n = ++reads[reading.device];
    reading.has_processes = request.processes;
    reading.add(Metric::kPower, 100);
    reading.add(Metric::kTemperature, 40);
    if (reading.device == 1) return Error{"GPU is lost"};
    if (reading.device == 2) {
      std::unique_lock lock(mutex);
      gate.wait(lock, [&] { return open; });
    }
    if (reading.device == 3 && n == 1) return ok();
    reading.add(Metric::kUtilization, 20, reading.time_ns - 10);
    reading.add(Metric::kUtilization, 60, reading.time_ns);
    reading.add(Metric::kUtilization, 40, reading.time_ns - 5);
    return ok();
  }
  [[nodiscard]] std::string why_absent(uint32_t, Metric) const override { return ""; }
  void let_go() {
    const std::lock_guard lock(mutex);
    open = true;
    gate.notify_all();
  }
  std::atomic<int64_t> reads[4] = {};
  std::mutex mutex;
  std::condition_variable gate;
  bool open = false;

 private:
  std::vector<DeviceInfo> devices_;
};

TEST(Snapshots, ALostOrHungDeviceDoesNotStopTheOthers) {
  auto fake = std::make_shared<Fake>(3);
  Snapshots snapshots(fake, {0, 1, 2}, {.deadline_ns = kDeadline_ns});
  const int64_t begin_unix = unix_ns();
  auto looks = snapshots.take();
  ASSERT_EQ(looks.size(), 3U);
  EXPECT_EQ(looks[0].state, DeviceState::kOk);
  EXPECT_EQ(looks[0].value(Metric::kUtilization), 60);  // the newest, wherever it stands
  EXPECT_EQ(looks[0].mean(Metric::kUtilization), 40);
  EXPECT_FALSE(looks[0].value(Metric::kFanSpeed));
  EXPECT_EQ(looks[1].state, DeviceState::kError);
  EXPECT_EQ(looks[1].message, "GPU is lost");
  EXPECT_EQ(looks[1].value(Metric::kPower), 100) << "what came before the error stays valid";
  EXPECT_EQ(looks[2].state, DeviceState::kNotAnswering);
  EXPECT_GE(looks[2].since_ns, begin_unix - 1'000'000) << "one clock in the terms of another";
  EXPECT_LE(looks[2].since_ns, unix_ns());
  const int64_t since_ns = looks[2].since_ns;
  EXPECT_TRUE(snapshots.any_stuck());

  const int64_t again = monotonic_ns();
  looks = snapshots.take();
  EXPECT_LT(monotonic_ns() - again, kDeadline_ns) << "who is silent is not waited for again";
  EXPECT_EQ(fake->reads[0], 2);
  EXPECT_EQ(fake->reads[2], 1) << "a silent device is not asked again";
  EXPECT_EQ(looks[2].since_ns, since_ns);
  fake->let_go();
  for (int i = 0; i < 12'000 && snapshots.any_stuck(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  looks = snapshots.take();
  EXPECT_EQ(looks[2].state, DeviceState::kOk);
  EXPECT_EQ(looks[2].value(Metric::kUtilization), 60);
}

TEST(Snapshots, ASecondLookOnlyWhereARateNeedsIt) {
  auto fake = std::make_shared<Fake>(4);
  Snapshots snapshots(fake, {3, 0}, {.rate_window_ns = 20'000'000});
  const int64_t begin = monotonic_ns();
  const auto looks = snapshots.take();
  EXPECT_GE(monotonic_ns() - begin, 20'000'000);
  EXPECT_EQ(looks[0].device, 3U);
  EXPECT_EQ(looks[0].value(Metric::kUtilization), 60);
  EXPECT_EQ(fake->reads[3], 2);
  EXPECT_EQ(fake->reads[0], 1);
  snapshots.take();
  EXPECT_EQ(fake->reads[3], 3);

  Snapshots all(fake, {0}, {.rates = true, .rate_window_ns = 1'000'000});
  all.take();
  EXPECT_EQ(fake->reads[0], 4) << "one of the first look, one of its second, two of these";
}

TEST(Snapshots, AProgramMayLeaveBeforeTheDriverDoes) {
  auto fake = std::make_shared<Fake>(3);
  {
    Snapshots snapshots(fake, {2}, {.deadline_ns = 1'000'000});
    EXPECT_EQ(snapshots.take()[0].state, DeviceState::kNotAnswering);
  }
  EXPECT_EQ(fake.use_count(), 2) << "the thread keeps what it uses";
  fake->let_go();
  for (int i = 0; i < 12'000 && fake.use_count() > 1; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(fake.use_count(), 1);
}

}  // namespace
}  // namespace profgpu
