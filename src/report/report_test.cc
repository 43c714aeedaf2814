#include "report/report.h"

#include <gtest/gtest.h>

namespace profgpu {
namespace {

TEST(UnitOf, FollowsTheNamesOfTheContract) {
  EXPECT_EQ(unit_of("duration_ns"), Unit::kNanoseconds);
  EXPECT_EQ(unit_of("excess_ns_per_step"), Unit::kNanoseconds);
  EXPECT_EQ(unit_of("step_mean_ns_by_rank"), Unit::kNanoseconds);
  EXPECT_EQ(unit_of("growth_bytes_per_step"), Unit::kBytes);
  EXPECT_EQ(unit_of("peak_reserved_bytes"), Unit::kBytes);
  EXPECT_EQ(unit_of("span_pct"), Unit::kPercent);
  EXPECT_EQ(unit_of("busbw_gbps"), Unit::kGbps);
  EXPECT_EQ(unit_of("count"), Unit::kNone);
  EXPECT_EQ(unit_of("columns"), Unit::kNone);
  EXPECT_EQ(unit_of(""), Unit::kNone);
}

TEST(Value, KnowsWhatItHolds) {
  EXPECT_TRUE(Value().is_null());
  EXPECT_TRUE(Value(std::optional<int64_t>()).is_null());
  EXPECT_EQ(*Value(std::optional<int64_t>(5)).integer(), 5);
  EXPECT_EQ(*Value("x").text(), "x");
  EXPECT_EQ(*Value(true).boolean(), true);
  EXPECT_EQ(Value(true).number(-1), -1);
  EXPECT_EQ(Value(2.5).number(), 2.5);
  EXPECT_EQ(Value(Table{{"a"}, {{1}}}).table()->rows.size(), 1u);
  EXPECT_EQ(Value(List{1, "b"}).list()->size(), 2u);
}

TEST(Table, AnswersNullForWhatItHasNot) {
  const Table table{{"a", "b"}, {{1}, {2, 3}}};
  EXPECT_EQ(table.column("b"), 1);
  EXPECT_EQ(table.column("c"), -1);
  EXPECT_TRUE(table.at(0, "b").is_null());
  EXPECT_TRUE(table.at(0, "c").is_null());
  EXPECT_TRUE(table.at(9, "a").is_null());
  EXPECT_EQ(*table.at(1, "b").integer(), 3);
}

TEST(Record, AnswersNullForWhatItHasNot) {
  const Record record = Record().add("a", 1);
  EXPECT_EQ(*record.at("a").integer(), 1);
  EXPECT_TRUE(record.at("b").is_null());
}

}  // namespace
}  // namespace profgpu
