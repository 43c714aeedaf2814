#include "analyse/rank/op_shapes.h"

#include <gtest/gtest.h>

namespace profgpu {
namespace {

TEST(OpShapes, AreReadAsWritten) {
  EXPECT_EQ(op_shapes("[[3072], [16384, 1024], [1024, 3072], [], []]"),
            (OpShapes{{3072}, {16384, 1024}, {1024, 3072}, {}, {}}));
  EXPECT_EQ(op_shapes("[]"), OpShapes());
}

TEST(OpShapes, WhatIsNoneGivesNothing) {
  for (const char* text : {"", "[[1, 2]", "[[[1], [2]], []]", "[1]", "[[x]]", "[[99999999999999999999]]", "null"})
    EXPECT_EQ(op_shapes(text), OpShapes()) << text;
}

}  // namespace
}  // namespace profgpu
