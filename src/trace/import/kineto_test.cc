#include "trace/import/kineto.h"

#include <fmt/format.h>

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/read_inputs.h"
#include "support/test_folder.h"
#include "trace/import/kineto_window.h"

namespace profgpu {
namespace {

class KinetoTest : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    return folder_.write(name, text);
  }
  [[nodiscard]] Result<Trace> read(const std::string& text, int threads = 2) const {
    ImportOptions options;
    options.threads = threads;
    auto imported = import_file(write("trace.json", text), options);
    if (!imported) return imported.error();
    return std::move(imported->trace);
  }
  TestFolder folder_;
};

std::string events(int n, const std::string& extra = "") {
  std::string text;
  for (int i = 0; i < n; ++i) {
    const std::string id = std::to_string(i + 1), at = std::to_string(10 * i);
    if (i > 0) text += ",";
    text +=
        "\n  {\n    \"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \"pid\": 9, \"tid\": 9,\n"
        "    \"ts\": " +
        at + ".125, \"dur\": 2,\n    \"args\": {\"correlation\": " + id + extra +
        "}\n  },\n"
        "  {\n    \"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k" +
        std::to_string(i % 7) + "\", \"pid\": 0, \"tid\": 7,\n    \"ts\": " + at +
        ".625, \"dur\": 5.25,\n"
        "    \"args\": {\"device\": 0, \"stream\": 7, \"correlation\": " +
        id + "}\n  }";
  }
  return text;
}

std::string trace_of(const std::string& list) {
  return "{\"schemaVersion\": 1, \"traceEvents\": [" + list + "\n], \"traceName\": \"t.json\"}\n";
}

int64_t issue(const Trace& trace, TraceIssueKind kind) {
  for (const TraceIssue& i : trace.issues)
    if (i.kind == kind) return i.count;
  return 0;
}

TEST_F(KinetoTest, RowsOfAnotherToolAreCountedWithTheirShare) {
  const auto trace = read(R"({"traceEvents": [
    {"ph": "X", "cat": "cpu_op", "name": "append", "pid": 1, "tid": 1, "ts": 0, "dur": 5},
    {"ph": "X", "cat": "gpu_op", "name": "gemm", "pid": 2, "tid": 3, "ts": 20, "dur": 15}]})");
  ASSERT_TRUE(trace);
  EXPECT_EQ(issue(*trace, TraceIssueKind::kUnknownRows), 1);
  EXPECT_NE(trace->issues.front().text.find("1 (50 % of all, and 75 % of the time"), std::string::npos) << trace->issues.front().text;
  EXPECT_EQ(trace->recorder, Recorder::kOther);
}

// As tools write that make such traces: the call and the kernel have the operator's id alone.
TEST_F(KinetoTest, WithoutCorrelationsTheOperatorsIdLinks) {
  const auto row = [](const char* category, const char* name, int at, const char* arguments) {
    return std::string(R"({"ph":"X","cat":")") + category + R"(","name":")" + name + R"(","pid":1,"tid":1,"dur":5,"ts":)" +
           std::to_string(at) + R"(,"args":{)" + arguments + "}}";
  };
  const Result<Trace> trace = read(R"({"schemaVersion":1,"traceEvents":[)" +
                                   row("cpu_op", "aten::mm", 10, R"("External id":7)") + "," +
                                   row("cuda_runtime", "hipLaunchKernel", 11, R"("External id":7)") + "," +
                                   row("kernel", "gemm", 20, R"("External id":7,"device":0,"stream":0)") + "," +
                                   row("cuda_runtime", "hipLaunchKernel", 30, R"("correlation":7,"External id":8)") + "," +
                                   row("kernel", "add", 40, R"("correlation":7,"External id":8,"device":0,"stream":0)") + "]}");
  ASSERT_TRUE(trace);
  for (uint32_t i = 0; i < 2; ++i) {
    const HostId launch = trace->activity.launch[i];
    ASSERT_TRUE(launch.valid()) << i;
    EXPECT_EQ(trace->host.start_ns[launch.value] - trace->activity.start_ns[i], i == 0 ? -9000 : -10000);
  }
}

TEST_F(KinetoTest, RangesOfTheDeviceAreKeptWhereTheHostHasNone) {
  const std::string on_device =
      R"({"ph":"X","cat":"gpu_user_annotation","name":"ProfilerStep#3","pid":0,"tid":7,"ts":10,"dur":9.5,"args":{"External id":12}},
         {"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":9,"tid":9,"ts":1,"dur":2,"args":{"correlation":1}},
         {"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":11,"dur":5,"args":{"device":0,"stream":7,"correlation":1}},
         {"ph":"X","cat":"gpu_user_annotation","name":"ProfilerStep#2","pid":0,"tid":13,"ts":0,"dur":9}])";
  const std::string on_host = R"({"ph":"X","cat":"user_annotation","name":"ProfilerStep#3","pid":9,"tid":9,"ts":0,"dur":5},)";
  const auto alone = read(R"({"schemaVersion":1,"traceEvents":[)" + on_device + "}");
  ASSERT_TRUE(alone);
  ASSERT_EQ(alone->device_ranges.size(), 2U);
  const DeviceRange& second = alone->device_ranges[1];
  EXPECT_EQ(alone->strings[second.name], "ProfilerStep#3");
  EXPECT_EQ(second.start_ns, 10'000);
  EXPECT_EQ(second.duration_ns, 9'500);
  EXPECT_EQ(second.id, 12U);
  EXPECT_NE(second.lane, alone->device_ranges[0].lane);
  const auto with_host = read(R"({"schemaVersion":1,"traceEvents":[)" + on_host + on_device + "}");
  ASSERT_TRUE(with_host);
  EXPECT_TRUE(with_host->device_ranges.empty());
  EXPECT_FALSE(with_host->strings.find("ProfilerStep#2").valid());
}

TEST_F(KinetoTest, AnEventLongerThanAnyAllowedIsLeftOut) {
  const std::string name(kLongestEvent + 3 * kWindowBytes, 'x');
  const std::string longest =
      R"({"ph": "X", "cat": "cpu_op", "name": ")" + name + R"(", "pid": 9, "tid": 9, "ts": 5, "dur": 1})";
  const auto trace = read(trace_of(events(2000) + ",\n" + longest + ",\n" + events(2000)));
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->events, 8000);
  EXPECT_GE(issue(*trace, TraceIssueKind::kDamaged), 1);
}

TEST_F(KinetoTest, ReadsTimesExactlyAndLinksLaunches) {
  const auto trace = read(trace_of(events(3)));
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->events, 6);
  ASSERT_EQ(trace->activity.size(), 3U);
  EXPECT_EQ(trace->activity.start_ns[1], 10625);
  EXPECT_EQ(trace->activity.duration_ns[1], 5250);
  ASSERT_TRUE(trace->activity.launch[1].valid());
  EXPECT_EQ(trace->host.start_ns[trace->activity.launch[1].value], 10125);
  EXPECT_TRUE(trace->issues.empty());
}

// Lists that are like those of the call before, or begin like them, or are another list's.
TEST_F(KinetoTest, ArgumentsOfEachCallAreItsOwn) {
  const std::vector<std::string> shapes = {"[[2, 3], [3, 4]]", "[[2, 3], [3, 4]]", "[[2, 3]]", "[[2, 3], []]", "[]",
                                           "[[2, 3], [3, 4]]", "[[20, 3], [3, 4]]", R"(["é"])", R"(["é"])"};
  std::string list;
  for (size_t i = 0; i < 3 * shapes.size(); ++i) {
    const std::string& s = shapes[i % shapes.size()];
    const std::string name = i % 2 == 0 ? "aten::mm" : "aten::bmm";
    const std::string args = R"("args": {"Input Strides": )" + s + R"(, "Input type": )" + shapes[i % 3] +
                             R"(, "Concrete Inputs": ["", "True"], "Input Dims": )" + s + "}";
    const std::string rest = R"("ph": "X", "cat": "cpu_op", "name": ")" + name +
                             R"(", "pid": 9, "tid": 9, "ts": )" + std::to_string(10 * i) + R"(, "dur": 5)";
    list += "{" + (i % 5 < 2 ? args + ", " + rest : rest + ", " + args) + "},\n";
  }
  const auto trace = read(trace_of(list + R"({"ph":"M","ts":0})"), 1);
  ASSERT_TRUE(trace);
  ASSERT_EQ(trace->host.size(), 3 * shapes.size());
  for (size_t i = 0; i < trace->host.size(); ++i) {
    const OpArgs& args = trace->op_args[trace->host.args[i].value];
    EXPECT_EQ(trace->strings[args.shapes], shapes[i % shapes.size()]) << i;
    EXPECT_EQ(trace->strings[args.types], shapes[i % 3]) << i;
    EXPECT_EQ(trace->strings[args.values], R"(["", "True"])") << i;
  }
  EXPECT_LE(trace->op_args.size(), shapes.size()) << "the second and third time nothing is new";
}

// Strides are kept where elements share a place in memory, or lie apart, which nothing else shows.
TEST_F(KinetoTest, StridesOfExpandedAndTransposedInputsAreKept) {
  const std::pair<std::string, bool> strides[] = {
      {"[[512, 1, 0, 0], []]", true}, {"[[0], []]", true}, {"[[], [8, 0]]", true}, {"[[[4, 0], [1]], []]", true},
      {"[[10, 1], [100]]", false},    {"[[], []]", false},         {"[[8192, 1], [1, 8192], []]", true},
      {"[[1, 10], [100]]", true},     {"[[[4, 1], [1]], []]", false}};
  std::string list;
  for (const auto& [text, kept] : strides)
    list += R"({"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 9, "tid": 9, "ts": )" +
            std::to_string(list.size()) + R"(, "dur": 1, "args": {"Input Dims": [[2], []], "Input Strides": )" + text +
            "}},\n";
  const auto trace = read(trace_of(list + R"({"ph":"M","ts":0})"), 1);
  ASSERT_TRUE(trace);
  size_t i = 0;
  for (const auto& [text, kept] : strides) {
    const OpArgs& args = trace->op_args[trace->host.args[i++].value];
    EXPECT_EQ(trace->strings[args.strides], kept ? text : "") << text;
  }
}

// Many windows, parsed side by side or in order, give the same as one.
TEST_F(KinetoTest, WindowsDoNotShow) {
  const std::string text = trace_of(events(20000, ", \"padding\": \"" + std::string(200, 'p') + "\""));
  ASSERT_GT(text.size(), 5 * kWindowBytes);
  for (const int threads : {1, 2, 5}) {
    const auto trace = read(text, threads);
    ASSERT_TRUE(trace);
    EXPECT_EQ(trace->activity.size(), 20000U);
    EXPECT_EQ(trace->host.size(), 20000U);
    EXPECT_TRUE(trace->issues.empty());
    for (size_t i = 0; i < 20000; ++i) {
      ASSERT_EQ(trace->activity.start_ns[i], static_cast<int64_t>(i) * 10000 + 625);
      ASSERT_EQ(trace->activity.launch[i].value, i);
    }
  }
}

// A list within an event that looks like events deceives the cut; the file is then read in order.
TEST_F(KinetoTest, AWrongCutIsNoticed) {
  std::string list = ", \"list\": [{\"name\": \"a\"}";
  for (int i = 0; i < 200; ++i) list += ", {\"name\": \"b\", \"ts\": 1}";
  const std::string text = trace_of(events(1200, list + "]"));
  ASSERT_GT(text.size(), 4 * kWindowBytes);
  const auto trace = read(text);
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->activity.size(), 1200U);
  EXPECT_EQ(trace->events, 2400);
  EXPECT_TRUE(trace->issues.empty());
}

TEST_F(KinetoTest, AnEventLongerThanAWindow) {
  const std::string text = trace_of(events(2, ", \"x\": \"" + std::string(3 * kWindowBytes, 'x') + "\""));
  const auto trace = read(text);
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->activity.size(), 2U);
  EXPECT_TRUE(trace->issues.empty());
}

TEST_F(KinetoTest, CutAnywhereKeepsWhatIsWholeAndSaysSo) {
  const std::string text = trace_of(events(40));
  for (size_t n = text.find("{\n"); n + 2 < text.size(); n += 13) {
    const auto trace = read(text.substr(0, n));
    if (!trace) {
      EXPECT_NE(trace.error().message.find("trace.json"), std::string::npos);
      continue;
    }
    EXPECT_EQ(issue(*trace, TraceIssueKind::kTruncated), 1) << n;
    EXPECT_GE(trace->events + 1, static_cast<int64_t>(80 * n / text.size()) - 1);
  }
}

TEST_F(KinetoTest, DamageInTheMiddleCostsOnlyTheEventsAroundIt) {
  std::string text = trace_of(events(20000, ", \"padding\": \"" + std::string(200, 'p') + "\""));
  text[text.size() / 2] = '"';
  text[text.size() / 3] = '{';
  const auto trace = read(text);
  ASSERT_TRUE(trace);
  EXPECT_GT(trace->events, 39990);
  EXPECT_GE(issue(*trace, TraceIssueKind::kDamaged), 1);
}

TEST_F(KinetoTest, WhatIsNoEventCostsNoNeighbour) {
  for (const char* other : {"null", "1", "\"x, {\"", "[1, {\"ph\": 2}]", "true", "nul"}) {
    const auto trace = read(trace_of(events(3) + ", " + other + ", " + events(3)));
    ASSERT_TRUE(trace) << other;
    EXPECT_EQ(trace->events, 12) << other;
    EXPECT_EQ(issue(*trace, TraceIssueKind::kDamaged), 1) << other;
  }
}

TEST_F(KinetoTest, OddRecordsAreLeftOutAndCounted) {
  const auto event = [](const char* name, const char* ts, const char* dur, const char* device) {
    return std::string(R"({"ph":"X","cat":"kernel","name":")") + name + R"(","pid":0,"tid":7,"ts":)" + ts +
           R"(,"dur":)" + dur + R"(,"args":{"device":)" + device + R"(,"stream":7}},)";
  };
  const auto trace = read(trace_of(event("good", "1", "2", "0") + event("negative", "1", "-2", "0") +
                                   event("far", "1e308", "2", "0") + event("device", "1", "2", "99999999999") +
                                   event("text", "\"soon\"", "2", "0") + event("quoted", "\"3.5\"", "2", "0") +
                                   event("bytes\xff", "6", "2", "0") + R"({"ph":"X","cat":"martian","ts":1},)" +
                                   R"({"ph":"X","cat":"cuda_profiler_range","name":"k","ts":1,"dur":2})"));
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->activity.size(), 3U);
  EXPECT_EQ(issue(*trace, TraceIssueKind::kNegativeDuration), 1);
  EXPECT_EQ(issue(*trace, TraceIssueKind::kOutOfRange), 3);
  EXPECT_EQ(issue(*trace, TraceIssueKind::kInvalidText), 1);
  EXPECT_EQ(issue(*trace, TraceIssueKind::kUnknownRows), 1);
  EXPECT_EQ(issue(*trace, TraceIssueKind::kHardwareCounters), 1);
  EXPECT_EQ(trace->name(ActivityId(size_t{2})), "bytes\uFFFD");
}

// PyTorch on ROCm records grids with the launch, later versions with the kernel as well; one call of HIP counts work items.
TEST_F(KinetoTest, GridsAreOfBlocksWhoeverRecordsThem) {
  const auto launch = [](const char* call, int id, const char* arguments) {
    return fmt::format(R"({{"ph":"X","cat":"cuda_runtime","name":"{}","pid":9,"tid":9,"ts":{},"dur":2,"args":{{)"
                       R"("correlation":{},{}}}}},)", call, 10 * id, id, arguments);
  };
  const auto kernel = [](int id, const char* arguments) {
    return fmt::format(R"({{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":{},"dur":3,"args":{{"device":0,)"
                       R"("stream":7,"correlation":{}{}}}}})", 10 * id + 5, id, arguments);
  };
  const auto trace = read(trace_of(
      launch("hipLaunchKernel", 1, R"("grid dim":[3,2,1],"block dim":[128,1,1])") + kernel(1, "") + "," +
      launch("hipExtModuleLaunchKernel", 2, R"("grid":[512,4,1],"block":[256,1,1])") +
      kernel(2, R"(,"grid":[512,4,1],"block":[256,1,1])") + "," +
      launch("hipModuleLaunchKernel", 3, R"("grid":[512,4,1],"block":[256,1,1])") +
      kernel(3, R"(,"grid":[512,4,1],"block":[256,1,1])") + "," +
      launch("hipExtModuleLaunchKernel", 4, R"("grid":[2147483647,1,1],"block":[256,1,1])") + kernel(4, "")));
  ASSERT_TRUE(trace) << trace.error().message;
  std::vector<std::vector<int32_t>> grids;
  for (const ActivityArgsId args : trace->activity.args) {
    const ActivityArgs& a = trace->activity_args[args.value];
    grids.push_back({a.grid[0], a.grid[1], a.grid[2], a.block[0]});
  }
  EXPECT_EQ(grids, (std::vector<std::vector<int32_t>>{{3, 2, 1, 128}, {2, 4, 1, 256}, {512, 4, 1, 256},
                                                      {8388608, 1, 1, 256}}));
}

TEST_F(KinetoTest, KernelsAreNotCalledByTheirDescriptors) {
  const auto trace = read(R"({"traceEvents": [{"ph":"X","cat":"kernel","name":"attn_fwd.kd","pid":0,"tid":7,"ts":1,)"
                          R"("dur":2,"args":{"device":0,"stream":7}}]})");
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->name(ActivityId(0)), "attn_fwd");
}

TEST_F(KinetoTest, PairsNameTheOtherRank) {
  const auto event = [](const char* name, const char* peer) {
    return std::string(
               R"({"ph":"X","cat":"kernel","name":"ncclDevKernel_SendRecv","pid":0,"tid":7,"ts":1,"dur":2,"args":)") +
           R"({"device":0,"stream":7,"Collective name":")" + name + R"(",)" + peer + R"(,"Group size":2}},)";
  };
  const auto trace = read(trace_of(event("send", R"("Dst Rank": 3)") + event("recv", R"("Src Rank": "1")") +
                                   event("recv", R"("Src Rank": 99999999999)") + R"({"ph":"M","ts":0})"));
  ASSERT_TRUE(trace);
  ASSERT_EQ(trace->collectives.size(), 3U);
  EXPECT_EQ(trace->collectives[0].destination, 3);
  EXPECT_EQ(trace->collectives[0].source, -1);
  EXPECT_EQ(trace->collectives[1].source, 1);
  EXPECT_EQ(trace->collectives[2].source, -1);
}

TEST_F(KinetoTest, MetadataPlainAndInsideStrings) {
  const std::string plain = R"({"deviceProperties": [{"id": 0, "name": "A", "totalGlobalMem": 17179869184,
      "computeMajor": 9, "computeMinor": 0, "numSms": 132}], "distributedInfo": {"backend": "nccl", "rank": 3,
      "world_size": 8}, "baseTimeNanoseconds": 1719853884000000000, "traceEvents": [)" + events(1) + "]}";
  const std::string wrapped = R"({"traceEvents": [)" + events(1) +
      R"(], "distributedInfo": "{\"rank\": \"3\", \"world_size\": 8}", "baseTimeNanoseconds": "1719853884000000000",
      "deviceProperties": "[{\"id\": 0, \"name\": \"A\", \"totalGlobalMem\": 17179869184, \"computeMajor\": 9}]"})";
  for (const std::string& text : {plain, wrapped}) {
    const auto trace = read(text);
    ASSERT_TRUE(trace) << trace.error().message;
    EXPECT_EQ(trace->distributed.rank, 3);
    EXPECT_EQ(trace->distributed.world_size, 8);
    EXPECT_EQ(trace->base_time_ns, 1719853884000000000);
    ASSERT_EQ(trace->devices.size(), 1U);
    EXPECT_EQ(trace->devices[0].memory_bytes, 17179869184);
    EXPECT_EQ(trace->devices[0].compute_major, 9);
    EXPECT_EQ(trace->properties(5).name, "A");
    EXPECT_TRUE(trace->issues.empty());
  }
}

TEST_F(KinetoTest, RefusesWhatIsNoTraceAndNamesTheFile) {
  for (const char* text : {"", "{}", "[]", "hello\n", "{\"a\": 1}", "{\"traceEvents\": null}", "{\"traceEvents\": []}",
                           "[1, 2, 3]", "\x7f\x45\x4c\x46\x01\x02\x03\x04\x05"}) {
    const auto trace = read(text);
    ASSERT_FALSE(trace) << text;
    EXPECT_NE(trace.error().message.find("trace.json"), std::string::npos);
    EXPECT_LT(trace.error().message.size(), 400U);
  }
}

TEST_F(KinetoTest, ABareArrayIsATraceToo) {
  const auto trace = read("[" + events(2) + "]");
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->activity.size(), 2U);
  EXPECT_TRUE(trace->issues.empty());
}

TEST_F(KinetoTest, RanksFromContentsNamesAndOrder) {
  EXPECT_EQ(rank_in_name("run/rank-3.json"), 3);
  EXPECT_EQ(rank_in_name("run.r1/rank12.json.gz"), 12);
  EXPECT_EQ(rank_in_name("a100-ddp-8rank-r3.json.gz"), 3);
  EXPECT_EQ(rank_in_name("worker3.pt.trace.json"), 3);
  EXPECT_EQ(rank_in_name("rank_7"), 7);
  EXPECT_EQ(rank_in_name("trace.json"), -1);
  EXPECT_EQ(rank_in_name("logs/rank_3/trace.json"), 3);
  EXPECT_EQ(rank_in_name("logs/worker2/rank1.json"), 1);
  EXPECT_EQ(rank_in_name("rank_3/run/trace.json"), -1);
  EXPECT_EQ(rank_in_folder("rank_3/run/trace.json", 1), 3);
  EXPECT_EQ(rank_in_folder("rank_3/run/trace.json", 0), -1);
  EXPECT_EQ(rank_in_folder("rank_3/run/trace.json", 7), -1);
  EXPECT_EQ(rank_in_folder("/job/node-2/a/b/trace.json", 2), 2);
  EXPECT_EQ(rank_in_name("run-r2/trace.json"), -1);
  EXPECT_EQ(rank_in_name("year2024.json"), -1);
  write("x1.json", trace_of(events(1)));
  write("rank1.json", trace_of(events(1)));
  write("x2.json", trace_of(events(1)));
  write("notes.txt", "Monday: nothing\n");
  const auto inputs = read_inputs({folder_.string()}, {});
  ASSERT_TRUE(inputs);
  ASSERT_EQ(inputs->ranks.size(), 3U);
  EXPECT_EQ(inputs->sources[0].rank, 1);  // rank1.json
  EXPECT_EQ(inputs->sources[1].rank, 0);  // x1.json
  EXPECT_EQ(inputs->sources[2].rank, 2);
  EXPECT_NE(inputs->sources[0].issues.at(0).text.find("notes.txt"), std::string::npos);
}

TEST_F(KinetoTest, TwoFilesOfOneRankAreWindowsOrAnError) {
  const auto window = [&](const std::string& name, int64_t at, int step, const std::string& pid) {
    const std::string ts = std::to_string(at);
    return write(name, R"({"distributedInfo": {"rank": 0}, "traceEvents": [{"ph":"X","cat":"user_annotation",)"
                       R"("name":"ProfilerStep#)" + std::to_string(step) + R"(","pid":)" + pid + R"(,"tid":1,"ts":)" +
                       ts + R"(,"dur":10},{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":)" + ts +
                       R"(,"dur":4,"args":{"device":0,"stream":7,"correlation":1}}]})");
  };
  const std::string a = window("a.json", 100, 3, "5"), b = window("b.json", 500, 4, "5");
  const std::string overlapping = window("c.json", 105, 5, "5"), backwards = window("d.json", 900, 2, "5"),
                    other_process = window("e.json", 900, 9, "6");
  const auto joined = read_inputs({b, a}, {});
  ASSERT_TRUE(joined) << joined.error().message;
  ASSERT_EQ(joined->ranks.size(), 1U);
  EXPECT_EQ(joined->ranks[0].trace.windows.size(), 2U);
  EXPECT_EQ(joined->ranks[0].trace.activity.start_ns[1], 500000);
  for (const std::string& bad : {overlapping, backwards, other_process}) {
    const auto refused = read_inputs({a, bad}, {});
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find(a), std::string::npos);
    EXPECT_NE(refused.error().message.find(bad), std::string::npos);
  }
}

}  // namespace
}  // namespace profgpu
