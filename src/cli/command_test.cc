#include "cli/command.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace profgpu {
namespace {

const Command kSample{
    .name = "sample",
    .summary = "for tests",
    .positional = "PATH...",
    .groups = {{"All",
                {{"--top N", ""},
                 {"-o, --output FILE", ""},
                 {"-v, --verbose", ""},
                 {"-q, --quiet", ""},
                 {"--level L", "", {"low", "high"}},
                 {"--set K=V...", ""}}}},
};

TEST(CommandLine, FlagsAreWhatTheHelpShows) {
  const std::vector<Flag>& flags = kSample.groups.front().flags;
  EXPECT_EQ(flags[1].name, "--output");
  EXPECT_EQ(flags[1].short_name, "-o");
  EXPECT_EQ(flags[1].value, "FILE");
  EXPECT_TRUE(flags[1].takes_path());
  EXPECT_FALSE(flags[0].takes_path());
  EXPECT_EQ(flags[3].value, "");
  EXPECT_EQ(flags[5].name, "--set");
  EXPECT_EQ(flags[5].value, "K=V");
  EXPECT_TRUE(flags[5].repeatable);
  EXPECT_FALSE(flags[1].repeatable);
}

TEST(OptionReader, ReadsNumbersAndSaysWhatItTakes) {
  Arguments a;
  for (const auto& [flag, text] : {std::pair("--n", "7"), {"--t", "1.5s"}, {"--s", "4KiB"}, {"--bad", "1e3"},
                                   {"--late", "25h"}, {"--zero", "0"}})
    a.add(flag, text);
  int n = 0, absent = 5;
  std::optional<int64_t> ns;
  int64_t bytes = 0;
  OptionReader read(a);
  read.whole("--n", 1, 9, n).whole("--none", 1, 9, absent).time("--t", 0, INT64_MAX, ns).size("--s", 0, bytes);
  EXPECT_TRUE(read.status());
  EXPECT_EQ(n, 7);
  EXPECT_EQ(absent, 5);
  EXPECT_EQ(ns, 1'500'000'000);
  EXPECT_EQ(bytes, 4096);
  EXPECT_EQ(OptionReader(a).whole("--bad", 1, 9, n).whole("--zero", 1, 9, n).status().error().message,
            "--bad takes a whole number from 1 to 9, not \"1e3\"") << "the first error";
  EXPECT_EQ(OptionReader(a).time("--late", 1'000'000, 86'400 * kSecond_ns, n).status().error().message,
            "--late takes a time from 1ms to 24h, not \"25h\"");
  EXPECT_EQ(OptionReader(a).whole("--zero", 1, INT64_MAX, n).status().error().message,
            "--zero takes a whole number of at least 1, not \"0\"");
  EXPECT_EQ(n, 7) << "errors change nothing";
}

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
  EXPECT_EQ(error_of({"a", "--top"}), "--top needs a value: --top N | `profgpu sample --help` lists the options");
  EXPECT_EQ(error_of({"a", "--quiet=report.txt"}),
            "--quiet takes no value | `profgpu sample --help` lists the options");
  EXPECT_EQ(error_of({"a", "--level", "mid"}), "--level does not accept \"mid\" | choose one of: low, high");
  EXPECT_EQ(error_of({"a", "-vz"}), "unknown option -z | `profgpu sample --help` lists the options");
  EXPECT_EQ(error_of({"a", "-5"}), "unknown option -5 | `profgpu sample --help` lists the options");
  EXPECT_EQ(error_of({"a", "-vo"}), "--output needs a file name: --output FILE | `profgpu sample --help` lists the options");
  EXPECT_EQ(error_of({}), "missing argument: PATH... | `profgpu sample --help` lists the options");
}

TEST(CommandLine, SaysWhatAnOptionTookOrWhoHasOtherValues) {
  const auto hint = [](const char* command, const std::vector<std::string>& words) {
    const auto found = std::ranges::find(commands(), std::string_view(command), &Command::name);
    return parse_arguments(**found, words).error().hint;
  };
  EXPECT_EQ(hint("analyze", {"--html", "/"}), "--html took / as its FILE: profgpu analyze --html FILE /");
  EXPECT_TRUE(hint("analyze", {"--html", "/no-such-file"}).starts_with("for example: "));
  EXPECT_EQ(hint("analyze", {"--fail-on", "python-gc", "trace.json"}),
            "choose one of: info, warning, critical; `profgpu diff --help` has other values of --fail-on");
}

const Command kRunner{
    .name = "runner",
    .summary = "for tests",
    .positional = "COMMAND...",
    .groups = {{"All",
                {{"-o, --output FILE", ""}, {"-q, --quiet", ""}, {"--count N", ""}}}},
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
