#include "devices/drm_clients.h"

#include <gtest/gtest.h>

#include "devices/drm_tree_test.h"

namespace profgpu {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
const std::string kPci = "0000:03:00.0";

std::string amdgpu_client(int id, int64_t vram_kib, int64_t gfx_ns, int64_t compute_ns) {
  return "drm-driver:\tamdgpu\ndrm-client-id:\t" + std::to_string(id) + "\ndrm-pdev:\t" + kPci + "\npasid:\t32771\n" +
         "drm-memory-vram:\t" + std::to_string(vram_kib) + " KiB\ndrm-memory-gtt: \t2048 KiB\ndrm-engine-gfx:\t" +
         std::to_string(gfx_ns) + " ns\ndrm-engine-compute:\t" + std::to_string(compute_ns) +
         " ns\ndrm-engine-enc:\t0 ns\n";
}

std::string xe_client(int id, int64_t cycles, int64_t total) {
  return "drm-driver:\txe\ndrm-client-id:\t" + std::to_string(id) + "\ndrm-pdev:\t" + kPci +
         "\ndrm-total-vram0:\t512 MiB\ndrm-resident-vram0:\t256 MiB\ndrm-total-gtt:\t1 MiB\ndrm-cycles-ccs:\t" +
         std::to_string(cycles) + "\ndrm-total-cycles-ccs:\t" + std::to_string(total) +
         "\ndrm-engine-capacity-ccs:\t2\n";
}

TEST(DrmClients, ReadsTheFormsOfTheDrivers) {
  const auto amd = drm_client(amdgpu_client(7, 1024, 5, 6), {"amdgpu"});
  ASSERT_TRUE(amd);
  EXPECT_EQ(amd->id, 7);
  EXPECT_EQ(amd->pci, kPci);
  EXPECT_EQ(amd->memory_bytes, 1 << 20);
  EXPECT_FALSE(drm_client(amdgpu_client(7, 1024, 5, 6), {"xe", "i915"}));
  const auto xe = drm_client(xe_client(9, 100, 1000), {"xe"});
  ASSERT_TRUE(xe);
  EXPECT_EQ(xe->memory_bytes, 256 << 20) << "resident before total";
  ASSERT_EQ(xe->engines.size(), 1u);
  EXPECT_EQ(xe->engines.at("ccs").capacity, 2);
  const auto i915 = drm_client(
      "drm-driver: i915\ndrm-client-id: 3\ndrm-pdev: 0000:00:02.0\ndrm-engine-render: 9288864723 "
      "ns\ndrm-engine-video: 0 ns\ndrm-engine-capacity-video: 2\ndrm-total-local0: 4096\n",
      {"i915"});
  ASSERT_TRUE(i915);
  EXPECT_EQ(i915->memory_bytes, 4096);
}

TEST(DrmClients, GarbageIsNoClient) {
  for (const char* text : {"", "drm-driver:\tamdgpu\n", "drm-driver: amdgpu\ndrm-pdev: 0000:03:00.0\n",
                           "drm-driver: amdgpu\ndrm-pdev: 0000:03:00.0\ndrm-client-id: x\n", "\xff\xfe:\x01\n",
                           "drm-driver: amdgpu\ndrm-client-id: -4\ndrm-pdev: 0000:03:00.0\n"})
    EXPECT_FALSE(drm_client(text, {"amdgpu"})) << text;
  const auto odd = drm_client(
      "drm-driver: amdgpu\ndrm-pdev: 0000:03:00.0\ndrm-client-id: 4\ndrm-memory-vram: 99999999999999 "
      "MiB\ndrm-engine-gfx: -3 ns\ndrm-engine-capacity-gfx: 0\ndrm-memory-vram: 3 parsecs\n",
      {"amdgpu"});
  ASSERT_TRUE(odd);
  EXPECT_FALSE(odd->memory_bytes);
}

TEST(DrmClients, UseIsTheDifferenceOfTwoLooks) {
  const DrmTree tree;
  tree.host();
  tree.client(100, 5, amdgpu_client(1, 1000, 0, 1'000'000'000));
  tree.client(100, 6, amdgpu_client(1, 1000, 0, 1'000'000'000));   // a duplicate
  tree.client(101, 5, amdgpu_client(1, 1000, 0, 1'000'000'000));   // and one in a child
  tree.client(102, 9, amdgpu_client(2, 500, 300, 0));
  tree.client(103, 9, amdgpu_client(3, 500, 300, 0), "/home/user/dev/dri/file");  // not a card
  DrmClients clients(tree.root() + "/proc", {"amdgpu"});
  const auto first = clients.use_of(kPci, 10 * kSecond, 0);
  ASSERT_TRUE(first);
  EXPECT_TRUE(first->complete);
  EXPECT_FALSE(first->compared);
  ASSERT_EQ(first->processes.size(), 2u);
  EXPECT_EQ(first->memory_bytes, 1500 << 10);
  EXPECT_FALSE(first->processes[0].utilization_pct) << "one look tells nothing of use";
  EXPECT_FALSE(clients.use_of(kPci, 10 * kSecond + kSecond / 2, first->time_ns)) << "at most one a second";

  for (const int fd : {5, 6}) tree.client(100, fd, amdgpu_client(1, 2000, 0, 1'500'000'000));
  tree.client(101, 5, amdgpu_client(1, 2000, 0, 1'500'000'000));
  tree.client(102, 9, amdgpu_client(2, 500, 100, 0));              // less than before: the driver catches up later
  tree.client(104, 3, amdgpu_client(8, 500, 0, 200'000'000));      // new since
  const auto second = clients.use_of(kPci, 11 * kSecond, first->time_ns);
  ASSERT_TRUE(second);
  ASSERT_EQ(second->processes.size(), 3u);
  const ProcessSample& busy = second->processes[0];
  EXPECT_EQ(busy.pid, 100);
  EXPECT_EQ(busy.type, 'C');
  EXPECT_EQ(busy.utilization_pct, 50);
  EXPECT_EQ(busy.memory_bytes, 2000 << 10);
  EXPECT_EQ(second->processes[1].utilization_pct, 0);
  EXPECT_EQ(second->processes[1].type, 'G');
  EXPECT_EQ(second->processes[2].utilization_pct, 20);
  EXPECT_EQ(second->engines_pct.at("compute"), 70);

  tree.client(102, 9, amdgpu_client(2, 500, 300, 0));
  const auto third = clients.use_of(kPci, 12 * kSecond, second->time_ns);
  ASSERT_TRUE(third);
  EXPECT_EQ(third->processes[1].utilization_pct, 0) << "nothing new until it has passed 300";
}

TEST(DrmClients, CyclesAreSharesOfTheDevicesOwn) {
  const DrmTree tree;
  tree.host();
  tree.client(100, 5, xe_client(1, 1000, 100'000));
  DrmClients clients(tree.root() + "/proc", {"xe"});
  const auto first = clients.use_of(kPci, kSecond, 0);
  tree.client(100, 5, xe_client(1, 9000, 110'000));
  const auto second = clients.use_of(kPci, 2 * kSecond, first->time_ns);
  ASSERT_TRUE(second);
  EXPECT_DOUBLE_EQ(second->engines_pct.at("ccs"), 40) << "8000 of 10000 cycles on two engines";
  tree.client(100, 5, xe_client(1, 9000, 110'000));
  const auto third = clients.use_of(kPci, 3 * kSecond, second->time_ns);
  EXPECT_TRUE(third->engines_pct.empty()) << "no time went by on the device";
}

TEST(DrmClients, HiddenProcessesAreKnownToBeHidden) {
  const DrmTree tree;   // no kernel threads in sight: a container
  DrmClients clients(tree.root() + "/proc", {"xe"});
  const auto use = clients.use_of(kPci, kSecond, 0);
  ASSERT_TRUE(use);
  EXPECT_FALSE(use->complete);
  EXPECT_FALSE(use->memory_bytes);
}

}  // namespace
}  // namespace profgpu
