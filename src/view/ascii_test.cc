#include "view/ascii.h"

#include <gtest/gtest.h>

namespace profgpu {
namespace {

TEST(AsciiText, CodeCanBeTyped) {
  EXPECT_EQ(ascii_text("DataLoader(…, num_workers=4, …)"), "DataLoader(..., num_workers=4, ...)");
  EXPECT_EQ(ascii_text("x.view(…).y, batch_size=…, f(a…) kernel(int, …"), "x.view(...).y, batch_size=..., f(a~) kernel(int, ~");
}

TEST(AsciiText, IsAsWideAsItWas) {
  EXPECT_EQ(ascii_text("█▁ … 3 × 4"), "#. ~ 3 x 4");
  EXPECT_EQ(ascii_text("54 °C"), "54 'C") << "a blank would part the unit from its number";
}

}  // namespace
}  // namespace profgpu
