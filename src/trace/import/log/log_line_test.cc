#include "trace/import/log/log_line.h"

#include <gtest/gtest.h>

namespace profgpu {
namespace {

struct Labelled {
  const char* raw;
  int rank;
  const char* node;
  const char* message;
};

TEST(LogLine, LabelsOfLaunchersAreTakenOff) {
  const Labelled all[] = {
      {"[rank3]: hello", 3, "", "hello"},
      {"[rank3]:[W512 12:00:00.1 x.cpp:7] Warning", 3, "", "[W512 12:00:00.1 x.cpp:7] Warning"},
      {"[default12]:hello", 12, "", "hello"},
      {"[Rank 7] (after 20 iterations) memory", 7, "", "(after 20 iterations) memory"},
      {" 3: hello", 3, "", "hello"},
      {"12: [rank12]: hello", 12, "", "hello"},
      {"[1,5]<stdout>:hello", 5, "", "hello"},
      {"node07: hello", -1, "node07", "hello"},
      {"gpu-12.cluster.local7: [rank3]: hello", 3, "gpu-12.cluster.local7", "hello"},
      {"(RayTrainWorker pid=7, ip=10.0.0.1) hello", -1, "10.0.0.1", "hello"},
      {"step1: hello", -1, "", "step1: hello"},
      {"host:64904:64904 [0] NCCL INFO x", -1, "", "host:64904:64904 [0] NCCL INFO x"},
      {"iteration 1/2: x", -1, "", "iteration 1/2: x"},
  };
  for (const Labelled& l : all) {
    const LogLine line = log_line(l.raw, 1);
    EXPECT_EQ(line.rank, l.rank) << l.raw;
    EXPECT_EQ(line.node, l.node) << l.raw;
    EXPECT_EQ(line.message, l.message) << l.raw;
  }
}

TEST(LogLine, HeadsOfLoggersAreTakenOff) {
  const char* const all[] = {
      "2024-05-01T12:00:00.123000000Z hello",
      "2024-05-01T12:00:00.123+02:00 hello",
      "2024-05-01 12:00:00.123 | INFO     | __main__:train:57 - hello",
      "05/01/2024 12:00:00,123 - INFO - __main__ - hello",
      "[2024-05-01 12:00:00,123] [INFO] [logging.py:96:log_dist] [Rank 0] hello",
      "2024-05-01 12:00:00,123 - root - INFO - hello",
      "[rank0]:[titan] 2024-05-01 12:00:00,123 - root - INFO - hello",
      "[INFO|trainer.py:1143] 2024-05-01 12:00:00,123 >> hello",
      "2024-05-01T12:00:00.123 | INFO | hello",
      "[2024-05-01 12:00:00.123] hello\r",
  };
  for (const char* raw : all) {
    const LogLine line = log_line(raw, 1);
    EXPECT_EQ(line.message, "hello") << raw;
    ASSERT_TRUE(line.printed_ns.has_value()) << raw;
    EXPECT_EQ(*line.printed_ns, 1714564800123000000) << raw;
  }
  EXPECT_FALSE(log_line("[2024-15-01 12:00:00] hello", 1).printed_ns.has_value());
  EXPECT_EQ(log_line("INFO:root:hello", 1).message, "hello");
}

TEST(LogLine, EscapesAreStripped) {
  std::string text = "\x1b[31mstep:  2\x1b[0m \x1b]0;title\x07loss\x1b[";
  strip_escapes(text);
  EXPECT_EQ(text, "step:  2 loss");
}

TEST(LogLine, NumbersAsProgramsPrintThem) {
  EXPECT_EQ(printed_number("  1,234,567.5 x"), 1234567.5);
  EXPECT_EQ(printed_number("1.252221E+01 |"), 12.52221);
  EXPECT_EQ(printed_number("12.3K"), 12300);
  EXPECT_EQ(printed_number("'2.317'"), 2.317);
  EXPECT_EQ(printed_number("3.").value_or(0), 3);
  EXPECT_EQ(printed_number("1, 2").value_or(0), 1);
  for (const char* none : {"nan", "inf", "-", "", ".", "e5", "x1"})
    EXPECT_FALSE(printed_number(none).has_value()) << none;
  EXPECT_EQ(leading_ms("2152.2 |"), 2152200000);
  EXPECT_EQ(leading_seconds("0.5120001"), 512000100);
  EXPECT_EQ(leading_bytes("5.52GiB(5.81%)"), 5927054868);
  EXPECT_EQ(leading_bytes("2.0 KB"), 2048);
}

TEST(LogLine, WordsAreFoundWhereverTheyStand) {
  LineScan scan;
  scan.add("time (ms)", 1);
  scan.add("time (s)", 2);
  scan.add("zz", 4);
  for (size_t at = 0; at < 40; ++at) {
    std::string text(49, '.');
    text.replace(at, 9, "time (ms)");
    const size_t size = text.size();
    text.append(64, '\0');
    EXPECT_EQ(scan(text.data(), text.data() + size), 1u) << at;
    EXPECT_EQ(scan(text.data(), text.data() + at + 8), 0u) << at;  // cut off
    EXPECT_EQ(scan(text.data() + at + 1, text.data() + size), 0u) << at;
  }
  std::string all = "time (s) zz time (ms)";
  const size_t size = all.size();
  all.append(64, '\0');
  EXPECT_EQ(scan(all.data(), all.data() + size), 7u);
}

TEST(LogLine, WhatIsQuotedIsPrintableAndHasNoSecrets) {
  EXPECT_EQ(quotable(" a\x1b[31mb\tc\x01 "), "ab c");
  EXPECT_EQ(quotable("HF_TOKEN=hf_abcdefghijklmnopqrst x"), "HF_TOKEN=*** x");
  EXPECT_LE(quotable(std::string(5000, 'x')).size(), 243u);
}

TEST(LogLine, HeadsOfContainersAndJournals) {
  for (const Labelled& l : {Labelled{"trainer-1  | hello", -1, "trainer-1", "hello"},
                            Labelled{"trainer_12 | [rank3]: hello", 3, "trainer_12", "hello"},
                            Labelled{"May 01 12:00:00 gpu01 python[4711]: hello", -1, "gpu01", "hello"},
                            Labelled{"May 01 12:00:00 hello", -1, "", "hello"},
                            Labelled{"epoch 1 | hello", -1, "", "epoch 1 | hello"},
                            Labelled{"May 01 12:00:00 iter 0: hello", -1, "", "iter 0: hello"}}) {
    const LogLine line = log_line(l.raw, 1);
    EXPECT_EQ(line.rank, l.rank) << l.raw;
    EXPECT_EQ(line.node, l.node) << l.raw;
    EXPECT_EQ(line.message, l.message) << l.raw;
  }
  EXPECT_TRUE(log_line("May 01 12:00:00 hello", 1).headed);
  EXPECT_EQ(log_line("(RayTrainWorker pid=7, ip=10.0.0.1) hello", 1).pid, 7);
}

TEST(LogNumber, CommasOfOtherLanguages) {
  for (const char* text : {"step_time: 0,251s", "loss=0,25 | x", "loss 0,2517"}) EXPECT_TRUE(has_decimal_comma(text)) << text;
  for (const char* text : {"devices=0,1", "devices=0,1,2,3", "0,251", "12:00:00,123 - x", "tokens: 1,164,000", "x: 10,251",
                           "shape: 0,25,3"})
    EXPECT_FALSE(has_decimal_comma(text)) << text;
  std::string line = "2024-05-01 12:00:00,123 step 1 loss 2,317 time 0,251s ids 1,2,3 tokens 1,164,000";
  point_for_comma(line);
  EXPECT_EQ(line, "2024-05-01 12:00:00.123 step 1 loss 2.317 time 0.251s ids 1,2,3 tokens 1,164,000");
}

}  // namespace
}  // namespace profgpu
