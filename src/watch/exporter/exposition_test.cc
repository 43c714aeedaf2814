#include "watch/exporter/exposition.h"

#include <gtest/gtest.h>

#include <limits>

namespace profgpu {
namespace {

std::string page_in(ExpositionFormat format) {
  Exposition out(format, 0);
  out.family("profgpu_x_total", SeriesType::kCounter, "with \"quotes\" and \\");
  out.sample(label("a", "1"), 7);
  out.sample("", 0.07);
  out.family("profgpu_absent", SeriesType::kGauge, "never said");
  out.family("DCGM_FI_X", SeriesType::kCounter, "a counter of DCGM's");
  out.sample(label("gpu", "0") + "," + label("modelName", "a\\b\"c\nd"), "1.500000");
  out.family("profgpu_y", SeriesType::kGauge, "two\nlines");
  out.sample("", -3);
  return out.take();
}

TEST(Exposition, WritesPrometheusText) {
  EXPECT_EQ(page_in(ExpositionFormat::kPrometheus),
            "# HELP profgpu_x_total with \"quotes\" and \\\\\n"
            "# TYPE profgpu_x_total counter\n"
            "profgpu_x_total{a=\"1\"} 7\n"
            "profgpu_x_total 0.07\n"
            "# HELP DCGM_FI_X a counter of DCGM's\n"
            "# TYPE DCGM_FI_X counter\n"
            "DCGM_FI_X{gpu=\"0\",modelName=\"a\\\\b\\\"c\\nd\"} 1.500000\n"
            "# HELP profgpu_y two\\nlines\n"
            "# TYPE profgpu_y gauge\n"
            "profgpu_y -3\n");
}

TEST(Exposition, WritesOpenMetrics) {
  EXPECT_EQ(page_in(ExpositionFormat::kOpenMetrics),
            "# HELP profgpu_x with \\\"quotes\\\" and \\\\\n"
            "# TYPE profgpu_x counter\n"
            "profgpu_x_total{a=\"1\"} 7\n"
            "profgpu_x_total 0.07\n"
            "# HELP DCGM_FI_X a counter of DCGM's\n"
            "# TYPE DCGM_FI_X unknown\n"
            "DCGM_FI_X{gpu=\"0\",modelName=\"a\\\\b\\\"c\\nd\"} 1.500000\n"
            "# HELP profgpu_y two\\nlines\n"
            "# TYPE profgpu_y gauge\n"
            "profgpu_y -3\n"
            "# EOF\n");
}

TEST(Exposition, NumbersAreShort) {
  EXPECT_EQ(number_text(7 * 0.01), "0.07");
  EXPECT_EQ(number_text(85520809984), "85520809984");
  EXPECT_EQ(number_text(0), "0");
  EXPECT_EQ(number_text(1763760000.25), "1763760000.25");
  EXPECT_EQ(number_text(1e300), "1e+300");
  EXPECT_EQ(number_text(std::numeric_limits<double>::quiet_NaN()), "NaN");
  EXPECT_EQ(number_text(-std::numeric_limits<double>::infinity()), "-Inf");
}

TEST(Exposition, LabelsAreUtf8) { EXPECT_EQ(label("a", "x\xff"), "a=\"x\xef\xbf\xbd\""); }

TEST(Negotiation, OpenMetricsOnlyWhereItIsLiked) {
  using enum ExpositionFormat;
  EXPECT_EQ(wanted_format(""), kPrometheus);
  EXPECT_EQ(wanted_format("*/*"), kPrometheus);
  EXPECT_EQ(wanted_format("text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"), kPrometheus);
  EXPECT_EQ(
      wanted_format("application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
                    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"),
      kOpenMetrics);
  EXPECT_EQ(wanted_format("Application/OpenMetrics-Text; q=0.5, text/plain; q=0.9"), kPrometheus);
  EXPECT_EQ(wanted_format("application/openmetrics-text;q=0"), kPrometheus);
  EXPECT_EQ(wanted_format(";;,,q=,text/plain;q=x"), kPrometheus);
}

TEST(Negotiation, Gzip) {
  EXPECT_TRUE(takes_gzip("gzip"));
  EXPECT_TRUE(takes_gzip("deflate, gzip;q=1.0, *;q=0.5"));
  EXPECT_FALSE(takes_gzip("gzip;q=0"));
  EXPECT_FALSE(takes_gzip("identity"));
  EXPECT_FALSE(takes_gzip(""));
}

}  // namespace
}  // namespace profgpu
