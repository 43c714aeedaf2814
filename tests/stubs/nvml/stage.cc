#include "stage.h"

#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <mutex>

namespace nvml_stub {
namespace {

std::atomic<CallCount*> first_count{nullptr};
std::mutex stage_lock;
int users = 0;
// Never destroyed: a thread that hangs in one of them may still come back, even after the end of main.
std::deque<Scenario>& scenarios = *new std::deque<Scenario>;
std::atomic<Scenario*> playing{nullptr};
std::atomic<double> began = 0;
std::atomic<uint64_t> began_unix_us = 0;
std::atomic<double> advanced = 0;   // where the clock is held

double clock_seconds(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

void wait_seconds(double s) {
  timespec t{static_cast<time_t>(s), static_cast<long>((s - static_cast<double>(static_cast<time_t>(s))) * 1e9)};
  while (nanosleep(&t, &t) != 0) {
  }
}

// So long, to the microsecond, and others may run meanwhile: a sleep alone may be hundreds of microseconds late.
void wait_us(int64_t us) {
  const double until = clock_seconds(CLOCK_MONOTONIC) + static_cast<double>(us) / 1e6;
  if (us > 2000) wait_seconds(static_cast<double>(us - 1000) / 1e6);
  while (clock_seconds(CLOCK_MONOTONIC) < until) sched_yield();
}

void write_log() {
  const char* path = std::getenv("PROFGPU_NVML_LOG");
  FILE* f = path ? std::fopen(path, "w") : nullptr;
  if (!f) return;
  for (CallCount* c = first_count; c; c = c->next)
    std::fprintf(f, "%s %lld\n", c->name, static_cast<long long>(c->calls.load()));
  std::fclose(f);
}
struct LogAtExit {
  ~LogAtExit() { write_log(); }
} log_at_exit;

Return go_wrong(const std::vector<Fault>& faults, const char* function, bool needs_device) {
  for (const Fault& f : faults) {
    const double now = seconds();
    if (now < f.from || now >= f.until) continue;
    if (f.function != function && !(needs_device && f.function == "any")) continue;
    if (f.kind == Fault::kError) return static_cast<Return>(f.code);
    if (!scenario().held) wait_seconds(std::min(f.until - now, 1e6));
    while (seconds() < f.until) wait_seconds(0.001);
  }
  return kSuccess;
}

bool is_handle(const Scenario& s, const Gpu* gpu) {
  for (const Gpu& g : s.gpus) {
    if (&g == gpu) return true;
    for (const Gpu& m : g.instances)
      if (&m == gpu) return true;
  }
  return false;
}

}  // namespace

CallCount::CallCount(const char* called) : name(called), next(first_count.load()) {
  while (!first_count.compare_exchange_weak(next, this)) {
  }
}

Scenario& scenario() { return *playing; }
double seconds() {
  return scenario().start + (scenario().held ? advanced.load() : clock_seconds(CLOCK_MONOTONIC) - began);
}
uint64_t unix_us(double s) { return began_unix_us + static_cast<uint64_t>(std::max(s, 0.0) * 1e6); }

void log_calls() { write_log(); }

Return enter(CallCount& count, Gpu* gpu, bool needs_device) {
  count.calls.fetch_add(1, std::memory_order_relaxed);
  Scenario* s = playing;
  if (!s) return kUninitialized;
  if (s->delay_us > 0 && s->spin) {
    const double until = clock_seconds(CLOCK_MONOTONIC) + static_cast<double>(s->delay_us) / 1e6;
    while (clock_seconds(CLOCK_MONOTONIC) < until) {
    }
  } else if (s->delay_us > 0) {
    wait_us(s->delay_us);
  }
  for (const std::string& m : s->missing)
    if (m == count.name) return kFunctionNotFound;
  if (needs_device && !is_handle(*s, gpu)) return kInvalidArgument;
  if (const Return r = go_wrong(s->faults, count.name, needs_device); r != kSuccess) return r;
  if (!needs_device) return kSuccess;
  const Gpu& whole = gpu->parent ? *gpu->parent : *gpu;
  return go_wrong(whole.faults, count.name, true);
}

double power_of(const Gpu& gpu, double at) { return gpu.course("power").at(at); }

double energy_of(Gpu& gpu, double at) {
  const Course& set = gpu.course("energy");
  if (set.kind != "same") return set.at(at);
  std::lock_guard lock(gpu.energy_lock);
  constexpr double kStep = 0.005;
  for (; gpu.energy_until + kStep <= at; gpu.energy_until += kStep)
    gpu.energy_j += power_of(gpu, gpu.energy_until + kStep / 2) * kStep;
  return gpu.energy_j;
}

NVML_EXPORT Return nvmlInit_v2() {
  static CallCount count(__func__);
  count.calls.fetch_add(1);
  std::lock_guard lock(stage_lock);
  if (users == 0) {
    Scenario& s = scenarios.emplace_back();
    const char* path = std::getenv("PROFGPU_NVML_SCENARIO");
    Scenario::read(s, path ? path : "");
    if (!s.problem.empty()) {
      std::fprintf(stderr, "nvml stand-in: %s\n", s.problem.c_str());
      return kUnknown;
    }
    if (s.init_error) return static_cast<Return>(s.init_error);
    began = clock_seconds(CLOCK_MONOTONIC);
    advanced = 0;
    began_unix_us = static_cast<uint64_t>((clock_seconds(CLOCK_REALTIME) - s.start) * 1e6);
    playing = &s;
  }
  ++users;
  return kSuccess;
}
NVML_EXPORT Return nvmlInit() { return nvmlInit_v2(); }
NVML_EXPORT Return nvmlInitWithFlags(uint32_t) { return nvmlInit_v2(); }   // what nvidia-ml-py calls

NVML_EXPORT Return nvmlShutdown() {
  static CallCount count(__func__);
  count.calls.fetch_add(1);
  std::lock_guard lock(stage_lock);
  if (users == 0) return kUninitialized;
  // Who is still inside finds its scenario: only the count goes down.
  if (--users == 0) write_log();
  return kSuccess;
}

/// For tests in one process: how often a function was called; "" for all together.
NVML_EXPORT int64_t profgpu_stub_calls(const char* name) {
  int64_t sum = 0;
  for (CallCount* c = first_count; c; c = c->next)
    if (!*name || std::strcmp(c->name, name) == 0) sum += c->calls;
  return sum;
}

/// For tests in one process: moves the clock of a scenario that says `clock held`.
NVML_EXPORT void profgpu_stub_advance(double seconds) { advanced = advanced + seconds; }

/// Unix time on the clock of the scenario.
NVML_EXPORT int64_t profgpu_stub_unix_ns() { return static_cast<int64_t>(unix_us(seconds())) * 1000; }

NVML_EXPORT void profgpu_stub_reset() {
  std::lock_guard lock(stage_lock);
  users = 0;
  for (CallCount* c = first_count; c; c = c->next) c->calls = 0;
}

}  // namespace nvml_stub
