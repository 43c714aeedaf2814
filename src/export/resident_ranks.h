// Which ranks' events are in memory while a query reads tables: those that it reads now, and of the others what fits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "export/run.h"

namespace profgpu {

class ResidentRanks {
 public:
  /// Ranges and activities of ranks that nobody reads just now; at some 40 bytes each.
  static constexpr int64_t kMostIdleEvents = 4'000'000;
  /// A rank that a query comes back to so often is beside others all the time: it stays.
  static constexpr int kOftenRead = 3;

  /// `dropped` is called with a rank's place before its events go. `run` must outlive this.
  ResidentRanks(const RunRows& run, std::function<void(size_t place)> dropped, int64_t most_idle_events = kMostIdleEvents)
      : run_(run), dropped_(std::move(dropped)), most_idle_events_(most_idle_events), ranks_(run.ranks.size()) {}

  /// Its events are there until as many unpin(). The error: they cannot be read again.
  Status pin(size_t place);
  void unpin(size_t place);
  [[nodiscard]] bool there(size_t place) const { return run_.ranks[place].stays() || ranks_[place].there; }

 private:
  struct Rank {
    bool there = false;
    int pins = 0, reads = 0;
    uint64_t used = 0;   // when it was last unpinned
  };
  void make_room(int64_t events);

  const RunRows& run_;
  std::function<void(size_t)> dropped_;
  int64_t most_idle_events_;
  std::vector<Rank> ranks_;
  uint64_t now_ = 0;
};

}  // namespace profgpu
