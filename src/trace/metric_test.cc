#include "trace/metric.h"

#include <gtest/gtest.h>

#include <set>

namespace profgpu {
namespace {

TEST(Metric, TableIsInOrderOfTheEnumerationAndNamesAreUnique) {
  ASSERT_EQ(metrics().size(), kMetricCount);
  std::set<std::string_view> names, prometheus;
  for (size_t i = 0; i < kMetricCount; ++i) {
    EXPECT_EQ(static_cast<size_t>(metrics()[i].metric), i) << metrics()[i].name;
    EXPECT_TRUE(names.insert(metrics()[i].name).second) << metrics()[i].name;
    EXPECT_TRUE(prometheus.insert(metrics()[i].prometheus).second) << metrics()[i].prometheus;
    EXPECT_FALSE(metrics()[i].help.empty());
  }
}

TEST(Metric, PrometheusNamesFollowItsConventions) {
  for (const MetricInfo& m : metrics()) {
    EXPECT_TRUE(m.prometheus.starts_with("profgpu_")) << m.name;
    EXPECT_EQ(m.prometheus.ends_with("_total"), m.kind == MetricKind::kCounter) << m.name;
  }
}

TEST(Metric, IsFoundByOurNameAndByNvidiaSmis) {
  EXPECT_EQ(find_metric("memory_used_bytes")->metric, Metric::kMemoryUsed);
  EXPECT_EQ(find_metric("memory.used")->metric, Metric::kMemoryUsed);
  EXPECT_EQ(find_metric("clocks.sm")->metric, Metric::kSmClock);
  EXPECT_EQ(find_metric("clocks_throttle_reasons.active")->metric, Metric::kClockEventReasons);
  EXPECT_EQ(find_metric(""), nullptr);
  EXPECT_EQ(find_metric("memory"), nullptr);
}

}  // namespace
}  // namespace profgpu
