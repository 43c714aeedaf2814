#include "analyse/report/quantity.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "analyse/report/text.h"
#include "base/text.h"

namespace profgpu {
namespace {

TEST(Duration, HasThreeSignificantDigits) {
  EXPECT_EQ(format_duration(0), "0 ns");
  EXPECT_EQ(format_duration(850), "850 ns");
  EXPECT_EQ(format_duration(12.5), "12.5 ns");
  EXPECT_EQ(format_duration(12'300), "12.3 µs");
  EXPECT_EQ(format_duration(69'800'000), "69.8 ms");
  EXPECT_EQ(format_duration(176'000'000), "176 ms");
  EXPECT_EQ(format_duration(1'050'000'000), "1.05 s");
  EXPECT_EQ(format_duration(-1'500), "-1.50 µs");
  EXPECT_EQ(format_duration(68'000'000, 2), "68 ms");
}

TEST(Duration, RoundsUpIntoTheNextUnit) {
  EXPECT_EQ(format_duration(999'400), "999 µs");
  EXPECT_EQ(format_duration(999'600), "1.00 ms");
  EXPECT_EQ(format_duration(9'996), "10.0 µs");
  EXPECT_EQ(format_duration(999'999'999), "1.00 s");
}

TEST(Duration, TurnsToMinutesAndHours) {
  EXPECT_EQ(format_duration(599e9), "599 s");
  EXPECT_EQ(format_duration(725e9), "12 min 05 s");
  EXPECT_EQ(format_duration(11'520e9), "3 h 12 min");
}

TEST(Bytes, ArePowersOf1024) {
  EXPECT_EQ(format_bytes(512), "512 B");
  EXPECT_EQ(format_bytes(1024), "1.00 KiB");
  EXPECT_EQ(format_bytes(17.2 * 1073741824), "17.2 GiB");
  EXPECT_EQ(format_bytes(1023.9 * 1024), "1.00 MiB");
}

TEST(Percent, NeverRoundsSomethingToNothing) {
  EXPECT_EQ(format_percent(39.66), "39.7 %");
  EXPECT_EQ(format_percent(0), "0.0 %");
  EXPECT_EQ(format_percent(0.01), "<0.1 %");
  EXPECT_EQ(format_percent(100), "100 %");
  EXPECT_EQ(format_percent(99.96), "100.0 %");
  EXPECT_EQ(format_percent(38.6, 0), "39 %");
  EXPECT_EQ(format_percent(0.2, 0), "<1 %");
}

TEST(Count, SeparatesThousands) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1'234), "1,234");
  EXPECT_EQ(format_count(-1'234'567), "-1,234,567");
  EXPECT_EQ(format_count(-123), "-123");
  EXPECT_EQ(format_count(std::numeric_limits<int64_t>::min()), "-9,223,372,036,854,775,808");
}

TEST(Number, IsShortButWhole) {
  EXPECT_EQ(format_number(1234567), "1,234,567");
  EXPECT_EQ(format_number(1.28), "1.28");
  EXPECT_EQ(format_number(0.01234), "0.0123");
  EXPECT_EQ(format_number(1e-9), "1.00e-09");
  EXPECT_EQ(format_number(1e300), "1.00e+300");
}

TEST(Quantity, UnknownIsNeverZero) {
  for (const Unit unit : {Unit::kNone, Unit::kNanoseconds, Unit::kBytes, Unit::kPercent, Unit::kGbps}) {
    EXPECT_EQ(format_value(Value(), unit), kUnknownText);
    EXPECT_EQ(format_value(Value(NAN), unit), kUnknownText);
    EXPECT_EQ(format_value(Value(INFINITY), unit), kUnknownText);
  }
  EXPECT_EQ(format_value(312.4, Unit::kGbps), "312 GB/s");
  EXPECT_EQ(format_value(true, Unit::kNone), "yes");
}

TEST(Quantity, FixedWidthAlignsUnits) {
  EXPECT_EQ(format_fixed(69'800'000, Unit::kNanoseconds, 9), "  69.8 ms");
  EXPECT_EQ(format_fixed(1'050'000'000, Unit::kNanoseconds, 9), "  1.05 s ");
  EXPECT_EQ(format_fixed(512, Unit::kBytes, 9), "  512 B  ");
  EXPECT_EQ(display_width(format_fixed(12'300, Unit::kNanoseconds, 9)), 9);
  EXPECT_EQ(display_width(format_fixed(Value(), Unit::kPercent, 9)), 9);
}

}  // namespace
}  // namespace profgpu
