// Context switches of the calling thread and of all that it starts, from the kernel's rings, one per processor.
//
// Budget: 100 ns a switch, on a thread of the caller's.
#pragma once

#include <linux/perf_event.h>
#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"

namespace profgpu {

// The kernel's ring of one processor: PERF_RECORD_SWITCH and others, each followed by a TID and a TIME, as
// open_switch_event() requests. Its content is not trusted: impossible records count as lost.
//
// Budget: 15 ns a record.

struct SwitchRecord {
  enum Kind : uint8_t {
    kScheduled,  ///< onto a processor
    kBlocked,
    kPreempted,
    kEnded,
    kLost,       ///< `lost` records before this one, of any thread
  };
  Kind kind = kLost;
  uint32_t pid = 0, tid = 0;
  int64_t time_ns = 0;   ///< CLOCK_MONOTONIC
  uint64_t lost = 0;
};

class SwitchRing {
 public:
  /// `data`: `size` bytes of records, a power of two. Both must outlive the ring.
  SwitchRing(perf_event_mmap_page* page, const uint8_t* data, uint64_t size) : page_(page), data_(data), size_(size) {}

  /// Reads how far the kernel has come.
  void look();
  /// The oldest record as of the last look() that was not popped yet; null: none.
  const SwitchRecord* front();
  void pop() { full_ = false, ++popped_; }
  /// Records popped since the last call.
  uint64_t popped() { return std::exchange(popped_, 0); }
  /// Returns the space of popped records to the kernel.
  void release();

 private:
  [[nodiscard]] bool read_one();
  void give_up();
  template <class T>
  [[nodiscard]] T at(uint64_t place) const;

  perf_event_mmap_page* page_;
  const uint8_t* data_;
  uint64_t size_;
  uint64_t head_ = 0, tail_ = 0;   // bytes since the beginning; front_ lies before tail_
  uint64_t released_ = 0;          // the kernel may overwrite what comes before
  uint64_t popped_ = 0;
  SwitchRecord front_;
  bool full_ = false;              // there is a front_
};

// Per thread, from context switches: how long it was blocked or preempted, how often, and its long waits.
//
// Budget: 40 ns a record.

/// Since the thread's first record.
struct SwitchTotals {
  int64_t blocked_ns = 0;    ///< from blocking until it runs again
  int64_t preempted_ns = 0;  ///< from being preempted until it runs again
  int64_t waits = 0;         ///< how often it blocked
};

/// From blocking until the thread runs again.
struct LongWait {
  int64_t start_ns = 0, duration_ns = 0;
  uint32_t pid = 0, tid = 0;
};

class SwitchTimes {
 public:
  /// Records in the order of their times.
  void take(const SwitchRecord& record);
  /// Up to `now_ns`. nullopt: the thread has no records, or records are missing, of any thread.
  [[nodiscard]] std::optional<SwitchTotals> totals(uint32_t tid, int64_t now_ns) const;
  /// Waits since the last call of at least shortest_ns(); of more than kMostWaits, the longest.
  std::vector<LongWait> take_waits();
  /// After reading the totals of all threads.
  void forget_ended() { ended_.clear(); }
  /// Records are missing from now on.
  void interrupt();
  /// Counts waits that are not over yet.
  void end_waits(int64_t now_ns);
  [[nodiscard]] int64_t shortest_ns() const { return shortest_ns_; }
  [[nodiscard]] uint64_t lost() const { return lost_; }

  static constexpr int64_t kShortest_ns = 1'000'000;
  static constexpr size_t kMostWaits = 4096, kMaxThreads = 65'536;

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
  std::unordered_map<uint32_t, SwitchTotals> ended_;   // since forget_ended(): /proc may still list them
  std::vector<LongWait> waits_;
  int64_t shortest_ns_ = kShortest_ns;
  uint64_t lost_ = 0;
  uint32_t losses_ = 0;     // how often records were lost: older thread states are no longer reliable
  bool complete_ = true;    // none is missing
};

/// Limits recording to 2 % of a processor's time. Bursts are allowed if less follows.
class SwitchBudget {
 public:
  explicit SwitchBudget(size_t processors) : cost_ns_(1000 + 10 * static_cast<int64_t>(processors)) {}
  /// `records`: since the last call. False: too many for too long.
  bool allows(int64_t now_ns, uint64_t records);

  static constexpr int64_t kMaxAhead_ns = 100'000'000;

 private:
  int64_t cost_ns_;   // of a record, for the program (bench/switches.py)
  int64_t last_ns_ = 0, ahead_ns_ = 0;
};

class SwitchWatch {
 public:
  /// From now on. The error says why the kernel reports no switches.
  static Result<std::unique_ptr<SwitchWatch>> open();
  ~SwitchWatch();
  SwitchWatch(const SwitchWatch&) = delete;
  SwitchWatch& operator=(const SwitchWatch&) = delete;

  /// Takes all records up to now, and returns that time (CLOCK_MONOTONIC). Stops the watch when switches are so
  /// frequent that recording them costs the command over 2 %.
  int64_t drain();
  [[nodiscard]] bool stopped() const { return rings_.empty(); }
  [[nodiscard]] SwitchTimes& times() { return times_; }
  /// One of them becomes readable when it is time to drain.
  [[nodiscard]] const std::vector<pollfd>& to_poll() const { return to_poll_; }

  /// Each thread has an event per processor, and a switch walks all of them.
  static constexpr size_t kMaxProcessors = 256;

 private:
  SwitchWatch() = default;
  [[nodiscard]] Status add(int processor, size_t ring_bytes);
  void stop();

  std::vector<pollfd> to_poll_;
  std::vector<std::pair<void*, size_t>> mapped_;
  std::vector<SwitchRing> rings_;
  std::vector<SwitchBudget> budgets_;   // of each ring
  SwitchTimes times_;
};

/// Takes the records of all rings up to `until_ns`, in order of time.
void drain_in_order(std::vector<SwitchRing>& rings, int64_t until_ns, SwitchTimes& times);

}  // namespace profgpu
