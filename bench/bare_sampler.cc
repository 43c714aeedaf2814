// The yardstick of the sampler: a loop that makes NVML calls on an absolute schedule and does nothing with the answers.
//
//   bare_sampler LIBRARY DEVICES HZ SECONDS [FUNCTION PER_TICK]...
//
// PER_TICK counts over all devices and may be a fraction: each call comes as often as it is due, devices in turn.
// Prints the ticks, those that came over half an interval late, and the wake-up delays as JSON.
#include <dlfcn.h>
#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "devices/nvml_library.h"

namespace {

using namespace profgpu::nvml;

struct Target {
  Device device;
  std::array<uint64_t, 3> seen_us;  // of each ring buffer
  GpmSample before, after;
};

enum Kind {
  kNumber,
  kPair,
  kIndexed,
  kWide,
  kFields,
  kSamples,
  kMemory,
  kRates,
  kBar1,
  kMargin,
  kGpmTake,
  kGpmRead,
  kList,
  kUse,
  kEvents
};
struct Signature {
  const char* name;
  Kind kind;
};
constexpr Signature kKnown[] = {
    {"nvmlDeviceGetFieldValues", kFields},
    {"nvmlDeviceGetSamples", kSamples},
    {"nvmlDeviceGetUtilizationRates", kRates},
    {"nvmlDeviceGetMemoryInfo_v2", kMemory},
    {"nvmlDeviceGetBAR1MemoryInfo", kBar1},
    {"nvmlDeviceGetClockInfo", kIndexed},
    {"nvmlDeviceGetTemperature", kIndexed},
    {"nvmlDeviceGetMarginTemperature", kMargin},
    {"nvmlDeviceGetCurrentClocksEventReasons", kWide},
    {"nvmlDeviceGetTotalEnergyConsumption", kWide},
    {"nvmlDeviceGetPowerUsage", kNumber},
    {"nvmlDeviceGetEnforcedPowerLimit", kNumber},
    {"nvmlDeviceGetPerformanceState", kNumber},
    {"nvmlDeviceGetFanSpeed", kNumber},
    {"nvmlDeviceGetCurrPcieLinkGeneration", kNumber},
    {"nvmlDeviceGetCurrPcieLinkWidth", kNumber},
    {"nvmlDeviceGetMaxPcieLinkGeneration", kNumber},
    {"nvmlDeviceGetMaxPcieLinkWidth", kNumber},
    {"nvmlDeviceGetPowerManagementDefaultLimit", kNumber},
    {"nvmlDeviceGetPowerManagementLimitConstraints", kPair},
    {"nvmlDeviceGetTemperatureThreshold", kIndexed},
    {"nvmlDeviceGetMaxClockInfo", kIndexed},
    {"nvmlDeviceGetEncoderUtilization", kPair},
    {"nvmlDeviceGetDecoderUtilization", kPair},
    {"nvmlDeviceGetJpgUtilization", kPair},
    {"nvmlDeviceGetOfaUtilization", kPair},
    {"nvmlGpmSampleGet", kGpmTake},
    {"nvmlGpmMetricsGet", kGpmRead},
    {"nvmlDeviceGetComputeRunningProcesses_v3", kList},
    {"nvmlDeviceGetGraphicsRunningProcesses_v3", kList},
    {"nvmlDeviceGetMPSComputeRunningProcesses_v3", kList},
    {"nvmlDeviceGetProcessesUtilizationInfo", kUse},
    {"nvmlEventSetWait_v2", kEvents},
};

// The fields that move, which one batch asks for.
constexpr uint32_t kQuick[] = {kPowerAverage,        kPowerInstant,       kTotalEnergy,
                               kMemoryTemperature,   kThrottlePower,      kThrottleThermal,
                               kThrottleSyncBoost,   kThrottleBoardLimit, kThrottleLowUtilization,
                               kThrottleReliability, kThrottleSwThermal,  kThrottleHwThermal,
                               kThrottleHwPowerBrake, kLinkDataTx,        kLinkDataRx,
                               kPcieTxBytes,         kPcieRxBytes};
constexpr uint32_t kGpmIds[] = {1, 2, 3, 5, 10, 11, 12, 13, 20, 21};

struct Call {
  void* function;
  Kind kind;
  double per_tick, owed;
  uint32_t made;
};

[[noreturn]] void fail(const char* what, const char* name) {
  std::fprintf(stderr, "bare_sampler: %s: %s\n", name, what);
  std::exit(1);
}

template <class Function>
Function find(void* library, const char* name) {
  void* found = ::dlsym(library, name);
  if (!found) fail("not in the library", name);
  return reinterpret_cast<Function>(found);
}

template <class... Parameters>
void invoke(const Call& call, Parameters... parameters) {
  reinterpret_cast<Return (*)(Parameters...)>(call.function)(parameters...);
}

void read_fields(const Call& call, Device device) {
  std::array<FieldValue, std::size(kQuick)> values{};
  for (size_t i = 0; i < values.size(); ++i) {
    values[i].field = kQuick[i];
    if (kQuick[i] == kLinkDataTx || kQuick[i] == kLinkDataRx) values[i].scope = kAllLinks;
  }
  invoke(call, device, static_cast<int>(values.size()), values.data());
}

void drain(const Call& call, Target& target, uint32_t type) {
  static std::array<RingSample, 256> samples;
  uint32_t value_type = 0, count = samples.size();
  invoke(call, target.device, type, target.seen_us[type], &value_type, &count, samples.data());
  if (count > 0 && count <= samples.size()) target.seen_us[type] = samples[count - 1].time_us;
}

void read_gpm(const Call& call, Target& target) {
  GpmMetrics<std::size(kGpmIds)> request{};
  request.version = 1;
  request.count = std::size(kGpmIds);
  request.before = target.before, request.after = target.after;
  for (size_t i = 0; i < std::size(kGpmIds); ++i) request.metrics[i].id = kGpmIds[i];
  invoke(call, static_cast<void*>(&request));
  std::swap(target.before, target.after);
}

void make(const Call& call, Target& target, EventSet events) {
  static std::array<char, 64 * sizeof(ProcessConfidential)> rows;
  static std::array<ProcessUtilizationInfo, 64> uses;
  uint32_t a = 0, b = 0;
  uint64_t wide = 0;
  Utilization rates{};
  MemoryV2 memory{version_word(sizeof memory, 2), 0, 0, 0, 0};
  Bar1Memory bar1{};
  MarginTemperature margin{version_word(sizeof margin, 1), 0};
  ProcessesUtilizationInfo use{version_word(sizeof use, 1), uses.size(), 0, uses.data()};
  EventData event{};
  uint32_t room = rows.size() / sizeof(ProcessConfidential);
  switch (call.kind) {
    case kNumber: return invoke(call, target.device, &a);
    case kPair: return invoke(call, target.device, &a, &b);
    case kIndexed: return invoke(call, target.device, uint32_t{0}, &a);
    case kWide: return invoke(call, target.device, &wide);
    case kFields: return read_fields(call, target.device);
    case kSamples: return drain(call, target, call.made % 3);
    case kMemory: return invoke(call, target.device, &memory);
    case kRates: return invoke(call, target.device, &rates);
    case kBar1: return invoke(call, target.device, &bar1);
    case kMargin: return invoke(call, target.device, &margin);
    case kGpmTake: return invoke(call, target.device, target.after);
    case kGpmRead: return read_gpm(call, target);
    case kList: return invoke(call, target.device, &room, static_cast<void*>(rows.data()));
    case kUse: return invoke(call, target.device, &use);
    case kEvents: return invoke(call, events, &event, uint32_t{0});
  }
}

std::vector<Target> targets_of(void* library, uint32_t count) {
  const auto handle = find<Return (*)(uint32_t, Device*)>(library, "nvmlDeviceGetHandleByIndex_v2");
  const auto allocate = find<Return (*)(GpmSample*)>(library, "nvmlGpmSampleAlloc");
  std::vector<Target> targets(count);
  for (uint32_t i = 0; i < count; ++i) {
    if (handle(i, &targets[i].device) != kSuccess) fail("has not so many devices", "library");
    allocate(&targets[i].before);
    allocate(&targets[i].after);
  }
  return targets;
}

std::vector<Call> calls_of(void* library, int count, char** words) {
  std::vector<Call> calls;
  for (int i = 0; i + 1 < count; i += 2) {
    const auto* known = std::find_if(std::begin(kKnown), std::end(kKnown),
                                     [&](const Signature& s) { return std::strcmp(s.name, words[i]) == 0; });
    if (known == std::end(kKnown)) fail("not known", words[i]);
    // Not all of them at the same tick.
    const double phase = static_cast<double>(i) / count;
    calls.push_back({find<void*>(library, words[i]), known->kind, std::atof(words[i + 1]), phase, 0});
  }
  return calls;
}

int64_t now_ns() {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

}  // namespace

int main(int count, char** words) {
  if (count < 5)
    return std::fprintf(stderr, "usage: bare_sampler LIBRARY DEVICES HZ SECONDS [FUNCTION PER_TICK]...\n"), 2;
  void* library = ::dlopen(words[1], RTLD_NOW);
  if (!library) fail("cannot be opened", words[1]);
  if (find<Return (*)()>(library, "nvmlInit_v2")() != kSuccess) fail("does not start", words[1]);
  std::vector<Target> targets = targets_of(library, static_cast<uint32_t>(std::atoi(words[2])));
  std::vector<Call> calls = calls_of(library, count - 5, words + 5);
  EventSet events = nullptr;
  find<Return (*)(EventSet*)>(library, "nvmlEventSetCreate")(&events);
  ::prctl(PR_SET_TIMERSLACK, 1000UL);

  const auto interval_ns = static_cast<int64_t>(1e9 / std::atof(words[3]));
  const auto ticks = static_cast<size_t>(std::atof(words[4]) * 1e9) / static_cast<size_t>(interval_ns);
  std::vector<int64_t> delays;
  delays.reserve(ticks);
  size_t late = 0;
  const int64_t start = now_ns();
  const int64_t end = start + static_cast<int64_t>(ticks) * interval_ns;
  for (int64_t due = start; due < end;) {
    const timespec when{due / 1'000'000'000, due % 1'000'000'000};
    ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, nullptr);
    const int64_t woken = now_ns();
    delays.push_back(woken - due);
    late += woken - due > interval_ns / 2;
    for (Call& call : calls)
      for (call.owed += call.per_tick; call.owed >= 1; --call.owed)
        make(call, targets[call.made % targets.size()], events), ++call.made;
    due = start + ((now_ns() - start) / interval_ns + 1) * interval_ns;
  }
  const double seconds = static_cast<double>(std::max(now_ns(), end) - start) / 1e9;
  const size_t taken = delays.size();
  std::sort(delays.begin(), delays.end());
  if (taken == 0) delays.push_back(0);
  std::printf(
      "{\"ticks\": %zu, \"seconds\": %.6f, \"late_ticks\": %zu, \"jitter_p50_ns\": %ld, \"jitter_p99_ns\": %ld, "
      "\"jitter_max_ns\": %ld}\n",
      taken, seconds, late, delays[delays.size() / 2], delays[(delays.size() - 1) * 99 / 100], delays.back());
}
