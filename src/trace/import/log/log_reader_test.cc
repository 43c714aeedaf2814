#include "trace/import/log/log_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "trace/import/log/log_text_test.h"

namespace profgpu {
namespace {

constexpr std::string_view kTwo =
    " iteration        1/    1000 | elapsed time per iteration (ms): 1000.5 | lm loss: 1.2E+01 |\n"
    "noise\r\n"
    " iteration        2/    1000 | elapsed time per iteration (ms): 500.0 | lm loss: 1.1E+01 |";

TEST(LogReader, AnyPiecesGiveTheSame) {
  for (size_t piece = 1; piece < 120; ++piece) {
    const RunLog log = log_of(kTwo, piece);
    ASSERT_EQ(log.ranks.size(), 1u) << piece;
    ASSERT_EQ(log.ranks[0].steps.size(), 2u) << piece;
    EXPECT_EQ(log.ranks[0].steps[0].duration_ns, 1000500000);
    EXPECT_EQ(log.ranks[0].steps[1].line, 3);
    EXPECT_EQ(log.lines, 3);
    EXPECT_EQ(log.text_bytes, static_cast<int64_t>(kTwo.size()));
  }
}

TEST(LogReader, ALongLineIsCutAndCounted) {
  for (const size_t piece : {size_t{1000}, size_t{1} << 18, size_t{5} << 20}) {
    std::string text(3 << 20, 'x');
    text += "\n" + std::string(kTwo);
    const RunLog log = log_of(text, piece);
    ASSERT_EQ(log.ranks.size(), 1u);
    EXPECT_EQ(log.ranks[0].steps.size(), 2u);
    EXPECT_EQ(log.ranks[0].steps[0].line, 2);
    EXPECT_EQ(log.cut_lines, 1) << piece;
  }
}

TEST(LogReader, DirtAroundLinesDoesNotMatter) {
  std::string text(1000, '\0');
  text += "\xff\xfe\x80\n\n\n" + std::string(kTwo) + "\n\x1b[2K\r";
  const RunLog log = log_of(text);
  ASSERT_EQ(log.ranks.size(), 1u);
  EXPECT_EQ(log.ranks[0].steps.size(), 2u);
}

TEST(LogReader, NothingIsNoLog) {
  EXPECT_TRUE(log_of("").empty());
  EXPECT_TRUE(log_of("hello\nworld\n").empty());
  EXPECT_TRUE(log_of("Error: something\nError\n").ranks.empty());
}

// Words of failures stand in any text: only what a program or its launcher printed is a log.
TEST(LogReader, TextAboutFailuresIsNoLog) {
  for (const char* text :
       {"# My project\n\nIf you get \"CUDA out of memory\", lower the batch size.\n", "nvmlDeviceGetMemoryErrorCounter\n",
        "try:\n    train()\nexcept torch.cuda.OutOfMemoryError:\n    pass\n", "hello\nMemoryError handling: see docs\n",
        "Python raises MemoryError when out of memory.\n", "- RuntimeError: CUDA error: means that a kernel failed\n"})
    EXPECT_FALSE(head_of_log(text)) << text;
  for (const char* text :
       {"[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n",
        "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=1.0.\n", "srun: error: node07: task 3: Killed\n",
        "2024-05-01 12:00:00,123 - root - ERROR - CUDA out of memory\n",
        "Traceback (most recent call last):\n  File \"a.py\", line 1\nMemoryError\n",
        "[12.5] NVRM: Xid (PCI:0000:10:00): 79, pid=1, GPU has fallen off the bus.\n"})
    EXPECT_TRUE(head_of_log(text)) << text;
}

TEST(LogReader, ProcessesAreToldApart) {
  std::string text;
  for (int step = 1; step <= 5; ++step)
    for (int rank = 0; rank < 3; ++rank)
      text += "[rank" + std::to_string(rank) + "]: iter " + std::to_string(step) + ": loss 2.5, time " +
              std::to_string(100 + rank) + ".00ms, mfu 10.0%\n";
  const RunLog log = log_of(text);
  ASSERT_EQ(log.ranks.size(), 3u);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(log.ranks[static_cast<size_t>(rank)].rank, rank);
    EXPECT_EQ(log.ranks[static_cast<size_t>(rank)].steps.size(), 5u);
    EXPECT_EQ(log.ranks[static_cast<size_t>(rank)].steps[4].duration_ns, (100 + rank) * 1000000);
  }
}

TEST(LogReader, RepeatedLinesOfOtherProcessesCountOnce) {
  std::string text;
  for (int step = 1; step <= 5; ++step)
    for (int copy = 0; copy < 4; ++copy) text += "iter " + std::to_string(step) + ": loss 2.5, time 100.00ms\n";
  EXPECT_EQ(log_of(text).ranks.at(0).steps.size(), 5u);
}

TEST(LogReader, ARestartGoesOn) {
  std::string text;
  for (int step = 1; step <= 5; ++step) text += "iter " + std::to_string(step) + ": loss 2.5, time 100.00ms\n";
  for (int i = 0; i < 100; ++i) text += "loading\n";
  for (int step = 4; step <= 8; ++step) text += "iter " + std::to_string(step) + ": loss 2.5, time 100.00ms\n";
  const RunLog log = log_of(text);
  EXPECT_EQ(log.ranks.at(0).steps.size(), 10u);
  ASSERT_EQ(log.events.size(), 1u);
  EXPECT_EQ(log.events[0].kind, LogEventKind::kRestart);
}

// Right after a crash, with few lines between: each line is a row, and other processes' copies of it are none.
TEST(LogReader, ARestartMayBeQuick) {
  std::string text;
  const auto add = [&](int from, int to) {
    for (int step = from; step <= to; ++step)
      for (int copy = 0; copy < 2; ++copy) text += "iter " + std::to_string(step) + ": loss 2.5, time 100.00ms\n";
  };
  add(1, 20);
  text += "Traceback (most recent call last):\nRuntimeError: NCCL communicator was aborted on rank 3.\n";
  add(11, 40);
  const RunLog log = log_of(text);
  EXPECT_EQ(log.ranks.at(0).steps.size(), 50u);
  ASSERT_EQ(log.events.size(), 2u);
  EXPECT_EQ(log.events[1].kind, LogEventKind::kRestart);
  EXPECT_EQ(log.events[1].step, 11);
}

TEST(LogReader, ARestartMayBeSilent) {
  std::string text;
  for (int step = 1; step <= 9; ++step)
    text += "2024-05-01 12:00:0" + std::to_string(step) + " - iter " + std::to_string(step) + ": loss 2.5, time 100.00ms\n";
  for (int step = 4; step <= 9; ++step)
    text += "2024-05-01 12:01:0" + std::to_string(step) + " - iter " + std::to_string(step) + ": loss 2.5, time 100.00ms\n";
  EXPECT_EQ(log_of(text).ranks.at(0).steps.size(), 15u);
}

std::string loop_lines(int from, int to, int ms = 100) {
  std::string text;
  for (int step = from; step <= to; ++step)
    text += "iter " + std::to_string(step) + ": loss 2.5, time " + std::to_string(ms) + ".00ms\n";
  return text;
}

int64_t restarts_in(const RunLog& log) {
  return std::ranges::count(log.events, LogEventKind::kRestart, &LogEvent::kind);
}

TEST(Runs, TrainingsOneBehindTheOther) {
  const RunLog log = log_of(loop_lines(0, 49) + "run 2: lr=1e-2\n" + loop_lines(0, 49, 200) + loop_lines(0, 49, 300));
  ASSERT_EQ(log.ranks.at(0).steps.size(), 150u);
  EXPECT_EQ(restarts_in(log), 2);
  ASSERT_EQ(log.run_lines, (std::vector<int64_t>{52, 102}));
  EXPECT_EQ(log.told_run, 2);
  for (const LogStep& s : log.ranks[0].steps) EXPECT_EQ(s.other_run, s.line < 102) << s.line;
}

// A last run of a few lines is still in its warm-up.
TEST(Runs, FiguresAreOfTheLastThatHasStepsEnough) {
  EXPECT_EQ(log_of(loop_lines(0, 49) + loop_lines(0, 19) + "Traceback (most recent call last):\nValueError: x\n" +
                   loop_lines(0, 2)).told_run, 1);
}

TEST(Runs, EpochsAreNone) {
  const RunLog log = log_of("Epoch 1/2\n" + loop_lines(0, 19) + "Epoch 2/2\n" + loop_lines(0, 19));
  EXPECT_EQ(log.ranks.at(0).steps.size(), 40u);
  EXPECT_TRUE(log.run_lines.empty());
  const RunLog again = log_of("Epoch 1/2\n" + loop_lines(0, 19) + "Epoch 2/2\n" + loop_lines(0, 19) + "Epoch 1/2\n" + loop_lines(0, 19));
  EXPECT_EQ(again.run_lines, (std::vector<int64_t>{44}));
}

TEST(Runs, AreKnownBesideAnyNumberOfErrors) {
  std::string text = loop_lines(1, 30);
  for (int i = 0; i < 20'001; ++i) text += "RuntimeError: CUDA error: an illegal memory access was encountered\n";
  EXPECT_EQ(log_of(text + loop_lines(11, 40)).run_lines.size(), 1u);
}

// Eight processes that are not told apart, of which two are a step behind, with other lines between.
TEST(Runs, ProcessesThatLagAreNone) {
  std::string text;
  for (int step = 10; step <= 500; step += 10)
    for (int process = 0; process < 8; ++process) {
      const int at = process < 6 ? step : step - 10;
      if (at > 0) text += loop_lines(at, at) + "a\nb\nc\nd\ne\nf\n";
    }
  const RunLog log = log_of(text);
  EXPECT_EQ(log.ranks.at(0).steps.size(), 50u);
  EXPECT_EQ(restarts_in(log), 0);
}

TEST(Runs, ManyProcesses) {
  std::string text;
  for (int step = 1; step <= 20; ++step)
    for (int process = 0; process < 64; ++process) text += loop_lines(step, step);
  EXPECT_EQ(log_of(text).ranks.at(0).steps.size(), 20u);
}

std::string megatron_lines(int from, int to, int64_t second) {
  std::string text;
  for (int step = from; step <= to; step += 10) {
    second += 10;
    char clock[16];
    std::snprintf(clock, sizeof clock, "%02d:%02d:%02d", static_cast<int>(second / 3600 % 24),
                  static_cast<int>(second / 60 % 60), static_cast<int>(second % 60));
    text += " [2024-05-0" + std::to_string(1 + second / 86400) + " " + clock + "] iteration " + std::to_string(step) +
            "/ 1000 | elapsed time per iteration (ms): 1000.0 | global batch size: 64 | lm loss: 7.1E+00 |\n";
  }
  return text;
}

// Behind its checkpoint, the next day, in the same file.
TEST(Runs, AJobGoesOnWhereItsNumbersDo) {
  const std::string saved = "saving checkpoint at iteration 500 to /ckpt\n  successfully saved checkpoint from iteration 500 to /ckpt\n";
  const std::string again = "using world size: 8, data-parallel size: 8\n  successfully loaded checkpoint from /ckpt at iteration 500\n";
  for (const std::string& between :
       {saved + again, saved + "[exiting program after 55.0 minutes] datetime: 2024-05-01 00:08:30\n",
        std::string("slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2024-05-01T00:08:30 DUE TO TIME LIMIT ***\n")}) {
    const RunLog log = log_of(megatron_lines(10, 500, 0) + between + megatron_lines(510, 1000, 86400));
    EXPECT_EQ(restarts_in(log), 1) << between;
    EXPECT_EQ(log.told_run, 1) << between;
    EXPECT_EQ(log.ranks.at(0).steps.size(), 100u) << between;
  }
  // What a program survives, and what a scheduler says some steps before the end, begin none.
  for (const char* between : {"Traceback (most recent call last):\nrequests.exceptions.ConnectionError: api.wandb.ai\n",
                              "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2024-05-01T00:08:30 DUE TO TIME LIMIT ***\n"})
    EXPECT_EQ(restarts_in(log_of(megatron_lines(10, 500, 0) + between + megatron_lines(510, 530, 500))), 0) << between;
}

TEST(Runs, OneRestartIsToldOnce) {
  std::string text;
  for (const auto& [from, to] : {std::pair(1, 30), std::pair(11, 40)}) {
    for (int step = from; step <= to; ++step)
      for (int rank = 0; rank < 4; ++rank)
        text += "[rank" + std::to_string(rank) + "]: " + loop_lines(step, step);
    if (from == 1) text += "[rank3]: RuntimeError: CUDA error: an illegal memory access was encountered\n";
  }
  const RunLog log = log_of(text);
  EXPECT_EQ(restarts_in(log), 1);
  for (const LogRank& r : log.ranks) EXPECT_EQ(std::ranges::count(r.steps, false, &LogStep::other_run), 30);
}

// Resumed with another batch on other devices.
TEST(Runs, SettingsAreEachRunsOwn) {
  const auto run = [](int mesh, int local, int from, int to, int minute) {
    std::string text = "[titan] 2024-12-05 12:00:00,100 - root - INFO - Building 1-D device mesh with ['dp_shard'], [" +
                       std::to_string(mesh) + "]\n[titan] 2024-12-05 12:00:10,100 - root - INFO - Trainer is initialized with local batch size " +
                       std::to_string(local) + ", global batch size 32, gradient accumulation steps 1, sequence length 2048, total steps 1000\n";
    for (int i = from; i <= to; i += 10)
      text += "[titan] 2024-12-05 12:" + std::to_string(minute) + ":" + std::to_string(10 + i / 10 % 50) +
              ",100 - root - INFO - step: " + std::to_string(i) + "  loss: 7.9  memory: 5.52GiB(5.81%)  tps: 8,192  mfu: 12.34%\n";
    return text;
  };
  const RunLog log = log_of(run(8, 4, 10, 300, 20) + run(4, 8, 310, 600, 30));
  ASSERT_EQ(log.ranks.at(0).steps.size(), 60u);
  EXPECT_EQ(log.ranks[0].steps.front().duration_ns, 1'000'000'000);
  EXPECT_EQ(log.ranks[0].steps.back().duration_ns, 2'000'000'000);
  EXPECT_EQ(log.setting("world_size"), 4);
  EXPECT_EQ(log.told_run, 1);
}

}  // namespace
}  // namespace profgpu
