#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "measure/bench_result.h"
#include "measure/benchmark.h"

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
  for (int64_t i = 0; i < 4; ++i) r.devices.push_back({i, "NVIDIA H100 80GB HBM3", "GPU-0", "", "9.0", 80, 132});
  r.figures = std::move(figures);
  return r;
}

TEST(BenchResult, IsTheSameAfterAFile) {
  BenchResult r = of({rate(0, 700.25), latency(1, 2100)});
  r.unix_ns = 1'700'000'000'000'000'000, r.simulated = r.full = true;
  r.figures[1].peer = 2, r.figures[1].outliers = 3;
  r.figures[0].readings = {1755, 690.5, 74, "the power limit", 63.015};
  r.not_measured = {{"matmul", "fp8 8192³", 3, "cuBLASLt has no kernel", "a hint"}};
  r.notes = {"GPU 0 is used by python (pid 7) as well"};
  const std::string json = bench_json(r);
  const auto read = bench_from_json(json, "a.json");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(bench_json(*read), json);
  EXPECT_EQ(read->figures[0].readings.held_back_by, "the power limit");
  EXPECT_EQ(read->not_measured[0].device, 3);
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
  const auto all = changes(before, after);
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
