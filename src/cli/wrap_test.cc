#include "cli/wrap.h"

#include <gtest/gtest.h>

namespace profgpu {
namespace {

TEST(Wrap, BreaksAtSpacesAndIndents) {
  EXPECT_EQ(wrap("one two three", 7, ""), "one two\nthree\n");
  EXPECT_EQ(wrap("one two three", 9, "- "), "- one two\n  three\n");
  EXPECT_EQ(wrap("", 10, ""), "\n");
}

TEST(Wrap, LeavesLongWordsWhole) {
  EXPECT_EQ(wrap("a incomprehensibilities b", 5, ""), "a\nincomprehensibilities\nb\n");
}

TEST(Wrap, KeepsLineFeeds) { EXPECT_EQ(wrap("one\ntwo", 80, "  "), "  one\n  two\n"); }

TEST(Wrap, CountsCharactersNotBytes) {
  EXPECT_EQ(columns("µs …"), 4);
  EXPECT_EQ(wrap("µµµ µµµ", 7, ""), "µµµ µµµ\n");
}

}  // namespace
}  // namespace profgpu
