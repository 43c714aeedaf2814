#include <algorithm>
#include <cmath>

#include "devices/nvml_stage_test.h"

namespace profgpu {
namespace {

constexpr int64_t kStart = 1'000'000'000;

class NvmlRing : public NvmlStage {
 protected:
  /// Of a scenario whose clock is held; `i`: the poll's number.
  Reading poll(int i, int64_t ms, bool everything) {
    Reading r;
    r.time_ns = scenario_unix_ns();
    const ReadRequest request{.now_ns = kStart + i * ms * 1'000'000, .processes = everything, .everything = everything};
    EXPECT_TRUE(backend->read(request, r));
    pass(static_cast<double>(ms) / 1e3);
    return r;
  }
  std::vector<Sample> collect(Metric metric, int polls, int64_t ms) {
    std::vector<Sample> out;
    for (int i = 0; i < polls; ++i)
      for (const Sample& s : all(poll(i, ms, true), metric)) out.push_back(s);
    return out;
  }
  // Each of the driver's samples once and in order: apart from the first, which stands for the time we began, and the
  // second, which is cut there.
  static void expect_each_once(const std::vector<Sample>& samples, int64_t period_ns) {
    ASSERT_GT(samples.size(), 3U);
    for (size_t i = 3; i < samples.size(); ++i)
      EXPECT_NEAR(double(samples[i].time_ns - samples[i - 1].time_ns), double(period_ns), 2e3);
  }
};

TEST_F(NvmlRing, ASlowPollMissesNothing) {
  open("clock held\nstart 5\ndevice 0\nutilization square 10 90 0.08\nring utilization 0.02\n");
  const auto samples = collect(Metric::kUtilization, 5, 230);
  expect_each_once(samples, 20'000'000);
  EXPECT_GT(samples.size(), 40U);
  const auto low = std::count_if(samples.begin(), samples.end(), [](const Sample& s) { return s.value < 50; });
  EXPECT_NEAR(static_cast<double>(low) / static_cast<double>(samples.size()), 0.5, 0.1);
}

TEST_F(NvmlRing, AFastPollInventsNothing) {
  open("clock held\nstart 5\ndevice 0\nutilization 60\nring utilization 0.1\n");
  const auto samples = collect(Metric::kUtilization, 120, 5);
  expect_each_once(samples, 100'000'000);
  EXPECT_LT(samples.size(), 12U);
}

TEST_F(NvmlRing, AnIdleDeviceIsAskedForItsRate) {
  open("clock held\nstart 2.5\ndevice 0\nutilization steps 3 95 0\nring utilization 0.05\n");
  const auto samples = collect(Metric::kUtilization, 20, 100);
  ASSERT_GT(samples.size(), 5U);
  EXPECT_EQ(samples.front().value, 95.0);
  EXPECT_EQ(samples.back().value, 0.0);
  for (size_t i = 1; i < samples.size(); ++i) EXPECT_GT(samples[i].time_ns, samples[i - 1].time_ns);
}

// Mean over the time from the first sample to the last, each of which holds until the next.
double mean_held(const std::vector<Sample>& samples) {
  double area = 0;
  for (size_t i = 1; i < samples.size(); ++i) {
    EXPECT_GT(samples[i].time_ns, samples[i - 1].time_ns);
    area += samples[i - 1].value * static_cast<double>(samples[i].time_ns - samples[i - 1].time_ns);
  }
  return area / static_cast<double>(samples.back().time_ns - samples.front().time_ns);
}

TEST_F(NvmlRing, RestIsNeverBusyHoweverRarelyItIsAskedAndWhateverTheBufferSaysOfIt) {
  for (const char* idle : {"idle_samples none\n", "idle_samples zero\n"})
    for (const double interval_s : {0.05, 0.1, 0.2, 0.3, 1.0}) {
      open(std::string("clock held\nstart 20\nrates mean\n") + idle + "device 0\nutilization square 0 100 1.4\n");
      std::vector<Sample> samples;
      const auto ms = std::llround(interval_s * 1e3);
      for (int i = 0; i <= 42'000 / ms; ++i)
        for (const Sample& s : all(poll(i, ms, i == 0), Metric::kUtilization)) samples.push_back(s);
      EXPECT_NEAR(mean_held(samples), 50, 1) << idle << interval_s;
      backend.reset();
    }
}

TEST_F(NvmlRing, ABufferThatEndsIsNotTakenForOneAtRest) {
  open("clock held\nstart 20\ndevice 0\nutilization 80\nerror nvmlDeviceGetSamples 6 21\n");
  std::vector<Sample> samples;
  for (int i = 0; i < 60; ++i)
    for (const Sample& s : all(poll(i, 100, i == 0), Metric::kUtilization)) samples.push_back(s);
  EXPECT_NEAR(mean_held(samples), 80, 2) << "plain readings go on";
  EXPECT_GT(samples.size(), 55U);
}

TEST_F(NvmlRing, ADeviceIsNotTakenToRestWhereThePeriodIsNotKnown) {
  open("clock held\nstart 0.101\ndevice 0\nutilization 80\nring utilization 0.1\n");
  Reading r;
  r.time_ns = scenario_unix_ns() - 2'000'000;   // the driver's first entry came between this and the question
  for (int i = 0; i < 40; ++i) {
    r.samples.clear();
    ASSERT_TRUE(backend->read({.now_ns = kStart + i * 1'000'000, .everything = i < 2}, r));
    for (const Sample& s : all(r, Metric::kUtilization)) EXPECT_EQ(s.value, 80.0) << i;
    pass(0.001);
    r.time_ns += 1'000'000;
  }
}

TEST_F(NvmlRing, ADeviceThatWasNeverBusySaysZero) {
  open("device 0\n");
  EXPECT_EQ(value(read_all(), Metric::kUtilization), 0.0);
  EXPECT_EQ(value(read_all(), Metric::kMemoryUtilization), 0.0);
}

TEST_F(NvmlRing, PowerComesAtTheBuffersResolution) {
  open("clock held\nstart 5\ndevice 0\npower square 100 600 0.1\nring power 0.02\n");
  const auto samples = collect(Metric::kPower, 4, 200);
  expect_each_once(samples, 20'000'000);
  for (const Sample& s : samples) EXPECT_TRUE(s.value >= 99.9 && s.value <= 600.1) << s.value;
}

TEST_F(NvmlRing, WithoutBufferTheRateAndTheAverage) {
  open("device 0\nutilization 33\npower 210\nring utilization off\nring memory_utilization off\nring power off\n");
  for (int i = 0; i < 3; ++i) {
    const Reading r = read_all();
    EXPECT_EQ(value(r, Metric::kUtilization), 33.0);
    EXPECT_EQ(all(r, Metric::kPower).size(), 1U);
    EXPECT_EQ(value(r, Metric::kPower), 210.0);
  }
  EXPECT_EQ(calls("nvmlDeviceGetSamples"), 3) << "each kind is asked for once";
}

TEST_F(NvmlRing, ADeeperBufferThanExpectedFits) {
  open("clock held\nstart 100\ndevice 0\nutilization 50\nring utilization 0.001 5000\n");
  poll(0, 300, true);
  EXPECT_GT(all(poll(1, 300, true), Metric::kUtilization).size(), 250U);
}

}  // namespace
}  // namespace profgpu
