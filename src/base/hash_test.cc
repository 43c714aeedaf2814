#include "base/hash.h"

#include <gtest/gtest.h>

namespace profgpu {
namespace {

// Of the authors' list of test vectors.
TEST(Hash, IsFnv1a) {
  EXPECT_EQ(fnv1a(""), 0xcbf29ce484222325);
  EXPECT_EQ(fnv1a("a"), 0xaf63dc4c8601ec8c);
  EXPECT_EQ(fnv1a("foobar"), 0x85944171f73967e8);
  EXPECT_EQ(fnv1a("bar", fnv1a("foo")), fnv1a("foobar"));
}

// The first number of splitmix64 seeded with 0.
TEST(Hash, MixesAsSplitmixDoes) { EXPECT_EQ(mixed_bits(kGoldenRatio), 0xe220a8397b1dcdaf); }

}  // namespace
}  // namespace profgpu
