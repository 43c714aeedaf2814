#include <gtest/gtest.h>

#include "analyse/report/text.h"
#include "view/document.h"
#include "view/registry.h"
#include "view/sample_report_test.h"
#include "view/terminal.h"

namespace profgpu {
namespace {

std::string show(const Report& report, const std::string& section = "") {
  PresentOptions options;
  options.section = section;
  return find_presenter("markdown")->write(report, options);
}

// Pipes that end a cell.
int64_t cell_ends(std::string_view line) {
  int64_t count = 0;
  for (size_t i = 0; i < line.size(); ++i) count += line[i] == '|' && (i == 0 || line[i - 1] != '\\');
  return count;
}

TEST(MarkdownText, Escapes) {
  EXPECT_EQ(markdown_text("a <b>&c"), "a &lt;b&gt;&amp;c");
  EXPECT_EQ(markdown_text("*x* `y` [z](u) a|b"), "\\*x\\* \\`y\\` \\[z\\](u) a\\|b");
  EXPECT_EQ(markdown_text("num_workers __next__"), "num_workers \\_\\_next\\_\\_");
  EXPECT_EQ(markdown_text("# h"), "\\# h");
  EXPECT_EQ(markdown_text("1. x 2.5"), "1\\. x 2.5");
  EXPECT_EQ(markdown_text("a\nb\x1b"), "a b\\\\x1b");
  EXPECT_EQ(markdown_text("by @octocat, a @ b"), "by @<!-- -->octocat, a @ b") << "nobody is notified";
  EXPECT_EQ(markdown_text("http://a.example//x"), "http:<!-- -->//a.example//x");
}

TEST(MarkdownCode, IsFencedByMoreThanItHolds) {
  EXPECT_EQ(markdown_code("a<b>", false), "`a<b>`");
  EXPECT_EQ(markdown_code("a``b", false), "```a``b```");
  EXPECT_EQ(markdown_code("`a", false), "`` `a ``");
  EXPECT_EQ(markdown_code("a|b", true), "`a\\|b`");
  EXPECT_EQ(markdown_code("  ", true), "");
}

TEST(Markdown, SaysWhatTheFirstScreenSays) {
  const std::string text = show(sample_report());
  EXPECT_TRUE(text.starts_with("## `worker0.pt.trace.json.gz`\n\n**The GPU waits for data"));
  for (const char* part :
       {"### A step of 176 ms", "| data loading | 70.1 ms | 39.7 % |", "**GPU 0** busy 60.6 %",
        "1. **data-loading-bound** (critical) costs **68 ms** per step (39 %)", "- ✓ memory headroom",
        "| `bn_bw_1C11_new` | 318 | 88.1 ms |", "- `profgpu explain data-loading-bound`"})
    EXPECT_NE(text.find(part), std::string::npos) << part;
}

TEST(Markdown, AFindingThatIsHiddenSavesNothing) {
  Report report = sample_report();
  report.findings.at(1).cost_ns = 0;
  EXPECT_NE(show(report).find("**full-precision-gemm** (warning) saves nothing alone: "), std::string::npos);
}

TEST(Markdown, TablesStayTables) {
  std::vector<std::string> sections = section_names(hostile_report());
  sections.emplace_back();
  for (const std::string& section : sections) {
    int64_t cells = 0;
    const std::string text = show(hostile_report(), section);
    for (const std::string_view line : lines_of(text)) {
      EXPECT_EQ(std::string(line), sanitised(line));
      if (!line.starts_with("|")) {
        cells = 0;
        continue;
      }
      if (cells == 0) cells = cell_ends(line);
      EXPECT_EQ(cell_ends(line), cells) << section << ": " << line;
    }
  }
}

TEST(Markdown, NoMarkupOfATraceOutsideCode) {
  const std::string text = show(hostile_report());
  for (const std::string_view line : lines_of(text)) {
    bool code = false;
    for (size_t i = 0; i < line.size(); ++i) {
      if (line[i] == '`' && (i == 0 || line[i - 1] != '\\')) {
        size_t run = 1;
        while (i + run < line.size() && line[i + run] == '`') ++run;
        const size_t end = line.find(std::string(run, '`'), i + run);
        code = end != std::string_view::npos;
        if (code) i = end + run - 1;
        continue;
      }
      EXPECT_NE(line[i], '<') << line;
    }
  }
}

TEST(Markdown, ShowsWhatSamplesSay) {
  Report report;
  EXPECT_EQ(show(report).find("Devices"), std::string::npos);
  report.telemetry.resize(2);
  report.telemetry[0].device.name = "NVIDIA H200";
  report.telemetry[0].series[Metric::kUtilization].mean = 71.3;
  report.telemetry[0].series[Metric::kPower].mean = 412.0;
  DeviceTelemetry& other = report.telemetry[1];
  other.device.index = 1, other.device.name = "a|b <i>\n#", other.notes = {"does not answer *since* 3.0 s"};
  other.grown[Metric::kXidErrors] = 1;
  other.series[Metric::kXidLast].last = 79;
  const std::string text = show(report);
  for (const char* part : {"### Devices\n\n| GPU |  | busy |", "| 0 | NVIDIA H200 | 71.3 % | – | – | 412 W |",
                           "| 1 | a\\|b &lt;i&gt; # | – |", "- **!** GPU 1: 1 driver error (Xid): 79\n",
                           "- **!** GPU 1: does not answer \\*since\\* 3.0 s\n"})
    EXPECT_NE(text.find(part), std::string::npos) << part << '\n' << text;
}

}  // namespace
}  // namespace profgpu
