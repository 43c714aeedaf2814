#include "devices/nvml_inventory.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <thread>

#include "devices/nvml_stage_test.h"

namespace profgpu {

namespace {

constexpr int64_t kSecond = 1'000'000'000;

class Nvml : public NvmlStage {
 protected:
  /// Until the watch for errors has enrolled the devices.
  void wait_for_the_watch(uint32_t device = 0) {
    for (int i = 0; i < 6000 && !value(read_all(device), Metric::kXidErrors); ++i) pause_ms(10);
  }
};

TEST_F(Nvml, DevicesAndTheirConstants) {
  open_file("two_h100.txt");
  ASSERT_EQ(backend->devices().size(), 2U);
  const DeviceInfo& d = backend->devices()[1];
  EXPECT_EQ(d.index, 1U);
  EXPECT_EQ(d.vendor, "NVIDIA");
  EXPECT_EQ(d.name, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(d.uuid.substr(0, 4), "GPU-");
  EXPECT_EQ(d.pci_bus_id, "00000000:20:00.0");
  EXPECT_EQ(d.driver_version, "550.54.15");
  EXPECT_EQ(d.numa_node, 0);
  EXPECT_FALSE(d.parent);
  EXPECT_EQ(d.constant(Metric::kMemoryTotal), 85520809984.0);
  EXPECT_EQ(d.constant(Metric::kPowerLimitMax), 700.0);
  EXPECT_EQ(d.constant(Metric::kPowerLimitMin), 200.0);
  EXPECT_EQ(d.constant(Metric::kSmClockMax), 1980.0);
  EXPECT_EQ(d.constant(Metric::kTemperatureSlowdown), 89.0);
  EXPECT_EQ(d.constant(Metric::kPcieGenerationMax), 5.0);
  EXPECT_EQ(d.constant(Metric::kPcieWidthMax), 16.0);
}

TEST_F(Nvml, AReadingOfEverything) {
  open(R"(
    start 10
    device 0
    utilization 83
    memory_utilization 40
    memory_used 1000000
    power 500
    power_instant 612.5
    memory_temperature 71
    temperature 66
    sm_clock 1755
    reasons 4
    throttle_power 123456789
    throttle_hw_thermal 7
    nvlink_tx 1048576
    pcie_rx 4096
    ecc_corrected 3
    recovery 1
    encoder 5
    pcie_width 8
    links 18 switch
    nvlink_errors 9
  )");
  const Reading r = read_all();
  const std::vector<std::pair<Metric, double>> expected = {
      {Metric::kUtilization, 83},        {Metric::kMemoryUtilization, 40},  {Metric::kMemoryUsed, 1000000},
      {Metric::kMemoryReserved, 533725184}, {Metric::kPower, 500},          {Metric::kPowerInstant, 612.5},
      {Metric::kMemoryTemperature, 71},  {Metric::kTemperature, 66},        {Metric::kSmClock, 1755},
      {Metric::kClockEventReasons, 4},   {Metric::kThrottlePower, 123456789}, {Metric::kThrottleHwThermal, 7},
      {Metric::kNvlinkTx, 1048576},      {Metric::kPcieRx, 4096},           {Metric::kEccCorrected, 3},
      {Metric::kRecoveryAction, 1},      {Metric::kEncoderUtilization, 5},  {Metric::kPcieWidth, 8},
      {Metric::kNvlinkErrors, 9},        {Metric::kPowerLimit, 700},        {Metric::kTemperatureMargin, 53},
      {Metric::kPerformanceState, 0},    {Metric::kBar1Used, 3145728},      {Metric::kRemappedRowsFailed, 0}};
  for (const auto& [metric, wanted] : expected) {
    const auto got = value(r, metric);
    ASSERT_TRUE(got) << metric_info(metric).name << ": " << backend->why_absent(0, metric);
    EXPECT_DOUBLE_EQ(*got, wanted) << metric_info(metric).name;
    EXPECT_EQ(backend->why_absent(0, metric), "") << metric_info(metric).name;
  }
  // 500 W for ten seconds and the time since.
  ASSERT_TRUE(value(r, Metric::kEnergy));
  EXPECT_NEAR(*value(r, Metric::kEnergy), 5000, 300);
  for (const Sample& s : r.samples) EXPECT_GE(s.time_ns, r.time_ns) << "of the past: " << metric_info(s.metric).name;
}

TEST_F(Nvml, WhatADeviceCannotSayIsAbsentWithItsReasonAndNotAskedAgain) {
  open("device 0\nfan unsupported\nmargin denied\nmemory_temperature unsupported\ntemperature 50\n");
  for (int i = 0; i < 3; ++i) {
    const Reading r = read_all();
    EXPECT_FALSE(value(r, Metric::kFanSpeed));
    EXPECT_FALSE(value(r, Metric::kTemperatureMargin));
    EXPECT_FALSE(value(r, Metric::kMemoryTemperature));
    EXPECT_FALSE(value(r, Metric::kNvlinkTx));
    EXPECT_TRUE(value(r, Metric::kTemperature));
  }
  EXPECT_EQ(backend->why_absent(0, Metric::kFanSpeed), "not supported by this device");
  EXPECT_EQ(backend->why_absent(0, Metric::kTemperatureMargin), "no permission");
  EXPECT_EQ(backend->why_absent(0, Metric::kMemoryTemperature), "not supported by this device");
  EXPECT_EQ(backend->why_absent(0, Metric::kNvlinkErrors), "not supported by this device");
  EXPECT_NE(backend->why_absent(0, Metric::kXgmiTx), "");
  EXPECT_EQ(calls("nvmlDeviceGetFanSpeed"), 1);
  EXPECT_EQ(calls("nvmlDeviceGetMarginTemperature"), 1);
}

TEST_F(Nvml, EveryMetricIsThereOrHasAReason) {
  open_file("two_h100.txt");
  read_all();
  pause_ms(60);
  const Reading r = read_all();
  for (const MetricInfo& m : metrics()) {
    const bool there = value(r, m.metric) || backend->devices()[0].constant(m.metric);
    EXPECT_TRUE(there || !backend->why_absent(0, m.metric).empty()) << m.name;
  }
}

TEST_F(Nvml, ThreeCallsATickOnAverageAtTheUsualRates) {
  for (const int64_t tick_ns : {kSecond / 1000, kSecond / 100, kSecond / 5}) {
    open_file("two_h100.txt");
    int64_t now = kSecond;
    read(0, {now, true, true});
    const int64_t before = calls("");
    const int64_t xid_before = calls("nvmlEventSetWait_v2");
    const int64_t ticks = 30 * kSecond / tick_ns;
    int64_t asked = now;
    std::map<Metric, int> seen;
    for (int64_t i = 0; i < ticks; ++i) {
      now += tick_ns;
      const bool processes = now - asked >= kSecond;
      if (processes) asked = now;
      for (const Sample& s : read(0, {now, processes, false}).samples) ++seen[s.metric];
    }
    const int64_t made = calls("") - before - (calls("nvmlEventSetWait_v2") - xid_before);
    EXPECT_LE(made, 3 * ticks + 7) << tick_ns;
    EXPECT_GE(made, ticks) << tick_ns;
    for (const Metric m : {Metric::kMemoryUsed, Metric::kSmClock, Metric::kTemperature, Metric::kClockEventReasons,
                           Metric::kEnergy, Metric::kEccCorrected})
      EXPECT_GT(seen[m], 0) << metric_info(m).name << " " << tick_ns;
    EXPECT_GT(seen[Metric::kPcieWidth], 0);
    EXPECT_GT(seen[Metric::kPowerLimit], 0);
    EXPECT_EQ(calls("nvmlDeviceGetPcieThroughput"), 0);
    backend.reset();
  }
}

TEST_F(Nvml, SlowTicksStarveNothing) {
  for (const int64_t tick_ns : {kSecond, 2 * kSecond, 10 * kSecond, 60 * kSecond}) {
    open_file("two_h100.txt");
    int64_t now = kSecond;
    read(0, {now, true, true});
    const int64_t before = calls("");
    std::map<Metric, int> seen;
    for (int64_t i = 0; i < 40; ++i)
      for (const Sample& s : read(0, {now += tick_ns, true, false}).samples) ++seen[s.metric];
    EXPECT_LE(calls("") - before, 15 * 40 * tick_ns / kSecond + 40) << tick_ns;
    // Each at its own period, or at each tick where that is rarer.
    for (const auto& [metric, period_s] : {std::pair{Metric::kMemoryUsed, 0},
                                           {Metric::kTemperature, 2},
                                           {Metric::kVideoClock, 10},
                                           {Metric::kPcieWidth, 10}})
      EXPECT_GE(seen[metric], 40 * tick_ns / std::max(period_s * kSecond, tick_ns) - 2)
          << metric_info(metric).name << " " << tick_ns;
    backend.reset();
  }
}

TEST_F(Nvml, AReadingInFullEndsInTimeWithWhatCountsMost) {
  open("delay_us 1000\ndevice 0\n");
  Reading r;
  r.time_ns = unix_ns();
  const int64_t begun = monotonic_ns();
  ASSERT_TRUE(backend->read({.now_ns = begun, .everything = true, .until_ns = begun + 1}, r));
  EXPECT_TRUE(value(r, Metric::kEnergy)) << "a counter, from the beginning on";
  ASSERT_TRUE(backend->read({.now_ns = begun + kSecond, .everything = true, .until_ns = begun + 1}, r));
  for (const Metric m : {Metric::kUtilization, Metric::kMemoryUsed, Metric::kPower})
    EXPECT_TRUE(value(r, m)) << metric_info(m).name;
  EXPECT_FALSE(value(r, Metric::kPcieWidth));
  EXPECT_EQ(calls("nvmlDeviceGetCurrPcieLinkWidth"), 0);
}

TEST_F(Nvml, WhatWasReadAMomentAgoIsNotReadAgainAtTheEndButCounters) {
  open("missing field:83\ndevice 0\n");
  const int64_t begun = monotonic_ns();
  read_all();
  const int64_t memory = calls("nvmlDeviceGetMemoryInfo_v2"), energy = calls("nvmlDeviceGetTotalEnergyConsumption");
  (void)read(0, {.now_ns = begun + 5'000'000, .everything = true, .until_ns = begun + 1});
  EXPECT_EQ(calls("nvmlDeviceGetMemoryInfo_v2"), memory);
  EXPECT_EQ(calls("nvmlDeviceGetTotalEnergyConsumption"), energy + 1);
  (void)read(0, {.now_ns = begun + kSecond, .everything = true, .until_ns = begun + 1});
  EXPECT_EQ(calls("nvmlDeviceGetMemoryInfo_v2"), memory + 1);
}

TEST_F(Nvml, NothingOfTheBuffersIsLostForWantOfTimeAtTheBeginning) {
  open("delay_us 500\ndevice 0\nutilization sine 20 95 3\n");
  const int64_t begun = monotonic_ns();
  Reading first;
  first.time_ns = unix_ns();
  ASSERT_TRUE(backend->read({.now_ns = begun, .everything = true, .until_ns = begun + 1}, first));
  EXPECT_FALSE(value(first, Metric::kUtilization)) << "no time for it";
  pause_ms(650);
  const Reading r = read(0, {begun + kSecond, false, false});
  const auto told = std::count_if(r.samples.begin(), r.samples.end(),
                                  [](const Sample& s) { return s.metric == Metric::kUtilization; });
  EXPECT_GE(told, 5) << "one each 0.1 s";
  for (const Sample& s : r.samples) EXPECT_GE(s.time_ns, first.time_ns - 1000) << metric_info(s.metric).name;
}

TEST_F(Nvml, TheLastReadingHasThePowerToItsEnd) {
  open("delay_us 500\ndevice 0\npower steps 0.3 100 600\n");
  const int64_t begun = monotonic_ns();
  Reading first;
  first.time_ns = unix_ns();
  ASSERT_TRUE(backend->read({.now_ns = begun, .everything = true, .until_ns = begun + 1}, first));
  pause_ms(550);
  Reading last;
  last.time_ns = unix_ns();
  ASSERT_TRUE(backend->read({.now_ns = monotonic_ns(), .everything = true, .until_ns = begun + 1}, last));
  EXPECT_GE(all(last, Metric::kPower).size(), 4U) << "one each 0.1 s";
  EXPECT_EQ(value(last, Metric::kPower), 600.0);
}

TEST_F(Nvml, FastTicksKeepThePeriods) {
  open("device 0\n");
  int64_t now = kSecond;
  read(0, {now, false, true});
  const int64_t before = calls("nvmlDeviceGetMemoryInfo_v2"), state = calls("nvmlDeviceGetPerformanceState");
  for (int i = 0; i < 2000; ++i) read(0, {now += kSecond / 100, false, false});
  EXPECT_NEAR(static_cast<double>(calls("nvmlDeviceGetMemoryInfo_v2") - before), 100, 5);
  EXPECT_NEAR(static_cast<double>(calls("nvmlDeviceGetPerformanceState") - state), 4, 1);
}

TEST_F(Nvml, WhatIsWantedIsReadAtEachTick) {
  open("device 0\ntemperature 50\nfan 30\n");
  ReadRequest request{.now_ns = kSecond, .everything = true};
  read(0, request);
  request.everything = false;
  for (const Metric m : {Metric::kTemperature, Metric::kMemoryFree, Metric::kFanSpeed, Metric::kEccCorrected})
    request.wanted.set(static_cast<size_t>(m));
  for (int i = 0; i < 100; ++i) {
    request.now_ns += kSecond / 50;
    const Reading r = read(0, request);
    for (const MetricInfo& m : metrics())
      EXPECT_TRUE(value(r, m.metric) || !request.wanted[static_cast<size_t>(m.metric)]) << m.name << " " << i;
  }
}

TEST_F(Nvml, AnOldDriver) {
  use_library("old/libnvidia-ml.so.1");
  open_file("old_driver.txt");
  const DeviceInfo& d = backend->devices()[0];
  EXPECT_EQ(d.name, "Tesla P100-PCIE-16GB");
  EXPECT_EQ(d.pci_bus_id, "00000000:10:00.0");
  EXPECT_EQ(d.constant(Metric::kMemoryTotal), 17066885120.0);
  const Reading r = read_all();
  EXPECT_EQ(value(r, Metric::kMemoryUsed), 3221225472.0);
  EXPECT_EQ(value(r, Metric::kPower), 133.0);
  EXPECT_EQ(value(r, Metric::kSmClock), 1189.0);
  EXPECT_TRUE(value(r, Metric::kClockEventReasons)) << "under the call's older name";
  EXPECT_TRUE(value(r, Metric::kUtilization));
  EXPECT_FALSE(value(r, Metric::kMemoryReserved));
  EXPECT_EQ(backend->why_absent(0, Metric::kMemoryReserved), "this driver has no call for it");
  EXPECT_EQ(backend->why_absent(0, Metric::kEnergy), "not supported by this device");
  EXPECT_EQ(backend->why_absent(0, Metric::kThrottlePower), "this driver has no call for it");
  EXPECT_EQ(backend->why_absent(0, Metric::kXidErrors), "this driver has no call for it");
  EXPECT_EQ(backend->why_absent(0, Metric::kSmActive), "this driver has no call for it");
  ASSERT_EQ(r.processes.size(), 1U);
  EXPECT_EQ(r.processes[0].pid, 1234);
  EXPECT_EQ(r.processes[0].memory_bytes, 3200000000);
}

TEST_F(Nvml, AnOldDriverUnderANewLibrary) {
  open("missing nvmlDeviceGetMemoryInfo_v2 nvmlDeviceGetFieldValues nvmlDeviceGetComputeRunningProcesses_v3\n"
       "missing nvmlDeviceGetSamples nvmlDeviceGetProcessesUtilizationInfo nvmlDeviceGetTemperature\n"
       "device 0\nmemory_used 1000\nutilization 44\npower 90\ntemperature 40\n"
       "process 77 C memory=900 sm=50\n");
  read_all();
  const Reading r = read_all();
  EXPECT_EQ(value(r, Metric::kMemoryUsed), 1000.0 + 533725184) << "the old call counts what is reserved";
  EXPECT_EQ(value(r, Metric::kUtilization), 44.0);
  EXPECT_EQ(value(r, Metric::kPower), 90.0);
  EXPECT_EQ(value(r, Metric::kTemperature), 40.0);
  EXPECT_TRUE(value(r, Metric::kEnergy));
  ASSERT_EQ(r.processes.size(), 1U);
  EXPECT_EQ(r.processes[0].memory_bytes, 900);
  EXPECT_EQ(r.processes[0].utilization_pct, 50.0);
}

TEST_F(Nvml, OneFieldThatIsGoneTakesNoOtherWithIt) {
  open("missing field:186 field:83\ndevice 0\npower 250\npower_limit 400\n");
  const Reading r = read_all();
  EXPECT_EQ(value(r, Metric::kPower), 250.0);
  EXPECT_FALSE(value(r, Metric::kPowerInstant));
  EXPECT_TRUE(value(r, Metric::kEnergy)) << "by the call of its own";
}

TEST_F(Nvml, CountersThatWrapOrGoBackArePassedOnAsTheyAre) {
  open("clock held\nstart 10\ndevice 0\npcie_tx count 0 1e9 4294967296\nenergy count 1000 100 0 10.05\n");
  const Reading first = read_all();
  EXPECT_LT(*value(first, Metric::kPcieTx), 4294967296.0);
  EXPECT_GT(*value(first, Metric::kEnergy), 1000.0);
  pass(0.1);
  EXPECT_LT(*value(read_all(), Metric::kEnergy), 100.0);
}

TEST_F(Nvml, ALostDeviceIsAnErrorAndMayComeBack) {
  open("clock held\ndevice 0..1\nutilization 50\ndevice 1\nlost 0.2 0.5\nxid 79 0.2\n");
  wait_for_the_watch(1);
  pass(0.15);
  EXPECT_TRUE(value(read_all(1), Metric::kPower));
  pass(0.1);
  Status status = ok();
  read(1, {monotonic_ns(), true, true}, &status);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "GPU is lost");
  EXPECT_TRUE(value(read_all(0), Metric::kPower)) << "the other goes on";
  pass(0.4);
  const Reading r = read_all(1);
  EXPECT_TRUE(value(r, Metric::kPower));
  EXPECT_EQ(value(r, Metric::kXidErrors), 1.0);
  EXPECT_EQ(value(r, Metric::kXidLast), 79.0);
  EXPECT_EQ(value(read_all(0), Metric::kXidErrors), 0.0);
  EXPECT_EQ(backend->why_absent(0, Metric::kXidLast), "none seen");
}

TEST_F(Nvml, TheLastReadingKnowsAnErrorOfJustNow) {
  // Most Xid errors end the program that caused them: what was seen at the last regular look is not enough.
  open("clock held\ndevice 0\nxid 31 0.31\nxid 43 0.32\n");
  wait_for_the_watch();
  pass(0.33);
  const Reading r = read_all();
  EXPECT_EQ(value(r, Metric::kXidErrors), 2.0);
  EXPECT_EQ(value(r, Metric::kXidLast), 43.0);
  const auto events = all(r, Metric::kXidLast);
  ASSERT_EQ(events.size(), 2u) << "each is told";
  EXPECT_EQ(events[0].value, 31.0);
  EXPECT_LT(events[0].time_ns, events[1].time_ns);
  const auto later = all(read_all(), Metric::kXidLast);
  ASSERT_EQ(later.size(), 1u) << "and the last one again";
  EXPECT_EQ(later[0].time_ns, events[1].time_ns);
}

TEST_F(Nvml, AWatchThatHangsHoldsOneReadingForAShortWhile) {
  open("clock held\ndevice 0\nhang nvmlEventSetWait_v2 0.1\n");
  wait_for_the_watch();
  pass(0.2);
  read_all();
  // Each of these would take a tenth of a second if it waited for the watch too.
  const int64_t begun_ns = monotonic_ns();
  for (int i = 0; i < 100; ++i) read_all();
  EXPECT_LT(monotonic_ns() - begun_ns, 10 * kSecond);
}

TEST_F(Nvml, ADeviceThatIsLostFromTheBeginning) {
  open("device 0..1\ndevice 1\nreset_required 0\n");
  ASSERT_EQ(backend->devices().size(), 2U);
  Status status = ok();
  read(1, {monotonic_ns(), true, true}, &status);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "GPU requires reset");
  read_all(0);
}

TEST_F(Nvml, AnUnknownErrorOfOneCallIsOfThatMetricUnlessItIsVital) {
  open("device 0..1\ndevice 0\nerror nvmlDeviceGetPerformanceState 999\n"
       "device 1\nerror nvmlDeviceGetFieldValues 999\n");
  const Reading r = read_all(0);
  EXPECT_FALSE(value(r, Metric::kPerformanceState));
  EXPECT_EQ(backend->why_absent(0, Metric::kPerformanceState), "unknown error of the driver");
  EXPECT_TRUE(value(r, Metric::kMemoryUsed));
  Status status = ok();
  read(1, {monotonic_ns(), true, true}, &status);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "unknown error of the driver");
}

TEST_F(Nvml, ACallThatHangsHoldsUpItsOwnDeviceAlone) {
  open("clock held\ndevice 0..1\nutilization 50\ndevice 1\nhang any 0.1 0.6\n");
  read_all(0);
  pass(0.2);
  std::atomic<bool> begun = false, ended = false;
  std::thread stuck([&] {
    begun = true;
    read_all(1);
    ended = true;
  });
  while (!begun) pause_ms(1);
  for (int i = 0; i < 20; ++i) read_all(0);
  EXPECT_FALSE(ended);
  pass(0.6);
  stuck.join();
}

TEST_F(Nvml, ConstantsMayComeInReadings) {
  open("device 0\nutilization 50\n", {.constants_later = true});
  const DeviceInfo& d = backend->devices()[0];
  EXPECT_TRUE(d.constant(Metric::kMemoryTotal));
  EXPECT_FALSE(d.constant(Metric::kSmClockMax));
  EXPECT_EQ(backend->why_absent(0, Metric::kSmClockMax), "not read yet");
  // One or two a tick, each once, while turns that come again and again go on.
  std::map<Metric, int> seen;
  const int64_t begun = monotonic_ns();
  for (int i = 0; i < 300; ++i) {
    const Reading r = read(0, {begun + i * kSecond / 10, false, false});
    size_t constants = 0;
    for (const Sample& s : r.samples)
      if (metric_info(s.metric).kind == MetricKind::kConstant) ++seen[s.metric], ++constants;
    EXPECT_LE(constants, 2U);
  }
  for (const Metric m : {Metric::kBar1Total, Metric::kSmClockMax, Metric::kTemperatureSlowdown, Metric::kPowerLimitMin,
                         Metric::kPowerLimitMax, Metric::kVideoClockMax}) {
    EXPECT_EQ(seen[m], 1) << metric_info(m).name;
    EXPECT_EQ(backend->why_absent(0, m), "");
  }
}

TEST_F(Nvml, AReadingOfEverythingHasTheConstantsToo) {
  open("device 0\nutilization 50\n", {.constants_later = true});
  const Reading r = read_all();
  EXPECT_EQ(value(r, Metric::kSmClockMax), 1980.0);
  EXPECT_EQ(value(r, Metric::kPowerLimitMax), 700.0);
  EXPECT_FALSE(value(read_all(), Metric::kSmClockMax));
}

TEST_F(Nvml, OneLookForErrorsIsForAllDevicesOfATick) {
  open("device 0..3\nutilization 50\n");
  wait_for_the_watch();
  const int64_t before = calls("nvmlEventSetWait_v2"), tick = monotonic_ns();
  for (uint32_t d = 0; d < 4; ++d) {
    ReadRequest request{monotonic_ns(), false, true};
    request.tick_ns = tick;
    read(d, request);
  }
  EXPECT_EQ(calls("nvmlEventSetWait_v2"), before + 1);
}

TEST_F(Nvml, ADriverThatHangsFromTheBeginningIsGivenUp) {
  (void)try_open("device 0\n");
  setenv("PROFGPU_NVML_SCENARIO", write("clock held\ndevice 0..1\nhang nvmlDeviceGetName 0 1\n").c_str(), 1);
  auto inventory = nvml::take_inventory(100'000'000, true);
  ASSERT_FALSE(inventory);
  EXPECT_NE(inventory.error().message.find("not answered"), std::string::npos);
  pass(2);
  pause_ms(100);   // its thread comes back and must find nothing amiss
}

TEST_F(Nvml, ADeviceThatHangsFromTheBeginningLeavesTheOthersToBeWatched) {
  open(
      "clock held\ndevice 0..2\nutilization 50\ndevice 1\nhang any 0 4\ndevice 2\nmig_mode 1\nmig 1 0 3g.40gb "
      "42949672960 1000\n");
  ASSERT_EQ(backend->devices().size(), 4U);
  EXPECT_EQ(backend->devices()[1].name, "NVIDIA GPU (does not answer)");
  EXPECT_EQ(backend->devices()[1].index, 1U);
  EXPECT_EQ(backend->devices()[3].parent, 2U);
  EXPECT_TRUE(value(read_all(0), Metric::kPower));
  Status status = ok();
  read(1, {monotonic_ns(), true, true}, &status);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "does not answer");
  EXPECT_EQ(backend->why_absent(1, Metric::kPower), "does not answer");
  backend.reset();
  pass(5);
  pause_ms(100);   // its thread comes back and must find nothing amiss
}

TEST_F(Nvml, AWatchThatHangsIsLeftBehind) {
  open("clock held\ndevice 0\nhang nvmlDeviceRegisterEvents 0 0.8\n");
  const Reading r = read_all();
  EXPECT_TRUE(value(r, Metric::kPower));
  EXPECT_FALSE(value(r, Metric::kXidErrors));
  EXPECT_EQ(backend->why_absent(0, Metric::kXidErrors), "the device is not ready");
  backend.reset();
  pass(1);
  pause_ms(100);
}

TEST_F(Nvml, EndsQuickly) {
  open("device 0\n");
  read_all();
  const int64_t begun = monotonic_ns();
  backend.reset();
  EXPECT_LT(monotonic_ns() - begun, kSecond / 2) << "the pause of the watch for errors is a second";
}

TEST_F(Nvml, WhyItDoesNotOpen) {
  const std::vector<std::pair<std::string, std::string>> kCases = {
      {"init_error 9\n", "driver is not loaded"}, {"init_error 18\n", "upgraded"},
      {"init_error 4\n", "no permission"},        {"init_error 15\n", "fallen off the bus"},
      {"init_error 999\n", "unknown error"},      {"driver 550.54.15\n", "has no device"},
      {"device 0\nerror nvmlDeviceGetHandleByIndex_v2 0\n", ""}};
  for (const auto& [text, words] : kCases) {
    auto opened = try_open(text);
    if (words.empty()) continue;
    ASSERT_FALSE(opened) << text;
    EXPECT_NE(opened.error().message.find(words), std::string::npos) << opened.error().message;
    EXPECT_FALSE(opened.error().hint.empty()) << opened.error().message;
  }
}

TEST_F(Nvml, LibrariesThatAreNone) {
  const std::string broken = ::testing::TempDir() + "nvml_broken.so";
  std::ofstream(broken) << "not a library";
  for (const std::string& path : {std::string("/no/such/libnvidia-ml.so.1"), broken, std::string("libz.so.1")}) {
    setenv("PROFGPU_NVML_LIBRARY", path.c_str(), 1);
    auto opened = kNvml.open({});
    ASSERT_FALSE(opened) << path;
    const std::string file = path.substr(path.rfind('/') + 1);
    EXPECT_NE(opened.error().message.find(file), std::string::npos) << opened.error().message;
  }
  unlink(broken.c_str());
}

}  // namespace

namespace {

class NvmlFacts : public NvmlStage {
 protected:
  static const Fact* find(const std::vector<Fact>& facts, const std::string& id) {
    for (const Fact& f : facts)
      if (f.id == id) return &f;
    return nullptr;
  }
  static std::string text(const std::vector<Fact>& facts, const std::string& id) {
    const Fact* f = find(facts, id);
    return !f ? "no such fact" : f->value.empty() ? "unknown: " + f->reason : f->value;
  }
};

TEST_F(NvmlFacts, OfTheSystem) {
  open_file("two_h100.txt");
  const auto facts = backend->system_facts();
  EXPECT_EQ(text(facts, "driver_version"), "550.54.15");
  EXPECT_EQ(text(facts, "nvml_version"), "12.550.54.15");
  EXPECT_EQ(text(facts, "cuda_driver_version"), "12.4");
  EXPECT_NE(text(facts, "nvml_library").find("libnvidia-ml.so.1"), std::string::npos);
}

TEST_F(NvmlFacts, OfADevice) {
  open("device 0\nlinks 4 switch\nnvlink_errors 12\npersistence 0\ncompute_mode 3\npcie_gen 1\npcie_width 8\n"
       "remapped_pending 1\nrecovery 2\nreasons 68\necc_mode denied\n");
  const auto facts = backend->device_facts(0);
  EXPECT_EQ(text(facts, "persistence_mode"), "disabled");
  EXPECT_EQ(text(facts, "compute_mode"), "exclusive process");
  EXPECT_EQ(text(facts, "ecc_mode"), "unknown: no permission");
  EXPECT_EQ(text(facts, "mig_mode"), "disabled");
  EXPECT_EQ(text(facts, "pcie_generation"), "1");
  EXPECT_EQ(text(facts, "pcie_generation_max"), "5");
  EXPECT_EQ(text(facts, "pcie_width"), "8");
  EXPECT_EQ(text(facts, "pcie_width_max"), "16");
  EXPECT_EQ(text(facts, "remapped_rows_pending"), "1");
  EXPECT_EQ(text(facts, "retired_pages_pending"), "unknown: not supported by this device");
  EXPECT_EQ(text(facts, "recovery_action"), "reboot the node");
  EXPECT_EQ(text(facts, "clock_event_reasons"), "sw_power_cap, hw_thermal_slowdown");
  EXPECT_EQ(text(facts, "power_limit_w"), "700");
  EXPECT_EQ(text(facts, "nvlinks_active"), "4 of 18");
  EXPECT_EQ(text(facts, "nvlink_errors"), "12");
}

TEST_F(NvmlFacts, OfADeviceWithoutLinks) {
  open("device 0\n");
  EXPECT_EQ(text(backend->device_facts(0), "nvlinks_active"), "unknown: not supported by this device");
}

TEST_F(NvmlFacts, Topology) {
  open("near 0 1 10\nnear 0 2 20\nnear 1 2 30\nnear 0 3 50\ntopology 40\ndevice 0..3\n");
  const auto t = backend->topology();
  ASSERT_EQ(t.size(), 4U);
  EXPECT_EQ(t[0][0].kind, "X");
  EXPECT_EQ(t[0][1].kind, "PIX");
  EXPECT_EQ(t[2][0].kind, "PXB");
  EXPECT_EQ(t[1][2].kind, "PHB");
  EXPECT_EQ(t[0][3].kind, "SYS");
  EXPECT_EQ(t[3][2].kind, "NODE");
}

TEST_F(NvmlFacts, NvlinkBySwitchAndDirect) {
  open_file("two_h100.txt");
  EXPECT_EQ(backend->topology()[0][1].kind, "NV18");
  backend.reset();
  open("topology 50\ndevice 0..2\ndevice 0\nlinks 4 1\ndevice 1\nlinks 4 0\n");
  const auto t = backend->topology();
  EXPECT_EQ(t[0][1].kind, "NV4");
  EXPECT_EQ(t[1][0].kind, "NV4");
  EXPECT_EQ(t[0][2].kind, "SYS");
}

TEST_F(NvmlFacts, MigInstances) {
  open_file("mig.txt");
  ASSERT_EQ(backend->devices().size(), 4U);
  const DeviceInfo& m = backend->devices()[1];
  EXPECT_EQ(m.index, 0U);
  EXPECT_EQ(m.parent, 0U);
  EXPECT_EQ(m.label(), "0:1");
  EXPECT_EQ(m.mig_profile, "3g.40gb");
  EXPECT_EQ(m.uuid.substr(0, 4), "MIG-");
  EXPECT_EQ(m.compute_instance, 0U);
  EXPECT_EQ(m.constant(Metric::kMemoryTotal), 42278584320.0);
  EXPECT_FALSE(m.constant(Metric::kPowerLimitMax));
  EXPECT_EQ(backend->devices()[3].index, 1U);
  EXPECT_FALSE(backend->devices()[3].parent);

  const Reading r = read_all(1);
  EXPECT_EQ(value(r, Metric::kMemoryUsed), 17179869184.0);
  EXPECT_FALSE(value(r, Metric::kPower));
  EXPECT_FALSE(value(r, Metric::kXidErrors));
  EXPECT_EQ(backend->why_absent(1, Metric::kUtilization), "not reported for MIG instances");
  EXPECT_EQ(backend->why_absent(1, Metric::kPower), "not reported for MIG instances");
  pause_ms(60);
  EXPECT_EQ(value(read_all(1), Metric::kSmActive), 61.0) << "only GPM knows what an instance does";

  const Reading whole = read_all(0);
  EXPECT_EQ(value(whole, Metric::kPower), 310.0);
  EXPECT_FALSE(value(whole, Metric::kUtilization));
  EXPECT_EQ(backend->why_absent(0, Metric::kUtilization), "not reported for a GPU in MIG mode: see its instances");
  EXPECT_EQ(backend->topology()[1][0].kind, "X");
  EXPECT_EQ(text(backend->device_facts(1), "mig_mode"), "enabled");
}

TEST_F(NvmlFacts, ActivityCountersNeedTwoLooks) {
  open("device 0\ngpm_sm 71.5\ngpm_tensor 30\ngpm_pcie_rx 100\ngpm_fp64 unsupported\n");
  const Reading first = read_all();
  EXPECT_FALSE(value(first, Metric::kSmActive));
  pause_ms(60);
  const Reading r = read_all();
  const auto sm = all(r, Metric::kSmActive);
  ASSERT_EQ(sm.size(), 1U);
  EXPECT_EQ(sm[0].value, 71.5);
  EXPECT_EQ(sm[0].time_ns, first.time_ns) << "it holds for the time between the looks";
  EXPECT_EQ(value(r, Metric::kTensorActive), 30.0);
  EXPECT_EQ(value(r, Metric::kPcieRxRate), 100.0 * 1048576);
  EXPECT_FALSE(value(r, Metric::kFp64Active));
  EXPECT_EQ(backend->why_absent(0, Metric::kFp64Active), "not supported by this device");
}

TEST_F(NvmlFacts, ChipsWithoutActivityCounters) {
  open("device 0\ngpm 0\n");
  read_all();
  EXPECT_EQ(backend->why_absent(0, Metric::kSmActive), "not supported by this device");
}

}  // namespace

}  // namespace profgpu
