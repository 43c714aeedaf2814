#include <gtest/gtest.h>

#include "analyse/report/text.h"
#include "view/layout.h"

namespace profgpu {
namespace {

std::string plain(const Lines& lines, int width = 0) { return rendered(lines, width, false); }

TEST(Bar, IsDrawnInEighths) {
  EXPECT_EQ(bar(1, 3), "███");
  EXPECT_EQ(bar(0.5, 3), "█▌");
  EXPECT_EQ(bar(0.125, 1), "▏");
  EXPECT_EQ(bar(0.00001, 10), "▏");
  EXPECT_EQ(bar(0, 10), "");
  EXPECT_EQ(bar(-1, 10), "");
  EXPECT_EQ(bar(7, 2), "██");
  EXPECT_EQ(bar(0.0 / 0.0, 2), "");
}

TEST(Curve, LeavesBlankWhatIsNotKnown) {
  EXPECT_EQ(curve({0, 3.5, 7}, 3), "▁▅█");
  EXPECT_EQ(curve({-1, 7, -1, 0}, 4), " █ ▁");
  EXPECT_EQ(curve({1, 7, 3, 7}, 2), "██");
  EXPECT_EQ(curve({}, 5), "");
}

TEST(Line, MakesTextHarmlessAndEndsColours) {
  const Lines lines{Line("a\x1b[2J", Style::kBad)};
  EXPECT_EQ(plain(lines), "a\\x1b[2J\n");
  EXPECT_EQ(rendered(lines, 0, true), "\x1b[31ma\\x1b[2J\x1b[0m\n");
}

TEST(Line, IsCutWhereverItsPartsEnd) {
  for (int width = 1; width < 12; ++width) {
    const std::string text = plain({Line("abc").add("def").add("  ").add("gh")}, width);
    EXPECT_LE(display_width(text.substr(0, text.size() - 1)), width);
    EXPECT_EQ(text.find("…") != std::string::npos, width < 10) << width;
  }
  EXPECT_EQ(plain({Line("abc").add("def")}, 3), "ab…\n");
}

TEST(Lines, EmptyOnesNeverLeadRepeatOrTrail) {
  EXPECT_EQ(plain({Line(), Line("a"), Line(), Line(), Line("b  "), Line()}), "a\n\nb\n");
}

TEST(Lines, WrappedTextHangs) {
  EXPECT_EQ(plain(wrapped_after(Line("! "), "one two three four five\nsix", 18)),
            "! one two three\n  four five\n  six\n");
  EXPECT_EQ(plain(wrapped_after(Line("! "), "aaaaaaaaaaaa bbbbbbbbbbbb c", 14, Style::kPlain, 1)),
            "! aaaaaaaaaaa…\n");
  EXPECT_EQ(plain(wrapped_after(Line("! "), "aaaa bbbb ccc dd", 15, Style::kPlain, 1)), "! aaaa bbbb…\n")
      << "at the end of a word";
}

TEST(Panels, StandBesideEachOtherWhereThereIsRoom) {
  const std::vector<Panel> panels{{"L", {{"x", 50, "1", Style::kPlain}}, {}},
                                  {"R", {{"y", 25, "2", Style::kPlain}}, {}}};
  EXPECT_EQ(plain(panels_lines(panels, 60)),
            "L\n  x  ████████████████████████████████████████  1\n\n"
            "R\n  y  ████████████████████                      2\n");
  const std::string beside = plain(panels_lines(panels, 100));
  EXPECT_EQ(beside.substr(0, beside.find('\n')), "L" + std::string(51, ' ') + "R");
  EXPECT_EQ(plain(panels_lines({{"empty", {}, {}}}, 100)), "");
}

TEST(Grid, AlignsAndShortensTextOnly) {
  Grid grid;
  grid.add_column("name");
  grid.add_column("n", true);
  grid.add_row({{"a name that is far too long for this"}, {"1,234"}});
  EXPECT_EQ(plain(grid.lines(0)),
            "name                                      n\na name that is far too long for this  1,234\n");
  EXPECT_EQ(plain(grid.lines(34)), "name                             n\na name that is far too lon…  1,234\n");
}

TEST(Grid, SplitsIntoBlocksRatherThanLoseColumns) {
  Grid grid;
  grid.add_column("name");
  for (int i = 0; i < 12; ++i) grid.add_column("column" + std::to_string(i), true);
  std::vector<Cell> row{{std::string(300, 'k')}};
  for (int i = 0; i < 12; ++i) row.push_back({"value" + std::to_string(i)});
  grid.add_row(row);
  for (int width = 40; width < 200; width += 7) {
    const std::string text = plain(grid.lines(width));
    for (int i = 0; i < 12; ++i) EXPECT_NE(text.find("value" + std::to_string(i)), std::string::npos) << width;
    for (const std::string_view line : lines_of(text)) EXPECT_LE(display_width(line), width);
  }
}

}  // namespace
}  // namespace profgpu
