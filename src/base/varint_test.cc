#include "base/varint.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace profgpu {
namespace {

TEST(Varint, ComesBack) {
  for (const uint64_t n :
       {uint64_t{0}, uint64_t{1}, uint64_t{127}, uint64_t{128}, uint64_t{1} << 35, uint64_t{1} << 63, UINT64_MAX}) {
    std::string text;
    append_varint(text, n);
    uint8_t bytes[kMaxVarintBytes];
    EXPECT_EQ(std::string(bytes, put_varint(bytes, n)), text);
    std::string_view rest = text;
    uint64_t read = 1;
    EXPECT_TRUE(take_varint(rest, read)) << n;
    EXPECT_EQ(read, n);
    EXPECT_TRUE(rest.empty());
    std::string_view cut = std::string_view(text).substr(0, text.size() - 1);
    EXPECT_FALSE(take_varint(cut, read)) << n;
  }
}

TEST(Varint, OfMoreThan64BitsIsNone) {
  uint64_t read = 0;
  for (std::string_view text :
       {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"})
    EXPECT_FALSE(take_varint(text, read));
  std::string_view longer = "\x81\x80\x01";   // longer than it must be
  EXPECT_TRUE(take_varint(longer, read));
  EXPECT_EQ(read, (1u << 14) + 1);
}

TEST(Varint, ZigzagKeepsSmallNumbersSmall) {
  for (const int64_t n : {int64_t{0}, int64_t{-1}, int64_t{1}, INT64_MIN, INT64_MAX})
    EXPECT_EQ(static_cast<int64_t>(from_zigzag(zigzag(static_cast<uint64_t>(n)))), n);
  EXPECT_EQ(zigzag(static_cast<uint64_t>(int64_t{-1})), 1u);
}

}  // namespace
}  // namespace profgpu
