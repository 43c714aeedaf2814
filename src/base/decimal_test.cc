#include "base/decimal.h"

#include <gtest/gtest.h>

#include <string>

namespace profgpu {
namespace {

// Both functions say the same, whatever follows the text.
std::optional<int64_t> scaled(std::string_view text, int scale) {
  const auto value = scaled_decimal(text, scale);
  for (const char* const padding : {"        ", "12345678", ".5555555", ",\n\"a\": 0"}) {
    const std::string padded = std::string(text) + padding;
    EXPECT_EQ(padded_scaled_decimal({padded.data(), text.size()}, scale), value) << padded;
  }
  return value;
}
std::optional<int64_t> scaled_by_3(std::string_view text) { return scaled(text, 3); }
std::optional<int64_t> scaled_by_0(std::string_view text) { return scaled(text, 0); }

TEST(Decimal, MicrosecondsBecomeNanosecondsExactly) {
  EXPECT_EQ(scaled_by_3("0"), 0);
  EXPECT_EQ(scaled_by_3("12.5"), 12500);
  EXPECT_EQ(scaled_by_3("1718000000000000.123"), 1718000000000000123);
  EXPECT_EQ(scaled_by_3("4458676522690.655"), 4458676522690655);
  EXPECT_EQ(scaled_by_3("-3"), -3000);
  EXPECT_EQ(scaled_by_3("1e3"), 1000000);
  EXPECT_EQ(scaled_by_3("1.5E-3"), 2);  // half away from zero
}

TEST(Decimal, DigitsBeyondTheThirdRoundHalfAwayFromZero) {
  EXPECT_EQ(scaled_by_3("1.0004"), 1000);
  EXPECT_EQ(scaled_by_3("1.0005"), 1001);
  EXPECT_EQ(scaled_by_3("-1.0005"), -1001);
  EXPECT_EQ(scaled_by_3("1.00049999999999999999999999999999999"), 1000);
  EXPECT_EQ(scaled_by_3("1712867402348256.9996"), 1712867402348257000);
}

// Digits are read eight at a time.
TEST(Decimal, NumbersOfEveryLength) {
  int64_t value = 0;
  std::string text;
  for (int digits = 1; digits <= 18; ++digits) {
    value = value * 10 + digits % 10;
    text += static_cast<char>('0' + digits % 10);
    EXPECT_EQ(scaled_by_0(text), value) << text;
    EXPECT_EQ(scaled_by_0("-" + text), -value) << text;
    EXPECT_EQ(scaled(text + ".25", 1), value * 10 + 3) << text;
    if (digits < 16) {
      EXPECT_EQ(scaled_by_3(text + ".375"), value * 1000 + 375) << text;
    }
    for (const char stray : {'/', ':', 'x', ' '}) {
      std::string damaged = text;
      damaged[damaged.size() / 2] = stray;
      EXPECT_EQ(scaled_by_0(damaged), std::nullopt) << damaged;
    }
  }
}

TEST(Decimal, RefusesWhatIsNoNumberOrDoesNotFit) {
  for (const char* text : {"", "-", ".", "x", "1x", "1e", "1e308", "9223372036854775.808", "99999999999999999999",
                           "nan", "inf", "0x10", "1 2", "1e99999999999"})
    EXPECT_EQ(scaled_by_3(text), std::nullopt) << text;
  EXPECT_EQ(scaled_by_3("9223372036854775.807"), INT64_MAX);
  EXPECT_EQ(scaled_by_3("0e400"), 0);
  EXPECT_EQ(scaled_by_3("1e-400"), 0);
}

TEST(Decimal, WholeNumbersAndReals) {
  EXPECT_EQ(scaled_by_0("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(scaled_by_0("2.5"), 3);
  EXPECT_EQ(real_number("0.25"), 0.25);
  EXPECT_EQ(real_number("1e999"), std::nullopt);
}

}  // namespace
}  // namespace profgpu
