// What the threads of a process did on the processor, and in which system calls they waited, from samples of them.
#pragma once

#include "analyse/facts.h"
#include "trace/trace.h"

namespace profgpu {

struct ThreadTime {
  ThreadId thread;
  int64_t samples = 0;
  int64_t observed_ns = 0;       ///< from its first sample to its last
  int64_t user_ns = 0;           ///< processor time within
  int64_t system_ns = 0;
  int64_t waited_ns = 0;         ///< ready to run, but without a processor: there are too few of them
  int64_t blocked_samples = 0;   ///< not running and not ready to run
  struct Call {
    int32_t number = -1;         ///< -1: not known in which
    int64_t samples = 0;
  };
  std::vector<Call> calls;       ///< what it was blocked in, most often first
  [[nodiscard]] double cpu_pct() const;      ///< of the time observed; above 100 never
  [[nodiscard]] double blocked_pct() const;  ///< of its samples
};

struct ThreadTimes {
  std::vector<ThreadTime> threads;   ///< most processor time first
  static ThreadTimes compute(const Facts& facts);
};

/// "futex" of 202; "system call 999" where it has no name here. Numbers are those of x86-64.
std::string system_call_name(int32_t number);

}  // namespace profgpu
