#include "devices/nvidia_smi_query.h"

#include <gtest/gtest.h>

namespace profgpu {
namespace {

SmiValue read(Metric metric, std::string_view field) { return smi_value(metric_info(metric), field); }

TEST(NvidiaSmiText, ReadsNumbersWithAndWithoutTheirUnits) {
  EXPECT_EQ(read(Metric::kPower, "627.40").number, 627.4);
  EXPECT_EQ(read(Metric::kPower, "627.40 W").number, 627.4);
  EXPECT_EQ(read(Metric::kUtilization, " 100 %").number, 100);
  EXPECT_EQ(read(Metric::kMemoryUsed, "81559 MiB").number, 81559.0 * (1 << 20));
  EXPECT_EQ(read(Metric::kMemoryUsed, "81559").number, 81559.0 * (1 << 20));
  EXPECT_EQ(read(Metric::kTemperatureMargin, "-2").number, -2);
  EXPECT_EQ(read(Metric::kPower, "0").number, 0);
  EXPECT_TRUE(read(Metric::kPower, "0").absent.empty());
}

TEST(NvidiaSmiText, ReadsWordsForStates) {
  EXPECT_EQ(read(Metric::kRetiredPagesPending, "Active").number, 1);
  EXPECT_EQ(read(Metric::kRetiredPagesPending, "Not Active").number, 0);
  EXPECT_EQ(read(Metric::kRetiredPagesPending, "Yes").number, 1);
  EXPECT_EQ(read(Metric::kRetiredPagesPending, "Disabled").number, 0);
  EXPECT_EQ(read(Metric::kPerformanceState, "P0").number, 0);
  EXPECT_EQ(read(Metric::kPerformanceState, "P12").number, 12);
  EXPECT_EQ(read(Metric::kClockEventReasons, "0x00000000000001FF").number, 511);
  EXPECT_EQ(read(Metric::kRecoveryAction, "Drain P2P").number, 3);
}

TEST(NvidiaSmiText, SaysWhyThereIsNoValue) {
  for (const char* text : {"[N/A]", "N/A", "[Not Supported]", "[Requested functionality has been deprecated]",
                           "[Function Not Found]", "[Insufficient Permissions]", "[GPU requires reset]", "ERR!",
                           "[Unknown Error]", "", "  ", "[Something New]", "gibberish", "nan", "inf", "1e999", "12 34",
                           "1,5", "0x", "0xZZ", "P", "Px", "99999999999999999999999999 1", "\xff\xfe", "12.5.1", "-1",
                           "101 parsecs"}) {
    const SmiValue value = read(Metric::kPerformanceState, text);
    EXPECT_FALSE(value.number) << text;
    EXPECT_FALSE(value.absent.empty()) << text;
  }
  EXPECT_FALSE(read(Metric::kUtilization, "101 %").number);
  EXPECT_EQ(read(Metric::kPower, "[Something New]").absent, "Something New");
  EXPECT_EQ(read(Metric::kPower, "[Insufficient Permissions]").absent, "no permission");
  EXPECT_TRUE(read(Metric::kPower, "[GPU is lost]").trouble);
  EXPECT_FALSE(read(Metric::kPower, "[N/A]").trouble);
}

TEST(NvidiaSmiText, LastFieldKeepsItsCommas) {
  std::vector<std::string_view> fields;
  split_smi_row("GPU-1, 17, 5, /opt/a, b,c", 4, fields);
  ASSERT_EQ(fields.size(), 4u);
  EXPECT_EQ(fields[3], "/opt/a, b,c");
  split_smi_row("GPU-1, , [N/A]", 9, fields);
  ASSERT_EQ(fields.size(), 3u);
  EXPECT_EQ(fields[1], "");
}

}  // namespace
}  // namespace profgpu
