// The backend against a stand-in nvidia-smi (tests/stubs/nvidia-smi), which hangs, dies and lies when told to.
#include "devices/nvidia_smi.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "base/clock.h"
#include "base/text.h"
#include "devices/nvidia_smi_query.h"
#include "devices/pci_address.h"
#include "tests/support/test_folder.h"

namespace profgpu {

namespace {

constexpr int64_t kSecond = 1'000'000'000;

/// Environment for the time of one test.
class Variables {
 public:
  ~Variables() {
    for (const auto& [name, value] : before_)
      value.empty() ? ::unsetenv(name.c_str()) : ::setenv(name.c_str(), value.c_str(), 1);
  }
  void set(const std::string& name, const std::string& value) {
    const char* old = std::getenv(name.c_str());
    before_.try_emplace(name, old ? old : "");
    ::setenv(name.c_str(), value.c_str(), 1);
  }

 private:
  std::map<std::string, std::string> before_;
};

class NvidiaSmiTest : public testing::Test {
 protected:
  void SetUp() override {
    variables_.set("PROFGPU_NVIDIA_SMI", std::filesystem::absolute("tests/stubs/nvidia-smi/nvidia-smi").string());
    variables_.set("PROFGPU_SMI_LOG", log_);
    times_.query_ns = 20 * kSecond;
    times_.silence_ns = 60 * kSecond;   // so long may a machine stall; tests of silence have less
    times_.first_processes_ns = times_.process_timeout_ns = 60 * kSecond;
    times_.first_pause_ns = kSecond / 20;
    times_.last_pause_ns = kSecond / 10;
    times_.max_starts = 4;
  }

  void mode(const std::string& words, int after = 3) {
    variables_.set("PROFGPU_SMI_MODE", words);
    variables_.set("PROFGPU_SMI_AFTER", std::to_string(after));
  }
  std::unique_ptr<Backend> open(int64_t interval_ns = 20'000'000) {
    BackendOptions options;
    options.interval_ns = interval_ns;
    auto backend = open_nvidia_smi(options, times_);
    EXPECT_TRUE(backend) << (backend ? "" : backend.error().message);
    return backend ? std::move(*backend) : nullptr;
  }
  std::vector<std::string> starts() const {
    std::vector<std::string> lines;
    std::ifstream in(log_);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }

  /// Reads every 20 ms until `enough` or the time is up; what came is kept in samples_ and errors_.
  template <class Enough>
  bool read_until(Backend& backend, uint32_t device, const Enough& enough, double seconds = 120,
                  bool processes = false) {
    const int64_t until = monotonic_ns() + static_cast<int64_t>(seconds * 1e9);
    while (monotonic_ns() < until) {
      Reading reading;
      reading.device = device, reading.time_ns = unix_ns();
      const Status status = backend.read({monotonic_ns(), processes, false}, reading);
      error_ = status ? "" : status.error().message;
      for (const Sample& s : reading.samples) samples_[s.metric].push_back(s);
      if (reading.has_processes) processes_ = reading.processes, ++process_answers_;
      if (enough()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }

  Variables variables_;
  SmiTimes times_;
  const TestFolder folder_;
  const std::string log_ = folder_ / "starts";
  std::map<Metric, std::vector<Sample>> samples_;
  std::string error_;
  std::vector<ProcessSample> processes_;
  int process_answers_ = 0;
};

TEST_F(NvidiaSmiTest, FollowsDevicesWithOneChild) {
  const auto backend = open();
  ASSERT_EQ(backend->devices().size(), 2u);
  const DeviceInfo& info = backend->devices()[1];
  EXPECT_EQ(info.name, "Stand-in GPU, revision 1");
  EXPECT_EQ(info.pci_bus_id, "00000000:1a:00.0");
  EXPECT_EQ(info.index, 1u);
  EXPECT_EQ(info.driver_version, "590.48.01");
  EXPECT_EQ(info.constant(Metric::kMemoryTotal), 81559.0 * (1 << 20));
  EXPECT_EQ(info.constant(Metric::kPowerLimitMax), 700);
  ASSERT_TRUE(read_until(*backend, 1, [&] { return samples_[Metric::kMemoryUsed].size() > 12; }));
  EXPECT_EQ(samples_[Metric::kMemoryUsed][0].value, 1001.0 * (1 << 20));
  EXPECT_EQ(samples_[Metric::kMemoryUsed].back().value, (1001.0 + 10 * 11) * (1 << 20));
  EXPECT_EQ(samples_[Metric::kClockEventReasons][0].value, 4);
  EXPECT_EQ(samples_[Metric::kThrottlePower][2].value, 1'500'000);
  EXPECT_EQ(samples_[Metric::kTemperatureMargin][0].value, -2);
  EXPECT_EQ(samples_[Metric::kRemappedRowsFailed][0].value, 1);
  EXPECT_EQ(samples_[Metric::kRecoveryAction][0].value, 3);
  EXPECT_TRUE(samples_[Metric::kFanSpeed].empty());
  EXPECT_EQ(backend->why_absent(1, Metric::kFanSpeed), "not available on this device");
  EXPECT_EQ(backend->why_absent(1, Metric::kEnergy), "nvidia-smi does not report it");
  EXPECT_EQ(backend->why_absent(1, Metric::kPower), "");
  for (size_t i = 1; i < samples_[Metric::kPower].size(); ++i)
    EXPECT_GT(samples_[Metric::kPower][i].time_ns, samples_[Metric::kPower][i - 1].time_ns);
  EXPECT_EQ(starts().size(), 2u) << "one for the inventory, one for the loop";
}

TEST_F(NvidiaSmiTest, ANewIntervalStartsItAnew) {
  const auto backend = open(3600 * kSecond);
  ASSERT_TRUE(read_until(*backend, 0, [&] { return samples_[Metric::kPower].size() > 1; }));
  backend->set_interval(kSecond / 50);
  ASSERT_TRUE(read_until(*backend, 0, [&] { return samples_[Metric::kPower].size() > 8; }));
  EXPECT_EQ(starts().size(), 3u);
  EXPECT_EQ(error_, "");
}

TEST_F(NvidiaSmiTest, WhatTheInventoryHeardIsOfTheFirstReading) {
  const auto backend = open();
  Reading reading;
  reading.time_ns = unix_ns();
  ASSERT_TRUE(backend->read({monotonic_ns(), false, true}, reading));
  ASSERT_GT(reading.samples.size(), 10u);
  for (const Sample& s : reading.samples) EXPECT_GE(s.time_ns, reading.time_ns) << metric_info(s.metric).name;
}

TEST_F(NvidiaSmiTest, ClosesQuicklyAndLeavesNoChild) {
  auto backend = open();
  ASSERT_TRUE(read_until(*backend, 0, [&] { return samples_[Metric::kPower].size() > 2; }));
  const int64_t begin_ns = monotonic_ns();
  backend.reset();
  EXPECT_LT(monotonic_ns() - begin_ns, 10 * kSecond);
  const pid_t child = std::stoi(starts().back());
  EXPECT_EQ(::kill(child, 0), -1);
}

TEST_F(NvidiaSmiTest, ChildDiesWithUsAndHasItsOwnSession) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t us = ::fork();
  if (us == 0) {
    const auto backend = open();
    const bool good = read_until(*backend, 0, [&] { return samples_[Metric::kPower].size() > 2; });
    const pid_t child = good ? std::stoi(starts().back()) : 0;
    const pid_t answer[2] = {child, ::getsid(child)};
    (void)!::write(ends[1], answer, sizeof answer);
    ::raise(SIGKILL);
  }
  pid_t answer[2] = {};
  ASSERT_EQ(::read(ends[0], answer, sizeof answer), static_cast<ssize_t>(sizeof answer));
  ::waitpid(us, nullptr, 0);
  ::close(ends[0]), ::close(ends[1]);
  ASSERT_GT(answer[0], 0);
  EXPECT_EQ(answer[1], answer[0]) << "a session of its own";
  // Gone, or a zombie that waits for whoever adopted it.
  bool gone = false;
  for (int i = 0; i < 3000 && !gone; ++i) {
    std::ifstream stat("/proc/" + std::to_string(answer[0]) + "/stat");
    std::string line;
    gone = !std::getline(stat, line) || line.find(") Z") != line.npos;
    if (!gone) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_TRUE(gone);
}

TEST_F(NvidiaSmiTest, HangBeforeTheFirstLineIsReported) {
  mode("hang", 0);
  times_.silence_ns = kSecond;
  const int64_t begin_ns = monotonic_ns();
  const auto backend = open();
  ASSERT_TRUE(read_until(*backend, 0, [&] { return !error_.empty(); }));
  EXPECT_GE(monotonic_ns() - begin_ns, times_.silence_ns);
  EXPECT_TRUE(error_.starts_with("nvidia-smi has not answered since ")) << error_;
  EXPECT_EQ(samples_[Metric::kPower].size(), 1u) << "what the first query said";
}

TEST_F(NvidiaSmiTest, HangIsReportedAndItIsStartedAgain) {
  mode("hang", 5);
  times_.silence_ns = 3 * kSecond;
  const auto backend = open();
  ASSERT_TRUE(read_until(*backend, 0, [&] { return !error_.empty(); }));
  EXPECT_TRUE(error_.starts_with("nvidia-smi has not answered since ")) << error_;
  EXPECT_EQ(samples_[Metric::kPower].size(), 6u);
  EXPECT_TRUE(read_until(*backend, 0, [&] { return error_.empty() && samples_[Metric::kPower].size() > 6; }));
}

TEST_F(NvidiaSmiTest, ReadingNeverWaitsForAHungChild) {
  mode("hang+slowprocesses", 0);
  const auto backend = open();
  Reading reading;
  for (int i = 0; i < 100; ++i) {
    const int64_t begin_ns = monotonic_ns();
    reading.clear();
    [[maybe_unused]] const Status status = backend->read({begin_ns, true, false}, reading);
    EXPECT_LT(monotonic_ns() - begin_ns, 10 * kSecond);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST_F(NvidiaSmiTest, DeadChildIsStartedAgain) {
  mode("die", 4);
  const auto backend = open();
  ASSERT_TRUE(read_until(*backend, 0, [&] { return samples_[Metric::kPower].size() > 10; }));
  EXPECT_GE(starts().size(), 4u);
}

TEST_F(NvidiaSmiTest, ChildThatAlwaysDiesIsGivenUp) {
  mode("die", 0);
  const auto backend = open();
  ASSERT_TRUE(read_until(*backend, 0, [&] { return error_.find("in a row") != error_.npos; }));
  EXPECT_EQ(error_, "nvidia-smi ended 4 times in a row: NVML: Driver/library version mismatch");
  const size_t before = starts().size();
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  EXPECT_EQ(starts().size(), before);
}

TEST_F(NvidiaSmiTest, LostDeviceDoesNotHideTheOthers) {
  mode("lost", 3);
  const auto backend = open();
  ASSERT_TRUE(read_until(*backend, 1, [&] { return !error_.empty(); }));
  EXPECT_EQ(error_, "GPU is lost");
  samples_.clear();
  ASSERT_TRUE(read_until(*backend, 0, [&] { return samples_[Metric::kPower].size() > 10; }));
  EXPECT_EQ(error_, "");
}

TEST_F(NvidiaSmiTest, SaysWhyItCannotOpen) {
  mode("nodriver");
  auto backend = open_nvidia_smi({}, times_);
  ASSERT_FALSE(backend);
  EXPECT_EQ(backend.error().message, "nvidia-smi cannot reach the NVIDIA driver");
  mode("nodevice");
  backend = open_nvidia_smi({}, times_);
  ASSERT_FALSE(backend);
  EXPECT_EQ(backend.error().message, "nvidia-smi: No devices were found");
  mode("stuck");
  times_.query_ns = kSecond;
  const int64_t begin_ns = monotonic_ns();
  backend = open_nvidia_smi({}, times_);
  ASSERT_FALSE(backend);
  EXPECT_EQ(backend.error().message, "nvidia-smi did not answer within 1 s");
  EXPECT_LT(monotonic_ns() - begin_ns, 20 * kSecond) << "deaf to SIGTERM, not to SIGKILL";
  times_.query_ns = 20 * kSecond;
  variables_.set("PROFGPU_NVIDIA_SMI", "/nowhere/nvidia-smi");
  backend = open_nvidia_smi({}, times_);
  ASSERT_FALSE(backend);
  EXPECT_EQ(backend.error().message, "/nowhere/nvidia-smi: No such file or directory");
  variables_.set("PROFGPU_NVIDIA_SMI", "/bin/true");
  backend = open_nvidia_smi({}, times_);
  ASSERT_FALSE(backend);
  EXPECT_EQ(backend.error().message, "nvidia-smi exited with code 0 and no output") << backend.error().message;
}

TEST_F(NvidiaSmiTest, OldProgramIsAskedForWhatItKnows) {
  for (const char* kind : {"old", "mute"}) {
    mode(kind);
    std::filesystem::remove(log_);
    samples_.clear();
    const auto backend = open();
    ASSERT_TRUE(backend);
    ASSERT_TRUE(read_until(*backend, 0, [&] { return samples_[Metric::kPower].size() > 3; })) << error_;
    EXPECT_FALSE(samples_[Metric::kUtilization].empty());
    EXPECT_TRUE(samples_[Metric::kPowerInstant].empty());
    EXPECT_EQ(backend->why_absent(0, Metric::kPowerInstant), "nvidia-smi does not report it");
    EXPECT_FALSE(samples_[Metric::kPcieGeneration].empty()) << "under its older name";
    if (std::string_view(kind) == "old") {
      EXPECT_LE(starts().size(), 6u);
    }
  }
}

TEST_F(NvidiaSmiTest, PlaceholdersAreAbsentWithTheirReason) {
  mode("placeholders");
  const auto backend = open();
  ASSERT_TRUE(read_until(*backend, 0, [&] {
    return samples_[Metric::kClockEventReasons].size() + samples_[Metric::kPerformanceState].size() > 3;
  }));
  EXPECT_EQ(error_, "");
  size_t absent = 0;
  for (const MetricInfo& m : metrics()) {
    if (m.smi.empty() || m.kind == MetricKind::kConstant) continue;
    const std::string reason = backend->why_absent(0, m.metric);
    EXPECT_EQ(reason.empty(), !samples_[m.metric].empty()) << m.name << ": " << reason;
    absent += !reason.empty();
  }
  EXPECT_GT(absent, 15u);
  samples_.clear();
  ASSERT_TRUE(read_until(*backend, 1, [&] { return samples_[Metric::kPower].size() > 1; }));
}

TEST_F(NvidiaSmiTest, GarbageBetweenRowsIsPassedOver) {
  mode("garbage");
  const auto backend = open();
  ASSERT_TRUE(read_until(*backend, 1, [&] { return samples_[Metric::kMemoryUsed].size() > 6; }));
  for (const Sample& s : samples_[Metric::kMemoryUsed]) {
    EXPECT_GE(s.value, 1001.0 * (1 << 20));
    EXPECT_LT(s.value, 2001.0 * (1 << 20));
  }
}

TEST_F(NvidiaSmiTest, TimestampsOfAnotherTimeZoneAreNotBelieved) {
  mode("wrongclock");
  const auto backend = open();
  ASSERT_TRUE(read_until(*backend, 0, [&] { return samples_[Metric::kPower].size() > 3; }));
  for (const Sample& s : samples_[Metric::kPower]) EXPECT_LT(std::abs(s.time_ns - unix_ns()), 10 * kSecond);
}

TEST_F(NvidiaSmiTest, MigModeIsSaid) {
  mode("mig");
  const auto backend = open();
  EXPECT_NE(backend->why_absent(0, Metric::kUtilization).find("MIG"), std::string::npos);
  EXPECT_EQ(backend->why_absent(1, Metric::kUtilization), "");
  std::map<std::string, std::string> facts;
  for (const Fact& f : backend->device_facts(0)) facts[f.id] = f.value;
  EXPECT_EQ(facts["mig_mode"], "enabled");
  EXPECT_EQ(facts["mig_instances"], "3g.40gb (MIG-00000001-aaaa), 1g.10gb (MIG-00000002-aaaa)");
  EXPECT_EQ(facts["ecc_mode"], "enabled");
  EXPECT_EQ(facts["compute_mode"], "default");
  EXPECT_EQ(facts["power_limit_w"], "700");
  EXPECT_EQ(facts["remapped_rows_failed"], "1");
  EXPECT_EQ(facts["pcie_width_max"], "16");
}

TEST_F(NvidiaSmiTest, ProcessesComeAtOnceAndThenOnceASecond) {
  const auto backend = open();
  Reading reading;
  ASSERT_TRUE(backend->read({monotonic_ns(), true, true}, reading));
  ASSERT_TRUE(reading.has_processes);
  ASSERT_EQ(reading.processes.size(), 1u);
  EXPECT_EQ(reading.processes[0].pid, 4242);
  EXPECT_EQ(reading.processes[0].memory_bytes, 2194LL << 20);
  EXPECT_EQ(reading.processes[0].name, "/usr/bin/python3");
  const int64_t begin_ns = monotonic_ns();
  ASSERT_TRUE(read_until(*backend, 0, [&] { return process_answers_ > 1; }, 120, true));
  EXPECT_LE(process_answers_, (monotonic_ns() - begin_ns) / kSecond + 1);
}

TEST_F(NvidiaSmiTest, HostileProcessRowsDoNoHarm) {
  mode("processes");
  const auto backend = open();
  ASSERT_TRUE(read_until(*backend, 1, [&] { return process_answers_ > 0; }, 120, true));
  ASSERT_EQ(processes_.size(), 2u);
  EXPECT_EQ(processes_[0].pid, 4244);
  EXPECT_FALSE(processes_[0].memory_bytes);
  std::string name = processes_[0].name;
  EXPECT_EQ(replace_invalid_utf8(name), 0);
  EXPECT_EQ(processes_[1].pid, 4245);
  EXPECT_FALSE(processes_[1].memory_bytes) << "more than any device has";
  ASSERT_TRUE(read_until(*backend, 0, [&] { return processes_[0].pid == 4242; }, 10, true));
  ASSERT_EQ(processes_.size(), 2u);
  EXPECT_EQ(processes_[1].name, "/opt/with, comma, and  spaces");
}

TEST_F(NvidiaSmiTest, FailedProcessQueryIsNotAnEmptyList) {
  mode("noprocesses");
  const auto backend = open();
  read_until(*backend, 0, [&] { return process_answers_ > 0; }, 1, true);
  EXPECT_EQ(process_answers_, 0);
}

TEST_F(NvidiaSmiTest, SixteenDevices) {
  variables_.set("PROFGPU_SMI_DEVICES", "16");
  const auto backend = open();
  ASSERT_EQ(backend->devices().size(), 16u);
  EXPECT_TRUE(read_until(*backend, 15, [&] { return samples_[Metric::kPower].size() > 3; }));
}

/// The cells of the first --query-gpu part of a capture, by the names that were asked for.
std::map<std::string, std::string> captured_cells(const std::string& path) {
  std::map<std::string, std::string> cells;
  std::ifstream in(path);
  std::vector<std::string> names;
  for (std::string line; std::getline(in, line);) {
    if (line.ends_with('\r')) line.pop_back();
    const size_t at = line.find("--query-gpu=");
    if (names.empty() && line.starts_with("# $") && at != line.npos) {
      std::stringstream list(line.substr(at + 12, line.find(' ', at) - at - 12));
      for (std::string name; std::getline(list, name, ',');) names.push_back(name);
      std::string ignored;
      std::getline(in, ignored), std::getline(in, ignored);
    } else if (!names.empty()) {
      std::vector<std::string_view> row;
      split_smi_row(line, names.size(), row);
      for (size_t i = 0; i < std::min(names.size(), row.size()); ++i) cells[names[i]] = row[i];
      break;
    }
  }
  return cells;
}

TEST_F(NvidiaSmiTest, RealOutputIsReadAsItStands) {
  const std::filesystem::path folder = "../shared/captures";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no captures of real output beside the project";
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    auto cells = captured_cells(entry.path().string());
    if (cells.empty()) continue;
    ++files;
    SCOPED_TRACE(entry.path().filename().string());
    variables_.set("PROFGPU_SMI_CAPTURE", entry.path().string());
    const auto backend = open();
    ASSERT_TRUE(backend);
    ASSERT_EQ(backend->devices().size(), 1u);
    const DeviceInfo& info = backend->devices()[0];
    EXPECT_EQ(info.name, cells["name"]);
    EXPECT_EQ(info.pci_bus_id, pci_address(cells["pci.bus_id"])->bus_id());
    samples_.clear();
    ASSERT_TRUE(read_until(*backend, 0, [&] { return samples_[Metric::kMemoryUsed].size() > 2; })) << error_;
    size_t numbers = 0;
    for (const MetricInfo& m : metrics()) {
      const auto cell =
          cells.count(std::string(m.smi)) ? cells.find(std::string(m.smi)) : cells.find(std::string(m.smi_alias));
      if (m.smi.empty() || cell == cells.end()) continue;
      const bool has =
          m.kind == MetricKind::kConstant ? info.constant(m.metric).has_value() : !samples_[m.metric].empty();
      const std::string& text = cell->second;
      if (!text.empty() && text.find_first_not_of("0123456789.") == text.find(' ')) {
        const double raw = std::stod(text) * m.smi_scale;
        EXPECT_EQ(m.kind == MetricKind::kConstant ? info.constant(m.metric) : samples_[m.metric][0].value, raw)
            << m.name;
        ++numbers;
      } else if (text.starts_with("[")) {
        EXPECT_EQ(has, backend->why_absent(0, m.metric).empty()) << m.name;
      }
    }
    EXPECT_GT(numbers, 15u);
  }
  EXPECT_GE(files, 8u);
}

}  // namespace

}  // namespace profgpu
