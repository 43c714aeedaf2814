#include "watch/exporter/kubelet_pods.h"

#include <gtest/gtest.h>

#include "base/protobuf.h"
#include "devices/drm_tree_test.h"

namespace profgpu {

namespace {

constexpr int64_t kSecond = 1'000'000'000, kNow = 1'767'225'600 * kSecond;

PodsByDevice pods(std::string pod) { return {{{"team", std::move(pod), "main", ""}}}; }

TEST(KubeletAnswers, TheLastOneHoldsForAWhile) {
  KubeletAnswers answers;
  EXPECT_FALSE(answers.up());
  EXPECT_EQ(answers.pods(kNow), nullptr);
  EXPECT_EQ(answers.take(pods("a"), kNow), "");
  EXPECT_TRUE(answers.up());
  EXPECT_EQ(answers.take(Error{"does not answer"}, kNow + 10 * kSecond), "the kubelet: does not answer");
  EXPECT_EQ(answers.take(Error{"is damaged", "a hint"}, kNow + 20 * kSecond), "");  // told once
  EXPECT_FALSE(answers.up());
  EXPECT_EQ(answers.good_at_ns(), kNow);
  EXPECT_EQ(answers.trouble(kNow + 47 * kSecond), "is damaged, for 37 s");
  ASSERT_NE(answers.pods(kNow + 300 * kSecond), nullptr);
  EXPECT_EQ(answers.pods(kNow + 300 * kSecond)->front().front().pod, "a");
  EXPECT_EQ(answers.pods(kNow + 301 * kSecond), nullptr);
  EXPECT_EQ(answers.take(pods("b"), kNow + 400 * kSecond), "the kubelet answers again");
  EXPECT_EQ(answers.pods(kNow + 400 * kSecond)->front().front().pod, "b");
  EXPECT_EQ(answers.trouble(kNow + 400 * kSecond), "");
}

TEST(KubeletAnswers, ASocketThatWasNeverThereIsNoNews) {
  KubeletAnswers answers;
  EXPECT_EQ(answers.take_absence("/s", kNow), "");
  EXPECT_EQ(answers.trouble(kNow), "");
  EXPECT_FALSE(answers.up());
  EXPECT_EQ(answers.take(Error{"/s: Permission denied", "the kubelet's socket is root's"}, kNow),
            "the kubelet: /s: Permission denied (the kubelet's socket is root's)");
  EXPECT_EQ(answers.take_absence("/s", kNow), "");  // the trouble is old
  EXPECT_EQ(answers.trouble(kNow), "/s is gone, for 0 s");
  EXPECT_EQ(answers.take(pods("a"), kNow), "the kubelet answers again");
  EXPECT_EQ(answers.take_absence("/s", kNow), "the kubelet: /s is gone");
}

TEST(GrpcCall, AnAddressThatCannotBe) {
  const std::string path(kLongestSocketPath, 'x');
  EXPECT_FALSE(grpc_call({.socket = path, .method = "/m"}, {}));
  EXPECT_FALSE(grpc_call({.socket = "/nowhere/at.sock", .method = "/m"}, {}));
}

}  // namespace

namespace {

DeviceInfo device(std::string_view vendor, uint32_t index, std::string uuid, std::string pci) {
  DeviceInfo d;
  d.vendor = vendor;
  d.index = index;
  d.uuid = std::move(uuid);
  d.pci_bus_id = std::move(pci);
  return d;
}

// Two GPUs, a third cut in two (positions 3 and 4), one of AMD's.
std::vector<DeviceInfo> machine() {
  std::vector<DeviceInfo> all = {device("NVIDIA", 0, "GPU-0", "00000000:1a:00.0"),
                                 device("NVIDIA", 1, "GPU-1", "00000000:3b:00.0"),
                                 device("NVIDIA", 2, "GPU-2", "00000000:5c:00.0")};
  for (const uint32_t instance : {1U, 2U}) {
    all.push_back(device("NVIDIA", 2, "MIG-" + std::to_string(instance), "00000000:5c:00.0"));
    all.back().parent = 2;
    all.back().gpu_instance = instance;
    all.back().compute_instance = 0;
  }
  all.push_back(device("AMD", 0, "", "00000000:83:00.0"));
  return all;
}

void write_pod(ProtobufWriter& w, std::string_view pod, const std::vector<std::string>& ids,
               std::string_view resource = "nvidia.com/gpu") {
  w.message(1, [&] {
    w.message(3, [&] {  // before the pod's name: any order is allowed
      w.number(3, 7);   // a processor
      w.message(2, [&] {
        w.message(3, [&] { w.message(1, [&] { w.number(1, 0); }); });
        for (const std::string& id : ids) w.text(2, id);
        w.text(1, resource);
      });
      w.text(1, "main");
    });
    w.text(1, pod);
    w.text(2, "team");
    w.text(99, "of a later version");
  });
}

std::string text_of(const PodsByDevice& pods) {
  std::string out;
  for (size_t i = 0; i < pods.size(); ++i)
    for (const PodContainer& c : pods[i])
      out += std::to_string(i) + ":" + c.name_space + "/" + c.pod + "/" + c.container +
             (c.share.empty() ? "" : "#" + c.share) + " ";
  return out;
}

std::string pods_of(const std::string& list, const std::vector<DeviceInfo>& devices = machine(),
                    const std::string& sys = "/nowhere") {
  const auto pods = PodResources(devices, sys).read(list);
  return pods ? text_of(*pods) : pods.error().message;
}

std::string given(const std::vector<std::string>& ids) {
  ProtobufWriter w;
  write_pod(w, "p", ids);
  return pods_of(w.bytes());
}

TEST(PodResources, DevicesAreKnownByWhateverPluginsCallThem) {
  EXPECT_EQ(given({"GPU-1"}), "1:team/p/main ");
  EXPECT_EQ(given({"MIG-2"}), "4:team/p/main ");
  EXPECT_EQ(given({"MIG-GPU-2/1/0"}), "3:team/p/main ");
  EXPECT_EQ(given({"GPU-0::3", "GPU-0::1"}), "0:team/p/main#1 0:team/p/main#3 ");
  EXPECT_EQ(given({"MIG-1::0"}), "3:team/p/main#0 ");
  EXPECT_EQ(given({"nvidia0"}), "0:team/p/main ");
  EXPECT_EQ(given({"nvidia1/vgpu5"}), "1:team/p/main#5 ");
  EXPECT_EQ(given({"nvidia2/gi2"}), "4:team/p/main ");
  EXPECT_EQ(given({"nvidia2/gi2/vgpu0"}), "4:team/p/main#0 ");
  EXPECT_EQ(given({"0000:83:00.0"}), "5:team/p/main ");
  EXPECT_EQ(given({"0000:83:00.0-slice-2"}), "5:team/p/main#2 ");
  EXPECT_EQ(given({"GPU-1", "GPU-1", "GPU-0"}), "0:team/p/main 1:team/p/main ");
  EXPECT_EQ(given({"", "GPU-", "GPU-01", "nvidia7", "nvidia2/gi9", "::", "card", "card0-0", "0000:99:00.0", "mlx5_0"}),
            "");
  EXPECT_EQ(given({"0000:5c:00.0"}), "2:team/p/main ");  // not its instances
}

TEST(PodResources, IntelsCardsByTheirNumbersInSysfs) {
  const DrmTree tree;
  tree.card("card3", "8086", "56c0", "i915", "0000:03:00.0");
  tree.card("card4", "1002", "74a1", "amdgpu", "0000:04:00.0");
  ProtobufWriter w;
  write_pod(w, "p", {"card3-0", "card4-0"}, "gpu.intel.com/i915");
  write_pod(w, "monitor", {"all"}, "gpu.intel.com/i915_monitoring");
  EXPECT_EQ(pods_of(w.bytes(), {device("Intel", 0, "", "00000000:03:00.0"), device("AMD", 0, "", "00000000:04:00.0")},
                    tree.root() + "/sys"),
            "0:team/p/main ");
}

TEST(PodResources, ManyPodsLeaveTheSameFewOfThem) {
  ProtobufWriter up, down;
  for (int i = 0; i < 1000; ++i) {
    write_pod(up, "p" + std::to_string(1000 + i), {"GPU-0::" + std::to_string(i)});
    write_pod(down, "p" + std::to_string(1999 - i), {"GPU-0::" + std::to_string(999 - i)});
  }
  const std::string kept = pods_of(up.bytes());
  EXPECT_EQ(pods_of(down.bytes()), kept);
  EXPECT_EQ(std::count(kept.begin(), kept.end(), ' '), 64);
  EXPECT_TRUE(kept.starts_with("0:team/p1000/main#0 ")) << kept;
  ProtobufWriter w;
  write_pod(w, std::string(300, 'x'), {"GPU-0"});
  EXPECT_EQ(pods_of(w.bytes()), "");
}

TEST(PodResources, ADamagedListIsRefused) {
  ProtobufWriter w;
  write_pod(w, "p", {"GPU-1"});
  EXPECT_EQ(pods_of(""), "");
  for (size_t n = 1; n < w.bytes().size(); ++n)
    EXPECT_EQ(pods_of(w.bytes().substr(0, n)), "its list of pods is damaged") << n;
  // A length that lies, at every depth.
  std::string list = w.bytes();
  for (size_t at = 0; at < list.size(); ++at) {
    std::string bad = list;
    bad[at] = '\x7f';
    pods_of(bad);
  }
  ProtobufWriter pod;
  pod.text(1, "\x1a\x05\x12\x7f");
  EXPECT_EQ(pods_of(pod.bytes()), "its list of pods is damaged");
  ProtobufWriter wrong;  // numbers where texts should be
  wrong.message(1, [&] { wrong.number(1, 5), wrong.number(3, 6); });
  EXPECT_EQ(pods_of(wrong.bytes()), "");
}

}  // namespace

}  // namespace profgpu
