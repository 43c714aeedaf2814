// Context switches of the calling thread and all that it starts, from the kernel's rings, one a processor.
//
// Budget: 100 ns a switch, on a thread of the caller's.
#pragma once

#include <poll.h>

#include <memory>
#include <vector>

#include "base/result.h"
#include "live/switch_ring.h"
#include "live/switch_times.h"

namespace profgpu {

/// How many records a processor may make: 2 % of its time. What is too much is made up for by less later.
class SwitchBudget {
 public:
  explicit SwitchBudget(size_t processors) : cost_ns_(1000 + 10 * static_cast<int64_t>(processors)) {}
  /// Takes in that so many were made since the last call. False: it was too many for too long.
  bool allows(int64_t now_ns, uint64_t records);

  static constexpr int64_t kMostAhead_ns = 100'000'000;

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

  /// Takes in what happened until now, which is returned: CLOCK_MONOTONIC. Ends the watch where switches are so frequent
  /// that to record them costs the command over 2 %.
  int64_t drain();
  [[nodiscard]] bool stopped() const { return rings_.empty(); }
  [[nodiscard]] SwitchTimes& times() { return times_; }
  /// To wait for: one of them is readable when it is time to drain.
  [[nodiscard]] const std::vector<pollfd>& to_poll() const { return to_poll_; }

  /// Each thread has an event for each processor, and a switch walks all of them.
  static constexpr size_t kMostProcessors = 256;

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
