
#include <gtest/gtest.h>

#include <algorithm>

#include "support/read_inputs.h"
#include "support/test_folder.h"

namespace profgpu {
namespace {

class SamplesTest : public testing::Test {
 protected:
  [[nodiscard]] std::string write(const std::string& name, const std::string& text) const {
    return folder_.write(name, text);
  }
  // Rows `from` up to `end`, 0.1 s apart, of devices 0 and 1.
  static std::string rows(int from, int end) {
    std::string text = "time_ns,device,name,uuid,utilization_pct,energy_j\n";
    for (int i = from; i < end; ++i)
      for (int d : {1, 0})
        text += std::to_string(1'800'000'000'000'000'000 + i * 100'000'000LL + d) + "," + std::to_string(d) +
                ",Test GPU,GPU-" + std::to_string(d) + "," + std::to_string(3 * i) + "," + std::to_string(i) + "\n";
    return text;
  }
  TestFolder folder_;
};

constexpr const char* kTrace =
    R"({"distributedInfo":{"rank":0},"traceEvents":[
{"ph":"X","cat":"cpu_op","name":"aten::add","pid":1,"tid":1,"ts":10,"dur":5},
{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":12,"dur":3,"args":{"device":0,"stream":7,"correlation":1}}]})";

TEST_F(SamplesTest, ALogIsATraceOfSamplesAlone) {
  auto inputs = read_inputs({write("gpu.csv", rows(0, 10))}, {});
  ASSERT_TRUE(inputs) << inputs.error().message;
  ASSERT_EQ(inputs->ranks.size(), 1u);
  const Trace& trace = inputs->ranks[0].trace;
  EXPECT_TRUE(trace.only_samples());
  EXPECT_EQ(trace.samples.devices.size(), 2u);
  EXPECT_EQ(trace.samples.series.size(), 4u);
  EXPECT_EQ(trace.events, 20);
  EXPECT_TRUE(trace.issues.empty());
  EXPECT_EQ(inputs->sources[0].format, "samples");
  EXPECT_EQ(inputs->sources[0].rank, 0);
  EXPECT_TRUE(inputs->sources[0].issues.empty());
  EXPECT_TRUE(inputs->samples.empty());
}

TEST_F(SamplesTest, ADeviceWithoutValuesAtTheEndIsSaid) {
  std::string text = rows(0, 20);
  for (int i = 20; i < 60; ++i)
    for (const char* of_device : {",0,Test GPU,GPU-0,,\n", ",1,Test GPU,GPU-1,5,9\n"})
      text += std::to_string(1'800'000'000'000'000'000 + i * 100'000'000LL) + of_device;
  auto inputs = read_inputs({write("gpu.csv", text)}, {});
  ASSERT_TRUE(inputs) << inputs.error().message;
  const auto& issues = inputs->sources[0].issues;
  ASSERT_EQ(issues.size(), 1u);
  EXPECT_EQ(issues[0].text,
            "GPU 0 has no values in the last 4.0 s of 5.9: was it lost? Its figures are of the time before");
}

TEST_F(SamplesTest, PiecesOfARotatedLogAreOne) {
  const std::string newest = write("gpu.csv", rows(20, 30)), old = write("gpu.csv.1", rows(10, 20)),
                    oldest = write("gpu.csv.2", rows(0, 11));
  auto inputs = read_inputs({newest, old, oldest}, {});
  ASSERT_TRUE(inputs) << inputs.error().message;
  ASSERT_EQ(inputs->ranks.size(), 1u);
  const SampleLog& log = inputs->ranks[0].trace.samples;
  ASSERT_EQ(log.devices.size(), 2u);
  ASSERT_EQ(log.series.size(), 4u);
  for (const SampleSeries& s : log.series) {
    EXPECT_EQ(s.time_ns.size(), 30u);
    EXPECT_TRUE(std::is_sorted(s.time_ns.begin(), s.time_ns.end()));
    EXPECT_EQ(s.value[29], s.metric == Metric::kEnergy ? 29 : 87);
  }
  EXPECT_EQ(log.ticks, 62);
  EXPECT_EQ(log.last_ns - log.first_ns, 2'900'000'001);
}

TEST_F(SamplesTest, BesideATraceTheyAreNoWindowOfIt) {
  const std::string trace = write("trace.json", kTrace);
  const std::string log = write("rank0.jsonl", "{\"time_ns\":1800000000000000000,\"device\":0,\"power_w\":1}\n");
  for (const auto& paths : {std::vector{log, trace}, std::vector{trace, log}, std::vector{folder_.string()}}) {
    auto inputs = read_inputs(paths, {});
    ASSERT_TRUE(inputs) << inputs.error().message;
    ASSERT_EQ(inputs->ranks.size(), 1u);
    EXPECT_EQ(inputs->ranks[0].trace.activity.size(), 1u);
    EXPECT_EQ(inputs->samples.devices.size(), 1u);
    EXPECT_TRUE(inputs->ranks[0].trace.samples.empty());
    for (const InputSource& s : inputs->sources) EXPECT_EQ(s.rank, s.format == "samples" ? -1 : 0);
  }
}

TEST_F(SamplesTest, DamageIsAnIssue) {
  const std::string text =
      "timestamp, utilization.gpu [%], serial\n2027/01/15 08:00:00.000, 5 %, 1\nx\n2027/01/15 08:0";
  auto inputs = read_inputs({write("gpu.csv", text)}, {});
  ASSERT_TRUE(inputs) << inputs.error().message;
  std::string kinds;
  for (const TraceIssue& i : inputs->sources[0].issues) kinds += std::string(trace_issue_name(i.kind)) + " ";
  EXPECT_EQ(kinds, "damaged truncated other unknown_rows ");
}

TEST_F(SamplesTest, WhatIsNoLogIsSaidToBeNone) {
  auto nothing = read_inputs({write("gpu.csv", "time_ns,device,power_w\n")}, {});
  ASSERT_FALSE(nothing);
  EXPECT_NE(nothing.error().message.find("gpu.csv"), std::string::npos);
  EXPECT_FALSE(read_inputs({write("loss.csv", "step,loss\n1,2\n")}, {}));
  auto trace = read_inputs({write("trace.json", kTrace)}, {});
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->sources[0].format, "kineto");
}

}  // namespace
}  // namespace profgpu
