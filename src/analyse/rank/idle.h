// Every gap in a device's activity, with exactly one cause.
#pragma once

#include <array>

#include "analyse/rank/facts.h"
#include "analyse/report/document.h"
#include "trace/intervals.h"
#include "trace/trace.h"

namespace profgpu {

// Where host threads wait for a device.

struct Waits {
  /// Calls that wait for a device (stream, device, event synchronise, blocking copies), by thread, in order of time.
  std::vector<std::vector<HostId>> calls;
  /// Their time, merged, by thread.
  std::vector<Intervals> device_waits;
  static Waits compute(const Facts& facts);
};

enum class IdleCause : uint8_t {
  kUnknown,
  kLaunchLatency,
  kDependency,
  kCheckpoint,
  kDataLoading,
  kMemoryAllocation,
  kSynchronization,
  kHostBound,
};
constexpr int kIdleCauses = 8;
std::string_view idle_cause_name(IdleCause cause);

struct Gap {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  IdleCause cause = IdleCause::kUnknown;
  ActivityId before;   ///< the activity that ended last before the gap
  ActivityId after;    ///< the activity that ends the gap
  HostId launch;       ///< the call that launched `after`; may be invalid
  HostId host;         ///< the range that the launching thread spent most of the wait in, innermost; may be invalid
  [[nodiscard]] int64_t length() const { return end_ns - start_ns; }
};

struct DeviceIdle {
  int32_t device = 0;
  std::vector<Gap> gaps;                             ///< in time order
  std::array<int64_t, kIdleCauses> total_ns{};
  std::array<int64_t, kIdleCauses> count{};
  std::array<int64_t, kIdleCauses> measured_ns{};    ///< the part within measured steps
};

/// A gap by the names of what is around it.
struct NamedGap {
  int64_t start_ns = 0, duration_ns = 0;
  std::string after, before;           ///< the activity that ended last before it, and the one that ends it
  std::optional<std::string> host;     ///< what the host did

  template <class V>
  void fields(V&& v) const {
    v("start_ns", start_ns), v("duration_ns", duration_ns), v("after", after), v("before", before), v("host", host);
  }
};

struct IdleRow {
  int32_t device = 0;
  IdleCause cause = IdleCause::kUnknown;
  int64_t total_ns = 0;
  double span_pct = 0;                 ///< of the device's span
  int64_t count = 0;
  std::vector<NamedGap> longest;       ///< a few, longest first

  template <class V>
  void fields(V&& v) const {
    v("device", device), v("cause", idle_cause_name(cause)), v("total_ns", total_ns), v("span_pct", span_pct);
    v("count", count), v("longest", longest);
  }
  /// By device, then total, longest first.
  static std::vector<IdleRow> rows(const Facts& facts);
};

struct Idle {
  std::vector<DeviceIdle> devices;   ///< in the order of Devices::devices
  static Idle compute(const Facts& facts);
};

}  // namespace profgpu
