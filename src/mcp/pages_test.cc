#include "mcp/pages.h"

#include <gtest/gtest.h>

#include <set>

namespace profgpu {
namespace {

Table kernels(int rows) {
  Table t{{"device", "name", "total_ns", "share_pct", "unknown"}, {}};
  for (int i = 0; i < rows; ++i)
    t.rows.push_back({0, "kernel " + std::to_string(i) + std::string(300, 'x'), int64_t{1000} - i, 100.0 / 3, Value()});
  return t;
}

Record page(const Value& value, const PageOptions& options) {
  Record answer;
  add_page(answer, value, "kernels", options);
  return answer;
}

TEST(Pages, FollowEachOtherWithinTheirBudget) {
  std::set<std::string> keys;
  PageOptions options{.limit = 100, .max_chars = 2000};
  size_t pages = 0;
  for (;;) {
    const Record answer = page(kernels(50), options);
    EXPECT_LE(compact_json(answer).size(), 2000U);
    EXPECT_EQ(answer.at("total").number(), 50);
    for (const Value& row : *answer.at("rows").list()) keys.insert(*row.record()->at("key").text());
    ++pages;
    if (answer.at("next_offset").is_null()) break;
    options.offset = *answer.at("next_offset").integer();
  }
  EXPECT_EQ(keys.size(), 50U);
  EXPECT_GT(pages, 3U);
}

TEST(Pages, KeysAreOfNamesNotOfWhatWasMeasured) {
  Table later = kernels(2);
  later.rows[0][2] = 7;
  std::swap(later.rows[0], later.rows[1]);
  const auto key = [](const Table& t, size_t row) {
    return *(*page(Value(t), {}).at("rows").list())[row].record()->at("key").text();
  };
  EXPECT_EQ(key(kernels(2), 0), key(later, 1));
  Table twice = kernels(1);
  twice.rows.push_back(twice.rows[0]);
  EXPECT_EQ(key(twice, 1), key(twice, 0) + "-2");
  EXPECT_EQ(key(Table{{"rule"}, {{"straggler-rank"}}}, 0), "kernels:straggler-rank");
}

TEST(Pages, ARowByItsKeyComesInFull) {
  const Record all = page(kernels(3), {});
  const Record& listed = *(*all.at("rows").list())[1].record();
  const Record one = page(kernels(3), {.key = *listed.at("key").text()});
  const Record& row = *(*one.at("rows").list())[0].record();
  EXPECT_EQ(one.at("total").number(), 1);
  EXPECT_EQ(row.at("name").text()->size(), 308U);
  EXPECT_LT(listed.at("name").text()->size(), 200U);
  EXPECT_EQ(listed.at("share_pct").number(), 33.3333);
  EXPECT_EQ(row.at("unknown").is_null(), true);   // and left out
  EXPECT_EQ(row.fields.size(), 5U);
}

TEST(Pages, OneRowIsThereHoweverSmallTheBudget) {
  const Record answer = page(kernels(3), {.max_chars = 1});
  EXPECT_EQ(answer.at("rows").list()->size(), 1U);
  EXPECT_EQ(answer.at("next_offset").number(), 1);
}

TEST(Pages, OnlyRowsThatContainAText) {
  EXPECT_EQ(page(kernels(30), {.contains = "KERNEL 2"}).at("total").number(), 11);   // 2, 20 to 29
}

TEST(Pages, OfARecordNameWhatIsDeeper) {
  Record record;
  record.add("peak_bytes", int64_t{5}).add("rows", kernels(2)).add("empty", Table{{"a"}, {}});
  record.add("peak", Record().add("x", 1));
  const Record answer = page(record, {});
  EXPECT_EQ(compact_json(answer), R"({"fields": {"peak_bytes": 5}, "more": [{"section": "kernels.rows", "rows": 2}, )"
                                  R"({"section": "kernels.peak", "rows": null}]})");
  EXPECT_EQ(value_at(record, "peak.x").number(), 1);
  EXPECT_TRUE(value_at(record, "peak.y").is_null());
  EXPECT_TRUE(value_at(record, "peak_bytes.x").is_null());
}

}  // namespace
}  // namespace profgpu
