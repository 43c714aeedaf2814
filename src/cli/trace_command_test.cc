#include "cli/trace_command.h"

#include <gtest/gtest.h>

#include "analyse/rules/rule.h"
#include "cli/command.h"

namespace profgpu {
namespace {

Result<TraceCommand> parse(std::vector<std::string> words) {
  words.insert(words.begin(), "trace.json");
  auto arguments = parse_arguments(*find_command("analyze"), words);
  if (!arguments) return arguments.error();
  return trace_command(*arguments);
}

TEST(AnalyzeOptions, Defaults) {
  auto options = parse({});
  ASSERT_TRUE(options);
  EXPECT_EQ(options->read.paths, std::vector<std::string>{"trace.json"});
  EXPECT_EQ(options->format, "terminal");
  EXPECT_EQ(options->shown.top, 10);
  EXPECT_EQ(options->read.analysis.first_step, 0);
  EXPECT_EQ(options->read.analysis.end_step, INT64_MAX);
  EXPECT_EQ(options->shown.width, 0) << "as wide as the output";
  EXPECT_FALSE(options->fail_on);
  EXPECT_TRUE(options->progress);
}

TEST(AnalyzeOptions, ReadsEveryOption) {
  ASSERT_FALSE(rules().empty());
  const std::string rule(rules().front()->id);
  auto options = parse({"--json", "-o", "out", "--top", "0", "--section", "idle", "--fail-on", "warning", "--threshold",
                        rule + "=2.5", "--step-pattern", "^it[0-9]+", "--gpu", "h100 sxm", "--steps", "3:7", "--width", "72", "--color",
                        "never", "-v", "--quiet"});
  ASSERT_TRUE(options);
  EXPECT_EQ(options->format, "json");
  EXPECT_EQ(options->output, "out");
  EXPECT_EQ(options->shown.top, 0);
  EXPECT_EQ(options->shown.section, "idle");
  EXPECT_EQ(options->fail_on, Severity::kWarning);
  EXPECT_EQ(options->read.thresholds.of(*find_rule(rule)), 2.5);
  EXPECT_EQ(options->read.analysis.step_pattern, "^it[0-9]+");
  EXPECT_EQ(options->read.analysis.gpu, "h100 sxm");
  EXPECT_EQ(options->read.analysis.first_step, 3);
  EXPECT_EQ(options->read.analysis.end_step, 7);
  EXPECT_EQ(options->shown.width, 72);
  EXPECT_EQ(options->colour, Colour::kNever);
  EXPECT_TRUE(options->shown.verbose);
  EXPECT_FALSE(options->progress);
}

TEST(AnalyzeOptions, StepsMayBeOpen) {
  EXPECT_EQ(parse({"--steps", "3:"})->read.analysis.end_step, INT64_MAX);
  EXPECT_EQ(parse({"--steps", ":3"})->read.analysis.first_step, 0);
}

TEST(AnalyzeOptions, RefusesWhatItCannotRead) {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"--top", "-1"}, {"--top", "many"}, {"--top", "99999999999"}, {"--steps", "7:3"}, {"--steps", "5"},
           {"--steps", "a:b"}, {"--steps=-1:4"}, {"--threshold", "nothing=1"}, {"--threshold", "low-gpu-utilization"},
           {"--step-pattern", "("}, {"--gpu", ""}, {"--gpu", "A100"}, {"--gpu", "Voodoo 2"}, {"--json", "--format", "markdown"}, {"--color", "green"},
           {"-o", "report", "--html", "./report"}})
    EXPECT_FALSE(parse(words)) << words[0] << " " << words.back();
}

}  // namespace
}  // namespace profgpu
