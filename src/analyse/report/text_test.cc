#include "analyse/report/text.h"

#include <gtest/gtest.h>

#include <random>

#include "base/text.h"

namespace profgpu {
namespace {

TEST(Sanitised, LeavesOrdinaryTextAlone) {
  for (const char* text : {"", "aten::add_", "日本語 µs – █ 🙂", "e\u0301tude", "שלום"})
    EXPECT_EQ(sanitised(text), text);
}

TEST(Sanitised, LeavesWhatScreensAreDrawnWithAlone) {
  EXPECT_EQ(sanitised("─│█▏▇◿"), "─│█▏▇◿");
  EXPECT_EQ(display_width("a─│█▏▇世"), 8);
  EXPECT_EQ(sanitised("█\xE2\x96"), "█\uFFFD\uFFFD");
  EXPECT_EQ(sanitised("\xE2\x96z"), "\uFFFD\uFFFDz");
}

TEST(Sanitised, WritesOutWhatTerminalsObey) {
  EXPECT_EQ(sanitised("\x1b[31mred"), "\\x1b[31mred");
  EXPECT_EQ(sanitised("a\tb\nc"), "a b c");
  EXPECT_EQ(sanitised("\r\x7f"), "\\x0d\\x7f");
  EXPECT_EQ(sanitised("\xc2\x9b" "2J"), "\\x9b2J");
  EXPECT_EQ(sanitised("\u202Eabc"), "\\u202eabc");
  EXPECT_EQ(sanitised("a\u200Bb\uFEFF"), "a\\u200bb\\ufeff");
  EXPECT_EQ(sanitised(std::string_view("\0x", 2)), "\\x00x");
  EXPECT_EQ(sanitised("\U000E0041"), "\\U000e0041");
}

TEST(Sanitised, ReplacesWhatIsNotUtf8) {
  EXPECT_EQ(sanitised("a\xff"), "a\uFFFD");
  EXPECT_EQ(sanitised("\xe2\x82"), "\uFFFD\uFFFD");
  EXPECT_EQ(sanitised("\xc0\xaf"), "\uFFFD\uFFFD");
}

TEST(Sanitised, KeepsMarksFromPilingUp) {
  std::string pile = "e";
  for (int i = 0; i < 5; ++i) pile += "\u0301";
  EXPECT_EQ(sanitised(pile), "e\u0301\u0301\u0301\\u0301\\u0301");
}

std::string random_bytes(std::mt19937& random, size_t n) {
  static constexpr unsigned char kSpecial[] = {0x1b, 0x9b, 0xc2, 0xe2, 0x80, 0xae, 0xf0,
                                               0x9f, ' ',  'a',  0xcc, 0x81, 0xff};
  std::string out;
  for (size_t i = 0; i < n; ++i)
    out += static_cast<char>(random() % 2 ? random() % 256 : kSpecial[random() % sizeof kSpecial]);
  return out;
}

TEST(Sanitised, AnyBytesBecomeHarmless) {
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    const std::string clean = sanitised(random_bytes(random, 40));
    EXPECT_EQ(sanitised(clean), clean);
    for (size_t at = 0; at < clean.size();) {
      const size_t n = utf8_sequence(std::string_view(clean).substr(at));
      ASSERT_GT(n, 0u);
      const unsigned char c = static_cast<unsigned char>(clean[at]);
      EXPECT_FALSE(n == 1 && (c < 0x20 || c == 0x7f));
      EXPECT_FALSE(n == 2 && c == 0xc2 && static_cast<unsigned char>(clean[at + 1]) < 0xa0);
      at += n;
    }
  }
}

TEST(Width, CountsCells) {
  EXPECT_EQ(display_width(""), 0);
  EXPECT_EQ(display_width("abc"), 3);
  EXPECT_EQ(display_width("日本"), 4);
  EXPECT_EQ(display_width("e\u0301"), 1);
  EXPECT_EQ(display_width("🙂"), 2);
  EXPECT_EQ(display_width("█▏●✓…µ"), 6);
}

TEST(Truncated, EndsWithinTheWidth) {
  EXPECT_EQ(truncated("abc", 3), "abc");
  EXPECT_EQ(truncated("abcd", 3), "ab…");
  EXPECT_EQ(truncated("日本語", 4), "日…");
  EXPECT_EQ(truncated("abc", 0), "");
  EXPECT_EQ(truncated_front("run7/rank3.json", 8), "…k3.json");
  EXPECT_EQ(truncated_front("abc", 3), "abc");
}

TEST(Truncated, PropertyNeverWider) {
  std::mt19937 random(11);
  for (int i = 0; i < 1000; ++i) {
    const std::string text = sanitised(random_bytes(random, 60));
    for (int width = 0; width < 40; width += 3) {
      EXPECT_LE(display_width(truncated(text, width)), width);
      EXPECT_LE(display_width(truncated_front(text, width)), width);
      for (const std::string& line : wrapped(text, width + 2)) EXPECT_LE(display_width(line), width + 2);
    }
  }
}

TEST(Wrapped, BreaksAtBlanks) {
  EXPECT_EQ(wrapped("one two three", 8), (std::vector<std::string>{"one two", "three"}));
  EXPECT_EQ(wrapped("abcdefghij k", 4), (std::vector<std::string>{"abcd", "efgh", "ij k"}));
  EXPECT_EQ(wrapped("a\nb", 0), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(wrapped("", 10), (std::vector<std::string>{""}));
  EXPECT_EQ(wrapped("  for x in y:", 8), (std::vector<std::string>{"  for x", "  in y:"}));
}

TEST(Padded, NeverCuts) {
  EXPECT_EQ(padded_right("ab", 4), "ab  ");
  EXPECT_EQ(padded_left("日", 4), "  日");
  EXPECT_EQ(padded_left("abcdef", 4), "abcdef");
}

}  // namespace
}  // namespace profgpu
