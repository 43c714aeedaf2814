#include <gtest/gtest.h>

#include "analyse/report/document.h"
#include "analyse/report/report.h"

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

TEST(JsonValue, ReadsEveryKindOfValue) {
  const auto v = value_from_json(R"( {"a": [1, -2.5, true, null, "x\n\u00e9"], "b": {}, "c": 12345678901234567890} )");
  ASSERT_TRUE(v);
  const List& a = *v->record()->at("a").list();
  ASSERT_EQ(a.size(), 5u);
  EXPECT_EQ(*a[0].integer(), 1);
  EXPECT_EQ(*a[1].real(), -2.5);
  EXPECT_TRUE(*a[2].boolean());
  EXPECT_TRUE(a[3].is_null());
  EXPECT_EQ(*a[4].text(), "x\né");
  EXPECT_TRUE(v->record()->at("b").record());
  EXPECT_DOUBLE_EQ(*v->record()->at("c").real(), 12345678901234567890.0);
}

TEST(JsonValue, SaysWhatIsWrong) {
  EXPECT_EQ(value_from_json(R"({"a": [1, 2)").error().message, "the JSON ends early");
  EXPECT_EQ(value_from_json("").error().message, "the JSON ends early");
  EXPECT_NE(value_from_json(R"({"a": 1x})").error().message.find("not JSON from byte"), std::string::npos);
  EXPECT_FALSE(value_from_json(R"({"a": 1} {})"));
  EXPECT_FALSE(value_from_json(std::string(100'000, '[')));
}

}  // namespace

}  // namespace profgpu
