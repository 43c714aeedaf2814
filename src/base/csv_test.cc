#include "base/csv.h"

#include <gtest/gtest.h>

namespace profgpu {
namespace {

using Fields = std::vector<std::string_view>;

std::string written(std::string_view field) {
  std::string row;
  append_csv(row, field);
  return row;
}

std::string text_written(std::string_view field) {
  std::string row;
  append_csv_text(row, field);
  return row;
}

TEST(Csv, QuotesWhatMustBe) {
  EXPECT_EQ(written("plain text"), "plain text");
  EXPECT_EQ(written(""), "");
  EXPECT_EQ(written("a,b"), "\"a,b\"");
  EXPECT_EQ(written("say \"x\""), "\"say \"\"x\"\"\"");
  EXPECT_EQ(written(" x"), "\" x\"");
  EXPECT_EQ(written("a\x1b[2J"), "\"a\x1b[2J\"");
  EXPECT_EQ(written("a\nb"), "\"a\nb\"");
}

TEST(Csv, TextOfOthersIsHarmless) {
  EXPECT_EQ(text_written("a\nb\x1b\x7f\xC2\x9B" "31m"), "a b   31m");
  EXPECT_EQ(text_written("=1+1"), "'=1+1");
  EXPECT_EQ(text_written("@x, y"), "\"'@x, y\"");
  EXPECT_EQ(text_written("-5"), "-5");
  EXPECT_EQ(text_written("0:7"), "0:7");
  EXPECT_EQ(text_written(""), "");
}

TEST(Csv, FieldsComeBack) {
  CsvFields csv;
  ASSERT_TRUE(csv.split(" a , b c,, \"d, \"\"e\"\"\" ,\" f \""));
  EXPECT_EQ(csv.fields(), (Fields{"a", "b c", "", "d, \"e\"", " f "}));
  ASSERT_TRUE(csv.split(""));
  EXPECT_EQ(csv.fields(), Fields{""});
  EXPECT_FALSE(csv.split("a,\"b"));
}

}  // namespace
}  // namespace profgpu
