// Views made up for tests: devices that train, one that is too hot, one that idles, one that is lost.
#pragma once

#include <memory>
#include <string>

#include "watch/live/live_view.h"
#include "watch/top/model.h"

namespace profgpu::sample {

constexpr int64_t kSecond_ns = 1'000'000'000;
constexpr int64_t kBegin_ns = 1'767'225'600 * kSecond_ns;   // 2026-01-01T00:00:00Z

inline std::shared_ptr<DeviceInfo> device_info(uint32_t i) {
  auto info = std::make_shared<DeviceInfo>();
  info->index = i;
  info->vendor = "NVIDIA";
  info->name = "NVIDIA H100 80GB HBM3";
  info->uuid = "GPU-00000000-5eed-4000-8000-00000000000" + std::to_string(i % 10);
  info->pci_bus_id = "00000000:1" + std::to_string(i % 10) + ":00.0";
  info->constants = {{Metric::kMemoryTotal, 85'520'809'984}, {Metric::kSmClockMax, 1980},
                     {Metric::kTemperatureSlowdown, 89},     {Metric::kPcieWidthMax, 16},
                     {Metric::kPcieGenerationMax, 5},        {Metric::kPowerLimitDefault, 700}};
  return info;
}

inline LiveProcess process(int64_t pid, double gib, double sm, const std::string& user,
                           std::vector<std::string> words) {
  LiveProcess p;
  p.sample.pid = pid;
  p.sample.memory_bytes = static_cast<int64_t>(gib * (1 << 30));
  p.sample.utilization_pct = sm;
  p.host.pid = p.host.visible_pid = pid;
  p.host.user = user;
  p.host.arguments = std::move(words);
  p.host.start_ns = kBegin_ns - 3'725 * kSecond_ns;
  p.host.cpu_pct = 101;
  p.host.memory_bytes = int64_t{6} << 30;
  return p;
}

/// As it is `second` seconds after the beginning: device 1 is too hot, 2 idles, 3 is lost from second 30 on, 4 has lost
/// lanes.
inline LiveView view(size_t devices, int64_t second) {
  LiveView v;
  v.time_ns = kBegin_ns + second * kSecond_ns;
  HostLoad load;
  load.time_ns = v.time_ns;
  load.cpu_pct = 20.0 + static_cast<double>(second * 3 % 40);
  load.memory_bytes = 503.5 * (1 << 30), load.memory_used_bytes = 91.2 * (1 << 30);
  load.swap_bytes = 8.0 * (1 << 30), load.swap_used_bytes = 0;
  load.load_1 = 17.25, load.load_5 = 16.5, load.load_15 = 9.75, load.cpus = 64;
  v.hosts = {{"node-b", "550.54.15", "", true, load}};
  for (uint32_t i = 0; i < devices; ++i) {
    LiveDevice d;
    static const std::vector<std::shared_ptr<DeviceInfo>> kInfos = [] {
      std::vector<std::shared_ptr<DeviceInfo>> infos;
      for (uint32_t n = 0; n < 64; ++n) infos.push_back(device_info(n));
      return infos;
    }();
    d.info = kInfos[i];
    d.time_ns = v.time_ns;
    d.since_ns = v.time_ns;
    const auto set = [&](Metric m, double x) {
      d.values[static_cast<size_t>(m)] = x;
      d.read_ns[static_cast<size_t>(m)] = v.time_ns;
    };
    const auto wave = static_cast<double>((second * 7 + i * 13) % 60);
    set(Metric::kUtilization, i == 2 ? 0 : 40 + wave);
    set(Metric::kMemoryUsed, (i == 1 ? 78.0 : 41.5) * (1 << 30));
    set(Metric::kPower, i == 2 ? 72 : 400 + 4 * wave);
    set(Metric::kPowerLimit, 700);
    set(Metric::kTemperature, i == 1 ? 88 : 61);
    set(Metric::kSmClock, i == 1 ? 1305 : 1980);
    set(Metric::kThrottleSwThermal, i == 1 ? 0.62e9 * static_cast<double>(second) : 0);
    set(Metric::kThrottlePower, 0);
    set(Metric::kPcieTx, 2.5e9 * static_cast<double>(second));
    set(Metric::kPcieRx, 11.8e9 * static_cast<double>(second));
    set(Metric::kPcieWidth, i == 4 ? 8 : 16);
    set(Metric::kPcieGeneration, 5);
    if (i == 3 && second >= 30) {
      d.state = DeviceState::kError;
      d.trouble = "GPU is lost";
      d.since_ns = d.time_ns = kBegin_ns + 29 * kSecond_ns;
    }
    d.has_processes = true;
    d.processes = {process(4711 + i, i == 1 ? 74.5 : 40.8, i == 2 ? 0 : 40 + wave, "alice",
                           {"/usr/bin/python3", "train.py", "--rank", std::to_string(i)})};
    d.processes[0].host.slurm_job = "815";
    d.processes[0].host.parent = 4700;
    if (i == 0) d.processes.push_back(process(902, 0.5, 3, "bob", {"jupyter-lab"}));
    v.devices.push_back(std::move(d));
  }
  HostProcess launcher = process(4700, 0, 0, "alice", {"torchrun", "--nproc-per-node=8", "train.py"}).host;
  v.parents = {launcher};
  return v;
}

/// With everything that a device can report.
inline LiveView talkative(LiveView v) {
  const std::pair<Metric, double> kMore[] = {
      {Metric::kMemoryClock, 2619},        {Metric::kMemoryClockMax, 2619},     {Metric::kPerformanceState, 0},
      {Metric::kClockEventReasons, 0x20},  {Metric::kPowerLimitMin, 200},       {Metric::kPowerLimitMax, 700},
      {Metric::kEnergy, 4.4e9},            {Metric::kMemoryTemperature, 92},    {Metric::kFanSpeed, 40},
      {Metric::kMemoryReserved, 6.5e8},    {Metric::kBar1Used, 4.2e6},          {Metric::kMemoryUtilization, 31},
      {Metric::kPcieReplays, 0},           {Metric::kNvlinkErrors, 0},          {Metric::kEccCorrected, 2},
      {Metric::kEccUncorrected, 0},        {Metric::kRemappedRowsCorrected, 1}, {Metric::kRemappedRowsUncorrected, 0},
      {Metric::kEncoderUtilization, 0},    {Metric::kDecoderUtilization, 12},   {Metric::kSmActive, 77},
      {Metric::kTensorActive, 41},         {Metric::kDramActive, 35},           {Metric::kSmOccupancy, 52},
  };
  for (LiveDevice& d : v.devices)
    for (const auto& [metric, value] : kMore) {
      d.values[static_cast<size_t>(metric)] = value;
      d.read_ns[static_cast<size_t>(metric)] = d.time_ns;
    }
  return v;
}

/// A model that has watched for so many seconds.
inline TopModel watched(size_t devices, int64_t seconds = 90) {
  TopModel model(kSecond_ns);
  for (int64_t s = 0; s <= seconds; ++s) model.take(view(devices, s));
  return model;
}

inline void type(TopModel& model, std::string_view keys) {
  for (const char c : keys) model.press({KeyPress::Kind::kCharacter, static_cast<uint32_t>(c)});
}

}  // namespace profgpu::sample
