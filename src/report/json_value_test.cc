#include "report/json_value.h"

#include <gtest/gtest.h>

namespace profgpu {
namespace {

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
