#include "devices/pci_address.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace profgpu {
namespace {

namespace fs = std::filesystem;

TEST(PciAddress, HasOneSpellingForAll) {
  for (const char* text : {"00000000:0A:00.0", "0000:0a:00.0", "0A:00.0", "0a:00", " 0a:0.0\n"}) {
    const auto address = pci_address(text);
    ASSERT_TRUE(address) << text;
    EXPECT_EQ(address->bus_id(), "00000000:0a:00.0");
  }
  EXPECT_EQ(pci_address("10001:81:1f.7")->bus_id(), "00010001:81:1f.7");
  for (const char* bad : {"", "0A", "0A:zz.0", "1:2:3:4", "0A:00.9", "100:00.0", "0A:20.0", "0a:00.", "../0a:00.0"})
    EXPECT_FALSE(pci_address(bad)) << bad;
}

TEST(PciAddress, LeadsToTheKernelsFolder) {
  const SystemRoots roots{"/proc", "/s", "/dev"};
  EXPECT_EQ(pci_folder(roots, "00000000:0a:00.0"), "/s/bus/pci/devices/0000:0a:00.0");
  EXPECT_EQ(pci_folder(roots, "00010001:0a:00.0"), "/s/bus/pci/devices/10001:0a:00.0");
  EXPECT_EQ(pci_folder(roots, "../../etc:0"), "");
  EXPECT_EQ(pci_folder(roots, ""), "");
}

TEST(PciAddress, LeadsToTheNumaNode) {
  const fs::path root = fs::path(testing::TempDir()) / "profgpu_numa_node";
  const SystemRoots roots{"/proc", root.string(), "/dev"};
  const fs::path folder = root / "bus/pci/devices/0000:0a:00.0";
  fs::create_directories(folder);
  EXPECT_FALSE(numa_node(roots, "00000000:0a:00.0"));
  std::ofstream(folder / "numa_node") << "1\n";
  EXPECT_EQ(numa_node(roots, "00000000:0a:00.0"), 1);
  std::ofstream(folder / "numa_node") << "-1\n";   // one node only, or the firmware does not say
  EXPECT_FALSE(numa_node(roots, "00000000:0a:00.0"));
  EXPECT_FALSE(numa_node(roots, ""));
  fs::remove_all(root);
}

}  // namespace
}  // namespace profgpu
