#include "base/pattern.h"

#include <gtest/gtest.h>

namespace profgpu {
namespace {

TEST(PatternSize, IsThatOfTheRepetitionsWrittenOut) {
  const std::pair<const char*, int64_t> all[] = {
      {"", 0},          {"step", 4},        {"a{3}", 3},           {"ab{2,5}", 6},       {"a{7,}", 7},
      {"(ab){1,5}", 10}, {"((a){2}b){3}", 9}, {"[]{5}a]{4}", 4},    {"[[:alpha:]{]{3}", 3}, {R"(\{9\}x)", 4},
      {"a{1,255}{1,255}{1,255}", int64_t{255} * 255 * 255},         {"((a", 1},           {"a{", 1},
      {"[", 1},         {"[[:", 1},         {"\\", 1},
  };
  for (const auto& [pattern, size] : all) EXPECT_EQ(pattern_size(pattern), size) << pattern;
  EXPECT_EQ(pattern_size("a{99999}{99999}{99999}{99999}"), INT64_MAX);
}

}  // namespace
}  // namespace profgpu
