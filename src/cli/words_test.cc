#include "cli/words.h"

#include <gtest/gtest.h>

namespace profgpu {

namespace {

TEST(Suggestion, DistanceCountsEdits) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance("analyze", "anlyze"), 1u);
  EXPECT_EQ(edit_distance("analyze", "anaylze"), 1u) << "a swap of neighbours is one slip";
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

TEST(Suggestion, GuessesOnlyWhatIsNear) {
  const std::vector<std::string> names = {"analyze", "explain", "rules", "formats"};
  EXPECT_EQ(nearest("analyse", names), "analyze");
  EXPECT_EQ(nearest("form", names), "formats") << "a beginning is enough";
  EXPECT_EQ(nearest("run", names), "");
  EXPECT_EQ(nearest("", names), "");
  EXPECT_EQ(nearest(std::string(100000, 'a'), names), "");
}

}  // namespace

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
