#include "cli/size_text.h"

#include <gtest/gtest.h>

namespace profgpu {
namespace {

TEST(SizeBytes, AsPeopleTypeThem) {
  constexpr double kGiB = 1 << 30;
  EXPECT_EQ(size_bytes("20GiB"), 20 * kGiB);
  EXPECT_EQ(size_bytes("20G"), 20 * kGiB);
  EXPECT_EQ(size_bytes("20gib"), 20 * kGiB);
  EXPECT_EQ(size_bytes("20GB"), 20e9);
  EXPECT_EQ(size_bytes("20480 MiB"), 20 * kGiB);
  EXPECT_EQ(size_bytes("1.5T"), 1536 * kGiB);
  EXPECT_EQ(size_bytes("4096"), 4096);
  EXPECT_EQ(size_bytes("4096B"), 4096);
  EXPECT_EQ(size_bytes("0"), 0);
}

TEST(SizeBytes, WhatIsNone) {
  for (const char* text : {"", "G", "GiB", "-1G", "1X", "1Gi", "1GiBx", "1.2.3G", "nan", "inf", "1e400", " 1G", "1G2"})
    EXPECT_FALSE(size_bytes(text)) << text;
}

}  // namespace
}  // namespace profgpu
