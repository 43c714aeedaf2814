#include <gtest/gtest.h>

#include "view/document.h"
#include "view/registry.h"
#include "view/sample_report_test.h"
#include "view/wording.h"

namespace profgpu {
namespace {

size_t count(std::string_view text, std::string_view what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

std::string page(const Report& report) { return find_presenter("html")->write(report, {}); }

TEST(Html, TextIsNeverMarkup) {
  EXPECT_EQ(html_text("<b a=\"1\" b='2'>&amp;"), "&lt;b a=&quot;1&quot; b=&#39;2&#39;&gt;&amp;amp;");
  EXPECT_EQ(html_text("a\nb\tc"), "a b c");
  EXPECT_EQ(html_text("\x1b[31m\x01"), "\\x1b[31m\\x01");
  EXPECT_EQ(html_text("\xff"), "\xEF\xBF\xBD");
}

TEST(Html, ReportHasVerdictFindingsFixesAndTables) {
  const Report report = sample_report();
  const std::string html = html_report(report, {});
  EXPECT_NE(html.find(html_text(report.verdict)), std::string::npos);
  for (const Finding& f : report.findings) {
    EXPECT_NE(html.find(html_text(f.what)), std::string::npos) << f.rule;
    for (const std::string& fix : f.fix)
      EXPECT_NE(html.find(html_text(fix.substr(0, fix.find('\n')))), std::string::npos) << fix;
  }
  for (const Check& c : report.checklist)
    EXPECT_NE(html.find(html_text(c.brief.empty() ? c.question : c.brief)), std::string::npos);
  EXPECT_GT(count(html, "<table>"), 2U);
  EXPECT_EQ(count(html, "<table>"), count(html, "</table>"));
}

TEST(Html, PartsOfSectionsHaveTitles) {
  const std::string html = html_report(sample_report(), {});
  for (const char* key : {"<h3>at least</h3>", "<h3>makeup</h3>", "<h2>phases</h2>", "<h3>unknown</h3>"})
    EXPECT_EQ(count(html, key), 0U) << key;
  EXPECT_EQ(part_title("at_least"), "Kernels whose work is known from their tiles");
  EXPECT_EQ(part_title("per_step"), "Per step");
  EXPECT_EQ(part_title("kernels"), "Kernels");
}

TEST(Html, OfSeveralRanksTheyAreSideBySide) {
  EXPECT_NE(html_report(cluster_report(), {}).find("4 ranks"), std::string::npos);
}

// Whatever a report says, the page has the elements that its template has and no others.
TEST(Html, HostileReportsAddNoScriptsAndNoAttributes) {
  Report hostile = hostile_report();
  hostile.verdict = "</script><script>alert(1)</script><img src=x onerror=alert(1)>--><!--profgpu:data-->";
  hostile.inputs.emplace_back().path = "</title><script>alert(2)</script><!--profgpu:report-->";
  std::swap(hostile.inputs.front(), hostile.inputs.back());
  const std::string good = page(sample_report()), bad = page(hostile);
  for (const char* markup : {"<script", "</script", "</title", "<img src", "<iframe", "<!--", "-->"})
    EXPECT_EQ(count(good, markup), count(bad, markup)) << markup;
  EXPECT_EQ(bad.find("profgpu:data-->"), std::string::npos);
  EXPECT_EQ(count(bad, "<div id=\"static\">"), 1U);
}

TEST(Html, AsksForNothingOutside) {
  const std::string html = page(sample_report());
  for (const char* outside : {"src=\"http", "href=\"http", "url(http", "@import"})
    EXPECT_EQ(count(html, outside), 0U) << outside;
  EXPECT_EQ(count(html, "Content-Security-Policy"), 1U);
}

TEST(Html, HoldsDataWhereThereIsAPageForIt) {
  EXPECT_EQ(count(page(sample_report()), "id=\"data\""), page_template().empty() ? 0U : 1U);
}

TEST(Html, OfAnEmptyReportIsAPage) { EXPECT_EQ(count(page({}), "</html>"), 1U); }

}  // namespace
}  // namespace profgpu
