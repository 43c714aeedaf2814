#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "measure/benchmark.h"
#include "measure/host_work.h"
#include "measure/result/bench_result.h"
#include "measure/result/collective_curve.h"
#include "measure/result/crossing.h"

namespace profgpu {
namespace {

TEST(Repetition, MedianSpreadAndOutliers) {
  const Timing t = timing_of({100, 104, 96, 102, 98, 400});
  EXPECT_DOUBLE_EQ(t.median_ns, 101);
  EXPECT_DOUBLE_EQ(t.best_ns, 96);
  EXPECT_NEAR(t.spread_pct, 100 * (103.5 - 98.5) / 101, 1e-9);
  EXPECT_EQ(t.runs, 6);
  EXPECT_EQ(t.outliers, 1);
}

// A clock that a call moves by what it takes.
struct Stage {
  int64_t now_ns = 0;
  int64_t runs = 0;
  std::vector<int64_t> calls;
  Result<Timing> repeat_of(const std::function<double(int64_t call)>& takes_ns, int64_t budget_ns) {
    return repeat(
        [&, this](int64_t count) -> Result<double> {
          double sum = 0;
          for (int64_t i = 0; i < count; ++i) sum += takes_ns(runs++);
          calls.push_back(count);
          now_ns += static_cast<int64_t>(sum);
          return sum;
        },
        budget_ns, [this] { return now_ns; });
  }
};

TEST(Repetition, WarmUpDoesNotCount) {
  Stage stage;
  const auto t = stage.repeat_of([](int64_t call) { return call < 6 ? 9e6 - 1e6 * static_cast<double>(call) : 2e6; },
                                 1'000'000'000);
  ASSERT_TRUE(t);
  EXPECT_DOUBLE_EQ(t->median_ns, 2e6);
  EXPECT_DOUBLE_EQ(t->spread_pct, 0);
  EXPECT_EQ(t->runs, kMinRuns);
  EXPECT_EQ(t->outliers, 0);
}

TEST(Repetition, ShortCallsAreMadeSeveralInARun) {
  Stage stage;
  const auto t = stage.repeat_of([](int64_t) { return 1000.0; }, 400'000'000);
  ASSERT_TRUE(t);
  EXPECT_DOUBLE_EQ(t->median_ns, 1000);
  EXPECT_EQ(stage.calls.back(), 2000);
}

TEST(Repetition, UnsteadyCallsUseTheirTimeAndNoMore) {
  Stage stage;
  const auto t = stage.repeat_of([](int64_t call) { return call % 2 ? 2e6 : 3e6; }, 200'000'000);
  ASSERT_TRUE(t);
  EXPECT_GT(t->runs, 50);
  EXPECT_LT(stage.now_ns, 210'000'000);
  EXPECT_GT(t->spread_pct, 30);
}

TEST(Repetition, LongCallsAreMadeTenTimesAllTheSame) {
  Stage stage;
  const auto t = stage.repeat_of([](int64_t) { return 1e9; }, 1'000'000);
  ASSERT_TRUE(t);
  EXPECT_EQ(t->runs, kMinRuns);
}

TEST(Repetition, AFailureEndsIt) {
  int64_t calls = 0;
  const auto t = repeat([&](int64_t) -> Result<double> {
    if (++calls == 5) return Error{"cuLaunchKernel: out of memory"};
    return 1e7;
  }, 1'000'000'000, [] { return int64_t{0}; });
  ASSERT_FALSE(t);
  EXPECT_EQ(t.error().message, "cuLaunchKernel: out of memory");
  EXPECT_EQ(calls, 5);
}

Figure rate(int64_t device, double value, double spread_pct = 0.5) {
  Figure f;
  f.benchmark = "matmul", f.name = "bf16_8192", f.label = "bf16 8192³", f.device = device, f.unit = "TFLOP/s";
  f.precision = "bf16", f.value = value, f.best = value + 1, f.spread_pct = spread_pct, f.runs = 10;
  return f;
}
Figure latency(int64_t device, double ns) {
  Figure f;
  f.benchmark = "launch", f.name = "launch_call", f.device = device, f.unit = "ns", f.value = f.best = ns, f.runs = 10;
  return f;
}

BenchResult of(std::vector<Figure> figures) {
  BenchResult r;
  r.machine.host = "node7";
  for (int64_t i = 0; i < 4; ++i) r.devices.push_back({i, "NVIDIA H100 80GB HBM3", "GPU-" + std::to_string(i), "", "9.0", 80, 132});
  r.figures = std::move(figures);
  return r;
}

TEST(BenchResult, IsTheSameAfterAFile) {
  BenchResult r = of({rate(0, 700.25), latency(1, 2100)});
  r.unix_ns = 1'700'000'000'000'000'000, r.simulated = r.full = true;
  r.figures[1].peer = 2, r.figures[1].outliers = 3;
  r.figures[0].readings = {1755, 690.5, 74, "the power limit", 63.015, "Gen5 ×8 of ×16"};
  r.figures[1].node = 1, r.figures[1].near = false, r.figures[0].used_by = "python (pid 7)";
  r.not_measured = {{"matmul", "fp8 8192³", 3, "cuBLASLt has no kernel", "a hint"},
                    {"launch", "", 1, "lost", "", MissKind::kLost}};
  r.figures[0].cache = "warm", r.clocks_locked = {0, 2};
  r.figures[1].link = "NV18", r.figures[1].link_gbps = 450, r.figures[1].unit = "GB/s";
  r.interrupted = r.selected = true, r.benchmarks = {"launch", "matmul"}, r.machine.governor = "powersave";
  r.notes = {"GPU 0 is used by python (pid 7) as well"};
  const std::string json = bench_json(r);
  const auto read = bench_from_json(json, "a.json");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(bench_json(*read), json);
  EXPECT_EQ(read->figures[0].readings.held_back_by, "the power limit");
  EXPECT_EQ(read->not_measured[0].device, 3);
  EXPECT_EQ(read->clocks_locked, (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(read->figures[0].cache, "warm");
}

TEST(Figure, IsAShareOfItsLink) {
  Figure f;
  f.benchmark = "bandwidth", f.name = "device_to_device_memcpy_write_ce", f.unit = "GB/s", f.value = 360;
  f.device = 0, f.peer = 1, f.link = "NV18", f.link_gbps = 450;
  EXPECT_DOUBLE_EQ(f.link_share_pct().value_or(0), 80);
  EXPECT_EQ(f.link_text(), "18 NVLinks");
  // Of a pair over PCIe the sender's link alone says nothing: the receiver's may be the slower.
  f.link = "SYS", f.link_gbps.reset(), f.readings.pcie_gbps = 400;
  EXPECT_FALSE(f.link_share_pct());
  f.peer.reset(), f.link = "", f.name = "host_to_device_memcpy_ce", f.readings.pcie_link = "Gen5 ×8 of ×16";
  EXPECT_DOUBLE_EQ(f.link_share_pct().value_or(0), 90);
  EXPECT_EQ(f.link_text(), "the PCIe link, Gen5 ×8 of ×16");
  f.unit = "ns";
  EXPECT_FALSE(f.link_share_pct());
  Figure collective;
  collective.benchmark = "collectives", collective.unit = "GB/s", collective.value = 200;
  collective.link = "8 NICs", collective.link_gbps = 400;
  EXPECT_DOUBLE_EQ(collective.link_share_pct().value_or(0), 50);
  EXPECT_EQ(collective.link_text(), "a host's 8 NICs");
  EXPECT_EQ(collective.link_class(), "") << "older results have no link there: both are compared";
}

TEST(Figure, LessMemoryIsBetter) {
  Figure f;
  f.unit = "B", f.value = 536870912;
  EXPECT_FALSE(f.higher_is_better());
  EXPECT_EQ(f.text_of(f.value), "512 MiB");
}

TEST(BenchResult, LockedClocksAreNotComparedWithFreeOnes) {
  BenchResult before = of({rate(0, 700), rate(1, 700)}), after = of({rate(0, 500), rate(1, 500)});
  after.clocks_locked = {1};
  const BenchComparison found = compare_results(before, after);
  ASSERT_EQ(found.figures.size(), 2U);
  EXPECT_EQ(found.figures[0].verdict, -1);
  EXPECT_EQ(found.figures[1].verdict, 0);
  EXPECT_EQ(found.not_judged, std::vector<std::string>{"GPU 1: its clocks were locked in the newer result only"});
  before.clocks_locked = {1};
  EXPECT_EQ(compare_results(before, after).figures[1].verdict, -1);
}

TEST(BenchResult, OfASumOverBothWaysEachWayIsJudged) {
  const auto sum = [](int64_t from, int64_t to, double gbps) {
    Figure f = rate(from, gbps);
    f.benchmark = "bandwidth", f.name = "device_to_device_bidirectional_memcpy_write_ce_total", f.precision.clear();
    f.peer = to, f.unit = "GB/s";
    return f;
  };
  EXPECT_TRUE(slow_figures(of({sum(0, 1, 600), sum(0, 2, 420), sum(1, 2, 600)})).empty());
}

TEST(BenchResult, WhatIsNoResultIsRefused) {
  for (const char* text : {"", "{", "[]", "{}", R"({"schema": "profgpu.analysis.v1"})", R"({"schema": 3})"}) {
    const auto read = bench_from_json(text, "a.json");
    ASSERT_FALSE(read) << text;
    EXPECT_TRUE(read.error().message.starts_with("a.json: not a result of profgpu bench")) << read.error().message;
  }
  // Members of the wrong kind are passed over.
  const auto read = bench_from_json(R"({"schema": "profgpu.bench.v1", "figures": [3, {"value": "x"}], "devices": 1,
                                        "notes": [1, "a"], "machine": []})", "a.json");
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->figures.empty());
  EXPECT_EQ(read->notes, std::vector<std::string>{"a"});
}

TEST(BenchResult, ADifferenceBeyondTheSpreadIsReal) {
  const BenchResult before = of({rate(0, 700), latency(0, 2000), rate(1, 700, 20)});
  const BenchResult after = of({rate(0, 650), latency(0, 1500), rate(1, 650, 20), rate(2, 100)});
  const std::vector<FigureChange> all = compare_results(before, after).figures;
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].verdict, -1);
  EXPECT_NEAR(all[0].change_pct, -7.14, 0.01);
  EXPECT_EQ(all[1].verdict, 1);   // less time
  EXPECT_EQ(all[2].verdict, 0);   // its spread is larger
}

TEST(BenchResult, TheSlowDeviceIsFound) {
  const BenchResult result = of({rate(0, 700), rate(1, 560), rate(2, 705), rate(3, 698), latency(0, 2000),
                                 latency(1, 2050), latency(2, 2020), latency(3, 3000)});
  const auto slow = slow_figures(result);
  ASSERT_EQ(slow.size(), 2U);
  EXPECT_EQ(slow[0].figure->device, 3);
  EXPECT_NEAR(slow[0].behind_pct, 100.0 * (1 - 2020.0 / 3000), 1e-9);
  EXPECT_EQ(slow[1].figure->device, 1);
  EXPECT_DOUBLE_EQ(slow[1].others, 700);
  EXPECT_TRUE(slow_figures(of({rate(0, 700), rate(1, 640)})).empty());
  EXPECT_TRUE(slow_figures(of({rate(0, 700)})).empty());
}

TEST(BenchResult, DevicesOfAnotherNameAreNotCompared) {
  BenchResult r = of({rate(0, 700), rate(1, 100)});
  r.devices[1].name = "NVIDIA T4";
  EXPECT_TRUE(slow_figures(r).empty());
}

Figure pair(int64_t from, int64_t to, double gbps) {
  Figure f;
  f.benchmark = "collectives", f.name = "pair", f.label = "send", f.rank = from, f.peer_rank = to, f.unit = "GB/s";
  f.value = f.best = gbps, f.runs = 10;
  return f;
}

// Ranks 0 and 1 on node0, 2 and 3 on node1, and so on; all pairs.
BenchResult job(int64_t ranks, const std::function<double(int64_t, int64_t)>& gbps) {
  BenchResult r;
  for (int64_t i = 0; i < ranks; ++i)
    r.ranks.push_back({i, "node" + std::to_string(i / 2), i % 2, "NVIDIA H100 80GB HBM3", "GPU-0"});
  for (int64_t a = 0; a < ranks; ++a)
    for (int64_t b = a + 1; b < ranks; ++b) {
      r.figures.push_back(pair(a, b, gbps(a, b)));
      r.figures.back().link = a / 2 == b / 2 ? "within a host" : "between hosts";
    }
  return r;
}

TEST(BenchResult, TheSlowHostIsNamedInPlaceOfItsPairs) {
  const BenchResult r = job(8, [](int64_t a, int64_t b) {
    if (a / 2 == b / 2) return 400.0;
    return a / 2 == 2 || b / 2 == 2 ? 12.0 : 48.0;
  });
  ASSERT_EQ(slow_places(r).size(), 1U);
  EXPECT_EQ(slow_places(r)[0],
            "node2: send: its 12 pairs with other hosts reach 12 GB/s, those without it 48 GB/s (75 % worse)");
  EXPECT_TRUE(slow_figures(r).empty());
}

TEST(BenchResult, TheSlowRankIsNamed) {
  const BenchResult r = job(8, [](int64_t a, int64_t b) { return a == 5 || b == 5 ? 100.0 : 400.0; });
  const auto slow = slow_places(r);
  ASSERT_FALSE(slow.empty());
  for (const std::string& text : slow) EXPECT_TRUE(text.starts_with("rank 5 (node2, GPU 1)")) << text;
}

TEST(BenchResult, OfTwoHostsNobodyKnowsWhichIsSlow) {
  EXPECT_TRUE(slow_places(job(4, [](int64_t a, int64_t b) { return a / 2 == b / 2 ? 400.0 : 10.0; })).empty());
  EXPECT_TRUE(slow_places(job(8, [](int64_t, int64_t) { return 400.0; })).empty());
  EXPECT_TRUE(slow_places(BenchResult()).empty());
}

TEST(BenchResult, FiguresWithoutOneOfTheirEndsAreNoPairs) {
  const auto read = bench_from_json(R"({"schema": "profgpu.bench.v1", "figures": [
      {"benchmark": "a", "name": "b", "value": 1, "runs": 10, "unit": "GB/s", "peer": 1},
      {"benchmark": "a", "name": "b", "value": 1, "runs": 10, "unit": "GB/s", "peer_rank": 1},
      {"benchmark": "a", "name": "b", "value": 1, "runs": 10, "unit": "GB/s", "device": 0, "peer_rank": 1},
      {"benchmark": "a", "name": "b", "value": 1, "runs": 10, "unit": "GB/s", "rank": 0, "peer": 1}]})", "a.json");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->figures.size(), 4U);
  EXPECT_TRUE(slow_places(*read).empty());
  EXPECT_TRUE(slow_figures(*read).empty());
}

Figure copies(double gbps, double spread_pct = 0.5, int64_t runs = 10) {
  Figure f;
  f.benchmark = "host", f.name = "memory_copy_one", f.label = "memory copy", f.unit = "GB/s";
  f.value = f.best = gbps, f.spread_pct = spread_pct, f.runs = runs;
  return f;
}
BenchResult machine(const std::string& host, std::vector<Figure> figures, const std::string& processor = "x") {
  BenchResult r = of(std::move(figures));
  r.machine.host = host, r.machine.processor = processor;
  return r;
}

std::vector<std::string> slow_machines(const std::vector<BenchResult>& all) {
  const auto found = compare_machines(all);
  EXPECT_TRUE(found) << found.error().message;
  return found ? found->slow : std::vector<std::string>();
}

TEST(BenchResult, TheSlowMachineIsNamed) {
  EXPECT_EQ(slow_machines({machine("a", {rate(0, 700), copies(10)}), machine("b", {rate(0, 500), copies(10)}),
                           machine("c", {rate(0, 702), copies(5)})}),
            (std::vector<std::string>{"c: memory copy 5 GB/s, the other machines 10 GB/s (50 % worse)",
                                      "b: bf16 8192³ 500 TFLOP/s, the other machines 701 TFLOP/s (29 % worse)"}));
}

TEST(BenchResult, MachinesThatCannotBeComparedAreNot) {
  EXPECT_FALSE(compare_machines({machine("a", {copies(10)}), machine("b", {copies(5)}, "another")}));
  EXPECT_FALSE(compare_machines({machine("a", {copies(10)}), machine("b", {copies(5, 0, 1)})}));
  EXPECT_FALSE(compare_machines({machine("a", {copies(10)}), machine("a", {copies(5)})})) << "of one machine";
  EXPECT_TRUE(slow_machines({machine("a", {copies(10)}), machine("b", {copies(8, 30)})}).empty());
  EXPECT_EQ(slow_machines({machine("a", {copies(10)}), machine("b", {copies(8)})}).size(), 1U);
  // Devices are of one name, whatever the hosts' processors are.
  EXPECT_EQ(slow_machines({machine("a", {rate(0, 700)}), machine("b", {rate(0, 500)}, "another")}).size(), 1U);
}

std::vector<Figure> four(double first, double other) {
  return {rate(0, first), rate(1, other), rate(2, other), rate(3, other)};
}

TEST(BenchResult, MachinesWithLockedClocksAreComparedAmongThemselves) {
  BenchResult a = machine("a", {rate(0, 700)}), b = machine("b", {rate(0, 500)});
  b.clocks_locked = {0};
  EXPECT_FALSE(compare_machines({a, b}));
  a.clocks_locked = {0};
  EXPECT_EQ(slow_machines({a, b}).size(), 1U);
}

TEST(BenchResult, OneBadDeviceOfAMachineIsNamed) {
  EXPECT_EQ(slow_machines({machine("a", four(100, 100)), machine("b", four(30, 100)), machine("c", four(101, 100))}),
            std::vector<std::string>{"b: GPU 0: bf16 8192³ 30 TFLOP/s, the other machines 100 TFLOP/s (70 % worse)"});
  EXPECT_EQ(slow_machines({machine("a", four(100, 100)), machine("b", four(50, 50))}),
            std::vector<std::string>{"b: all 4: bf16 8192³ 50 TFLOP/s, the other machines 100 TFLOP/s (50 % worse)"});
}

Figure reduced(int64_t ranks, double gbps) {
  Figure f;
  f.benchmark = "collectives", f.name = "all_reduce_1048576", f.label = "all-reduce 1.00 MiB, busbw", f.unit = "GB/s";
  f.size = 1 << 20, f.ranks = ranks, f.value = f.best = gbps, f.runs = 10;
  return f;
}

TEST(BenchResult, CollectivesAreComparedAmongGroupsOfTheSameDevices) {
  BenchResult other = machine("c", {reduced(4, 100)});
  for (MeasuredDevice& d : other.devices) d.name = "NVIDIA A100-SXM4-80GB";
  EXPECT_TRUE(slow_machines({machine("a", {reduced(4, 400)}), machine("b", {reduced(4, 401)}), other}).empty());
  EXPECT_EQ(slow_machines({machine("a", {reduced(4, 400)}), machine("b", {reduced(4, 200)}), other}).size(), 1U);
  EXPECT_FALSE(compare_machines({machine("a", {reduced(2, 400)}), machine("b", {reduced(4, 200)})}));
  const BenchComparison changed = compare_results(machine("a", {reduced(4, 400)}), machine("a", {reduced(2, 200)}));
  EXPECT_TRUE(changed.figures.empty());
  EXPECT_EQ(changed.not_judged,
            std::vector<std::string>{"collectives over 2 devices: the older result has them over 4"});
}

TEST(BenchResult, WhatAMachineLacksIsNamed) {
  BenchResult dead = machine("b", {});
  dead.not_measured = {{"matmul", "bf16 8192³", 0, "out of memory", ""}, {"storage", "", {}, "no path", "", MissKind::kSkipped},
                       {"overlap", "", {}, "no NCCL", ""}};
  BenchResult hung = machine("c", {rate(0, 700)});
  hung.not_measured = {{"collectives", "all-gather", {}, "did not return within 1 s", "", MissKind::kHang}};
  const auto found = compare_machines({machine("a", {rate(0, 700)}), dead, hung, machine("d", {rate(0, 700)})});
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->slow.empty());
  EXPECT_EQ(found->missing, (std::vector<std::string>{"b: GPU 0: bf16 8192³: out of memory",
                                                      "c: all-gather: did not return within 1 s"}));
  BenchResult fewer = machine("c", {rate(0, 700)});
  fewer.devices.pop_back();
  const auto counted = compare_machines({machine("a", {rate(0, 700)}), machine("b", {rate(0, 700)}), fewer});
  ASSERT_TRUE(counted);
  EXPECT_EQ(counted->missing, std::vector<std::string>{"c: it has 3 GPUs, each of the others 4"});
}

TEST(BenchResult, AFigureWithinItsSpreadIsNotSlow) {
  EXPECT_TRUE(slow_figures(of({rate(0, 700), rate(1, 560, 30), rate(2, 705)})).empty());
}

TEST(BenchResult, WhatAnotherProcessDisturbedIsNotJudged) {
  BenchResult busy = of({rate(0, 700), rate(1, 300), rate(2, 705)});
  busy.figures[1].used_by = "python (pid 7)";
  EXPECT_TRUE(slow_figures(busy).empty());
  EXPECT_EQ(disturbed_places(busy), std::vector<std::string>{"GPU 1 is used by python (pid 7)"});
  const BenchComparison changed = compare_results(of({rate(0, 700), rate(1, 700), rate(2, 705)}), busy);
  EXPECT_FALSE(changed.any_worse());
  EXPECT_EQ(changed.not_judged, std::vector<std::string>{"GPU 1 is used by python (pid 7)"});
  EXPECT_NE(bench_json(of({rate(0, 300)})).find("\"tflops\""), std::string::npos);
  busy.figures.erase(busy.figures.begin()), busy.figures.pop_back();
  EXPECT_EQ(bench_json(busy).find("\"tflops\""), std::string::npos) << "it is no peak";
  BenchResult named = busy;
  named.machine.host = "a";
  const auto found = compare_machines({named, machine("b", {rate(0, 700)}), machine("c", {rate(0, 700)})});
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->slow.empty());
  EXPECT_EQ(found->not_judged, std::vector<std::string>{"a: GPU 1 is used by python (pid 7)"});
}

Figure pinned(int64_t device, int64_t node, std::optional<bool> near, double gbps) {
  Figure f;
  f.benchmark = "bandwidth", f.name = "host_to_device_memcpy_ce", f.label = "host to device", f.unit = "GB/s";
  f.device = device, f.node = node, f.near = near, f.value = f.best = gbps, f.runs = 10;
  return f;
}

TEST(BenchResult, AFarNodeIsNoSlowDevice) {
  EXPECT_TRUE(slow_figures(of({pinned(0, 0, {}, 50), pinned(0, 1, {}, 30)})).empty());
  const std::vector<Figure> two = {pinned(0, 0, true, 50), pinned(0, 1, false, 30), pinned(1, 0, false, 30),
                                   pinned(1, 1, true, 50), pinned(2, 1, true, 50)};
  EXPECT_TRUE(slow_figures(of(two)).empty());
  std::vector<Figure> bad = two;
  bad[3].value = 20;
  EXPECT_EQ(slow_figures(of(bad)).size(), 1U);
  std::vector<Figure> crossing = two;   // the same device's way to the same far node is what others compare with
  crossing[1].value = 10;
  EXPECT_EQ(slow_machines({machine("a", two), machine("b", crossing)}).size(), 1U);
}

TEST(BenchResult, DevicesAreTheSameByTheirUuid) {
  const BenchResult before = of({rate(0, 700), rate(1, 400)});
  BenchResult after = of({rate(1, 700), rate(0, 400)});
  std::swap(after.devices[0].uuid, after.devices[1].uuid);
  const BenchComparison changed = compare_results(before, after);
  ASSERT_EQ(changed.figures.size(), 2U);
  for (const FigureChange& c : changed.figures) EXPECT_EQ(c.verdict, 0) << c.change_pct;
  // Without a device in common, those of another name are not compared.
  BenchResult other = of({rate(0, 100), rate(1, 400)});
  for (MeasuredDevice& d : other.devices) d.uuid += "x";
  other.devices[0].name = "NVIDIA T4";
  const BenchComparison mixed = compare_results(before, other);
  ASSERT_EQ(mixed.figures.size(), 1U);
  EXPECT_EQ(mixed.figures[0].after->device, 1);
  EXPECT_EQ(mixed.not_judged, std::vector<std::string>{"GPU 0 (NVIDIA T4) is not in the older result"});
}

TEST(BenchResult, WhatGotLostIsWorse) {
  const BenchResult before = of({rate(0, 700), rate(1, 700), latency(0, 2000), latency(1, 2000)});
  BenchResult after = of({rate(0, 700), latency(0, 2000)});
  after.benchmarks = {"launch", "matmul"};
  EXPECT_FALSE(compare_results(before, after).any_worse()) << "it was not tried";
  after.not_measured = {{"launch", "launch, time of the call", 1, "the device does not work any more", "", MissKind::kLost}};
  const BenchComparison lost = compare_results(before, after);
  EXPECT_TRUE(lost.any_worse());
  EXPECT_EQ(lost.lost_figures.size(), 2U);
  EXPECT_EQ(lost.lost, std::vector<std::string>{"GPU 1: launch, time of the call: the device does not work any more (2 "
                                                "figures of the older result)"});
  after.not_measured = {{"matmul", "", {}, "no cuBLASLt", "", MissKind::kSkipped}};
  EXPECT_FALSE(compare_results(before, after).any_worse());
  // A device that is not there any more, unless only some were asked for.
  after.not_measured.clear(), after.devices.erase(after.devices.begin() + 1);
  EXPECT_EQ(compare_results(before, after).lost, std::vector<std::string>{"GPU 1 (NVIDIA H100 80GB HBM3) was not found"});
  after.selected = true;
  EXPECT_FALSE(compare_results(before, after).any_worse());
}

TEST(BenchResult, WhatWasNotMeasuredAgainStays) {
  BenchResult before = of({rate(0, 700), rate(1, 690), latency(0, 2000), reduced(8, 400)});
  before.figures.push_back(rate(1, 300));
  before.figures.back().name = "from_bf16_1x4x4x4", before.figures.back().precision = "";
  // Of one device, which now has another number, a product of a trace.
  BenchResult now = of({rate(0, 500), reduced(2, 300)});
  now.figures[0].name = "from_bf16_1x8x8x8", now.figures[0].precision = "";
  now.devices = {before.devices[1]};
  now.devices[0].index = 0;
  const BenchResult all = merged_results(before, now);
  ASSERT_EQ(all.devices.size(), 4U);
  std::set<int64_t> numbers;
  for (const MeasuredDevice& d : all.devices) numbers.insert(d.index);
  EXPECT_EQ(numbers.size(), 4U);
  const auto of_uuid = [&](const std::string& uuid, const std::string& name) -> const Figure* {
    for (const MeasuredDevice& d : all.devices)
      for (const Figure& f : all.figures)
        if (d.uuid == uuid && f.device == d.index && f.name == name) return &f;
    return nullptr;
  };
  ASSERT_NE(of_uuid("GPU-0", "bf16_8192"), nullptr);
  EXPECT_EQ(of_uuid("GPU-0", "bf16_8192")->value, 700);
  EXPECT_EQ(of_uuid("GPU-1", "bf16_8192")->value, 690);
  EXPECT_EQ(of_uuid("GPU-1", "from_bf16_1x8x8x8")->value, 500);
  EXPECT_EQ(of_uuid("GPU-0", "launch_call")->value, 2000);
  EXPECT_EQ(std::ranges::count(all.figures, std::string("from_bf16_1x4x4x4"), &Figure::name), 0);   // of another trace
  EXPECT_EQ(std::ranges::count(all.figures, std::string("all_reduce_1048576"), &Figure::name), 2);   // of 2 and of 8
  // What another process disturbed does not replace what was measured alone.
  BenchResult busy = of({rate(0, 100)});
  busy.figures[0].used_by = "python (pid 7)";
  EXPECT_EQ(merged_results(of({rate(0, 700)}), busy).figures[0].value, 700);
}

TEST(BenchResult, OlderResultsSayOverHowManyDevicesTheyAre) {
  BenchResult r = of({reduced(4, 400)});
  r.figures[0].ranks = std::nullopt;
  const auto read = bench_from_json(bench_json(r), "a.json");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->figures[0].ranks, 4);
}

TEST(BenchResult, ADeviceFarBelowItsKindIsNamed) {
  BenchResult r = of({rate(0, 200)});
  r.figures[0].size = 8192;
  for (MeasuredDevice& d : r.devices) d.memory_bytes = 85'000'000'000;
  ASSERT_EQ(devices_below_their_kind(r).size(), 1U);
  EXPECT_TRUE(devices_below_their_kind(r)[0].starts_with("GPU 0: bf16 200 TFLOP/s, 20 % of the ")) << devices_below_their_kind(r)[0];
  r.figures[0].value = 700;
  EXPECT_TRUE(devices_below_their_kind(r).empty());
  r.figures[0].value = 200, r.figures[0].size = 512;
  EXPECT_TRUE(devices_below_their_kind(r).empty()) << "a small product";
}

// Time that grows evenly: 10 µs and a nanosecond for 400 bytes.
TEST(CollectiveCurve, LatencyBandwidthAndTheSizeOfHalf) {
  std::vector<Figure> figures;
  for (const int64_t size : {1 << 10, 1 << 20, 256 << 20}) {
    Figure f = reduced(4, 0);
    const double ns = 10'000 + static_cast<double>(size) / 400;
    f.name = "all_reduce_" + std::to_string(size), f.size = size, f.algbw_gbps = static_cast<double>(size) / ns;
    f.label = size == 1 << 10 ? "all-reduce 1.00 KiB" : size == 1 << 20 ? "all-reduce 1.00 MiB, busbw" : "all-reduce 256 MiB, busbw";
    f.unit = size > 1 << 10 ? "GB/s" : "ns", f.value = size > 1 << 10 ? 1.5 * *f.algbw_gbps : ns;
    figures.push_back(f);
  }
  const auto all = collective_curves(figures);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].label, "all-reduce");
  EXPECT_NEAR(all[0].latency_ns, 10'002.56, 0.01);
  EXPECT_NEAR(all[0].busbw_gbps, 600 * 0.985, 3);
  // Half of 1.5 × 256 MiB / (10 µs + 671 µs).
  const double half = all[0].busbw_gbps / 2;
  const auto at = static_cast<double>(all[0].half_size_bytes.value());
  EXPECT_NEAR(1.5 * at / (10'000 + at / 400), half, 1e-3);
  figures.resize(1);
  EXPECT_TRUE(collective_curves(figures).empty());
}

Figure timed(const char* how, int64_t size, double ns) {
  Figure f;
  f.benchmark = "crossover", f.name = std::string("sort_") + how + "_" + std::to_string(size);
  f.label = "sort of numbers, 10, CPU", f.size = size, f.value = ns, f.unit = "ns";
  return f;
}

TEST(Crossing, IsWhereTheGpuStaysFaster) {
  std::vector<Figure> figures;
  const std::vector<std::tuple<int64_t, double, double, double>> rows = {
      {10, 5, 4, 100}, {100, 50, 60, 120}, {1000, 500, 70, 900}, {10000, 5000, 200, 4000}};
  for (const auto& [size, cpu, gpu, copies] : rows)
    for (const auto& [how, ns] : {std::pair{"cpu", cpu}, {"gpu", gpu}, {"gpu_with_copies", copies}})
      figures.push_back(timed(how, size, ns));
  const auto all = crossings(figures);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].name, "sort");
  EXPECT_EQ(all[0].label, "sort of numbers");
  EXPECT_EQ(all[0].rows.size(), 4U);
  EXPECT_EQ(all[0].size, 1000);   // at 10 it was faster, at 100 not
  EXPECT_EQ(all[0].size_with_copies, 10000);
  EXPECT_EQ(all[0].texts(), (std::vector<std::string>{"the GPU wins from 1000 on, data in its memory",
                                                      "the GPU wins from 10000 on, with both copies"}));
  figures.pop_back();             // a row that is not complete
  EXPECT_EQ(crossings(figures)[0].size_with_copies, std::nullopt);
}

TEST(LaunchedRank, TheFirstHostOfSlurmsLists) {
  EXPECT_EQ(first_host("gpu07"), "gpu07");
  EXPECT_EQ(first_host("gpu[03-05,9],login"), "gpu03");
  EXPECT_EQ(first_host("a,b"), "a");
  EXPECT_EQ(first_host("rack[1,2]-n,x"), "rack1-n");
  EXPECT_EQ(first_host(""), "");
  EXPECT_EQ(first_host("gpu["), "gpu");
}

TEST(HostWork, SortsAndAddsUp) {
  HostWork work;
  std::vector<uint32_t> data(100'003), scratch(data.size());
  uint32_t sum = 0;
  for (size_t i = 0; i < data.size(); ++i) sum += data[i] = static_cast<uint32_t>(i * 2654435761U);
  EXPECT_EQ(work.sum(data), sum);
  std::vector<uint32_t> expected = data;
  std::ranges::sort(expected);
  work.sort(data, scratch);
  EXPECT_EQ(data, expected);
}

TEST(HostWork, Multiplies) {
  setenv("PROFGPU_BLAS_LIBRARY", "/nowhere/libblas.so", 1);
  HostWork work;
  unsetenv("PROFGPU_BLAS_LIBRARY");
  EXPECT_EQ(work.product_by(), "own loop");
  constexpr int64_t kSize = 130;   // more than two tiles
  std::vector<float> a(kSize * kSize), b(a.size()), c(a.size());
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 7), b[i] = static_cast<float>(i % 5);
  work.product(a, b, c, kSize);
  for (int64_t i = 0; i < kSize; i += 43)
    for (int64_t j = 0; j < kSize; j += 29) {
      float sum = 0;
      for (int64_t k = 0; k < kSize; ++k)
        sum += a[static_cast<size_t>(i * kSize + k)] * b[static_cast<size_t>(k * kSize + j)];
      EXPECT_FLOAT_EQ(c[static_cast<size_t>(i * kSize + j)], sum);
    }
}

TEST(HostWork, ButterfliesKeepTheSumOfSquares) {
  HostWork work;
  std::vector<float> data(1 << 15);
  double before = 0, after = 0;
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i % 13) - 6, before += data[i] * data[i];
  work.butterflies(data);
  for (const float x : data) after += x * x;
  EXPECT_NEAR(after / before, 1, 1e-4);
}

TEST(VendorLibrary, TheNamedOneIsTheOnlyOne) {
  setenv("PROFGPU_CUBLASLT_LIBRARY", "/a/libcublasLt.so", 1);
  EXPECT_EQ(vendor_library_names("PROFGPU_CUBLASLT_LIBRARY", {"libcublasLt.so.13"}, {"cu13"}),
            std::vector<std::string>{"/a/libcublasLt.so"});
  unsetenv("PROFGPU_CUBLASLT_LIBRARY");
  EXPECT_EQ(vendor_library_names("PROFGPU_CUBLASLT_LIBRARY", {"libcublasLt.so.13"}, {"cu13"}).front(),
            "libcublasLt.so.13");
}

TEST(VendorLibrary, WheelsOfTheActiveEnvironmentAreFound) {
  const std::string home = ::testing::TempDir() + "measure_wheels";
  const std::string folder = home + "/lib/python3.12/site-packages/nvidia/cu13/lib";
  ASSERT_EQ(std::system(("mkdir -p " + folder + " && touch " + folder + "/libcublasLt.so.13").c_str()), 0);
  setenv("VIRTUAL_ENV", home.c_str(), 1);
  const auto names = vendor_library_names("PROFGPU_CUBLASLT_LIBRARY", {"libcublasLt.so.13"}, {"cu13"});
  unsetenv("VIRTUAL_ENV");
  EXPECT_NE(std::ranges::find(names, folder + "/libcublasLt.so.13"), names.end());
}

}  // namespace
}  // namespace profgpu
