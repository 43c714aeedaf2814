// Time on each device: lengths of unions of activities, by kind of work.
#pragma once

#include "analyse/rank/facts.h"
#include "analyse/report/document.h"
#include "base/statistics.h"
#include "trace/intervals.h"

namespace profgpu {

enum class WorkKind : uint8_t { kCompute, kCommunication, kMemory };
std::string_view work_kind_name(WorkKind kind);

struct DeviceRow {
  int32_t id = 0;
  std::string name;        ///< empty: unknown
  int64_t span_ns = 0, busy_ns = 0, idle_ns = 0, compute_ns = 0, communication_ns = 0, memory_ns = 0;
  int64_t exposed_communication_ns = 0, exposed_memory_ns = 0;
  int64_t window_ns = 0;   ///< see DeviceIdle; only rows() sets it
  /// Of communication, the part that compute hides; only meaningful with communication_ns > 0.
  [[nodiscard]] double overlap_pct() const {
    return percent_of(communication_ns - exposed_communication_ns, communication_ns);
  }
  [[nodiscard]] double utilization_pct() const { return percent_of(busy_ns, span_ns); }   ///< 0 for an empty span
  [[nodiscard]] int64_t window_idle_ns() const { return window_ns - busy_ns; }
  [[nodiscard]] double window_utilization_pct() const { return percent_of(busy_ns, window_ns); }

  void fields(auto&& v) const {
    v("id", id), v("name", unless_empty(name)), v("span_ns", span_ns), v("busy_ns", busy_ns), v("idle_ns", idle_ns);
    v("compute_ns", compute_ns), v("communication_ns", communication_ns), v("memory_ns", memory_ns);
    v("exposed_communication_ns", exposed_communication_ns), v("exposed_memory_ns", exposed_memory_ns);
    v("overlap_pct", only_if(communication_ns > 0, overlap_pct()));
    v("utilization_pct", only_if(span_ns > 0, utilization_pct())), v("window_ns", window_ns);
    v("window_idle_ns", window_idle_ns());
    v("window_utilization_pct", only_if(window_ns > 0, window_utilization_pct()));
  }
  static std::vector<DeviceRow> rows(const Facts& facts);
};

struct DeviceTime : DeviceRow {
  ActivityId begin, end;   ///< its rows in ActivityTable
  Intervals spans;         ///< per profiler window, from the first activity's start to the last end
  Intervals busy, compute, communication, memory;
  Intervals exposed_communication;   ///< communication where no compute runs
  Intervals exposed_memory;          ///< copies where neither runs
};

struct Devices {
  std::vector<DeviceTime> devices;     ///< by id
  std::vector<WorkKind> kind;          ///< of each activity
  /// Index of the device with most busy time; -1: no devices.
  int busiest = -1;
  /// Null: no such device.
  [[nodiscard]] const DeviceTime* find(int32_t id) const {
    return first_where(devices, [&](const DeviceTime& d) { return d.id == id; });
  }
  static Devices compute(const Facts& facts);
};

}  // namespace profgpu
