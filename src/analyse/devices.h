// Time on each device: lengths of unions of activity, by kind.
#pragma once

#include "analyse/facts.h"
#include "trace/intervals.h"

namespace profgpu {

enum class WorkKind : uint8_t { kCompute, kCommunication, kMemory };

struct DeviceTime {
  int32_t id = 0;
  std::string name;        ///< empty: unknown
  ActivityId begin, end;   ///< its rows of ActivityTable
  Intervals spans;         ///< one a window: first start to last end of activity
  Intervals busy, compute, communication, memory;
  int64_t span_ns = 0, busy_ns = 0, idle_ns = 0, compute_ns = 0, communication_ns = 0, memory_ns = 0;
  Intervals exposed_communication;   ///< communication where no compute runs
  int64_t exposed_communication_ns = 0, exposed_memory_ns = 0;
  [[nodiscard]] double overlap_pct() const;      ///< only meaningful with communication_ns > 0
  [[nodiscard]] double utilization_pct() const;  ///< 100 busy / span; 0 for an empty span
};

struct Devices {
  std::vector<DeviceTime> devices;     ///< by id
  std::vector<WorkKind> kind;          ///< of each activity
  /// The device with most busy time, -1 with none.
  int busiest = -1;
  static Devices compute(const Facts& facts);
};

}  // namespace profgpu
