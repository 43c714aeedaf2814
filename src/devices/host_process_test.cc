#include "devices/host_process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/clock.h"
#include "tests/support/test_folder.h"

namespace profgpu {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;
const std::string kId = "3f4a9c0d1e2b3f4a9c0d1e2b3f4a9c0d1e2b3f4a9c0d1e2b3f4a9c0d1e2b3f4a";

// A /proc of our own making.
class ProcTree : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(root_ / "self/ns");
    write("stat", "cpu  1 2 3 4\nbtime 1700000000\n");
  }
  void write(const std::string& path, const std::string& text) const { root_.write(path, text); }
  void space(const std::string& target) { fs::create_symlink(target, root_ / "self/ns/pid"); }
  // `ticks` of processor time, started `start` ticks after boot.
  void process(int pid, const std::string& comm, int ticks, int start = 5000, const std::string& nspid = "") {
    const std::string folder = std::to_string(pid);
    write(folder + "/stat", folder + " (" + comm + ") S 1 1 1 0 -1 0 0 0 0 0 " + std::to_string(ticks) +
                                " 0 0 0 20 0 7 0 " + std::to_string(start) + " 0 0\n");
    write(folder + "/status", "Name:\t" + comm + "\nUid:\t54321\t0\t0\t0\nVmRSS:\t    2048 kB\n" +
                                  (nspid.empty() ? "" : "NSpid:\t" + nspid + "\n"));
  }
  void opens(int pid, const std::string& target) {
    const fs::path folder = root_ / std::to_string(pid) / "fd";
    fs::create_directories(folder);
    fs::create_symlink(target, folder / "9");
  }
  TestFolder root_;
};

TEST_F(ProcTree, ReadsWhatTheKernelSays) {
  process(4711, "pt) (main", 100);
  write("4711/cmdline", "/usr/bin/python3\0train.py\0--api-key\0abc\0--lr\0\0"s);
  write("4711/cgroup", "0::/system.slice/docker-" + kId + ".scope\n");
  write("4711/environ", "HOME=/x\0RANK=3\0LOCAL_RANK=1\0WORLD_SIZE=16\0SLURM_JOB_ID=99\0"s);
  HostProcesses processes(root_.string());
  const HostProcess p = processes.look(4711);
  EXPECT_EQ(p.visible_pid, 4711);
  EXPECT_EQ(p.comm, "pt) (main");
  EXPECT_EQ(p.user, "54321");  // has no name here
  EXPECT_EQ(p.command(), "python3");
  EXPECT_EQ(p.arguments, (std::vector<std::string>{"/usr/bin/python3", "train.py", "--api-key", "***", "--lr"}));
  EXPECT_EQ(p.memory_bytes, 2048 * 1024);
  EXPECT_EQ(p.threads, 7);
  EXPECT_EQ(p.start_ns, 1'700'000'050'000'000'000);
  EXPECT_FALSE(p.cpu_pct) << "one look knows no rate";
  EXPECT_EQ(p.container, kId.substr(0, 12));
  EXPECT_EQ(p.slurm_job, "99");
  EXPECT_EQ(p.rank, 3);
  EXPECT_EQ(p.local_rank, 1);
  EXPECT_EQ(p.world_size, 16);
}

TEST_F(ProcTree, ProcessorTimeIsADifferenceOfTwoLooks) {
  HostProcesses processes(root_.string());
  process(10, "a", 100);
  const int64_t begin = monotonic_ns();
  processes.look(10);
  ::usleep(100'000);
  process(10, "a", 110);
  const HostProcess p = processes.look(10);
  ASSERT_TRUE(p.cpu_pct);
  const double longest_s = static_cast<double>(monotonic_ns() - begin) * 1e-9;
  EXPECT_LE(*p.cpu_pct, 100.0 * 0.1 / 0.1 + 0.1);
  EXPECT_GE(*p.cpu_pct, 100.0 * 0.1 / longest_s - 0.1);
  process(10, "b", 500, 9999);  // the number was given out again
  EXPECT_FALSE(processes.look(10).cpu_pct);
}

TEST_F(ProcTree, OursIsAsTheKernelSays) {
  HostProcesses processes("/proc");
  const HostProcess p = processes.look(::getpid());
  if (!processes.sees_host()) GTEST_SKIP() << "in a process namespace";
  EXPECT_EQ(p.visible_pid, ::getpid());
  EXPECT_GT(p.memory_bytes.value_or(0), 1 << 20);
  EXPECT_FALSE(p.user.empty());
  EXPECT_LT(std::abs(p.start_ns.value_or(0) - unix_ns()), int64_t{3600} * 1'000'000'000);
}

TEST_F(ProcTree, AbsentProcessesSayWhy) {
  HostProcesses processes(root_.string());
  EXPECT_EQ(processes.look(77).unknown, "ended, or hidden from this user");
  EXPECT_FALSE(processes.look(0).unknown.empty());
  EXPECT_FALSE(processes.look(-5).unknown.empty());
}

TEST_F(ProcTree, InAContainerANumberAloneProvesNothing) {
  space("pid:[4026532561]");
  process(4711, "sshd", 1);
  process(12, "python", 1);
  opens(12, "/dev/nvidia-uvm");
  HostProcesses processes(root_.string());
  ASSERT_FALSE(processes.sees_host());
  // 4711 is some other process of ours: it has no device open.
  const HostProcess several = processes.look(4711, "/dev/nvidia-uvm", false);
  EXPECT_EQ(several.visible_pid, 0);
  EXPECT_EQ(several.unknown, "pid of the host, not known in this container");
  const HostProcess alone = processes.look(4711, "/dev/nvidia-uvm", true);
  EXPECT_EQ(alone.visible_pid, 12);
  EXPECT_TRUE(alone.inferred);
  EXPECT_EQ(alone.comm, "python");
  // A second holder: nobody can tell.
  process(13, "python", 1);
  opens(13, "/dev/nvidia-uvm");
  EXPECT_EQ(processes.look(4711, "/dev/nvidia-uvm", true).visible_pid, 0);
  // A driver that translates numbers names one that has the device open.
  EXPECT_EQ(processes.look(13, "/dev/nvidia-uvm", false).visible_pid, 13);
}

TEST_F(ProcTree, NamespacesInsideOursAreSearched) {
  process(900, "python", 1, 5000, "900\t17");
  HostProcesses processes(root_.string());
  EXPECT_EQ(processes.look(17).visible_pid, 900);
  EXPECT_EQ(processes.look(18).visible_pid, 0);
  process(901, "python", 1, 5000, "901\t17");
  EXPECT_EQ(HostProcesses(root_.string()).look(17).visible_pid, 0) << "two namespaces use 17";
}

TEST_F(ProcTree, ProcessesOfTheNamespaceThatListsThemAreNotLookedInto) {
  space("pid:[4026531836]");
  process(900, "python", 1, 5000, "900\t17");
  process(901, "python", 1, 5000, "901\t17");   // would make 17 ambiguous
  for (const auto& [pid, target] : {std::pair{"900", "pid:[4026532561]"}, {"901", "pid:[4026531836]"}}) {
    fs::create_directories(root_ / pid / "ns");
    fs::create_symlink(target, root_ / pid / "ns/pid");
  }
  EXPECT_EQ(HostProcesses(root_.string()).look(17).visible_pid, 900);
  write("self/status", "NSpid:\t8000\t5\n");   // now it is an outer namespace that lists them
  EXPECT_EQ(HostProcesses(root_.string()).look(17).visible_pid, 0);
}

TEST_F(ProcTree, AProcessHereIsReadWhateverItsNumberMeansElsewhere) {
  process(900, "python", 1, 5000, "900\t17");
  const HostProcess found = HostProcesses(root_.string()).look_here(900);
  EXPECT_EQ(found.visible_pid, 900);
  EXPECT_EQ(found.comm, "python");
  EXPECT_EQ(found.parent, 1);
  EXPECT_EQ(HostProcesses(root_.string()).look_here(17).visible_pid, 0);
}

TEST_F(ProcTree, TheHostsProcIsUsedWhereItIsMounted) {
  space("pid:[4026532561]");
  write("self/status", "NSpid:\t8000\t5\n");
  process(4711, "python", 1);
  HostProcesses processes(root_.string());
  EXPECT_TRUE(processes.sees_host());
  EXPECT_EQ(processes.look(4711).visible_pid, 4711);
}

TEST_F(ProcTree, DamagedFilesAreNoNumbers) {
  write("5/stat", "5 (x");
  write("5/status", std::string("Uid:\tten\nVmRSS:\t\xff\n"));
  write("6/stat", "\0\x1b)("s);
  write("7/stat", "7 (\x1b[2J) S 1 1");
  HostProcesses processes(root_.string());
  EXPECT_EQ(processes.look(5).visible_pid, 0);
  EXPECT_EQ(processes.look(6).visible_pid, 0);
  const HostProcess p = processes.look(7);
  EXPECT_EQ(p.comm, "\x1b[2J");
  EXPECT_FALSE(p.threads);
  EXPECT_FALSE(p.start_ns);
}

TEST(Command, IsTheProgramWithoutItsFolders) {
  HostProcess p;
  p.comm = "short";
  EXPECT_EQ(p.command(), "short");
  p.arguments = {"/opt/a b/python", "x"};
  EXPECT_EQ(p.command(), "a");  // a title and a path with a blank look alike; what comes first is taken
  p.arguments = {"./run/"};
  EXPECT_EQ(p.command(), "./run/");
  p.arguments = {"ray::train"};
  EXPECT_EQ(p.command(), "ray::train");
}

struct PlacementCase {
  std::string cgroup, runtime, container, pod, job, step;
};

TEST(PlacementOf, KnowsTheRuntimes) {
  const std::string uid = "12345678-90ab-cdef-1234-567890abcdef", uid_ = "12345678_90ab_cdef_1234_567890abcdef";
  const std::string id = kId.substr(0, 12);
  const PlacementCase cases[] = {
      {"12:devices:/docker/" + kId + "\n11:memory:/docker/" + kId + "\n", "docker", id, "", "", ""},
      {"0::/system.slice/docker-" + kId + ".scope", "docker", id, "", "", ""},
      {"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + uid_ + ".slice/cri-containerd-" + kId +
           ".scope",
       "containerd", id, uid, "", ""},
      {"4:cpu:/kubepods/besteffort/pod" + uid + "/" + kId, "container", id, uid, "", ""},
      {"0::/system.slice/containerd.service/kubepods-pod" + uid_ + ".slice:cri-containerd:" + kId, "containerd", id, "",
       "", ""},
      {"0::/kubepods.slice/kubepods-pod" + uid_ + ".slice/crio-" + kId + ".scope/container", "cri-o", id, uid, "", ""},
      {"0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + kId + ".scope", "podman", id, "", "",
       ""},
      {"9:cpu:/lxc/web1", "lxc", "web1", "", "", ""},
      {"0::/lxc.payload.web1/system.slice", "lxc", "web1", "", "", ""},
      {"5:memory:/slurm/uid_1000/job_4711/step_0/task_3", "", "", "", "4711", "0"},
      {"5:memory:/slurm_node1/uid_1000/job_4711/step_batch", "", "", "", "4711", "batch"},
      {"0::/system.slice/slurmstepd.scope/job_88/step_extern/user/task_0", "", "", "", "88", "extern"},
      {"0::/user.slice/job_5/session.scope", "", "", "", "", ""},
      {"0::/docker/not-an-id", "", "", "", "", ""},
      {"0::/", "", "", "", "", ""},
      {"nonsense\n::\n\n1:2", "", "", "", "", ""},
  };
  for (const PlacementCase& c : cases) {
    const Placement p = placement_of(c.cgroup);
    EXPECT_EQ(p.container_runtime, c.runtime) << c.cgroup;
    EXPECT_EQ(p.container, c.container) << c.cgroup;
    EXPECT_EQ(p.pod, c.pod) << c.cgroup;
    EXPECT_EQ(p.slurm_job, c.job) << c.cgroup;
    EXPECT_EQ(p.slurm_step, c.step) << c.cgroup;
  }
}

}  // namespace
}  // namespace profgpu
