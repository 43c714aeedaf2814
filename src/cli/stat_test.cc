#include <gtest/gtest.h>

#include "analyse/report/text.h"
#include "cli/stat_view.h"

namespace profgpu {
namespace {

class NoBackend : public Backend {
 public:
  [[nodiscard]] std::string_view name() const override { return "none"; }
  [[nodiscard]] const std::vector<DeviceInfo>& devices() const override { return devices_; }
  Status read(const ReadRequest&, Reading&) override { return ok(); }
  [[nodiscard]] std::string why_absent(uint32_t, Metric) const override { return "it does not say"; }

 private:
  std::vector<DeviceInfo> devices_;
};

class StatScreen : public testing::Test {
 protected:
  StatScreen() {
    for (uint32_t i = 0; i < 2; ++i) {
      infos_[i].index = i;
      infos_[i].name = "NVIDIA H100 80GB HBM3";
      infos_[i].uuid = "GPU-" + std::to_string(i);
      infos_[i].vendor = "NVIDIA";
      infos_[i].constants = {{Metric::kMemoryTotal, 80.0 * (1 << 30)}};
    }
    view_.host = "node1";
    view_.driver = "550.54.15";
    view_.backend = &backend_;
    view_.time_ns = 1'700'000'000'123'456'789;
    view_.devices.resize(2);
    for (size_t i = 0; i < 2; ++i) {
      StatDevice& d = view_.devices[i];
      d.info = &infos_[i];
      d.look.device = static_cast<uint32_t>(i);
      d.look.reading.time_ns = view_.time_ns;
      d.look.reading.has_processes = true;
    }
    Reading& r = view_.devices[0].look.reading;
    r.add(Metric::kUtilization, 97.6);
    r.add(Metric::kTemperature, 61);
    r.add(Metric::kPower, 650.4);
    r.add(Metric::kPowerLimit, 700);
    r.add(Metric::kMemoryUsed, 60.0 * (1 << 30));
    StatProcess p;
    p.sample.pid = 4711;
    p.sample.memory_bytes = int64_t{59} << 30;
    p.host.visible_pid = 4711;
    p.host.user = "alice";
    p.host.comm = "python";
    p.host.arguments = {"/usr/bin/python", "train.py"};
    p.host.cpu_pct = 99.5;
    static_cast<Placement&>(p.host) = {"docker", "abcdefabcdef", "", "88", "0"};
    p.host.rank = 3;
    p.host.world_size = 8;
    view_.devices[0].processes.push_back(p);
  }
  std::string screen(int width, const StatStyle& style = {}) {
    return rendered(stat_lines(view_, style, width), width, false);
  }

  NoBackend backend_;
  DeviceInfo infos_[2];
  StatView view_;
};

TEST_F(StatScreen, OneLineADevice) {
  ::setenv("TZ", "UTC", 1);
  EXPECT_EQ(
      screen(200),
      "node1  2023-11-14 22:13:20  driver 550.54.15\n"
      "[0] NVIDIA H100 80GB HBM3 |  61°C |  98 % | 650 / 700 W |  60.0 /  80.0 GiB | alice:python/4711(59.0 GiB)\n"
      "[1] NVIDIA H100 80GB HBM3 |   –°C |   – % |         – W |     – /  80.0 GiB\n");
}

TEST_F(StatScreen, FiguresThatDoNotFitGoBelow) {
  const std::string text = screen(40);
  for (const char* figure : {"61°C", "98 %", "650 / 700 W", "60.0 /  80.0 GiB"})
    EXPECT_NE(text.find(figure), text.npos) << text;
}

TEST_F(StatScreen, ALostDeviceSaysSoAndTheOthersStay) {
  view_.devices[1].look.state = DeviceState::kError;
  view_.devices[1].look.message = "GPU is lost";
  view_.devices[1].look.since_ns = view_.time_ns - 90'000'000'000;
  const std::string text = screen(200);
  EXPECT_NE(text.find("[1] NVIDIA H100 80GB HBM3 | GPU is lost, since 22:11:50 (90 s)\n"), std::string::npos) << text;
  EXPECT_NE(text.find("alice:python"), std::string::npos);
}

TEST_F(StatScreen, NarrowTerminalsCutNamesAndPutProcessesBelow) {
  for (const int width : {40, 60, 72, 80, 100}) {
    const std::string text = screen(width);
    for (const std::string_view line : lines_of(text)) EXPECT_LE(display_width(line), width) << line;
    EXPECT_NE(text.find("alice:python/4711"), std::string::npos) << width;
  }
  EXPECT_NE(screen(72).find("NVIDIA H100 80GB…"), std::string::npos) << screen(72);
}

TEST_F(StatScreen, ThePartsOfProcessesThatWereAskedFor) {
  EXPECT_NE(screen(200, {.command = false, .user = true, .pid = false}).find("| alice(59.0 GiB)"), std::string::npos);
  EXPECT_NE(screen(200, {.command = false, .user = false, .pid = true}).find("| 4711(59.0 GiB)"), std::string::npos);
  EXPECT_EQ(screen(200, {.processes = false}).find("alice"), std::string::npos);
  const std::string table = screen(200, {.table = true});
  EXPECT_NE(table.find("docker abcdefabcdef, job 88.0, rank 3/8"), std::string::npos) << table;
  EXPECT_NE(table.find("/usr/bin/python train.py"), std::string::npos);
}

TEST_F(StatScreen, HostileNamesAreShownNotObeyed) {
  HostProcess& host = view_.devices[0].processes[0].host;
  host.user = "a\x1b[2Jb";
  host.arguments = {"\x1b]0;x\x07", "\n\n"};
  infos_[1].name = "GPU\x1b[31m\xff";
  for (const int width : {0, 60, 200}) {
    const std::string text = screen(width, {.table = true});
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
    EXPECT_EQ(text.find('\x07'), std::string::npos);
    for (const std::string& json : {stat_json(view_), gpustat_json(view_)})
      EXPECT_EQ(json.find('\x1b'), std::string::npos);
  }
}

TEST_F(StatScreen, UnknownProcessesSayWhyOnce) {
  StatProcess p;
  p.sample.pid = 5;
  p.host.unknown = "pid of the host, not known in this container";
  view_.devices[0].processes = {p, p};
  view_.devices[0].processes[1].sample.pid = 6;
  EXPECT_NE(screen(200).find("? 5, 6: pid of the host, not known in this container\n"), std::string::npos)
      << screen(200);
}

TEST_F(StatScreen, JsonHasEveryMetricAndNullForTheAbsent) {
  view_.devices[1].look.reading.has_processes = false;
  const std::string json = stat_json(view_);
  for (const MetricInfo& m : metrics())
    EXPECT_NE(json.find("\"" + std::string(m.name) + "\": "), std::string::npos) << m.name;
  EXPECT_NE(json.find("\"utilization_pct\": 97.6"), std::string::npos);
  EXPECT_NE(json.find("\"memory_used_bytes\": 64424509440"), std::string::npos);
  EXPECT_NE(json.find("\"fan_speed_pct\": null"), std::string::npos);
  EXPECT_NE(json.find("{\"metric\": \"fan_speed_pct\", \"reason\": \"it does not say\"}"), std::string::npos);
  EXPECT_NE(json.find("\"processes\": null"), std::string::npos) << "not asked is not none";
}

TEST_F(StatScreen, GpustatUnits) {
  const std::string json = gpustat_json(view_);
  EXPECT_NE(json.find("\"power.draw\": 650"), std::string::npos);
  EXPECT_NE(json.find("\"memory.used\": 61440"), std::string::npos);
  EXPECT_NE(json.find("\"gpu_memory_usage\": 60416"), std::string::npos);
  EXPECT_NE(json.find("\"query_time\": \"2023-11-14T22:13:20.123456\""), std::string::npos);
  view_.devices[1].look.state = DeviceState::kError;
  view_.devices[1].look.message = "GPU is lost";
  EXPECT_NE(gpustat_json(view_).find("\"name\": \"((GPU is lost))\""), std::string::npos);
}

}  // namespace
}  // namespace profgpu
