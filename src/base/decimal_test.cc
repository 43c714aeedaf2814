#include "base/decimal.h"

#include <gtest/gtest.h>

namespace profgpu {
namespace {

TEST(Decimal, MicrosecondsBecomeNanosecondsExactly) {
  EXPECT_EQ(nanoseconds_from_micros("0"), 0);
  EXPECT_EQ(nanoseconds_from_micros("12.5"), 12500);
  EXPECT_EQ(nanoseconds_from_micros("1718000000000000.123"), 1718000000000000123);
  EXPECT_EQ(nanoseconds_from_micros("4458676522690.655"), 4458676522690655);
  EXPECT_EQ(nanoseconds_from_micros("-3"), -3000);
  EXPECT_EQ(nanoseconds_from_micros("1e3"), 1000000);
  EXPECT_EQ(nanoseconds_from_micros("1.5E-3"), 2);  // half away from zero
}

TEST(Decimal, DigitsBeyondTheThirdRoundHalfAwayFromZero) {
  EXPECT_EQ(nanoseconds_from_micros("1.0004"), 1000);
  EXPECT_EQ(nanoseconds_from_micros("1.0005"), 1001);
  EXPECT_EQ(nanoseconds_from_micros("-1.0005"), -1001);
  EXPECT_EQ(nanoseconds_from_micros("1.00049999999999999999999999999999999"), 1000);
  EXPECT_EQ(nanoseconds_from_micros("1712867402348256.9996"), 1712867402348257000);
}

TEST(Decimal, RefusesWhatIsNoNumberOrDoesNotFit) {
  for (const char* text : {"", "-", ".", "x", "1x", "1e", "1e308", "9223372036854775.808", "99999999999999999999",
                           "nan", "inf", "0x10", "1 2", "1e99999999999"})
    EXPECT_EQ(nanoseconds_from_micros(text), std::nullopt) << text;
  EXPECT_EQ(nanoseconds_from_micros("9223372036854775.807"), INT64_MAX);
  EXPECT_EQ(nanoseconds_from_micros("0e400"), 0);
  EXPECT_EQ(nanoseconds_from_micros("1e-400"), 0);
}

TEST(Decimal, WholeNumbersAndReals) {
  EXPECT_EQ(whole_number("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(whole_number("2.5"), 3);
  EXPECT_EQ(real_number("0.25"), 0.25);
  EXPECT_EQ(real_number("1e999"), std::nullopt);
}

}  // namespace
}  // namespace profgpu
