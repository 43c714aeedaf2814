
#include "devices/nvml_stage_test.h"

namespace profgpu {
namespace {

class NvmlProcesses : public NvmlStage {
 protected:
  const ProcessSample* find(int64_t pid) {
    reading_ = read_all();
    EXPECT_TRUE(reading_.has_processes);
    for (const ProcessSample& p : reading_.processes)
      if (p.pid == pid) return &p;
    return nullptr;
  }
  Reading reading_;
};

TEST_F(NvmlProcesses, MemoryUseAndType) {
  open("device 0\nprocess 11 C memory=5000000000 sm=80 mem=30 enc=1\n"
       "process 12 G memory=1000\nprocess 13 M memory=77\n");
  const ProcessSample* p = find(11);
  ASSERT_TRUE(p);
  EXPECT_EQ(p->type, 'C');
  EXPECT_EQ(p->memory_bytes, 5000000000);
  EXPECT_EQ(p->utilization_pct, 80.0);
  EXPECT_EQ(p->memory_utilization_pct, 30.0);
  EXPECT_EQ(p->encoder_pct, 1.0);
  p = find(12);
  ASSERT_TRUE(p);
  EXPECT_EQ(p->type, 'G');
  EXPECT_EQ(p->utilization_pct, 0.0) << "the driver lists who did something";
  p = find(13);
  ASSERT_TRUE(p);
  EXPECT_EQ(p->type, 'M');
}

TEST_F(NvmlProcesses, ComeAndGo) {
  open("clock held\ndevice 0\nprocess 11 C from=0.15 until=0.4 memory=ramp,0,1000000,0.4\n");
  EXPECT_FALSE(find(11));
  pass(0.2);
  const ProcessSample* p = find(11);
  ASSERT_TRUE(p);
  const int64_t before = *p->memory_bytes;
  pass(0.06);
  p = find(11);
  ASSERT_TRUE(p);
  EXPECT_GT(*p->memory_bytes, before);
  pass(0.25);
  EXPECT_FALSE(find(11));
}

TEST_F(NvmlProcesses, OneInSeveralListsIsOne) {
  open("device 0\nprocess 11 C memory=500\nprocess 11 G memory=500\nprocess 11 M memory=500\n");
  ASSERT_TRUE(find(11));
  EXPECT_EQ(reading_.processes.size(), 1U);
}

TEST_F(NvmlProcesses, UnknownOrImpossibleMemoryIsAbsent) {
  open("device 0\nprocess 11 C memory=na\nprocess 12 C memory=1e15\n");
  for (const int64_t pid : {11, 12}) {
    const ProcessSample* p = find(pid);
    ASSERT_TRUE(p);
    EXPECT_FALSE(p->memory_bytes) << pid;
  }
}

TEST_F(NvmlProcesses, RowsOfNobodyAreLeftOut) {
  open("device 0\nprocess 11 C memory=500 sm=40\nprocess 12 C memory=500\ngarbage_rows 100\n");
  find(11);
  const ProcessSample* p = find(11);
  ASSERT_TRUE(p);
  EXPECT_EQ(reading_.processes.size(), 2U);
  EXPECT_EQ(p->utilization_pct, 40.0);
  p = find(12);
  ASSERT_TRUE(p);
  EXPECT_EQ(p->utilization_pct, 0.0);
}

TEST_F(NvmlProcesses, MoreThanThereIsRoomFor) {
  std::string text = "device 0\n";
  for (int i = 1; i <= 700; ++i) text += "process " + std::to_string(i) + " C memory=1000 sm=1\n";
  open(text);
  ASSERT_TRUE(find(700));
  EXPECT_EQ(reading_.processes.size(), 700U);
  EXPECT_EQ(find(650)->utilization_pct, 1.0);
}

TEST_F(NvmlProcesses, TheLongRowsOf535) {
  const std::string rest =
      "process_struct 535\ndevice 0\nprocess 11 C memory=1111\nprocess 12 C memory=2222\nprocess 13 C memory=3333\n";
  for (const std::string missing : {"", "missing nvmlDeviceGetComputeRunningProcesses_v2\n"}) {
    open("driver 535.54.03\n" + missing + rest);
    const ProcessSample* p = find(13);
    ASSERT_TRUE(p) << missing;
    EXPECT_EQ(p->memory_bytes, 3333);
    EXPECT_EQ(reading_.processes.size(), 3U);
    backend.reset();
  }
}

TEST_F(NvmlProcesses, AfterwardsTheRowsAreShortAgain) {
  open("driver 535.86.05\ndevice 0\nprocess 11 C memory=1111\nprocess 12 C memory=2222\n");
  const ProcessSample* p = find(12);
  ASSERT_TRUE(p);
  EXPECT_EQ(p->memory_bytes, 2222);
}

TEST_F(NvmlProcesses, NotAskedIsNotNone) {
  open("device 0\nprocess 11 C memory=1111\n");
  EXPECT_FALSE(read(0, {monotonic_ns(), false, true}).has_processes);
}

TEST_F(NvmlProcesses, ADriverThatRefusesSaysNothing) {
  open("device 0\nerror nvmlDeviceGetComputeRunningProcesses_v3 4\nprocess 11 C memory=1111\n");
  EXPECT_FALSE(read_all().has_processes);
}

}  // namespace
}  // namespace profgpu
