#include "base/text.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace profgpu {

namespace {

TEST(Text, ChangesTheCaseOfAsciiOnly) {
  EXPECT_EQ(lower_case("GPU-0a Ä"), "gpu-0a Ä");
  EXPECT_EQ(upper_case("gpu-0A ä"), "GPU-0A ä");
  EXPECT_TRUE(is_digit('0') && is_digit('9') && !is_digit('/') && !is_digit(':') && !is_digit('a'));
  EXPECT_TRUE(is_letter('a') && is_letter('Z') && !is_letter('_') && !is_letter('@') && !is_letter('['));
}

TEST(Text, KnowsWhatIsAllDigits) {
  EXPECT_TRUE(all_digits("007"));
  for (const char* text : {"", "-1", "1.5", "1 ", "0x1"}) EXPECT_FALSE(all_digits(text)) << text;
}

TEST(Text, LosesBlanksAroundIt) {
  EXPECT_EQ(without_blanks(" \t a b\r\n"), "a b");
  EXPECT_EQ(without_blanks(" \n"), "");
  EXPECT_EQ(without_blanks(""), "");
}

TEST(Text, OfAListIsOnOneLine) {
  EXPECT_EQ(list_on_one_line("[\n  [\n    16,\n    1024\n  ],\n  []\n]"), "[[16, 1024], []]");
  EXPECT_EQ(list_on_one_line("[[16, 1024], []]"), "[[16, 1024], []]");
  EXPECT_EQ(list_on_one_line(""), "");
}

TEST(Text, IsCutIntoPieces) {
  EXPECT_EQ(pieces_of("a,,b,", ','), (std::vector<std::string_view>{"a", "b"}));
  EXPECT_TRUE(pieces_of(",,", ',').empty());
  EXPECT_EQ(line_value("Name:\tx\nUid:\t1 2\n", "Uid"), "1 2");
  EXPECT_EQ(line_value("Uids: 1\n", "Uid"), "");
}

TEST(Text, IsJoined) {
  EXPECT_EQ(joined(std::vector<std::string>{"a", "b"}), "a, b");
  EXPECT_EQ(joined(std::vector<std::string_view>{}), "");
  EXPECT_EQ(joined(std::vector<int>{1, 2, 3}, "/", [](int n) { return std::to_string(n); }), "1/2/3");
  std::string list;
  append_listed(list, "a");
  append_listed(list, "b", "; ");
  EXPECT_EQ(list, "a; b");
}

TEST(Text, IsOrderedAsPeopleCount) {
  std::vector<std::string> names = {"r10", "r9",   "b",     "10", "9",      "r9.json",
                                    "r09", "a1b2", "a1b10", "",   "rank_8", "rank_007"};
  std::sort(names.begin(), names.end(), natural_less);
  EXPECT_EQ(joined(names, " "), "9 10 a1b2 a1b10 b r09 r9 r9.json r10 rank_007 rank_8");
  EXPECT_FALSE(natural_less("r1", "r1"));
  EXPECT_TRUE(natural_less("01", "1") && !natural_less("1", "01"));
}

}  // namespace

}  // namespace profgpu
