// Processes, events and the activity counters of GPM.
#include <ctime>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "stage.h"

using namespace nvml_stub;

namespace {

bool runs(const Process& p, double now) { return now >= p.from && now < p.until; }

// Rows as one of the three struct layouts has them.
template <class Row>
Return list_processes(const Gpu& gpu, char type, uint32_t* count, void* out) {
  if (!count) return kInvalidArgument;
  const double now = seconds();
  uint32_t n = 0;
  for (const Process& p : gpu.processes) n += p.type == type && runs(p, now);
  const uint32_t room = out ? *count : 0;
  *count = n;
  if (n > room) return kInsufficientSize;
  auto* row = static_cast<Row*>(out);
  for (const Process& p : gpu.processes) {
    if (p.type != type || !runs(p, now)) continue;
    *row = {};
    auto* head = reinterpret_cast<ProcessV1*>(row);
    head->pid = p.pid;
    head->memory = p.memory.kind == "na" ? kNotAvailable : static_cast<uint64_t>(p.memory.at(now));
    if constexpr (sizeof(Row) > sizeof(ProcessV1)) {
      auto* more = reinterpret_cast<ProcessV2*>(row);
      more->gpu_instance = gpu.parent ? gpu.gpu_instance : kNotAvailable32;
      more->compute_instance = gpu.parent ? gpu.compute_instance : kNotAvailable32;
    }
    ++row;
  }
  return kSuccess;
}

Return list_v3(const Gpu& gpu, char type, uint32_t* count, void* out) {
  return scenario().process_struct == 535 ? list_processes<ProcessConfidential>(gpu, type, count, out)
                                          : list_processes<ProcessV2>(gpu, type, count, out);
}

constexpr uint64_t kUtilizationPeriodUs = 1'000'000;   // of a process's samples

template <class Row, class Fill>
Return list_utilization(const Gpu& gpu, uint64_t since_us, uint32_t* count, Row* out, Fill fill) {
  if (gpu.parent) return kNotSupported;
  const double now = seconds();
  const uint64_t stamp = unix_us(now) / kUtilizationPeriodUs * kUtilizationPeriodUs;
  uint32_t n = 0;
  if (stamp > since_us)
    for (const Process& p : gpu.processes) n += runs(p, now) && p.sm.at(now) > 0;
  const auto rows = n + static_cast<uint32_t>(gpu.garbage_rows);
  const uint32_t room = out ? *count : 0;
  *count = rows;
  if (rows == 0) return kNotFound;
  if (rows > room) return kInsufficientSize;
  if (n > 0)
    for (const Process& p : gpu.processes)
      if (runs(p, now) && p.sm.at(now) > 0) *out++ = fill(p, now, stamp);
  // Rows that no process stands behind: numbers out of range, old times, unknown processes.
  for (int i = 0; i < gpu.garbage_rows; ++i, ++out) {
    Process noise;
    noise.pid = i % 3 == 0 && !gpu.processes.empty() ? gpu.processes[0].pid : 3'000'000'000U + static_cast<uint32_t>(i);
    noise.sm.numbers = {i % 3 == 0 ? 4'000'000.0 : 50.0};
    *out = fill(noise, now, i % 2 ? 1 : stamp);
  }
  return kSuccess;
}

}  // namespace

#define NVML_PROCESSES(name, type)                                          \
  NVML_EXPORT Return name(Device d, uint32_t* count, void* out) {           \
    NVML_ENTER(d);                                                          \
    return list_processes<ProcessV1>(*gpu_of(d), type, count, out);         \
  }                                                                         \
  NVML_EXPORT Return name##_v2(Device d, uint32_t* count, void* out) {      \
    NVML_ENTER(d);                                                          \
    return list_processes<ProcessV2>(*gpu_of(d), type, count, out);         \
  }                                                                         \
  NVML_EXPORT Return name##_v3(Device d, uint32_t* count, void* out) {      \
    NVML_ENTER(d);                                                          \
    return list_v3(*gpu_of(d), type, count, out);                           \
  }
NVML_PROCESSES(nvmlDeviceGetComputeRunningProcesses, 'C')
NVML_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses, 'G')
NVML_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses, 'M')

NVML_EXPORT Return nvmlDeviceGetProcessUtilization(Device d, ProcessUtilization* out, uint32_t* count, uint64_t since) {
  NVML_ENTER(d);
  const auto u = [](const Course& c, double now) { return static_cast<uint32_t>(c.at(now)); };
  return list_utilization(*gpu_of(d), since, count, out, [&](const Process& p, double now, uint64_t stamp) {
    return ProcessUtilization{p.pid,           stamp, u(p.sm, now), u(p.memory_utilization, now), u(p.encoder, now),
                              u(p.decoder, now)};
  });
}
NVML_EXPORT Return nvmlDeviceGetProcessesUtilizationInfo(Device d, ProcessesUtilizationInfo* info) {
  NVML_ENTER(d);
  if (info->version != 0x01000018) return kArgumentVersionMismatch;
  const auto u = [](const Course& c, double now) { return static_cast<uint32_t>(c.at(now)); };
  return list_utilization(*gpu_of(d), info->last_seen_us, &info->count, info->rows,
                          [&](const Process& p, double now, uint64_t stamp) {
                            return ProcessUtilizationInfo{stamp, p.pid, u(p.sm, now), u(p.memory_utilization, now),
                                                          u(p.encoder, now), u(p.decoder, now), 0, 0};
                          });
}

// --- Events ---------------------------------------------------------------------------------------------------------

namespace {
struct Events {
  std::vector<Gpu*> gpus;
  double told_until = 0;
  std::deque<EventData> pending;
};
void collect(Events& e) {
  const double now = seconds();
  for (Gpu* gpu : e.gpus)
    for (const Xid& x : gpu->xids)
      if (x.at > e.told_until && x.at <= now)
        e.pending.push_back({handle_of(*gpu), kXidEvent, x.code, kNotAvailable32, kNotAvailable32});
  e.told_until = now;
}
}  // namespace

NVML_EXPORT Return nvmlEventSetCreate(EventSet* out) {
  NVML_ENTER_SYSTEM();
  auto* e = new Events;
  e->told_until = seconds();   // what was before is lost, as with the driver
  *out = reinterpret_cast<EventSet>(e);
  return kSuccess;
}
NVML_EXPORT Return nvmlEventSetFree(EventSet set) {
  NVML_ENTER_SYSTEM();
  delete reinterpret_cast<Events*>(set);
  return kSuccess;
}
NVML_EXPORT Return nvmlDeviceRegisterEvents(Device d, uint64_t, EventSet set) {
  NVML_ENTER(d);
  if (gpu_of(d)->parent) return kNotSupported;
  reinterpret_cast<Events*>(set)->gpus.push_back(gpu_of(d));
  return kSuccess;
}
NVML_EXPORT Return nvmlEventSetWait_v2(EventSet set, EventData* out, uint32_t timeout_ms) {
  NVML_ENTER_SYSTEM();
  auto& e = *reinterpret_cast<Events*>(set);
  const double until = seconds() + timeout_ms / 1000.0;
  for (;;) {
    collect(e);
    if (!e.pending.empty()) {
      *out = e.pending.front();
      e.pending.pop_front();
      return kSuccess;
    }
    if (seconds() >= until) return kTimeout;
    const timespec pause{0, 1'000'000};
    nanosleep(&pause, nullptr);
  }
}

// --- GPM ------------------------------------------------------------------------------------------------------------

namespace {
struct Counters {
  const Gpu* gpu = nullptr;
  double at = 0;
};
Counters& counters(GpmSample s) { return *reinterpret_cast<Counters*>(s); }

const char* gpm_key(uint32_t id) {
  switch (id) {
    case 1: return "gpm_graphics";
    case 2: return "gpm_sm";
    case 3: return "gpm_occupancy";
    case 5: return "gpm_tensor";
    case 10: return "gpm_dram";
    case 11: return "gpm_fp64";
    case 12: return "gpm_fp32";
    case 13: return "gpm_fp16";
    case 20: return "gpm_pcie_tx";
    case 21: return "gpm_pcie_rx";
    default: return "";
  }
}
}  // namespace

NVML_EXPORT Return nvmlGpmQueryDeviceSupport(Device d, GpmSupport* out) {
  NVML_ENTER(d);
  if (out->version != 1) return kArgumentVersionMismatch;
  return tell(gpu_of(d), "gpm", &out->supported);
}
NVML_EXPORT Return nvmlGpmSampleAlloc(GpmSample* out) {
  NVML_ENTER_SYSTEM();
  *out = reinterpret_cast<GpmSample>(new Counters);
  return kSuccess;
}
NVML_EXPORT Return nvmlGpmSampleFree(GpmSample s) {
  NVML_ENTER_SYSTEM();
  delete &counters(s);
  return kSuccess;
}
NVML_EXPORT Return nvmlGpmSampleGet(Device d, GpmSample s) {
  NVML_ENTER(d);
  if (gpu_of(d)->parent) return kInvalidArgument;
  counters(s) = {gpu_of(d), seconds()};
  return kSuccess;
}
NVML_EXPORT Return nvmlGpmMigSampleGet(Device d, uint32_t gpu_instance, GpmSample s) {
  NVML_ENTER(d);
  for (const Gpu& m : gpu_of(d)->instances)
    if (m.gpu_instance == gpu_instance) {
      counters(s) = {&m, seconds()};
      return kSuccess;
    }
  return kInvalidArgument;
}
NVML_EXPORT Return nvmlGpmMetricsGet(void* request) {
  NVML_ENTER_SYSTEM();
  auto& r = *static_cast<GpmMetrics<1>*>(request);
  if (r.version != 1) return kArgumentVersionMismatch;
  const Counters &a = counters(r.before), &b = counters(r.after);
  if (!a.gpu || a.gpu != b.gpu) return kInvalidArgument;
  for (uint32_t i = 0; i < r.count; ++i) {
    GpmMetric& m = (&r.metrics[0])[i];
    const Course* c = &a.gpu->course(gpm_key(m.id));
    if (c->kind == "same") c = &a.gpu->course("utilization");
    m.result = c->code;
    m.value = b.at > a.at ? c->mean(a.at, b.at) : std::nan("");
  }
  return kSuccess;
}
