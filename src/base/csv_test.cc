#include "base/csv.h"

#include <gtest/gtest.h>

namespace profgpu {
namespace {

using Fields = std::vector<std::string_view>;

std::string written(std::string_view field, CsvControls controls = CsvControls::kKeep) {
  std::string row;
  append_csv(row, field, controls);
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
  EXPECT_EQ(written("a\nb", CsvControls::kBlank), "\"a b\"");
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
