// The backend that reads nvidia-smi, for machines that have the program and not the library, as in some containers.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "devices/backend.h"

namespace profgpu {

struct SmiTimes {
  int64_t query_ns = 8'000'000'000;  ///< for the first query: a driver without persistence mode takes seconds
  int64_t silence_ns = 5'000'000'000;  ///< without a row for so long (or five intervals), it counts as silent
  int64_t first_pause_ns = 200'000'000;  ///< before it is started again; doubled up to last_pause_ns
  int64_t last_pause_ns = 30'000'000'000;
  int max_starts = 12;  ///< in a row without a single line
  /// By the first list a reading may be delayed: one-shot commands have no second.
  int64_t first_processes_ns = 1'000'000'000;
  int64_t process_interval_ns = 1'000'000'000;
  int64_t process_timeout_ns = 5'000'000'000;
};

/// `times`: tests have less patience.
Result<std::unique_ptr<Backend>> open_nvidia_smi(const BackendOptions& options, const SmiTimes& times);

}  // namespace profgpu
