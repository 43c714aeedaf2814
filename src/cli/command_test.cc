#include "cli/command.h"

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

TEST(CommandLine, AValueIsTheNextWordWhateverItLooksLike) {
  auto parsed = parse_arguments(kSample, {"a", "--top", "-1", "-o", "--quiet", "--set=", "-"});
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->value("--top"), "-1");
  EXPECT_EQ(parsed->value("--output"), "--quiet");
  EXPECT_EQ(parsed->values("--set"), std::vector<std::string>{""});
  EXPECT_FALSE(parsed->has("--quiet"));
  EXPECT_EQ(parsed->positional, (std::vector<std::string>{"a", "-"}));
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
  EXPECT_EQ(error_of({"a", "--quiet=report.txt"}),
            "--quiet takes no value | `profgpu sample --help` lists what it takes");
  EXPECT_EQ(error_of({"a", "--level", "mid"}), "--level does not know \"mid\" | one of: low, high");
  EXPECT_EQ(error_of({"a", "-vz"}), "unknown option -z | `profgpu sample --help` lists what it takes");
  EXPECT_EQ(error_of({"a", "-5"}), "unknown option -5 | `profgpu sample --help` lists what it takes");
  EXPECT_EQ(error_of({"a", "-vo"}), "--output needs a value | `profgpu sample --help` lists what it takes");
  EXPECT_EQ(error_of({}), "needs PATH... | `profgpu sample --help` lists what it takes");
}

const Command kRunner{
    .name = "runner",
    .summary = "for tests",
    .positional = "COMMAND...",
    .groups = {{"All",
                {{.name = "--output", .short_name = "-o", .value = "FILE"},
                 {.name = "--quiet", .short_name = "-q"},
                 {.name = "--count", .value = "N"}}}},
    .runs_command = true,
};

TEST(CommandLine, NothingOfACommandThatIsRunIsOurs) {
  using Words = std::vector<std::string>;
  const std::vector<std::pair<Words, Words>> cases = {
      {{"python", "x.py", "--quiet", "-o", "y"}, {"python", "x.py", "--quiet", "-o", "y"}},
      {{"-q", "--", "ls", "--", "-q"}, {"ls", "--", "-q"}},
      {{"--count", "3", "ls", "-l"}, {"ls", "-l"}},
      {{"--count=3", "-o", "--", "ls"}, {"ls"}},
      {{"-qo", "out", "ls", "-h"}, {"ls", "-h"}},
      {{"-oout", "ls"}, {"ls"}},
      {{"-qoq", "ls", "--help"}, {"ls", "--help"}},
      {{"--", "--", "x"}, {"--", "x"}},
      {{"-", "x"}, {"-", "x"}},
  };
  for (const auto& [words, command] : cases) {
    auto parsed = parse_arguments(kRunner, words);
    ASSERT_TRUE(parsed) << words.front() << ": " << parsed.error().message;
    EXPECT_EQ(parsed->positional, command);
  }
  EXPECT_EQ(own_words(kRunner, {"-q", "ls", "--help"}), 1u);
  EXPECT_EQ(own_words(kSample, {"-q", "ls", "--help"}), 3u);
  EXPECT_EQ(own_words(kRunner, {"--count"}), 1u);
  EXPECT_FALSE(parse_arguments(kRunner, {"--count"}));
  EXPECT_FALSE(parse_arguments(kRunner, {"-q", "--"}));
  EXPECT_FALSE(parse_arguments(kRunner, {"--quite", "ls"}));
}

TEST(CommandLine, FindsHelpBeforeTwoDashesOnly) {
  EXPECT_TRUE(asks_for_help({"x", "-h"}));
  EXPECT_FALSE(asks_for_help({"x", "--", "--help"}));
}

}  // namespace

}  // namespace profgpu
