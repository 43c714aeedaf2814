// Where a scenario is played: its clock, what every call goes through first, and the count of calls.
#pragma once

#include <atomic>
#include <cstdint>

#include "devices/nvml_library.h"
#include "scenario.h"

#define NVML_EXPORT extern "C" __attribute__((visibility("default")))

namespace nvml_stub {

using namespace profgpu::nvml;

struct CallCount {
  explicit CallCount(const char* called);
  const char* name;
  std::atomic<int64_t> calls{0};
  CallCount* next;
};

Scenario& scenario();
/// Seconds since nvmlInit, and the Unix time of that in microseconds.
double seconds();
uint64_t unix_us(double seconds);

/// Writes what PROFGPU_NVML_LOG names: a program that is left in a driver ends without it.
void log_calls();

Return enter(CallCount& count, Gpu* gpu, bool needs_device);
inline Gpu* gpu_of(Device device) { return reinterpret_cast<Gpu*>(device); }
inline Device handle_of(Gpu& gpu) { return reinterpret_cast<Device>(&gpu); }

/// The value of a course now, or its code.
template <class Number>
Return tell(const Gpu* gpu, const char* key, Number* out, double scale = 1) {
  if (!out) return kInvalidArgument;
  const Course& c = gpu->course(key);
  if (c.code) return static_cast<Return>(c.code);
  *out = static_cast<Number>(c.at(seconds()) * scale);
  return kSuccess;
}
double power_of(const Gpu& gpu, double at);
double energy_of(Gpu& gpu, double at);

}  // namespace nvml_stub

#define NVML_ENTER_SYSTEM()                                                    \
  static nvml_stub::CallCount call_count(__func__);                            \
  if (const Return code = enter(call_count, nullptr, false); code != kSuccess) return code
#define NVML_ENTER(device)                                                     \
  static nvml_stub::CallCount call_count(__func__);                            \
  if (const Return code = enter(call_count, gpu_of(device), true); code != kSuccess) return code
