#include "watch/exporter/device_tally.h"

#include <gtest/gtest.h>

namespace profgpu {
namespace {

constexpr int64_t kSecond = 1'000'000'000, kBegin = 1'767'225'600 * kSecond;

Reading reading_at(int64_t ns, std::vector<Sample> samples) {
  Reading reading;
  reading.time_ns = ns;
  reading.samples = std::move(samples);
  return reading;
}

DeviceTally tally_of(std::vector<Reading> readings) {
  DeviceInfo info;
  info.constants = {{Metric::kMemoryTotal, 1000}};
  DeviceTally tally(info, kSecond);
  for (const Reading& r : readings) tally.add(r);
  return tally;
}

TEST(DeviceTally, BurstsBetweenReadingsAreCounted) {
  // Busy for 0.2 s of the second, which the newest sample alone would not tell.
  const auto busy = [](int64_t tenth, double pct) {
    return Sample{kBegin + tenth * kSecond / 10, Metric::kUtilization, pct};
  };
  const DeviceTally tally =
      tally_of({reading_at(kBegin, {busy(0, 0)}),
                reading_at(kBegin + kSecond, {busy(2, 100), busy(3, 100), busy(4, 0), busy(10, 0)})});
  EXPECT_NEAR(tally.busy().sum / 100, 0.2, 1e-9);
  EXPECT_NEAR(tally.busy().seconds, 1, 1e-9);
  EXPECT_EQ(tally.value(Metric::kUtilization, kBegin + kSecond), 0);
}

TEST(DeviceTally, AGapIsNotFilled) {
  Integral sum;
  sum.add(kBegin, 50, 10 * kSecond);
  sum.add(kBegin + kSecond, 50, 10 * kSecond);
  sum.add(kBegin + 60 * kSecond, 50, 10 * kSecond);  // asleep meanwhile
  sum.add(kBegin + 60 * kSecond, 99, 10 * kSecond);  // the same again
  sum.add(kBegin + 59 * kSecond, 99, 10 * kSecond);  // older
  sum.add(kBegin + 61 * kSecond, 50, 10 * kSecond);
  EXPECT_DOUBLE_EQ(sum.sum, 100);
  EXPECT_DOUBLE_EQ(sum.seconds, 2);
}

TEST(DeviceTally, ReasonsAddUpByBit) {
  const auto bits = [](int64_t s, double value) {
    return reading_at(kBegin + s * kSecond, {{kBegin + s * kSecond, Metric::kClockEventReasons, value}});
  };
  const DeviceTally tally = tally_of({bits(0, 0), bits(1, 4), bits(2, 4 + 0x40), bits(3, 1), bits(4, 0)});
  EXPECT_DOUBLE_EQ(tally.reasons()[2].sum, 2);  // sw_power_cap
  EXPECT_DOUBLE_EQ(tally.reasons()[6].sum, 1);  // hw_thermal_slowdown
  EXPECT_DOUBLE_EQ(tally.reasons()[0].sum, 1);  // gpu_idle
  EXPECT_DOUBLE_EQ(tally.reasons()[1].sum, 0);
}

TEST(DeviceTally, OldValuesAreNotShown) {
  const DeviceTally tally =
      tally_of({reading_at(kBegin, {{kBegin, Metric::kPower, 100}, {kBegin, Metric::kSmClockMax, 1980}})});
  EXPECT_EQ(tally.value(Metric::kPower, kBegin + 100 * kSecond), 100);
  EXPECT_FALSE(tally.value(Metric::kPower, kBegin + 200 * kSecond));
  EXPECT_EQ(tally.value(Metric::kSmClockMax, kBegin + 200 * kSecond), 1980);  // does not change
  EXPECT_EQ(tally.value(Metric::kMemoryTotal, kBegin), 1000);
  EXPECT_FALSE(tally.value(Metric::kTemperature, kBegin));
}

TEST(DeviceTally, Rates) {
  const auto at = [](int64_t s, double bytes) {
    return reading_at(kBegin + s * kSecond, {{kBegin + s * kSecond, Metric::kPcieTx, bytes}});
  };
  EXPECT_FALSE(tally_of({at(0, 5)}).per_second(Metric::kPcieTx, kBegin));
  EXPECT_EQ(tally_of({at(0, 5), at(2, 25)}).per_second(Metric::kPcieTx, kBegin + 2 * kSecond), 10);
  EXPECT_FALSE(tally_of({at(0, 25), at(2, 5)}).per_second(Metric::kPcieTx, kBegin + 2 * kSecond));  // began anew
}

TEST(DeviceTally, XidsByCode) {
  const auto seen = [](int64_t s, double count, std::vector<std::pair<int64_t, double>> events) {
    Reading r = reading_at(kBegin + s * kSecond, {{kBegin + s * kSecond, Metric::kXidErrors, count}});
    for (const auto& [ns, code] : events) r.samples.push_back({kBegin + ns, Metric::kXidLast, code});
    return r;
  };
  EXPECT_FALSE(tally_of({}).xids());
  EXPECT_TRUE(tally_of({seen(0, 0, {})}).xids()->empty());
  using Counts = std::map<int64_t, int64_t>;
  // Two at once, then one, whose last code is told again and again.
  EXPECT_EQ(
      *tally_of({seen(0, 0, {}), seen(1, 2, {{100, 31}, {200, 43}}), seen(2, 2, {{200, 43}}), seen(3, 3, {{300, 31}})})
           .xids(),
      (Counts{{31, 2}, {43, 1}}));
  // A log that is replayed: the code stands in every row with the row's time.
  EXPECT_EQ(*tally_of({seen(0, 1, {{100, 79}}), seen(1, 1, {{200, 79}}), seen(2, 1, {{300, 79}})}).xids(),
            (Counts{{79, 1}}));
  // More happened than is told.
  EXPECT_EQ(*tally_of({seen(0, 0, {}), seen(1, 5, {{100, 48}})}).xids(), (Counts{{-1, 4}, {48, 1}}));
}

}  // namespace
}  // namespace profgpu
