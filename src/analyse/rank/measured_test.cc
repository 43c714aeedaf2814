#include "analyse/rank/measured.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "analyse/rank/collectives.h"
#include "analyse/rank/ops.h"
#include "analyse/rank/steps.h"
#include "base/statistics.h"
#include "support/hand_trace.h"
#include "support/trace_rows.h"
#include "trace/import/importer.h"

namespace profgpu {
namespace {

int64_t sum(const MeasuredSteps& m) {
  int64_t all = 0;
  for (const Makeup& part : m.makeup) all += part.total_ns;
  return all;
}

TEST(Measured, MakeupAddsUpToTheWallTimeOfTheMeasuredSteps) {
  std::vector<std::string> files = {"examples/resnet-demo.json.gz"};
  if (std::filesystem::exists("../shared/traces"))
    for (const auto& entry : std::filesystem::directory_iterator("../shared/traces"))
      if (entry.is_regular_file() && entry.file_size() < (4u << 20)) files.push_back(entry.path());
  int checked = 0;
  for (const std::string& file : files) {
    const auto imported = import_file(file, {});
    if (!imported) continue;
    const Facts facts(imported->trace, {});
    const MeasuredSteps& m = facts.get<MeasuredSteps>();
    EXPECT_EQ(m.wall_ns, total_length(facts.get<Steps>().measured_time())) << file;
    EXPECT_GE(m.wall_ns, facts.get<Steps>().measured_wall_ns() / 2) << file;
    EXPECT_EQ(sum(m), m.wall_ns) << file;
    EXPECT_EQ(sum_of(m.phases, [](const NamedTime& phase) { return phase.time.total_ns; }), m.wall_ns) << file;
    ++checked;
  }
  EXPECT_GE(checked, 1);
}

TEST(Measured, WorkHasTheRangesAroundAllItsCalls) {
  HandTrace hand;
  for (int i = 0; i < 2; ++i) {
    const int at = 1000 * i;
    hand.range("ProfilerStep#" + std::to_string(i), at, at + 1000);
    hand.python("nn.Module: Block_" + std::to_string(i), at + 10, at + 500).range("mlp", at + 20, at + 400);
    hand.python("file.py(3): forward", at + 25, at + 390);
    hand.op("aten::mm", at + 30, at + 60).kernel("gemm", at + 40, at + 50, at + 60, at + 100);
    hand.op("aten::add", at + 70, at + 90).kernel("add", at + 75, at + 80, at + 110, at + 120);
    hand.op("aten::add", at + 600, at + 700).kernel("add", at + 605, at + 610, at + 620, at + 630);
  }
  const Trace trace = hand.build();
  const Facts facts(trace, {});
  std::map<std::string, std::vector<std::string>> within;
  for (const MeasuredWork& w : facts.get<MeasuredSteps>().work) within[w.name] = w.within;
  EXPECT_EQ(within.at("gemm"), (std::vector<std::string>{"mlp", "nn.Module: Block"}));
  EXPECT_TRUE(within.at("add").empty()) << "one of its calls is beside them";
}

// Two lines of train() are one function; a device's host is not judged by it.
TEST(Measured, FunctionsOfAHostAloneAreThoseOfTheProgram) {
  const auto functions = [](bool kernel) {
    HandTrace hand;
    for (int i = 0; i < 2; ++i) {
      const int at = 1000 * i;
      hand.range("ProfilerStep#" + std::to_string(i), at, at + 1000);
      hand.python("train.py(10): train", at, at + 1000).python("data.py(4): load_batch", at + 100, at + 700);
      hand.python("json/decoder.py(343): raw_decode", at + 200, at + 600);
      if (kernel) hand.op("aten::mm", at + 800, at + 900).kernel("gemm", at + 840, at + 850, at + 860, at + 900);
    }
    const Trace trace = hand.build();
    const Facts facts(trace, {});
    std::vector<std::string> all;
    for (const MeasuredFunction& f : facts.get<MeasuredSteps>().functions)
      all.push_back(f.name + " " + f.file + " " + std::to_string(f.total_ns / 1000));
    return all;
  };
  EXPECT_EQ(functions(false), (std::vector<std::string>{"load_batch data.py 1200", "train train.py 800"}));
  EXPECT_TRUE(functions(true).empty());
}

TEST(Measured, HostTimesOfOpsLeaveWarmUpOut) {
  HandTrace hand;
  hand.range("ProfilerStep#0", 0, 1000).op("aten::mm", 10, 510);
  for (int i = 1; i < 4; ++i)
    hand.range("ProfilerStep#" + std::to_string(i), 900 + i * 100, 1000 + i * 100)
        .op("aten::mm", 910 + i * 100, 920 + i * 100);
  hand.op("aten::mm", 1400, 1450);   // after the last step
  const Trace trace = hand.build();
  const Facts facts(trace, {});
  ASSERT_EQ(facts.get<Steps>().measured().size(), 3u);
  const auto& rows = facts.get<Ops>().rows;
  const auto mm = std::find_if(rows.begin(), rows.end(), [](const OpRow& r) { return r.text == "aten::mm"; });
  ASSERT_NE(mm, rows.end());
  EXPECT_EQ(mm->calls, 5);
  EXPECT_EQ(mm->measured_calls, 3);
  EXPECT_EQ(mm->measured_self_ns, 30'000);
}

TEST(Measured, CollectivesLeaveWarmUpOut) {
  test::TraceRows rows;
  test::TraceRows::Message message;
  message.name = "allreduce";
  rows.annotation("ProfilerStep#0", 0, 1000).collective(message, 100, 500);
  for (int i = 1; i < 4; ++i)
    rows.annotation("ProfilerStep#" + std::to_string(i), 900 + i * 100, 100).collective(message, 910 + i * 100, 20);
  const Trace trace = rows.finish();
  const Facts facts(trace, {});
  const auto& all = facts.get<Collectives>().rows;
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].calls, 4);
  EXPECT_EQ(all[0].total_ns, 560);
  EXPECT_EQ(all[0].measured_calls, 3);
  EXPECT_EQ(all[0].measured_ns, 60);
}

}  // namespace
}  // namespace profgpu
