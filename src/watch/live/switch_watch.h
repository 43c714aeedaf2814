// Context switches of the calling thread and all that it starts, from the kernel's rings, one a processor.
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

// The ring in which the kernel tells of one processor: PERF_RECORD_SWITCH and its like, each with a TID and a TIME
// behind it, as open_switch_event() asks for. Nothing in it is believed: what cannot be is a loss.
//
// Budget: 15 ns a record.

struct SwitchRecord {
  enum Kind : uint8_t {
    kGot,        ///< a processor
    kBlocked,    ///< and left it
    kPreempted,  ///< and had to leave it
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
  /// `data`: where `size` bytes of records lie, a power of two. Both stay until the ring is gone.
  SwitchRing(perf_event_mmap_page* page, const uint8_t* data, uint64_t size) : page_(page), data_(data), size_(size) {}

  /// Looks how far the kernel has come.
  void look();
  /// The oldest record that was there at the last look and was not taken yet; null: there is none.
  const SwitchRecord* front();
  void pop() { full_ = false, ++popped_; }
  /// Records that were taken since the last call.
  uint64_t popped() { return std::exchange(popped_, 0); }
  /// Gives the kernel the room of what was taken.
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
  uint64_t taken_ = 0;             // what the kernel may write over
  uint64_t popped_ = 0;
  SwitchRecord front_;
  bool full_ = false;              // there is a front_
};

// What context switches say of threads: for how long each was blocked or had to give way, how often, and its long
// waits.
//
// Budget: 40 ns a record.

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
  std::unordered_map<uint32_t, SwitchTotals> ended_;   // since the last look: /proc may still list them
  std::vector<LongWait> waits_;
  int64_t shortest_ns_ = kShortest_ns;
  uint64_t lost_ = 0;
  uint32_t losses_ = 0;     // how often some were lost: what a thread did before is not known to last
  bool complete_ = true;    // none is missing
};

/// How many records a processor may make: 2 % of its time. What is too much is made up for by less later.
class SwitchBudget {
 public:
  explicit SwitchBudget(size_t processors) : cost_ns_(1000 + 10 * static_cast<int64_t>(processors)) {}
  /// Takes in that so many were made since the last call. False: it was too many for too long.
  bool allows(int64_t now_ns, uint64_t records);

  static constexpr int64_t kMaxAhead_ns = 100'000'000;

 private:
  int64_t cost_ns_;   // of a record, to the program (bench/switches.py)
  int64_t last_ns_ = 0, ahead_ns_ = 0;
};

class SwitchWatch {
 public:
  /// From now on. The error says why the kernel does not tell.
  static Result<std::unique_ptr<SwitchWatch>> open();
  ~SwitchWatch();
  SwitchWatch(const SwitchWatch&) = delete;
  SwitchWatch& operator=(const SwitchWatch&) = delete;

  /// Takes in what happened until now, which is returned: CLOCK_MONOTONIC. Ends the watch where switches are so
  /// frequent that to record them costs the command over 2 %.
  int64_t drain();
  [[nodiscard]] bool stopped() const { return rings_.empty(); }
  [[nodiscard]] SwitchTimes& times() { return times_; }
  /// To wait for: one of them is readable when it is time to drain.
  [[nodiscard]] const std::vector<pollfd>& to_poll() const { return to_poll_; }

  /// Each thread has an event for each processor, and a switch walks all of them.
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

/// Takes records of all rings in the order of time, up to `until_ns`; later ones stay.
void drain_in_order(std::vector<SwitchRing>& rings, int64_t until_ns, SwitchTimes& times);

}  // namespace profgpu
