#include "devices/system_checks.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/clock.h"
#include "devices/switch_event.h"
#include "tests/support/test_folder.h"

namespace profgpu {

namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;
using enum Health;

// A machine of our own making.
class Machine : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"proc", "sys", "dev"}) fs::create_directories(root_ / name);
    roots_ = {root_ / "proc", root_ / "sys", root_ / "dev"};
    ::setenv("LD_LIBRARY_PATH", (root_ / "lib").c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv("LD_LIBRARY_PATH");
    for (const std::string& name : set_) ::unsetenv(name.c_str());
  }
  void write(const std::string& path, const std::string& text) const { root_.write(path, text); }
  void variable(const std::string& name, const std::string& value) {
    ::setenv(name.c_str(), value.c_str(), 1);
    set_.push_back(name);
  }
  SystemChecks run(std::string_view id) {
    ProbeChecks found(id);
    for (const Probe& probe : machine_probes())
      if (probe.id == id) probe.run(roots_, found);
    return found.checks;
  }
  TestFolder root_;
  SystemRoots roots_;
  std::vector<std::string> set_;
};

const SystemCheck* find(const SystemChecks& checks, std::string_view id, Health verdict) {
  for (const SystemCheck& c : checks)
    if (c.id == id && c.verdict == verdict) return &c;
  return nullptr;
}

TEST_F(Machine, DriverVersionFromWhereverItStands) {
  EXPECT_EQ(kernel_module_version(roots_), "");
  write("proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.12.03  Release Build\nGCC version: 12\n");
  EXPECT_EQ(kernel_module_version(roots_), "570.12.03");
  write("sys/module/nvidia/version", "570.99\n");
  EXPECT_EQ(kernel_module_version(roots_), "570.99");
  write("sys/module/nvidia/version", "\x1b[2Jx\n");
  EXPECT_EQ(kernel_module_version(roots_), "570.12.03");
}

TEST_F(Machine, AGpuWithoutADriverIsAProblem) {
  EXPECT_TRUE(find(run("driver_version"), "driver_version", kUnknown));
  write("sys/bus/pci/devices/0000:3b:00.0/vendor", "0x10de\n");
  write("sys/bus/pci/devices/0000:3b:00.0/class", "0x030200\n");
  EXPECT_TRUE(find(run("driver_version"), "driver_version", kProblem));
}

TEST_F(Machine, LibraryOfAnotherVersionThanTheModule) {
  write("sys/module/nvidia/version", "535.54.03\n");
  write("lib/libnvidia-ml.so.545.23.08", "");
  fs::create_symlink("libnvidia-ml.so.545.23.08", root_ / "lib/libnvidia-ml.so.1");
  write("lib/libcuda.so.535.54.03", "");
  fs::create_symlink("libcuda.so.535.54.03", root_ / "lib/libcuda.so.1");
  const SystemChecks checks = run("driver_library");
  const SystemCheck* nvml = find(checks, "driver_library_nvml", kProblem);
  ASSERT_TRUE(nvml);
  EXPECT_NE(nvml->detail.find("545.23.08"), std::string::npos);
  EXPECT_NE(nvml->detail.find("535.54.03"), std::string::npos);
  EXPECT_TRUE(find(checks, "driver_library_cuda", kOk));
}

TEST_F(Machine, DeviceNodes) {
  EXPECT_TRUE(find(run("device_nodes"), "device_nodes", kUnknown));
  write("sys/module/nvidia/version", "535.54.03\n");
  EXPECT_TRUE(find(run("device_nodes"), "device_nodes", kProblem)) << "a driver without device files";
  write("dev/nvidia0", "");
  write("dev/nvidiactl", "");
  EXPECT_TRUE(find(run("device_nodes"), "device_nodes", kOk));
  if (::geteuid() == 0) return;  // may open everything
  ::chmod((root_ / "dev/nvidia0").c_str(), 0);
  EXPECT_TRUE(find(run("device_nodes"), "device_nodes", kProblem));
}

TEST_F(Machine, ProfilingPermission) {
  EXPECT_TRUE(run("profiling_permission").empty());
  write("proc/driver/nvidia/params", "EnableMSI: 1\nRmProfilingAdminOnly: 0\n");
  EXPECT_TRUE(find(run("profiling_permission"), "profiling_permission", kOk));
  write("proc/driver/nvidia/params", "RmProfilingAdminOnly: 1\n");
  EXPECT_TRUE(find(run("profiling_permission"), "profiling_permission", ::geteuid() == 0 ? kOk : kWarning));
}

TEST_F(Machine, MpsIsSeen) {
  write("proc/77/comm", "nvidia-cuda-mps\n");
  EXPECT_NE(run("mps").at(0).detail.find("nvidia-cuda-mps"), std::string::npos);
}

TEST_F(Machine, KernelLogIsDecoded) {
  EXPECT_TRUE(find(run("kernel_log"), "kernel_log", kUnknown)) << "no right, no verdict";
  const std::string now = std::to_string(monotonic_ns() / 1000);
  write("dev/kmsg",
        "6,1,100,-;usb 1-1: new device\n"
        "4,2,200,-;NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
        "4,3,300,-;NVRM: Xid (PCI:0000:5e:00): 13, pid=4711, name=\x1b[2J, Graphics Exception\n"
        " SUBSYSTEM=pci\n"
        "4,4," +
            now +
            ",-;NVRM: Xid (PCI:0000:5e:00): 13, pid=4712\n"
            "4,5,500,-;NVRM: Xid (0000:5e:00): 4711, what\n"
            "4,6,500,-;NVRM: Xid (PCI:0000:5e:00): , cut\n"
            "4,7,500,-;NVRM: Xid (PCI:0000:5e");
  const SystemChecks checks = run("kernel_log");
  ASSERT_EQ(checks.size(), 3U);
  EXPECT_EQ(checks[0].verdict, kProblem);
  EXPECT_NE(checks[0].detail.find("Xid 79 on 0000:3b:00, once"), std::string::npos) << checks[0].detail;
  EXPECT_NE(checks[0].detail.find("fell off"), std::string::npos);
  EXPECT_NE(checks[1].detail.find("Xid 13 on 0000:5e:00, 2 times, last less than a minute ago"), std::string::npos)
      << checks[1].detail;
  EXPECT_EQ(checks[1].verdict, kWarning);
  EXPECT_NE(checks[2].detail.find("Xid 4711"), std::string::npos);
  write("dev/kmsg", "\0\xff\x1b[31m;;;,,,\n"s);
  EXPECT_TRUE(find(run("kernel_log"), "kernel_log", kOk));
}

TEST_F(Machine, EveryXidSaysWhatToDo) {
  for (const int code : {13, 31, 43, 45, 48, 61, 62, 63, 64, 69, 74, 79, 92, 94, 95, 109, 119, 120, 140}) {
    const XidMeaning* meaning = find_xid(code);
    ASSERT_TRUE(meaning) << code;
    EXPECT_FALSE(meaning->what.empty() || meaning->advice.empty()) << code;
  }
  EXPECT_FALSE(find_xid(1));
}

TEST_F(Machine, AContainerWithoutGpus) {
  write("proc/self/cgroup", "0::/system.slice/docker-" + std::string(64, 'a') + ".scope\n");
  EXPECT_TRUE(find(run("container"), "container", kOk));
  write("sys/module/nvidia/version", "535.54.03\n");
  EXPECT_TRUE(find(run("container"), "container", kProblem)) << "the host has a driver, the container no device";
  write("dev/nvidiactl", "");
  EXPECT_TRUE(find(run("container"), "container", kOk));
  variable("NVIDIA_DRIVER_CAPABILITIES", "compute");
  EXPECT_TRUE(find(run("container"), "container", kWarning));
  variable("NVIDIA_VISIBLE_DEVICES", "void");
  EXPECT_TRUE(find(run("container"), "container", kProblem));
}

TEST_F(Machine, VariablesThatSlowDown) {
  variable("CUDA_LAUNCH_BLOCKING", "1");
  variable("CUDA_VISIBLE_DEVICES", "");
  variable("NCCL_P2P_DISABLE", "1");
  variable("NCCL_SOCKET_IFNAME", "lo");
  variable("NCCL_ALGO", "Ring");
  const SystemChecks cuda = run("cuda_environment"), nccl = run("nccl_environment");
  EXPECT_TRUE(find(cuda, "cuda_environment", kWarning));
  EXPECT_TRUE(find(cuda, "cuda_environment", kProblem)) << "an empty list hides every device";
  EXPECT_EQ(std::count_if(nccl.begin(), nccl.end(), [](const auto& c) { return c.verdict == kWarning; }), 2);
  EXPECT_NE(find(nccl, "nccl_environment", kOk)->detail.find("NCCL_ALGO=Ring"), std::string::npos);
  variable("CUDA_LAUNCH_BLOCKING", "0");
  EXPECT_FALSE(find(run("cuda_environment"), "cuda_environment", kWarning));
}

TEST_F(Machine, GovernorNumaAndIommu) {
  EXPECT_TRUE(find(run("cpu_governor"), "cpu_governor", kUnknown));
  write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
  write("sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", "acpi-cpufreq\n");
  EXPECT_TRUE(find(run("cpu_governor"), "cpu_governor", kWarning));
  write("sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", "intel_pstate\n");
  EXPECT_TRUE(find(run("cpu_governor"), "cpu_governor", kOk)) << "this driver's powersave is no fixed clock";

  EXPECT_TRUE(find(run("numa"), "numa", kUnknown));
  write("sys/devices/system/node/node0/cpulist", "0-3\n");
  write("sys/devices/system/node/node1/cpulist", "4-7\n");
  EXPECT_TRUE(find(run("numa"), "numa", kOk));
  write("proc/sys/kernel/numa_balancing", "1\n");
  EXPECT_TRUE(find(run("numa"), "numa", kWarning));

  EXPECT_TRUE(find(run("iommu"), "iommu", kOk));
  write("sys/kernel/iommu_groups/0/type", "DMA-FQ\n");
  write("sys/bus/pci/devices/a/class", "0x030200\n");
  EXPECT_TRUE(find(run("iommu"), "iommu", kOk)) << "one GPU has no peer";
  write("sys/bus/pci/devices/b/class", "0x030200\n");
  EXPECT_TRUE(find(run("iommu"), "iommu", kWarning));
}

TEST_F(Machine, AProbeThatHangsDoesNotStopTheOthers) {
  // Reads a pipe that nobody writes into; a thread in it stays behind when the test ends.
  static int pipe_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);
  const std::vector<Probe> probes = {
      {"hangs", "machine", [](const SystemRoots&, ProbeChecks& found) {
         char c;
         if (::read(pipe_ends[0], &c, 1) >= 0) found.add(kOk, "woke");
       }},
      {"works", "machine", [](const SystemRoots&, ProbeChecks& found) { found.add(kOk, "done"); }}};
  const int64_t begin = monotonic_ns();
  const SystemChecks checks =
      run_probes(probes, roots_, std::chrono::steady_clock::now() + std::chrono::seconds(2));
  EXPECT_LT(monotonic_ns() - begin, 60'000'000'000);
  ASSERT_EQ(checks.size(), 2U);
  EXPECT_EQ(checks[0].detail, kProbeSilent);
  EXPECT_TRUE(find(checks, "works", kOk));
  ::close(pipe_ends[1]);
}

TEST_F(Machine, AllProbesOfThisMachineGiveDistinctAnswers) {
  const SystemChecks checks = run_probes(machine_probes(), SystemRoots::from_environment(),
                                         std::chrono::steady_clock::now() + std::chrono::seconds(60));
  EXPECT_GE(checks.size(), 10U);
  for (const SystemCheck& c : checks) {
    EXPECT_FALSE(c.detail.empty()) << c.id;
    EXPECT_NE(group_of(c), "devices") << c.id;
    EXPECT_TRUE(c.verdict < kWarning || !c.hint.empty()) << c.id << " is a complaint without advice";
  }
}

class DeviceChecks : public testing::Test {
 protected:
  DeviceChecks() { info_.index = 3; }
  SystemChecks run(const std::string& trouble = "") { return device_checks({&info_, trouble, &reading_, &facts_}); }
  DeviceInfo info_;
  Reading reading_;
  std::vector<Fact> facts_;
};

TEST_F(DeviceChecks, WhatADeviceDoesNotSayIsNotJudged) { EXPECT_TRUE(run().empty()); }

TEST_F(DeviceChecks, ALostDeviceHasOneProblem) {
  const SystemChecks checks = run("GPU is lost");
  ASSERT_EQ(checks.size(), 1U);
  EXPECT_EQ(checks[0].verdict, kProblem);
  EXPECT_EQ(checks[0].device, "3");
}

TEST_F(DeviceChecks, PcieGenerationFallsWhileIdle) {
  info_.constants = {{Metric::kPcieWidthMax, 16}, {Metric::kPcieGenerationMax, 5}};
  reading_.add(Metric::kPcieWidth, 16);
  reading_.add(Metric::kPcieGeneration, 1);
  EXPECT_TRUE(find(run(), "pcie_link", kOk));
  reading_.add(Metric::kUtilization, 80);
  EXPECT_TRUE(find(run(), "pcie_link", kWarning)) << "under load it is slow";
  reading_.samples.clear();
  reading_.add(Metric::kPcieWidth, 8);
  EXPECT_TRUE(find(run(), "pcie_link", kWarning));
}

TEST_F(DeviceChecks, ModesAndMemory) {
  facts_ = {{"persistence_mode", "Enabled", ""}, {"ecc_mode", "enabled", ""}, {"nvlinks_active", "18 of 18", ""}};
  EXPECT_TRUE(find(run(), "persistence_mode", kOk));
  EXPECT_TRUE(find(run(), "ecc", kOk));
  EXPECT_TRUE(find(run(), "nvlink", kOk));
  facts_ = {{"persistence_mode", "disabled", ""}, {"ecc_mode", "disabled, enabled after a reset", ""},
            {"nvlinks_active", "17 of 18", ""}, {"compute_mode", "prohibited", ""}};
  EXPECT_TRUE(find(run(), "persistence_mode", kWarning));
  EXPECT_TRUE(find(run(), "ecc", kWarning));
  EXPECT_TRUE(find(run(), "ecc_pending", kWarning));
  EXPECT_TRUE(find(run(), "nvlink", kWarning));
  EXPECT_TRUE(find(run(), "compute_mode", kProblem));
  facts_ = {{"ecc_mode", "", "not supported by this device"}, {"nvlinks_active", "0 of 18", ""}};
  EXPECT_FALSE(find(run(), "ecc", kWarning));
  EXPECT_FALSE(find(run(), "nvlink", kWarning)) << "a machine without bridges";
  reading_.add(Metric::kEccUncorrected, 2);
  reading_.add(Metric::kRemappedRowsPending, 1);
  reading_.add(Metric::kRetiredPagesPending, 0);
  reading_.add(Metric::kRecoveryAction, 1);
  const SystemChecks checks = run();
  EXPECT_TRUE(find(checks, "ecc_errors", kProblem));
  EXPECT_TRUE(find(checks, "remapped_rows", kProblem));
  EXPECT_TRUE(find(checks, "recovery_action", kProblem));
  EXPECT_FALSE(find(checks, "retired_pages", kProblem));
  reading_.add(Metric::kRecoveryAction, 1e300);
  EXPECT_TRUE(find(run(), "recovery_action", kProblem));
}

TEST_F(DeviceChecks, ClocksAndPower) {
  reading_.add(Metric::kClockEventReasons, 1);
  EXPECT_TRUE(find(run(), "clocks", kOk)) << "idle is no brake";
  reading_.samples[0].value = 4;
  EXPECT_TRUE(find(run(), "clocks", kOk));
  reading_.samples[0].value = 0x20;
  EXPECT_TRUE(find(run(), "clocks", kWarning));
  reading_.samples[0].value = 0x48;
  EXPECT_TRUE(find(run(), "clocks", kWarning)) << "slow, not broken";
  info_.constants = {{Metric::kPowerLimitDefault, 700}};
  reading_.add(Metric::kPowerLimit, 700);
  EXPECT_TRUE(find(run(), "power_limit", kOk));
  reading_.samples[1].value = 400;
  EXPECT_TRUE(find(run(), "power_limit", kWarning));
}

TEST_F(DeviceChecks, HeatIsSaidShortOfWhereClocksAreLowered) {
  info_.constants = {{Metric::kTemperatureSlowdown, 87}};
  reading_.add(Metric::kTemperature, 83);
  EXPECT_FALSE(find(run(), "temperature", kWarning));
  reading_.samples[0].value = 84;
  EXPECT_TRUE(find(run(), "temperature", kWarning));
}

TEST_F(Machine, PerfEventsAndHowToHaveThem) {
  // Whichever it is here, it is said and is no fault of the machine.
  const SystemChecks checks = run("perf_events");
  ASSERT_EQ(checks.size(), 1U);
  EXPECT_LE(checks[0].verdict, kUnknown);
  write("proc/sys/kernel/perf_event_paranoid", "4\n");
  EXPECT_NE(switch_event_refusal(EACCES, roots_).message.find("paranoid is 4"), std::string::npos);
  EXPECT_NE(switch_event_refusal(EACCES, roots_).hint.find("sysctl"), std::string::npos);
  write("proc/sys/kernel/perf_event_paranoid", "2\n");
  EXPECT_NE(switch_event_refusal(EPERM, roots_).hint.find("PERFMON"), std::string::npos) << "a container's doing";
  write("proc/sys/kernel/perf_event_paranoid", "what\n");
  EXPECT_NE(switch_event_refusal(EPERM, roots_).hint.find("PERFMON"), std::string::npos);
  EXPECT_NE(switch_event_refusal(ENOSYS, roots_).message.find("kernel"), std::string::npos);
  EXPECT_NE(switch_event_refusal(EMFILE, roots_).hint.find("ulimit -n"), std::string::npos);
  EXPECT_NE(switch_event_refusal(ENOMEM, roots_).hint.find("ulimit -l"), std::string::npos);
}

}  // namespace

}  // namespace profgpu
