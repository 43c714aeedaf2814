#include "trace/import/log/log_reader.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace profgpu
