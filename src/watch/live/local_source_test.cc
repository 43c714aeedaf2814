#include "watch/live/local_source.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace profgpu {
namespace {

// Device 0 has a process (ours), device 1 hangs once it is told to.
class TwoDevices : public Backend {
 public:
  TwoDevices() : info_(2) {
    info_[1].index = 1;
    info_[0].driver_version = info_[1].driver_version = "550";
  }
  [[nodiscard]] std::string_view name() const override { return "fake"; }
  [[nodiscard]] const std::vector<DeviceInfo>& devices() const override { return info_; }
  Status read(const ReadRequest& request, Reading& reading) override {
    if (reading.device == 1 && hangs) {
      std::unique_lock lock(mutex_);
      released_.wait(lock, [&] { return free_; });
    }
    reading.add(Metric::kUtilization, 40);
    if (!request.processes) return ok();
    reading.has_processes = true;
    if (reading.device == 0) reading.processes.emplace_back().pid = ::getpid();
    return ok();
  }
  [[nodiscard]] std::string why_absent(uint32_t, Metric) const override { return {}; }
  std::vector<std::vector<Link>> topology() override { return {{{"X"}, {"NV4"}}, {{"NV4"}, {"X"}}}; }
  void release() {
    const std::lock_guard lock(mutex_);
    free_ = true;
    released_.notify_all();
  }
  std::atomic<bool> hangs = false;

 private:
  std::vector<DeviceInfo> info_;
  std::mutex mutex_;
  std::condition_variable released_;
  bool free_ = false;
};

template <class Is>
bool comes_true(Is is) {
  for (int i = 0; i < 6000; ++i) {
    if (is()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

TEST(LocalSource, ShowsValuesProcessesAndLinks) {
  LocalSource source(std::make_shared<TwoDevices>(), {{0, 1}, 20'000'000, 20'000'000, {}});
  std::atomic<int> news = 0;
  source.start([&] { ++news; });
  ASSERT_TRUE(comes_true([&] { return source.complete(); }));
  const LiveView view = source.view();
  ASSERT_EQ(view.devices.size(), 2u);
  EXPECT_EQ(view.hosts.size(), 1u);
  EXPECT_TRUE(view.hosts[0].here);
  EXPECT_EQ(view.hosts[0].driver, "550");
  EXPECT_EQ(view.devices[1].value(Metric::kUtilization), 40);
  ASSERT_EQ(view.devices[0].processes.size(), 1u);
  EXPECT_EQ(view.devices[0].processes[0].host.visible_pid, ::getpid());
  EXPECT_FALSE(view.devices[0].processes[0].host.command_line().empty());
  EXPECT_TRUE(comes_true([&] { return source.topology().size() == 2 && source.topology()[0][1] == "NV4"; }));
  EXPECT_GT(news, 0);
  EXPECT_FALSE(source.stop());
}

TEST(LocalSource, TheIntervalChangesWhileItWaits) {
  LocalSource source(std::make_shared<TwoDevices>(), {{0, 1}, 3'600'000'000'000, 20'000'000, {}});
  std::atomic<int> news = 0;
  source.start([&] { ++news; });
  ASSERT_TRUE(comes_true([&] { return source.view().devices[1].time_ns != 0; }));
  const int before = news;
  source.set_interval(20'000'000);
  EXPECT_EQ(source.interval_ns(), 20'000'000);
  EXPECT_TRUE(comes_true([&] { return news > before + 5; }));
  source.stop();
}

TEST(LocalSource, ADeviceThatHangsKeepsNothingFromTheOthers) {
  auto backend = std::make_shared<TwoDevices>();
  backend->hangs = true;
  LocalSource source(backend, {{0, 1}, 20'000'000, 20'000'000, {}});
  source.start([] {});
  EXPECT_TRUE(comes_true([&] { return source.view().devices[0].time_ns != 0; }));
  EXPECT_TRUE(comes_true([&] { return source.view().devices[1].state == DeviceState::kNotAnswering; }));
  const int64_t before = source.view().devices[0].time_ns;
  EXPECT_TRUE(comes_true([&] { return source.view().devices[0].time_ns > before; }));
  EXPECT_TRUE(source.stop());
  backend->release();
}

TEST(LocalSource, RecordsWhatProcessesRun) {
  std::mutex mutex;
  std::string name, user;
  LocalSourceOptions options{{0, 1}, 20'000'000, 20'000'000, {}};
  options.recorder = [&](const Reading& r) {
    const std::lock_guard lock(mutex);
    if (!r.processes.empty() && !r.processes[0].name.empty()) name = r.processes[0].name;
    if (!r.processes.empty() && r.processes[0].origin) user = r.processes[0].origin->user;
  };
  LocalSource source(std::make_shared<TwoDevices>(), options);
  source.start([] {});
  EXPECT_TRUE(comes_true([&] {
    const std::lock_guard lock(mutex);
    return name.find("test_watch_live") != std::string::npos && !user.empty();
  }));
  source.stop();
}

}  // namespace
}  // namespace profgpu
