#include "watch/top/chart.h"

#include <gtest/gtest.h>

#include <cmath>

#include "analyse/report/text.h"

namespace profgpu {
namespace {

constexpr int64_t kSecond_ns = 1'000'000'000;

std::string text_of(const Line& line) {
  std::string out;
  line.append_to(out, 0, false);
  return out;
}

TEST(Chart, TwoPointsACellAndFourDotsARow) {
  const Chart chart{{"100 %", "busy"}, {0, 25, 50, 75, 100, 100, std::nanf(""), 0}, 100, plain_look};
  const Lines one = chart_lines(chart, 6, 1);
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(text_of(one[0]), "100 % ⣀⣴⣿⢀");
  const Lines two = chart_lines(chart, 6, 2);
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(text_of(two[0]), "100 %  ⢠⣿");
  EXPECT_EQ(text_of(two[1]), "busy  ⣠⣿⣿⢀");
}

TEST(Chart, WhatIsNotKnownIsBlankAndWhatIsZeroIsNot) {
  const Chart unknown{{}, {std::nanf(""), std::nanf("")}, 100, plain_look};
  EXPECT_EQ(text_of(chart_lines(unknown, 0, 1)[0]), "");
  const Chart zero{{}, {0, 0}, 100, plain_look};
  EXPECT_EQ(text_of(chart_lines(zero, 0, 1)[0]), "⣀");
  const Chart scaleless{{}, {0, 0}, 0, plain_look};
  EXPECT_EQ(text_of(chart_lines(scaleless, 0, 1)[0]), "⣀");
}

TEST(Chart, ColorsAreByValue) {
  const Chart chart{{}, {2, 1, 40, 50, 90, 80, 100, 100}, 100, busy_look};
  const Lines lines = chart_lines(chart, 0, 1);
  std::vector<Style> styles;
  for (const Line::Span& s : lines[0].spans()) styles.push_back(s.style);
  EXPECT_EQ(styles, (std::vector<Style>{Style::kWarn, Style::kNote, Style::kGood}));
  Line line;
  add_curve(line, {2, 40, 50, std::nanf(""), 90}, 100, busy_look);
  EXPECT_EQ(text_of(line), "▁▃▄ ▇");
  ASSERT_EQ(line.spans().size(), 4u);
  EXPECT_EQ(line.spans()[1].style, Style::kNote);
  EXPECT_EQ(line.spans()[3].style, Style::kGood);
}

TEST(Chart, LooksFollowTheLimits) {
  EXPECT_EQ(full_look(0.5), Style::kNote);
  EXPECT_EQ(full_look(0.92), Style::kWarn);
  EXPECT_EQ(full_look(0.99), Style::kStrongBad);
  EXPECT_EQ(heat_look(0.9), Style::kWarn);
  EXPECT_EQ(slowed_look(0), Style::kFaint);
  EXPECT_EQ(slowed_look(0.62), Style::kWarn);
}

TEST(TimeAxis, RoundTimesThatDoNotTouch) {
  EXPECT_EQ(time_axis(kSecond_ns, 40), "──────────┴60 s──────────┴30 s───────now");
  EXPECT_EQ(time_axis(kSecond_ns / 10, 30), "─────┴5 s──────────────────now");
  for (const int64_t point_ns : {1'000'000L, 50'000'000L, 1'000'000'000L, 60'000'000'000L, 86'400'000'000'000L})
    for (int cells = 0; cells < 130; ++cells) {
      const std::string axis = time_axis(point_ns, cells);
      EXPECT_EQ(display_width(axis), cells);
      if (cells >= 3) {
        EXPECT_EQ(axis.substr(axis.size() - 3), "now");
      }
    }
}

TEST(TimeAxis, LongIntervalsHaveMinutesAndHours) {
  EXPECT_NE(time_axis(60 * kSecond_ns, 100).find("┴30 min"), std::string::npos) << time_axis(60 * kSecond_ns, 100);
  EXPECT_NE(time_axis(600 * kSecond_ns, 100).find("┴6 h"), std::string::npos) << time_axis(600 * kSecond_ns, 100);
}

}  // namespace
}  // namespace profgpu
