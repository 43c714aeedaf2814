// The threads of all processes that one process has started, at whatever distance: what the kernel says of each now.
//
// Budget: 10 µs for a thread that has slept since the look before, 30 µs for one that ran, on one core of 2020.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace profgpu {

struct WatchedThread {
  uint32_t pid = 0, tid = 0;
  std::string name;
  bool name_is_new = true;       ///< since the look before
  int64_t seen_ns = 0;           ///< CLOCK_MONOTONIC
  char state = '?';              ///< as /proc has it
  int32_t system_call = -1;      ///< that it is blocked in; -1: none, or not known
  uint64_t user_ns = 0, system_ns = 0;
  uint64_t waited_ns = 0;        ///< ready to run, but without a processor
  uint64_t ran_ns = 0, turns = 0;  ///< by schedstat: a thread that has not run since is as it was
};

class ThreadWatch {
 public:
  /// `ancestor`: whose descendants are watched; itself is not. `proc`: where /proc is.
  explicit ThreadWatch(int64_t ancestor, std::string proc = "/proc") : ancestor_(ancestor), proc_(std::move(proc)) {}

  /// Looks for new processes and threads. At most kMostThreads are watched.
  void discover();
  /// Reads all threads; those that have ended are left out from then on.
  void read();
  [[nodiscard]] std::vector<WatchedThread>& threads() { return threads_; }
  /// Threads that are too many.
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
