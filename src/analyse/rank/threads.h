// CPU time of a process's threads, how long they were blocked and in which system calls, from samples and context
// switches.
#pragma once

#include "analyse/rank/facts.h"
#include "analyse/report/document.h"
#include "base/statistics.h"

namespace profgpu {

/// 202 is "futex"; "system call 999": not in the table. x86-64 numbers.
std::string system_call_name(int32_t number);

struct ThreadTime {
  ThreadId thread;
  std::string process, id, name; ///< as Thread has them
  int64_t samples = 0;
  int64_t observed_ns = 0;       ///< from its first sample to its last
  int64_t user_ns = 0;           ///< CPU time in user space during that time
  int64_t system_ns = 0;         ///< CPU time in the kernel
  int64_t waited_ns = 0;         ///< runnable, waiting for a CPU
  int64_t blocked_ns = 0;        ///< neither running nor runnable
  bool from_switches = false;    ///< blocked_ns is from context switches; else observed less the times above
  int64_t waits = -1;            ///< how often it blocked; -1: unknown
  int64_t longest_wait_ns = -1;  ///< of its long waits; -1: none was recorded
  struct Call {
    int32_t number = -1;         ///< -1: unknown
    int64_t samples = 0;
    double samples_pct = 0;      ///< of the thread's samples
    int64_t long_waits = 0, long_waits_ns = 0;   ///< only waits that contain a sample

    void fields(auto&& v) const {
      v("call", system_call_name(number)), v("samples_pct", samples_pct);
      v("long_waits", long_waits), v("in_long_waits_ns", long_waits_ns);
    }
  };
  std::vector<Call> calls;       ///< that blocked it, most samples first
  [[nodiscard]] double cpu_pct() const { return percent_of(user_ns + system_ns, observed_ns); }
  [[nodiscard]] double blocked_pct() const { return percent_of(blocked_ns, observed_ns); }

  void fields(auto&& v) const {
    v("process", process), v("thread", id), v("name", unless_empty(name)), v("samples", samples);
    v("observed_ns", observed_ns), v("cpu_ns", user_ns + system_ns), v("cpu_pct", cpu_pct()), v("waited_ns", waited_ns);
    v("blocked_ns", blocked_ns), v("blocked_pct", blocked_pct()),
        v("blocked_source", from_switches ? "switches" : "proc");
    v("waits", only_if(waits >= 0, waits)), v("longest_wait_ns", only_if(longest_wait_ns >= 0, longest_wait_ns));
    v("blocked_in", calls);
  }
  static std::vector<ThreadTime> rows(const Facts& facts);
};

struct ThreadTimes {
  std::vector<ThreadTime> threads;   ///< most CPU time first
  std::vector<int32_t> wait_calls;   ///< system call of each Trace::thread_waits, from a sample within it; -1: unknown
  static ThreadTimes compute(const Facts& facts);
};

}  // namespace profgpu
