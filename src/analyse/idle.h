// Every gap in a device's activity, with exactly one cause.
#pragma once

#include <array>

#include "analyse/facts.h"
#include "trace/trace.h"

namespace profgpu {

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

struct Idle {
  std::vector<DeviceIdle> devices;   ///< in the order of Devices::devices
  static Idle compute(const Facts& facts);
};

}  // namespace profgpu
