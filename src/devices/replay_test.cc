#include "devices/replay.h"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "base/clock.h"
#include "devices/backend.h"
#include "tests/support/test_folder.h"
#include "trace/sample_file.h"

namespace profgpu {

extern const BackendKind kReplay;

namespace {

constexpr int64_t kT0 = 1'800'000'000'000'000'000;
constexpr int64_t kStep = 10'000'000;
constexpr int kRows = 10;

class ReplayTest : public testing::Test {
 protected:
  void SetUp() override {
    std::vector<DeviceInfo> devices(2);
    for (uint32_t d = 0; d < 2; ++d) {
      devices[d].index = d;
      devices[d].name = "Test GPU";
      devices[d].vendor = "NVIDIA";
      devices[d].uuid = "GPU-" + std::to_string(d);
      devices[d].constants = {{Metric::kMemoryTotal, 1e9}};
    }
    SampleWriter writer(SampleFormat::kJsonLines, devices, {});
    std::ofstream file(path_);
    for (int i = 0; i < kRows; ++i)
      for (uint32_t d = 0; d < 2; ++d) {
        Reading r;
        r.device = d;
        r.time_ns = kT0 + i * kStep + d * 1'000'000;
        r.add(Metric::kUtilization, i);
        r.add(Metric::kEnergy, 100.0 + 10 * i);
        if (i == 0) r.add(Metric::kPowerLimit, 700);
        r.has_processes = i % 5 == 0;
        if (i == 0) r.processes.push_back({1234, 'C', 1000, {}, {}, {}, {}, "python", {}});
        file << writer.row(r);
      }
  }

  std::unique_ptr<Backend> open(const std::string& options) {
    auto backend = kReplay.open({.interval_ns = kStep, .argument = path_ + options});
    EXPECT_TRUE(backend) << backend.error().message;
    return backend ? *std::move(backend) : nullptr;
  }
  static Reading read(Backend& backend, uint32_t device, bool everything = false, bool processes = false) {
    Reading r;
    r.device = device;
    r.time_ns = unix_ns();
    EXPECT_TRUE(backend.read({.now_ns = monotonic_ns(), .processes = processes, .everything = everything}, r));
    return r;
  }
  static std::vector<double> values(const Reading& r, Metric metric) {
    std::vector<double> out;
    for (const Sample& s : r.samples)
      if (s.metric == metric) out.push_back(s.value);
    return out;
  }
  const TestFolder folder_;
  const std::string path_ = folder_ / "log.jsonl";
};

using Values = std::vector<double>;

TEST_F(ReplayTest, LongPausesArePlayedShort) {
  std::ofstream(path_) << "{\"time_ns\":0,\"device\":0,\"power_w\":1}\n"
                       << "{\"time_ns\":1800000000000000000,\"device\":0,\"power_w\":2}\n"
                       << "{\"time_ns\":1800000000010000000,\"device\":0,\"power_w\":3}\n";
  auto backend = open("");
  ASSERT_NE(backend, nullptr);
  const int64_t begin = monotonic_ns();
  while (!backend->ended() && monotonic_ns() - begin < 60'000'000'000) {
    (void)read(*backend, 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(backend->ended());
  std::string facts;
  for (const Fact& f : backend->system_facts()) facts += f.id + "=" + f.value + "\n";
  EXPECT_NE(facts.find("replay_pauses=1, skipped 1799999999 s in all"), std::string::npos) << facts;
}

TEST_F(ReplayTest, PausesBesideRowsWithoutAFigureArePlayedShort) {
  std::ofstream(path_) << "{\"time_ns\":1799900000000000000,\"device\":0,\"power_w\":\"?\"}\n"
                       << "{\"time_ns\":1800000000000000000,\"device\":0,\"power_w\":2}\n"
                       << "{\"time_ns\":1800000000010000000,\"device\":0,\"power_w\":3}\n"
                       << "{\"time_ns\":1800000000020000000,\"device\":0,\"power_w\":4}\n"
                       << "{\"time_ns\":1800100000000000000,\"device\":0,\"power_w\":\"?\"}\n";
  auto backend = open("");
  ASSERT_NE(backend, nullptr);
  const int64_t begin = monotonic_ns();
  while (!backend->ended() && monotonic_ns() - begin < 60'000'000'000) {
    (void)read(*backend, 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(backend->ended());
}

TEST_F(ReplayTest, OneRowAReadAtFullSpeed) {
  auto backend = open(",speed=max");
  ASSERT_EQ(backend->devices().size(), 2u);
  EXPECT_EQ(backend->devices()[1].uuid, "GPU-1");
  EXPECT_FALSE(backend->ended());
  for (int i = 0; i < kRows; ++i) {
    EXPECT_FALSE(backend->ended());
    const Reading r = read(*backend, 1);
    EXPECT_EQ(values(r, Metric::kUtilization), Values{static_cast<double>(i)});
    EXPECT_EQ(r.samples.front().time_ns, r.time_ns);
  }
  EXPECT_TRUE(backend->ended());   // device 0 was never asked
  EXPECT_TRUE(read(*backend, 1, true, true).samples.empty());
  EXPECT_FALSE(read(*backend, 0).samples.empty());
  EXPECT_FALSE(backend->ended());
}

TEST_F(ReplayTest, EverythingHoldsWhatWasSaidLast) {
  auto backend = open(",speed=max");
  (void)read(*backend, 0);
  EXPECT_EQ(values(read(*backend, 0), Metric::kPowerLimit), Values{});
  const Reading r = read(*backend, 0, true);
  EXPECT_EQ(values(r, Metric::kPowerLimit), Values{700});
  EXPECT_EQ(values(r, Metric::kMemoryTotal), Values{1e9});
  EXPECT_EQ(backend->why_absent(0, Metric::kPowerLimit), "");
  EXPECT_EQ(backend->why_absent(0, Metric::kMemoryTotal), "");
  EXPECT_EQ(backend->why_absent(0, Metric::kFanSpeed), "not in the file");
}

TEST_F(ReplayTest, ProcessesAsTheRowsHadThem) {
  auto backend = open(",speed=max");
  for (int i = 0; i < kRows; ++i) {
    const Reading r = read(*backend, 0, false, true);
    EXPECT_TRUE(r.has_processes);
    EXPECT_EQ(r.processes.size(), i < 5 ? 1u : 0u) << i;   // gone at the sixth row
  }
  EXPECT_FALSE(read(*backend, 1).has_processes);
}

TEST_F(ReplayTest, RealTime) {
  auto backend = open("");
  const Reading first = read(*backend, 1);
  EXPECT_EQ(values(first, Metric::kUtilization).at(0), 0);
  std::this_thread::sleep_for(std::chrono::nanoseconds(4 * kStep));
  // A slow reader gets all that came in between, each with its own time.
  const Reading r = read(*backend, 1);
  const Values got = values(r, Metric::kUtilization);
  int64_t before = 0;
  for (const Sample& s : r.samples) {
    if (s.metric != Metric::kUtilization) continue;
    EXPECT_LE(s.time_ns, r.time_ns);
    EXPECT_TRUE(before == 0 || std::abs(s.time_ns - before - kStep) < 10) << s.time_ns - before;
    before = s.time_ns;
  }
  // Nothing comes twice, however fast it is read, and nothing is left out.
  Values told = values(first, Metric::kUtilization);
  told.insert(told.end(), got.begin(), got.end());
  while (!backend->ended())
    for (const double value : values(read(*backend, 1), Metric::kUtilization)) told.push_back(value);
  ASSERT_EQ(told.size(), size_t{kRows});
  for (int i = 0; i < kRows; ++i) EXPECT_EQ(told[static_cast<size_t>(i)], i);
  EXPECT_TRUE(backend->ended());
  EXPECT_TRUE(read(*backend, 1, true).samples.empty());
}

TEST_F(ReplayTest, CountersGoOnWhenALoopBeginsAnew) {
  for (const char* options : {",loop,speed=max", ",speed=max,loop"}) {
    auto backend = open(options);
    double energy = 0;
    for (int i = 0; i < 3 * kRows; ++i) {
      const Reading r = read(*backend, 0);
      EXPECT_EQ(values(r, Metric::kUtilization), Values{static_cast<double>(i % kRows)});
      const double now = values(r, Metric::kEnergy).at(0);
      EXPECT_GE(now, energy);
      energy = now;
    }
    EXPECT_EQ(energy, 100 + 3 * 90);
    EXPECT_FALSE(backend->ended());
  }
}

TEST_F(ReplayTest, ALoopInScaledTime) {
  auto backend = open(",speed=10,loop");   // 10 ms a round
  double energy = 0;
  int64_t time = 0;
  for (int i = 0; i < 12; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const Reading r = read(*backend, 0);
    for (const Sample& s : r.samples) {
      if (s.metric != Metric::kEnergy) continue;
      EXPECT_GE(s.value, energy);
      EXPECT_GE(s.time_ns, time);
      energy = s.value, time = s.time_ns;
    }
  }
  EXPECT_GT(energy, 100 + 90 * 4);
  // A reader that slept for many rounds gets two at most.
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  EXPECT_LE(values(read(*backend, 0), Metric::kEnergy).size(), 2u * kRows);
}

TEST_F(ReplayTest, DamagedRowsAreFacts) {
  std::ofstream(path_, std::ios::app) << "rubbish\n{\"time_ns\":18";
  auto backend = open("");
  std::string ids;
  for (const Fact& f : backend->system_facts()) ids += f.id + "=" + f.value + ";";
  EXPECT_NE(ids.find("replay_damaged_rows=1, the first in line 21"), std::string::npos) << ids;
  EXPECT_NE(ids.find("replay_torn"), std::string::npos);
}

TEST_F(ReplayTest, BadArguments) {
  EXPECT_EQ(replay_options("a,b.csv")->path, "a,b.csv");
  EXPECT_EQ(replay_options("a,b.csv,speed=2.5,loop")->speed, 2.5);
  for (const char* bad : {"", ",loop", "x,speed=0", "x,speed=-1", "x,speed=fast", "x,speed=1e9", "x,speed=nan"})
    EXPECT_FALSE(replay_options(bad)) << bad;
  std::ofstream(path_) << "nothing of use\n";
  auto backend = kReplay.open({.interval_ns = kStep, .argument = path_});
  ASSERT_FALSE(backend);
  EXPECT_NE(backend.error().message.find(path_), std::string::npos);
  EXPECT_NE(backend.error().message.find("line 1"), std::string::npos);
  EXPECT_FALSE(kReplay.open({.interval_ns = kStep, .argument = "/nowhere.jsonl,loop"}));
}

}  // namespace
}  // namespace profgpu
