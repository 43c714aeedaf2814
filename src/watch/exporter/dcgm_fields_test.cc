#include "watch/exporter/dcgm_fields.h"

#include <gtest/gtest.h>

#include <set>

namespace profgpu {
namespace {

constexpr int64_t kSecond = 1'000'000'000, kNow = 1'767'225'600 * kSecond;

std::string text_of(std::string_view name, const std::vector<Sample>& samples) {
  DeviceTally tally(DeviceInfo{}, kSecond);
  Reading reading;
  reading.samples = samples;
  tally.add(reading);
  return dcgm_text(*find_dcgm_field(name), tally, kNow).value_or("absent");
}

TEST(DcgmFields, NamesAreUniqueInEitherSet) {
  std::set<std::string_view> classic, renamed;
  for (const DcgmField& f : dcgm_fields()) {
    EXPECT_TRUE(classic.insert(f.name).second) << f.name;
    EXPECT_TRUE(renamed.insert(f.name_in(DcgmNames::kNew)).second) << f.new_name;
    EXPECT_FALSE(f.help.empty());
  }
}

TEST(DcgmFields, NumbersAsDcgmExporterPrintsThem) {
  EXPECT_EQ(text_of("DCGM_FI_DEV_GPU_UTIL", {{kNow, Metric::kUtilization, 97}}), "97");
  EXPECT_EQ(text_of("DCGM_FI_DEV_POWER_USAGE", {{kNow, Metric::kPower, 71.5}}), "71.500000");
  EXPECT_EQ(text_of("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", {{kNow, Metric::kEnergy, 81250025.644}}), "81250025644");
  EXPECT_EQ(text_of("DCGM_FI_DEV_FB_USED", {{kNow, Metric::kMemoryUsed, 3.75 * (1 << 20)}}), "3");
  EXPECT_EQ(text_of("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", {{kNow, Metric::kTensorActive, 12}}), "0.120000");
  EXPECT_EQ(text_of("DCGM_FI_DEV_GPU_TEMP", {}), "absent");
  EXPECT_EQ(text_of("DCGM_FI_DEV_XID_ERRORS", {}), "absent");
  EXPECT_EQ(text_of("DCGM_FI_DEV_XID_ERRORS", {{kNow, Metric::kXidErrors, 0}}), "0");
  EXPECT_EQ(text_of("DCGM_FI_DEV_XID_ERRORS", {{kNow, Metric::kXidErrors, 1}, {kNow, Metric::kXidLast, 79}}), "79");
  EXPECT_EQ(text_of("DCGM_FI_DEV_FB_USED_PERCENT", {{kNow, Metric::kMemoryUsed, 45},
                                                    {kNow, Metric::kMemoryTotal, 100},
                                                    {kNow, Metric::kMemoryReserved, 10}}),
            "0.500000");
}

TEST(DcgmFields, NvlinkIsARateInThousandsOfKiB) {
  DeviceTally tally(DeviceInfo{}, kSecond);
  for (const int64_t s : {0, 1}) {
    Reading reading;
    const int64_t at = kNow - (1 - s) * kSecond;
    reading.samples = {{at, Metric::kNvlinkTx, s * 2e9 * 1.024}, {at, Metric::kNvlinkRx, s * 1e9 * 1.024}};
    tally.add(reading);
  }
  EXPECT_EQ(dcgm_text(*find_dcgm_field("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"), tally, kNow), "3000");
}

TEST(DcgmCounters, ReadsACountersFile) {
  const auto counters = parse_dcgm_counters(
      "# Format\r\n\n DCGM_FI_DEV_GPU_TEMP ,  gauge, Ours, with a comma.\n"
      "DCGM_FI_DEV_GPU_TEMP, gauge, again\n\"DCGM_FI_DEV_BOARD_POWER_WATTS\",gauge,\"a \"\"word\"\"\"\n"
      "DCGM_FI_DEV_VGPU_LICENSE_STATUS, gauge, vGPU License status\nDCGM_FI_DRIVER_VERSION, label, Driver Version");
  ASSERT_TRUE(counters);
  ASSERT_EQ(counters->counters.size(), 2U);
  EXPECT_EQ(counters->counters[0].field->name, "DCGM_FI_DEV_GPU_TEMP");
  EXPECT_EQ(counters->counters[0].help, "Ours, with a comma.");
  EXPECT_EQ(counters->counters[1].field->name, "DCGM_FI_DEV_POWER_USAGE");
  EXPECT_EQ(counters->counters[1].help, "a \"word\"");
  EXPECT_TRUE(counters->driver_label);
  EXPECT_EQ(counters->left_out, std::vector<std::string>{"DCGM_FI_DEV_VGPU_LICENSE_STATUS"});
}

TEST(DcgmCounters, HelpIsUtf8) {
  const auto counters = parse_dcgm_counters("DCGM_FI_DEV_GPU_TEMP, gauge, Temperatur f\xfcr alle\n");
  ASSERT_TRUE(counters);
  EXPECT_EQ(counters->counters[0].help, "Temperatur f\xef\xbf\xbdr alle");
}

TEST(DcgmCounters, ErrorsNameTheLine) {
  EXPECT_EQ(parse_dcgm_counters("# x\nDCGM_FI_DEV_GPU_TEMP\n").error().message,
            "line 2: \"DCGM_FI_DEV_GPU_TEMP\" is not FIELD, type, help");
  EXPECT_EQ(parse_dcgm_counters("A, number, b\n").error().message, "line 1: \"number\" is not a type");
  EXPECT_EQ(parse_dcgm_counters("# nothing\n").error().message, "it names no field");
  EXPECT_EQ(parse_dcgm_counters("HF_TOKEN=hunter2\n").error().message,
            "line 1: \"HF_TOKEN=***\" is not FIELD, type, help");
}

}  // namespace
}  // namespace profgpu
