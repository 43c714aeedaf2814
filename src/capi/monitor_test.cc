#include <profgpu/monitor.h>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

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
