// How runs end, as launchers, drivers, servers and libraries say it.
#include <gtest/gtest.h>

#include "trace/import/log/log_text_test.h"

namespace profgpu {
namespace {

struct EndLine {
  const char* line;
  LogEventKind kind;
  std::optional<int> rank = {};
  const char* node = "";
};

LogEvent only_event(std::string_view text) {
  const RunLog log = log_of(text);
  EXPECT_EQ(log.events.size(), 1u) << text;
  return log.events.empty() ? LogEvent{} : log.events[0];
}

TEST(RunEnd, ProcessesThatASignalOrACodeEnded) {
  for (const EndLine& c : {
           EndLine{"/var/spool/slurmd/job77/slurm_script: line 12: 40112 Killed                  python pretrain.py", LogEventKind::kKilled},
           EndLine{"Killed", LogEventKind::kKilled},
           EndLine{"Aborted (core dumped)", LogEventKind::kKilled},
           EndLine{"double free or corruption (out)", LogEventKind::kKilled},
           EndLine{"mpirun noticed that process rank 5 with PID 0 on node c3-12 exited on signal 9 (Killed).", LogEventKind::kKilled, 5, "c3-12"},
           EndLine{"mpirun noticed that process rank 5 with PID 0 on node c3-12 exited on signal 15 (Terminated).", LogEventKind::kTerminated, 5, "c3-12"},
           EndLine{"srun: error: c3-12: task 21: Killed", LogEventKind::kKilled, 21, "c3-12"},
           EndLine{"srun: error: c3-12: task 21: Segmentation fault (core dumped)", LogEventKind::kKilled, 21, "c3-12"},
           EndLine{"srun: error: c3-12: task 21: Exited with exit code 3", LogEventKind::kExitCode, 21, "c3-12"},
           EndLine{"srun: error: c3-12: task 21: Exited with exit code 137", LogEventKind::kKilled, 21, "c3-12"},
           EndLine{"srun: error: c3-12: task 21: Exited with exit code 143", LogEventKind::kTerminated, 21, "c3-12"},
           EndLine{"srun: error: Node failure on c3-12", LogEventKind::kNodeFailure, {}, "c3-12"},
           EndLine{"[2025-02-03 04:05:06,789] [ERROR] [launch.py:325:sigkill_handler] ['python', '-u', 'pretrain.py', '--local_rank=2'] exits with return code = -9",
                   LogEventKind::kKilled, 2},
           EndLine{"[2025-02-03 04:05:06,789] [ERROR] [launch.py:325:sigkill_handler] ['python', '-u', 'pretrain.py', '--local_rank=2'] exits with return code = 1",
                   LogEventKind::kExitCode, 2},
           EndLine{"subprocess.CalledProcessError: Command '['python', 'pretrain.py']' died with <Signals.SIGSEGV: 11>.", LogEventKind::kKilled},
           EndLine{"command terminated with exit code 137", LogEventKind::kKilled},
           EndLine{"RuntimeError: DataLoader worker (pid 991) is killed by signal: Killed.", LogEventKind::kKilled},
       }) {
    const LogEvent e = only_event(c.line);
    EXPECT_EQ(e.kind, c.kind) << c.line;
    EXPECT_EQ(e.rank, c.rank) << c.line;
    EXPECT_EQ(e.node, c.node) << c.line;
  }
  for (const char* prose : {"Killed processes are restarted", "the job was Aborted by line 7", "exits with return code = 0"})
    EXPECT_TRUE(log_of(prose).events.empty()) << prose;
}

TEST(RunEnd, WarningsAreNoEnd) {
  EXPECT_TRUE(log_of("step 1: loss 2.3, time 12ms\nUserWarning: Plan failed with a cudnnException: "
                     "CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR CUDNN_STATUS_NOT_SUPPORTED (Triggered internally at "
                     "Conv_v8.cpp:919.)\n").events.empty());
}

TEST(RunEnd, MemoryOfOtherDevicesAndOfHosts) {
  for (const EndLine& c : {
           EndLine{"RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB (NPU 3; 29.00 GiB total capacity; 27.50 GiB already allocated)",
                   LogEventKind::kOutOfMemory},
           EndLine{"RuntimeError: XPU out of memory. Tried to allocate 512.00 MiB (GPU  0)", LogEventKind::kOutOfMemory},
           EndLine{"RuntimeError: MPS backend out of memory (MPS allocated: 8.00 GB, max allowed: 9.07 GB).", LogEventKind::kOutOfMemory},
           EndLine{"ResourceExhaustedError: OOM when allocating tensor with shape[16,1024] and type float", LogEventKind::kOutOfMemory},
           EndLine{"c3-12:77:99 [2] NCCL WARN Cuda failure 'out of memory'", LogEventKind::kOutOfMemory, {}, "c3-12"},
           EndLine{"ERROR 02-03 04:05:06 [core.py:777] ValueError: No available memory for the cache blocks. Try increasing it.", LogEventKind::kOutOfMemory},
           EndLine{"ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.", LogEventKind::kHostOutOfMemory},
       }) {
    const LogEvent e = only_event(c.line);
    EXPECT_EQ(e.kind, c.kind) << c.line;
    EXPECT_EQ(e.node, c.node) << c.line;
  }
}

TEST(RunEnd, SizesHaveTheUnitsThatStandThere) {
  const RunLog log = log_of(
      "RuntimeError: CUDA out of memory. Tried to allocate 30.00 MiB (GPU 0; 2048.00 MiB total capacity; 512.50 MiB already "
      "allocated; 0 bytes free; 600.00 MiB reserved in total by PyTorch)\n");
  EXPECT_EQ(log.events.at(0).bytes, int64_t{30} << 20);
  const LogMemory& memory = log.memory.at(0);
  EXPECT_EQ(memory.capacity_bytes, int64_t{2} << 30);
  EXPECT_EQ(memory.allocated_bytes, (int64_t{512} << 20) + (1 << 19));
  EXPECT_EQ(memory.reserved_bytes, int64_t{600} << 20);
  const RunLog none = log_of("CUDA out of memory. Tried to allocate 3.00 GiB (GPU 0; 6.00 GiB total capacity; 0 bytes already allocated)\n");
  EXPECT_EQ(none.memory.at(0).allocated_bytes, 0);
}

constexpr const char* kElasticEnd = R"(iter 1: loss 2.3170, time 12.34ms, mfu 12.34%
E0203 04:05:06.000000 777 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: {0}) local_rank: 3 (pid: 991) of binary: /usr/bin/python
Traceback (most recent call last):
    sys.exit(main())
torch.distributed.elastic.multiprocessing.errors.ChildFailedError: 
============================================================
pretrain.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2025-02-03_04:05:08
  host      : c3-13
  rank      : 27 (local_rank: 3)
  exitcode  : {0} (pid: 992)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 992
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2025-02-03_04:05:06
  host      : c3-12
  rank      : 19 (local_rank: 3)
  exitcode  : {0} (pid: 991)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 991
============================================================
)";

std::string elastic_end(std::string_view code) {
  std::string text = kElasticEnd;
  for (size_t at = text.find("{0}"); at != text.npos; at = text.find("{0}")) text.replace(at, 3, code);
  return text;
}

// Not the first of its list, which is by rank and not by time.
TEST(RunEnd, TorchrunNamesTheFirstFailure) {
  for (const auto& [code, kind] : {std::pair("-9", LogEventKind::kKilled), std::pair("1", LogEventKind::kExitCode)}) {
    const RunLog log = log_of(elastic_end(code));
    ASSERT_EQ(log.events.size(), 2u) << code;
    EXPECT_FALSE(log.events[0].first_failure);
    const LogEvent& first = log.events[1];
    EXPECT_TRUE(first.first_failure) << code;
    EXPECT_EQ(first.kind, kind);
    EXPECT_EQ(first.rank, 19);
    EXPECT_EQ(first.node, "c3-12");
  }
  // An abort is what a watchdog or an exception of C++ ends with.
  EXPECT_FALSE(log_of(elastic_end("-6")).events.at(1).first_failure);
}

TEST(RunEnd, ErrorsThatFollowFromAnotherProcess) {
  for (const char* line :
       {"Traceback (most recent call last):\n(APIServer pid=70) RuntimeError: Engine core initialization failed. See root cause above.",
        "c3-12:77:99 [0] misc/socket.cc:58 NCCL WARN socketProgress: Connection closed by remote peer c3-13<46522>",
        "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
        "Traceback (most recent call last):\nRuntimeError: [pair.cc:525] Connection closed by peer [10.0.0.2]:1234"})
    EXPECT_TRUE(only_event(line).follows) << line;
  const LogEvent lost =
      only_event("c3-12:77:99 [4] ib_plugin.c:1615 NCCL WARN NET/IB : Got completion from peer 10.1.2.3<54862> with status=12 opcode=0 len=0");
  EXPECT_FALSE(lost.follows);
  EXPECT_EQ(lost.kind, LogEventKind::kNcclError);
  EXPECT_EQ(lost.peer, "10.1.2.3");
  EXPECT_EQ(lost.node, "c3-12");
  EXPECT_EQ(only_event("[rank5]:[E203 04:05:06.1 ProcessGroupNCCL.cpp:1746] [PG ID 0 PG GUID 0(default_pg) Rank 5] Received a dump signal "
                       "due to a collective timeout from  rank 34 and we will try our best.").rank, 34);
}

TEST(RunEnd, WatchdogsSayHowFarEachProcessGot) {
  const RunLog log = log_of(
      "[rank0]:[E203 04:05:06.1 ProcessGroupNCCL.cpp:629] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=52, "
      "OpType=ALLREDUCE, NumelIn=4096, NumelOut=4096, Timeout(ms)=600000) ran for 600020 milliseconds before timing out.\n"
      "[rank0]:[E203 04:05:06.2 ProcessGroupNCCL.cpp:2168] [PG ID 0 PG GUID 0(default_pg) Rank 0]  failure detected by watchdog at work "
      "sequence id: 52 PG status: last enqueued work: 55, last completed work: 51\n"
      "[rank1]:[E203 04:05:06.3 ProcessGroupNCCL.cpp:1960] [PG ID 0 PG GUID 0(default_pg) Rank 1] Received a dump signal due to a collective "
      "timeout from rank 0 and we will try our best. Last enqueued NCCL work: 51, last completed NCCL work: 51.\n");
  ASSERT_EQ(log.collectives.size(), 3u);
  EXPECT_EQ(log.collectives[0].op, "ALLREDUCE");
  EXPECT_EQ(log.collectives[0].elements, 4096);
  EXPECT_EQ(log.collectives[1].group, "0(default_pg)");
  EXPECT_EQ(log.collectives[1].timed_out, 52);
  EXPECT_EQ(log.collectives[1].enqueued, 55);
  EXPECT_EQ(log.collectives[2].rank, 1);
  EXPECT_EQ(log.collectives[2].enqueued, 51);
  EXPECT_EQ(log.collectives[2].completed, 51);
}

// The bracket has the rank within the group.
TEST(RunEnd, AWatchdogsRankIsThatOfTheJob) {
  const RunLog log = log_of(
      "[rank13]:[E203 04:05:06.3 ProcessGroupNCCL.cpp:1960] [PG ID 2 PG GUID 7(tp) Rank 1] Received a dump signal due to a collective "
      "timeout from rank 12 and we will try our best. Last enqueued NCCL work: 51, last completed NCCL work: 51.\n");
  ASSERT_EQ(log.collectives.size(), 1u);
  EXPECT_EQ(log.collectives[0].rank, 13);
  EXPECT_EQ(log.collectives[0].group, "7(tp)");
  EXPECT_FALSE(log.collectives[0].of_group);
}

// What people paste, and what `tail -1` keeps.
TEST(RunEnd, AnErrorAloneIsALog) {
  for (const char* text : {"RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 31.75 GiB total capacity)\n",
                           "ERROR 02-03 04:05:06 [core.py:777] ValueError: No available memory for the cache blocks.\n",
                           "mpirun noticed that process rank 5 with PID 0 on node c3-12 exited on signal 9 (Killed).\n",
                           "               NVRM: fallen off the bus and is not responding to commands.\n",
                           "[12.5] NVRM: GPU 0000:44:00.0: GPU has fallen off the bus.\n"})
    EXPECT_TRUE(head_of_log(text)) << text;
  for (const char* text : {"Why does RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB come up?\n", "Killed\n"})
    EXPECT_FALSE(head_of_log(text)) << text;
}

// A name, a quotation, a count or a denial has the same words.
TEST(RunEnd, WordsOfAnEndThatEndNothing) {
  const std::string step = "step 1 | loss: 2.3 | dt: 12ms\n";
  for (const char* line :
       {"WARNING: git failed: Command '['git', 'rev-parse']' returned non-zero exit status 128.", "Bus error counters: 0",
        "summary: Segmentation faults: 0", "INFO metrics: NODE_FAIL_COUNT 0", "INFO OUT_OF_MEMORY_RETRIES=3",
        "Tip: if you see 'CUDA error: out of memory' use a smaller batch.", "Hint: on NCCL error set NCCL_DEBUG=INFO",
        "No CUDA error: device healthy. CUDNN_STATUS_SUCCESS", "KeyboardInterrupt handler removed",
        "kernel: NVRM: Xid (PCI:0000:44:00): 63, pid='<unknown>', Row Remapper: New row marked for remapping"})
    EXPECT_TRUE(log_of(step + line + "\n").events.empty()) << line;
  for (const EndLine& c : {
           EndLine{"Fatal Python error: Segmentation fault", LogEventKind::kKilled},
           EndLine{"job.sh: line 9:  4711 Segmentation fault      (core dumped) python train.py", LogEventKind::kKilled},
           EndLine{"[node1:77] Signal: Bus error (7)", LogEventKind::kKilled},
           EndLine{"Traceback (most recent call last):\nKeyboardInterrupt", LogEventKind::kTerminated},
           EndLine{"Traceback (most recent call last):\nsubprocess.CalledProcessError: Command '['python', 'a.py']' returned "
                   "non-zero exit status 1.", LogEventKind::kExitCode},
           EndLine{"kernel: NVRM: Xid (PCI:0000:44:00): 79, pid=1, GPU has fallen off the bus.", LogEventKind::kDeviceError},
           EndLine{"{\"message\":\"CUDA error: an illegal memory access was encountered\"}", LogEventKind::kDeviceError},
       })
    EXPECT_EQ(only_event(c.line).kind, c.kind) << c.line;
}

// A request that failed, a destructor at the interpreter's exit: also with the errors that they follow from.
TEST(RunEnd, TracebacksOfWhatEndsNoProcess) {
  const std::string traceback = "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nValueError: seven\n";
  const std::string chained = traceback + "\nDuring handling of the above exception, another exception occurred:\n\n" + traceback;
  for (const char* head : {"ERROR:    Exception in ASGI application\n", "Exception ignored in: <function A.__del__ at 0x7f>\n",
                           "--- Logging error ---\n", "Task exception was never retrieved\n"}) {
    EXPECT_TRUE(log_of(head + chained).events.empty()) << head;
    EXPECT_EQ(log_of(head + chained + std::string(10, '\n') + traceback).events.size(), 1u) << head;
  }
  const RunLog gone = log_of("ERROR:    Exception in ASGI application\nTraceback (most recent call last):\n"
                             "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.\n");
  EXPECT_EQ(gone.events.size(), 1u);
}

}  // namespace
}  // namespace profgpu
