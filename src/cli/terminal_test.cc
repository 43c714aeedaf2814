#include "cli/terminal.h"

#include <gtest/gtest.h>

namespace profgpu {
namespace {

TEST(Wrap, BreaksAtSpacesAndIndents) {
  EXPECT_EQ(wrap("one two three", 7, ""), "one two\nthree\n");
  EXPECT_EQ(wrap("one two three", 9, "- "), "- one two\n  three\n");
  EXPECT_EQ(wrap("", 10, ""), "\n");
}

TEST(Wrap, KeepsLineFeeds) {
  EXPECT_EQ(wrap("one\ntwo", 80, "  "), "  one\n  two\n");
  EXPECT_EQ(wrap("one\n\ntwo", 80, "  "), "  one\n\n  two\n");
}

TEST(Wrap, CountsCharactersNotBytes) {
  EXPECT_EQ(wrap("µµµ µµµ", 7, ""), "µµµ µµµ\n");
}

}  // namespace

namespace {

TEST(ProgressLine, ShowsTheShareThatIsDone) {
  Progress progress;
  EXPECT_EQ(progress_line(progress), "reading  0 MB");
  progress.total_bytes = 200'000'000;
  progress.done_bytes = 100'000'000;
  EXPECT_EQ(progress_line(progress),
            "reading  [" + std::string(15, '#') + std::string(15, ' ') + "]  50 %  100 of 200 MB");
  progress.done_bytes = 300'000'000;
  progress.stage = "analysing";
  EXPECT_EQ(progress_line(progress), "analysing  [" + std::string(30, '#') + "]  100 %  300 of 200 MB")
      << "never over 100 %";
}

}  // namespace

}  // namespace profgpu
