// What the threads of a process did on the processor, how long they were blocked and in which system calls, from
// samples of them and from what context switches say.
#pragma once

#include "analyse/rank/facts.h"
#include "analyse/report/document.h"

namespace profgpu {

/// "futex" of 202; "system call 999" where it has no name here. Numbers are those of x86-64.
std::string system_call_name(int32_t number);

struct ThreadTime {
  ThreadId thread;
  std::string process, id, name; ///< as Thread has them
  int64_t samples = 0;
  int64_t observed_ns = 0;       ///< from its first sample to its last
  int64_t user_ns = 0;           ///< processor time within
  int64_t system_ns = 0;
  int64_t waited_ns = 0;         ///< ready to run, but without a processor: there are too few of them
  int64_t blocked_ns = 0;        ///< neither running nor ready to run
  bool from_switches = false;    ///< blocked_ns is what context switches say; else what the times above leave
  int64_t waits = -1;            ///< how often it blocked; -1: not known
  int64_t longest_wait_ns = -1;  ///< of its long waits; -1: none was recorded
  struct Call {
    int32_t number = -1;         ///< -1: not known in which
    int64_t samples = 0;
    double samples_pct = 0;      ///< of the thread's
    int64_t long_waits = 0, long_waits_ns = 0;   ///< that a sample fell into

    void fields(auto&& v) const {
      v("call", system_call_name(number)), v("samples_pct", samples_pct);
      v("long_waits", long_waits), v("in_long_waits_ns", long_waits_ns);
    }
  };
  std::vector<Call> calls;       ///< what it was blocked in, most often first
  [[nodiscard]] double cpu_pct() const;      ///< of the time observed; above 100 never
  [[nodiscard]] double blocked_pct() const;  ///< likewise

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
  std::vector<ThreadTime> threads;   ///< most processor time first
  std::vector<int32_t> wait_calls;   ///< system call of each of Trace::thread_waits, as a sample saw it; -1: not known
  static ThreadTimes compute(const Facts& facts);
};

}  // namespace profgpu
