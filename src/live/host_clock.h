// What the kernel says of the clock of the day.
#pragma once

#include <cstdint>
#include <optional>

namespace profgpu {

struct HostClock {
  bool synchronised = false;        ///< a program (NTP) keeps it, and has said so lately
  int64_t max_error_ns = 0;         ///< from Unix time; grows until that program speaks again, 16 s if it never does
  int64_t estimated_error_ns = 0;
};

/// Only reads, so it needs no rights. nullopt: the kernel does not say, or not to us (a container's filter).
std::optional<HostClock> host_clock();

}  // namespace profgpu
