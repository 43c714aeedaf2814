#include "watch/live/run_session.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <fstream>

#include "base/clock.h"

namespace profgpu {
namespace {

// Two devices that are 70 % busy at 200 W; the second can be slow, or lost from a reading on.
class Steady : public Backend {
 public:
  Steady() {
    ::unlink(done.c_str());
    for (uint32_t i = 0; i < 2; ++i) {
      DeviceInfo info;
      info.index = i;
      info.vendor = "NVIDIA";
      info.name = "Steady";
      devices_.push_back(info);
    }
  }
  [[nodiscard]] std::string_view name() const override { return "steady"; }
  [[nodiscard]] const std::vector<DeviceInfo>& devices() const override { return devices_; }
  Status read(const ReadRequest& request, Reading& reading) override {
    const int64_t n = ++readings;
    if (n == enough) std::ofstream(done).put('\n');
    if (first_ns == 0) first_ns = monotonic_ns();
    if (reading.device == 1 && lost_from > 0 && n >= lost_from) return Error{"GPU is lost"};
    reading.add(Metric::kUtilization, 70);
    reading.add(Metric::kPower, 200);
    reading.add(Metric::kEnergy, 200 * static_cast<double>(reading.time_ns - begin_ns) / 1e9);
    if (request.processes) {
      reading.has_processes = true;
      reading.processes.push_back({.pid = ::getppid(),
                                   .memory_bytes = 1 << 20,
                                   .utilization_pct = {},
                                   .memory_utilization_pct = {},
                                   .encoder_pct = {},
                                   .decoder_pct = {},
                                   .name = "",
                                   .origin = {}});
    }
    return ok();
  }
  [[nodiscard]] std::string why_absent(uint32_t, Metric) const override { return "not here"; }

  ~Steady() override { ::unlink(done.c_str()); }
  [[nodiscard]] std::string waiting() const { return "until test -e " + done + "; do sleep 0.01; done"; }

  std::atomic<int64_t> readings = 0;
  int64_t first_ns = 0, lost_from = 0;
  /// At that many readings there is a file for which a command can wait.
  const std::string done = testing::TempDir() + "/run_session_done_" + std::to_string(::getpid());
  const int64_t enough = 40;
  const int64_t begin_ns = unix_ns();

 private:
  std::vector<DeviceInfo> devices_;
};

RunSessionOptions options_for(std::shared_ptr<Backend> backend, const std::string& script) {
  RunSessionOptions options;
  options.command = {"sh", "-c", script};
  options.interval_ns = 20'000'000;
  options.backend = std::move(backend);
  options.devices = {0, 1};
  return options;
}

TEST(RunSession, WatchesFromBeforeTheCommandToBehindIt) {
  CommandRunner runner(false);
  auto backend = std::make_shared<Steady>();
  const int64_t begun_ns = monotonic_ns();
  const RunSession session = run_session(runner, options_for(backend, backend->waiting() + "; exit 4"));
  EXPECT_EQ(session.last.exit_code, 4);
  ASSERT_EQ(session.runs.size(), 1u);
  ASSERT_EQ(session.devices.size(), 2u);
  for (const DeviceTelemetry& t : session.devices) {
    EXPECT_GE(t.duration_ns(), session.last.wall_ns - 1'000'000) << "the first reading comes before the command";
    EXPECT_LT(t.duration_ns(), monotonic_ns() - begun_ns);
    EXPECT_DOUBLE_EQ(t.find(Metric::kUtilization)->mean.value(), 70);
    EXPECT_NEAR(t.energy_j.value(), 200 * static_cast<double>(t.duration_ns()) / 1e9, 0.1);
    EXPECT_EQ(t.energy_method, "counter");
  }
  EXPECT_GE(session.sampler.ticks, 20);
  ASSERT_EQ(session.processes.size(), 1u);
  EXPECT_EQ(session.processes.begin()->second.of_command, std::optional(false));
  EXPECT_FALSE(session.devices[0].processes.at(0).process.name.empty());
  EXPECT_FALSE(session.stuck);
}

TEST(RunSession, RepeatsUntilARunFails) {
  const std::string log = testing::TempDir() + "/run_session_" + std::to_string(::getpid());
  ::unlink(log.c_str());
  CommandRunner runner(false);
  RunSessionOptions options =
      options_for(std::make_shared<Steady>(), "echo >> " + log + "; test $(wc -l < " + log + ") -lt 4");
  options.repeats = 5;
  options.warmup_runs = 1;
  const RunSession session = run_session(runner, options);
  EXPECT_EQ(session.runs.size(), 3u);  // one to warm up, two that go well, one that fails
  EXPECT_EQ(session.last.exit_code, 1);
  EXPECT_EQ(session.failed_warmup_run, 0);
  int64_t ticks = 0;
  for (const OneRun& run : session.runs) ticks += run.devices.at(0).ticks;
  EXPECT_EQ(session.devices.at(0).ticks, ticks) << "what is said of all runs is of all runs";
  const RunSession cold = run_session(runner, options);
  EXPECT_EQ(cold.failed_warmup_run, 1);
  EXPECT_TRUE(cold.runs.empty());
}

TEST(RunSession, RunsWithoutDevices) {
  CommandRunner runner(false);
  RunSessionOptions options = options_for(nullptr, "exit 3");
  options.devices.clear();
  const RunSession session = run_session(runner, options);
  EXPECT_EQ(session.last.exit_code, 3);
  EXPECT_TRUE(session.devices.empty());
  options.command = {"/no/such/command"};
  EXPECT_EQ(run_session(runner, options).not_started.value().exit_code, 127);
}

TEST(RunSession, ALostDeviceDoesNotStopTheOther) {
  CommandRunner runner(false);
  auto backend = std::make_shared<Steady>();
  backend->lost_from = 6;
  const RunSession session = run_session(runner, options_for(backend, backend->waiting()));
  ASSERT_EQ(session.troubles.size(), 1u);
  EXPECT_EQ(session.troubles[0].device, 1u);
  EXPECT_GT(session.devices[0].ticks, session.devices[1].ticks + 5);
}

TEST(RunSession, WritesSamplesAsTheyCome) {
  const std::string path = testing::TempDir() + "/run_session_" + std::to_string(::getpid()) + ".jsonl";
  CommandRunner runner(false);
  auto backend = std::make_shared<Steady>();
  {
    auto samples = SampleOutput::open(path, backend->devices(), "node-a");
    ASSERT_TRUE(samples);
    RunSessionOptions options = options_for(backend, "sleep 0.2");
    options.samples = samples->get();
    options.repeats = 2;
    run_session(runner, options);
    EXPECT_EQ((*samples)->problem(), "");
  }
  SampleFileIssues issues;
  auto log = read_sample_file(path, issues);
  ASSERT_TRUE(log) << log.error().message;
  ASSERT_EQ(log->devices.size(), 2u);
  EXPECT_EQ(log->devices[0].host, "node-a");
  EXPECT_EQ(log->marks.size(), 2u);
  EXPECT_EQ(issues.damaged_rows, 0);
}

TEST(SampleOutput, SaysOnceThatADiskIsFull) {
  auto backend = std::make_shared<Steady>();
  const std::string link = testing::TempDir() + "/full_" + std::to_string(::getpid()) + ".csv";
  ::unlink(link.c_str());
  ASSERT_EQ(::symlink("/dev/full", link.c_str()), 0);
  auto samples = SampleOutput::open(link, backend->devices(), "node-a");
  ASSERT_TRUE(samples);
  CommandRunner runner(false);
  RunSessionOptions options = options_for(backend, "sleep 0.2; exit 2");
  options.samples = samples->get();
  int warnings = 0;
  options.warn = [&](const std::string& text) {
    ++warnings;
    EXPECT_NE(text.find("No space left"), std::string::npos) << text;
  };
  EXPECT_EQ(run_session(runner, options).last.exit_code, 2);
  EXPECT_EQ(warnings, 1);
  EXPECT_FALSE(SampleOutput::open("/no/such/folder/x.csv", {}, "node-a"));
  EXPECT_FALSE(SampleOutput::open("/tmp/x.txt", {}, "node-a"));
}

}  // namespace
}  // namespace profgpu
