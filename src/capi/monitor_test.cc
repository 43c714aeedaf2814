#include <profgpu/monitor.h>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "capi/phase_totals.h"

namespace profgpu {
namespace {

void wait_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

TEST(Monitor, WatchesMarksAndSumsUp) {
  std::atomic<int> ticks = 0;
  MonitorOptions options;
  options.backend = "replay:examples/replay.jsonl,loop,speed=50";
  options.interval_s = 0.02;
  options.keep_samples = 5;
  options.on_tick = [&](const MonitorSample&) { ++ticks; };
  Monitor monitor(options);
  ASSERT_EQ(monitor.problem(), "");
  ASSERT_EQ(monitor.devices().size(), 2u);
  const auto five_ticks = [&ticks] {
    for (const int before = ticks; ticks < before + 5;) wait_ms(1);
  };
  monitor.start();
  monitor.mark("one");
  wait_ms(300), five_ticks();
  monitor.mark("two");
  wait_ms(300), five_ticks();
  monitor.stop();
  monitor.stop();
  const auto summary = monitor.summary();
  ASSERT_EQ(summary.size(), 2u);
  EXPECT_GT(summary[0].readings, 5);
  EXPECT_TRUE(summary[0].metrics.contains("utilization_pct"));
  EXPECT_EQ(summary[0].energy_method, "counter");
  EXPECT_NE(summary[0].text().find("busy"), std::string::npos);
  EXPECT_EQ(monitor.samples().size(), 5u);
  EXPECT_GT(ticks, 5);
  const auto phases = monitor.phases();
  ASSERT_EQ(phases.size(), 4u);
  for (const MonitorPhase& p : phases) EXPECT_GE(p.duration_s, 0.29) << p.name;
}

TEST(PhaseTotals, GoByTheTimesOfTheSamplesHoweverLateTheyCome) {
  constexpr int64_t kSecond = 1'000'000'000, kBegin = 1'700'000'000 * kSecond;
  const auto at = [](double s) { return kBegin + static_cast<int64_t>(s * 1e9); };
  PhaseTotals totals;
  const auto tick = [&](double s, std::vector<Sample> samples) {
    samples.push_back({at(s), Metric::kEnergy, s < 3 ? 600 * s : 1800 + 100 * (s - 3)});
    totals.add({.device = 0, .time_ns = at(s), .samples = std::move(samples), .has_processes = false, .processes = {}});
  };
  totals.mark(at(0), "busy");
  tick(0, {{at(0), Metric::kUtilization, 100}, {at(0), Metric::kPower, 600}});
  tick(2.5, {});
  totals.mark(at(3), "idle");
  totals.mark(at(4), "busy");
  totals.mark(at(5), "idle", true);
  tick(5.5, {{at(3), Metric::kUtilization, 0}, {at(3), Metric::kPower, 100}});
  totals.end(at(6));
  const auto phases = totals.totals();
  ASSERT_EQ(phases.size(), 2u) << "the time before the first has no name";
  const PhaseTotals::Total &busy = phases.at("busy"), &idle = phases.at("idle");
  EXPECT_EQ(busy.count, 2);
  EXPECT_EQ(idle.count, 1);
  EXPECT_EQ(busy.time_ns, 4 * kSecond);
  EXPECT_DOUBLE_EQ(busy.utilization_area / busy.utilization_ns, 75);
  EXPECT_DOUBLE_EQ(idle.utilization_area, 0);
  EXPECT_NEAR(busy.energy_j.value_or(0), 1900, 1);
  EXPECT_NEAR(idle.energy_j.value_or(0), 200, 1);
}

TEST(PhaseTotals, StepsAreSummedUpWhateverTheirPhases) {
  constexpr int64_t kSecond = 1'000'000'000, kBegin = 1'700'000'000 * kSecond;
  PhaseTotals totals;
  const auto at = [](int s) { return kBegin + s * kSecond; };
  totals.mark(at(0), "other");
  for (const int step : {1, 4}) {   // two steps of 2 s, 1 s between them
    totals.begin_step();
    totals.mark(at(step), "step", false, true);
    totals.mark(at(step + 1), "forward", false, true);
    totals.mark(at(step + 2), "other");
  }
  Reading reading{.device = 0, .time_ns = at(7), .samples = {}, .has_processes = false, .processes = {}};
  for (const auto& [at_s, watts] : {std::pair{0, 50.0}, {1, 300.0}, {3, 50.0}, {4, 300.0}, {6, 50.0}})
    reading.add(Metric::kPower, watts, at(at_s));
  totals.add(reading);
  totals.end(at(7));
  const PhaseTotals::Total steps = totals.steps();
  EXPECT_EQ(steps.count, 2);
  EXPECT_EQ(steps.time_ns, 4 * kSecond);
  EXPECT_NEAR(steps.energy_j.value_or(0), 1200, 1e-6);
  EXPECT_EQ(PhaseTotals().steps().count, 0);
}

TEST(PhaseTotals, AnOpenPhaseHasItsTimeSoFar) {
  constexpr int64_t kSecond = 1'000'000'000, kBegin = 1'700'000'000 * kSecond;
  PhaseTotals totals;
  totals.begin_step();
  totals.mark(kBegin, "train", false, true);
  for (const int s : {0, 2})
    totals.add({.device = 0, .time_ns = kBegin + s * kSecond, .samples = {}, .has_processes = false, .processes = {}});
  for (int times = 0; times < 2; ++times) {   // it is only looked at
    EXPECT_EQ(totals.totals().at("train").time_ns, 2 * kSecond);
    EXPECT_EQ(totals.steps().time_ns, 2 * kSecond);
  }
  totals.mark(kBegin + 3 * kSecond, "other");
  EXPECT_EQ(totals.totals().at("other").time_ns, 0) << "no reading since it began";
  totals.add({.device = 0, .time_ns = kBegin + 4 * kSecond, .samples = {}, .has_processes = false, .processes = {}});
  totals.end(kBegin + 5 * kSecond);
  EXPECT_EQ(totals.totals().at("train").time_ns, 3 * kSecond);
  EXPECT_EQ(totals.totals().at("other").time_ns, 2 * kSecond);
  EXPECT_EQ(totals.steps().time_ns, 3 * kSecond);
}

TEST(PhaseTotals, MemoryIsThatOfThePhaseInWhichItWasRead) {
  constexpr int64_t kSecond = 1'000'000'000, kBegin = 1'700'000'000 * kSecond;
  PhaseTotals totals;
  totals.mark(kBegin, "train", false, true);
  totals.mark(kBegin + kSecond, "eval");
  for (const auto& [at_ns, bytes] : {std::pair{kSecond - kSecond / 20, 60e9}, {2 * kSecond, 5e9}})   // handed over late
    totals.add({.device = 0, .time_ns = kBegin + at_ns, .samples = {{kBegin + at_ns, Metric::kMemoryUsed, bytes}},
                .has_processes = false, .processes = {}});
  totals.end(kBegin + 3 * kSecond);
  EXPECT_EQ(totals.totals().at("train").memory_max_bytes, 60e9);
  EXPECT_EQ(totals.totals().at("eval").memory_max_bytes, 5e9);
  EXPECT_EQ(totals.steps().memory_max_bytes, 60e9);
}

TEST(PhaseTotals, AMeanIsDividedWhereThePhaseBegan) {
  constexpr int64_t kSecond = 1'000'000'000, kBegin = 1'700'000'000 * kSecond;
  PhaseTotals totals;
  totals.mark(kBegin, "busy");
  totals.mark(kBegin + 13 * kSecond / 10, "idle");
  Reading reading{.device = 0, .time_ns = kBegin + 3 * kSecond, .samples = {}, .has_processes = false, .processes = {}};
  for (const auto& [at_s, value] : {std::pair{0, 100.0}, {1, 30.0}, {2, 0.0}})
    reading.add(Metric::kUtilization, value, kBegin + at_s * kSecond, true);
  totals.add(reading);
  totals.end(kBegin + 3 * kSecond);
  const auto phases = totals.totals();
  EXPECT_NEAR(phases.at("busy").utilization_area / phases.at("busy").utilization_ns, 100, 1e-6);
  EXPECT_NEAR(phases.at("idle").utilization_area, 0, 1);
}

TEST(Monitor, ServesSeveralThreads) {
  MonitorOptions options;
  options.backend = "replay:examples/replay.jsonl,loop,speed=50";
  options.interval_s = 0.005;
  options.keep_samples = 100;
  Monitor monitor(options);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&monitor, t] {
      for (int i = 0; i < 10; ++i) {
        monitor.start();
        monitor.mark("phase " + std::to_string(t));
        wait_ms(5);
        for (const MonitorSummary& s : monitor.summary()) EXPECT_FALSE(s.text().empty());
        EXPECT_LE(monitor.samples().size(), 100u);
        EXPECT_LE(monitor.phases().size(), 8u);
        if (i % 3 == t % 3) monitor.stop();
      }
    });
  for (std::thread& t : threads) t.join();
  Monitor moved = std::move(monitor);
  moved.start();
  moved.stop();
  ASSERT_EQ(moved.summary().size(), 2u);
  EXPECT_GE(moved.summary()[0].readings, 1) << "the first and the last, however short it was";
}

TEST(Monitor, WithoutDevicesItDoesNothingAndSaysWhy) {
  for (const char* backend : {"none", "replay:/nonexistent", "unknown"}) {
    MonitorOptions options;
    options.backend = backend;
    Monitor monitor(options);
    EXPECT_NE(monitor.problem(), "") << backend;
    monitor.start();
    monitor.mark("x");
    monitor.stop();
    EXPECT_TRUE(monitor.summary().empty());
  }
  MonitorOptions options;
  options.interval_s = 0;
  EXPECT_NE(Monitor(options).problem(), "");
}

}  // namespace
}  // namespace profgpu
