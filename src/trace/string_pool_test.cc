#include "trace/string_pool.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace profgpu {
namespace {

TEST(StringPool, OneIdAString) {
  StringPool pool;
  const StringId a = pool.intern("aten::mm"), b = pool.intern("aten::addmm");
  EXPECT_NE(a, b);
  EXPECT_EQ(pool.intern(std::string("aten::mm")), a);
  EXPECT_EQ(pool[a], "aten::mm");
  EXPECT_EQ(pool.find("aten::addmm"), b);
  EXPECT_FALSE(pool.find("aten::bmm").valid());
  EXPECT_EQ(pool[StringId()], "");
}

TEST(StringPool, HoldsManyStringsOfEveryLength) {
  StringPool pool;
  std::vector<std::string> texts;
  for (int i = 0; i < 20000; ++i) texts.push_back(std::string(static_cast<size_t>(i % 61), 'k') + std::to_string(i));
  texts.push_back(std::string(1 << 20, 'z'));
  texts.push_back("");
  texts.push_back(std::string("with\0zero", 9));
  std::vector<StringId> ids;
  for (const auto& t : texts) ids.push_back(pool.intern(t));
  for (size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(pool[ids[i]], texts[i]);
  EXPECT_EQ(std::set<StringId>(ids.begin(), ids.end()).size(), texts.size());
}

TEST(StringPool, AbsorbsAnother) {
  StringPool a, b;
  a.intern("x");
  const StringId y = b.intern("y"), x = b.intern("x");
  const auto map = a.absorb(b);
  EXPECT_EQ(a[map[y.value]], "y");
  EXPECT_EQ(map[x.value], a.find("x"));
  EXPECT_EQ(a.size(), 2U);
}

}  // namespace
}  // namespace profgpu
