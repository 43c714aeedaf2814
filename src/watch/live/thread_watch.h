// The current state of all threads of a process's descendants, from the kernel.
//
// Budget: 10 µs for a thread that slept since the last reading, 30 µs for one that ran, on one core of 2020.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace profgpu {

struct WatchedThread {
  uint32_t pid = 0, tid = 0;
  std::string name;
  bool name_is_new = true;       ///< since the last reading
  int64_t seen_ns = 0;           ///< CLOCK_MONOTONIC
  char state = '?';              ///< as in /proc
  int32_t system_call = -1;      ///< blocking one; -1: none, or not known
  uint64_t user_ns = 0, system_ns = 0;
  uint64_t waited_ns = 0;        ///< runnable, but not running
  uint64_t ran_ns = 0, turns = 0;  ///< by schedstat: if both are as before, the thread has not run since
};

class ThreadWatch {
 public:
  /// `ancestor`: not watched itself. `proc`: where /proc is.
  explicit ThreadWatch(int64_t ancestor, std::string proc = "/proc") : ancestor_(ancestor), proc_(std::move(proc)) {}

  /// Finds new processes and threads. At most kMaxThreads are watched.
  void discover();
  /// Reads all threads, and drops those that have ended.
  void read();
  [[nodiscard]] std::vector<WatchedThread>& threads() { return threads_; }
  /// Threads beyond kMaxThreads.
  [[nodiscard]] size_t left_out() const { return left_out_; }

  static constexpr size_t kMaxThreads = 8192;

 private:
  void add_children(int64_t pid, std::vector<int64_t>& processes) const;
  bool read_one(WatchedThread& thread);

  int64_t ancestor_;
  std::string proc_;
  std::vector<WatchedThread> threads_;  // by pid, tid
  size_t left_out_ = 0;
};

}  // namespace profgpu
