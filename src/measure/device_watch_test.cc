#include "measure/device_watch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/clock.h"

namespace profgpu {
namespace {

// A device without errors at its first reading, which is the only one that has values.
class OnceRead : public Backend {
 public:
  [[nodiscard]] std::string_view name() const override { return "fake"; }
  [[nodiscard]] const std::vector<DeviceInfo>& devices() const override { return info_; }
  Status read(const ReadRequest&, Reading& reading) override {
    if (read_.exchange(true)) return ok();
    reading.add(Metric::kXidErrors, 0);
    reading.add(Metric::kEccUncorrected, 4);
    reading.add(Metric::kSmClock, 1500);
    return ok();
  }
  [[nodiscard]] std::string why_absent(uint32_t, Metric) const override { return {}; }

 private:
  std::vector<DeviceInfo> info_ = std::vector<DeviceInfo>(1);
  std::atomic<bool> read_ = false;
};

TEST(DeviceWatch, FaultsOfTheFirstMinutesAreNotForgotten) {
  DeviceWatch watch(std::make_shared<OnceRead>());
  for (int i = 0; i < 6000 && !watch.since(0, 0).sm_clock_mhz; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ASSERT_TRUE(watch.since(0, 0).sm_clock_mhz);
  const int64_t from_ns = unix_ns();
  for (int64_t i = 0; i < 20'000; ++i) {
    Reading reading;
    reading.time_ns = from_ns + i;
    reading.add(Metric::kXidErrors, 3);
    reading.add(Metric::kXidLast, 79);
    reading.add(Metric::kEccUncorrected, 5);
    watch.take(reading);
  }
  const DeviceFaults faults = watch.faults_since(0, from_ns);
  EXPECT_EQ(faults.xids, 3);
  EXPECT_EQ(faults.last_xid, 79);
  EXPECT_EQ(faults.ecc_uncorrected, 1);
}

}  // namespace
}  // namespace profgpu
