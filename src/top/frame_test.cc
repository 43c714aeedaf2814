#include "top/frame.h"

#include <gtest/gtest.h>

namespace profgpu {
namespace {

FrameLine line(std::string_view text, Style style = Style::kPlain, bool reversed = false) { return {Line(text, style), reversed}; }

std::vector<CellRun> changed(const FrameLine& before, const FrameLine& after) { return changed_cells(before, after, 10); }

TEST(ChangedCells, NothingOfWhatStays) {
  EXPECT_TRUE(changed(line("abc"), line("abc")).empty());
  EXPECT_TRUE(changed(line("abc"), line("abc   ")).empty());
  EXPECT_TRUE(changed({}, {}).empty());
}

TEST(ChangedCells, OnlyWhatIsNew) {
  EXPECT_EQ(changed(line("12 % ▁▂▃"), line("13 % ▁▂▄")), (std::vector<CellRun>{{1, Style::kPlain, "3"}, {7, Style::kPlain, "▄"}}));
  EXPECT_EQ(changed({}, line("ab", Style::kGood)), (std::vector<CellRun>{{0, Style::kGood, "ab"}}));
}

TEST(ChangedCells, WhatIsBehindTheNewEndIsBlanked) {
  EXPECT_EQ(changed(line("abcd"), line("ab")), (std::vector<CellRun>{{2, Style::kPlain, "  "}}));
}

TEST(ChangedCells, LooksCount) {
  FrameLine two = line("ab");
  two.line.add("cd", Style::kBad);
  EXPECT_EQ(changed(line("abcd"), two), (std::vector<CellRun>{{2, Style::kBad, "cd"}}));
  EXPECT_EQ(changed(line("ab"), line("ab", Style::kPlain, true)), (std::vector<CellRun>{{0, Style::kPlain, "ab        "}}));
}

TEST(ChangedCells, WideCharactersAndMarksStayWhole) {
  EXPECT_EQ(changed(line("a世b"), line("axyb")), (std::vector<CellRun>{{1, Style::kPlain, "xy"}}));
  EXPECT_EQ(changed(line("axyb"), line("a世b")), (std::vector<CellRun>{{1, Style::kPlain, "世"}}));
  EXPECT_EQ(changed(line("ae"), line("ae\u0301")), (std::vector<CellRun>{{1, Style::kPlain, "e\u0301"}}));
}

TEST(ChangedCells, NothingBeyondTheScreen) {
  EXPECT_EQ(changed({}, line("0123456789ab")), (std::vector<CellRun>{{0, Style::kPlain, "0123456789"}}));
  EXPECT_EQ(changed({}, line("012345678世")), (std::vector<CellRun>{{0, Style::kPlain, "012345678"}}));
}

}  // namespace
}  // namespace profgpu
