#include "cli/command_line.h"

#include <gtest/gtest.h>

namespace profgpu {
namespace {

const Command kSample{
    .name = "sample",
    .summary = "for tests",
    .positional = "PATH...",
    .groups = {{"All",
                {{.name = "--top", .value = "N"},
                 {.name = "--output", .short_name = "-o", .value = "FILE"},
                 {.name = "--verbose", .short_name = "-v"},
                 {.name = "--quiet", .short_name = "-q"},
                 {.name = "--level", .value = "L", .choices = {"low", "high"}},
                 {.name = "--set", .value = "K=V", .repeatable = true}}}},
};

std::string error_of(const std::vector<std::string>& words) {
  auto parsed = parse_arguments(kSample, words);
  return parsed ? "" : parsed.error().message + " | " + parsed.error().hint;
}

TEST(CommandLine, ReadsFlagsAnywhere) {
  auto parsed = parse_arguments(kSample, {"a", "--top", "3", "b", "-oout", "--set=x=1", "c", "--set", "y=2", "-vq"});
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->positional, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(parsed->value("--top"), "3");
  EXPECT_EQ(parsed->value("--output"), "out");
  EXPECT_EQ(parsed->values("--set"), (std::vector<std::string>{"x=1", "y=2"}));
  EXPECT_TRUE(parsed->has("--verbose"));
  EXPECT_TRUE(parsed->has("--quiet"));
  EXPECT_FALSE(parsed->has("--level"));
  EXPECT_EQ(parsed->value("--level", "low"), "low");
}

TEST(CommandLine, TheLastOfARepeatedFlagHolds) {
  auto parsed = parse_arguments(kSample, {"a", "--top=1", "--top=2"});
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->value("--top"), "2");
}

TEST(CommandLine, AfterTwoDashesNothingIsAFlag) {
  auto parsed = parse_arguments(kSample, {"a", "--", "--top", "-v"});
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->positional, (std::vector<std::string>{"a", "--top", "-v"}));
  EXPECT_FALSE(parsed->has("--verbose"));
}

TEST(CommandLine, SaysWhatIsWrong) {
  EXPECT_EQ(error_of({"a", "--topp", "3"}), "unknown option --topp | did you mean --top?");
  EXPECT_EQ(error_of({"a", "--topp=3"}), "unknown option --topp | did you mean --top?");
  EXPECT_EQ(error_of({"a", "--top"}), "--top needs a value | `profgpu sample --help` lists what it takes");
  EXPECT_EQ(error_of({"a", "--level", "mid"}), "--level does not know \"mid\" | one of: low, high");
  EXPECT_EQ(error_of({}), "needs PATH... | `profgpu sample --help` lists what it takes");
}

TEST(CommandLine, FindsHelpBeforeTwoDashesOnly) {
  EXPECT_TRUE(asks_for_help({"x", "-h"}));
  EXPECT_FALSE(asks_for_help({"x", "--", "--help"}));
}

}  // namespace
}  // namespace profgpu
