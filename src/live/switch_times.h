// What context switches say of threads: for how long each was blocked or had to give way, how often, and its long waits.
//
// Budget: 40 ns a record.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "live/switch_ring.h"

namespace profgpu {

/// Since the thread's first record.
struct SwitchTotals {
  int64_t blocked_ns = 0;    ///< off the processor since it blocked, until it had one again
  int64_t preempted_ns = 0;  ///< off the processor since it had to give way
  int64_t waits = 0;         ///< how often it blocked
};

/// A thread that blocked, and had a processor again at the end.
struct LongWait {
  int64_t start_ns = 0, duration_ns = 0;
  uint32_t pid = 0, tid = 0;
};

class SwitchTimes {
 public:
  /// Records in the order of their times.
  void take(const SwitchRecord& record);
  /// Up to `now_ns`. None: the thread has no records, or some are missing, whoever's they were.
  [[nodiscard]] std::optional<SwitchTotals> totals(uint32_t tid, int64_t now_ns) const;
  /// Waits since the last call of at least shortest_ns(), and no more of them than kMostWaits: the longest.
  std::vector<LongWait> take_waits();
  /// After a look at all threads: those that have ended are told of no more.
  void forget_ended() { ended_.clear(); }
  /// What happens from now on is not told.
  void interrupt();
  /// Takes in waits that are not over.
  void end_waits(int64_t now_ns);
  [[nodiscard]] int64_t shortest_ns() const { return shortest_ns_; }
  [[nodiscard]] uint64_t lost() const { return lost_; }

  static constexpr int64_t kShortest_ns = 1'000'000;
  static constexpr size_t kMostWaits = 4096, kMostThreads = 65'536;

 private:
  enum class State : uint8_t { kUnknown, kRuns, kBlocked, kPreempted };
  struct Thread {
    SwitchTotals totals;
    int64_t since_ns = 0;   // off the processor
    uint32_t pid = 0, losses = 0;
    State state = State::kUnknown;
  };
  void end_absence(uint32_t tid, Thread& thread, int64_t now_ns);
  void keep_longest();

  std::unordered_map<uint32_t, Thread> threads_;   // by tid
  std::unordered_map<uint32_t, SwitchTotals> ended_;   // since the last look: /proc may still list them
  std::vector<LongWait> waits_;
  int64_t shortest_ns_ = kShortest_ns;
  uint64_t lost_ = 0;
  uint32_t losses_ = 0;     // how often some were lost: what a thread did before is not known to last
  bool complete_ = true;    // none is missing
};

}  // namespace profgpu
