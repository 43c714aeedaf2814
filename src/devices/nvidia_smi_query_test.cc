#include "devices/nvidia_smi_query.h"

#include <gtest/gtest.h>

namespace profgpu {
namespace {

TEST(NvidiaSmiText, ReadsNumbersWithAndWithoutTheirUnits) {
  EXPECT_EQ(smi_value("627.40").number, 627.4);
  EXPECT_EQ(smi_value("627.40 W").number, 627.4);
  EXPECT_EQ(smi_value(" 100 %").number, 100);
  EXPECT_EQ(smi_value("81559 MiB").number, 81559);
  EXPECT_EQ(smi_value("-2").number, -2);
  EXPECT_EQ(smi_value("0").number, 0);
  EXPECT_TRUE(smi_value("0").absent.empty());
}

TEST(NvidiaSmiText, ReadsWordsForStates) {
  EXPECT_EQ(smi_value("Active").number, 1);
  EXPECT_EQ(smi_value("Not Active").number, 0);
  EXPECT_EQ(smi_value("Yes").number, 1);
  EXPECT_EQ(smi_value("Disabled").number, 0);
  EXPECT_EQ(smi_value("P0").number, 0);
  EXPECT_EQ(smi_value("P12").number, 12);
  EXPECT_EQ(smi_value("0x00000000000001FF").number, 511);
  EXPECT_EQ(smi_value("Drain P2P").number, 3);
}

TEST(NvidiaSmiText, SaysWhyThereIsNoValue) {
  for (const char* text : {"[N/A]", "N/A", "[Not Supported]", "[Requested functionality has been deprecated]",
                           "[Function Not Found]", "[Insufficient Permissions]", "[GPU requires reset]", "ERR!",
                           "[Unknown Error]", "", "  ", "[Something New]", "gibberish", "nan", "inf", "1e999", "12 34",
                           "1,5", "0x", "0xZZ", "P", "Px", "99999999999999999999999999 1", "\xff\xfe", "12.5.1"}) {
    const SmiValue value = smi_value(text);
    EXPECT_FALSE(value.number) << text;
    EXPECT_FALSE(value.absent.empty()) << text;
  }
  EXPECT_EQ(smi_value("[Something New]").absent, "Something New");
  EXPECT_EQ(smi_value("[Insufficient Permissions]").absent, "no permission");
  EXPECT_TRUE(smi_value("[GPU is lost]").trouble);
  EXPECT_FALSE(smi_value("[N/A]").trouble);
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

TEST(NvidiaSmiText, BusIdsHaveOneSpelling) {
  EXPECT_EQ(smi_pci_bus_id("00000000:0A:00.0"), "00000000:0a:00.0");
  EXPECT_EQ(smi_pci_bus_id("0000:0a:00.0"), "00000000:0a:00.0");
  EXPECT_EQ(smi_pci_bus_id("0A:00.0"), "00000000:0a:00.0");
  for (const char* bad : {"", "0A", "0A:zz.0", "1:2:3:4", "0A:00.9", "100:00.0", "0A:20.0"})
    EXPECT_EQ(smi_pci_bus_id(bad), "") << bad;
}

}  // namespace
}  // namespace profgpu
