// Levels of a device's history with some bytes less: scaled, or given back earlier.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "analyse/memory/lifetimes.h"

namespace profgpu {

/// Calls take(row, level) after each event, at first with the row before the first event. `bytes_of`: of an allocation
/// by its place in the history; Level: what adds up.
template <class Level, class BytesOf, class Take>
void walk_levels(const MemorySnapshot& snapshot, const MemoryHistory& history, BytesOf&& bytes_of, Take&& take) {
  Level level{};
  size_t next = 0;
  std::vector<size_t> freed_before;  // of before the first event, in the order in which they are freed
  for (; next < history.allocations.size() && history.allocations[next].made == Allocation::kOutside; ++next) {
    level += bytes_of(next);
    if (history.allocations[next].freed != Allocation::kOutside) freed_before.push_back(next);
  }
  take(history.first == 0 ? 0 : history.first - 1, level);
  size_t before = 0;
  std::vector<uint32_t> live(snapshot.events.count_addresses());  // place in allocations + 1
  for (uint32_t row = history.first; row < history.end; ++row) {
    const AllocationAction action = snapshot.events.action(row);
    if (action == AllocationAction::kAlloc) {
      uint32_t& place = live[snapshot.events.address_place(row)];
      if (place != 0) level -= bytes_of(place - 1);   // what no event frees
      place = static_cast<uint32_t>(next + 1);
      level += bytes_of(next++);
    } else if (snapshot.events.is_free(row)) {
      uint32_t& place = live[snapshot.events.address_place(row)];
      if (place != 0)
        level -= bytes_of(place - 1);
      else if (before < freed_before.size())
        level -= bytes_of(freed_before[before++]);
      place = 0;
    }
    take(row, level);
  }
}

template <class BytesOf>
int64_t highest_level(const MemorySnapshot& snapshot, const MemoryHistory& history, BytesOf&& bytes_of) {
  int64_t highest = 0;
  walk_levels<int64_t>(snapshot, history, bytes_of,
                       [&](uint32_t, int64_t level) { highest = std::max(highest, level); });
  return highest;
}

/// Bytes that are not needed in some times.
class IdleBytes {
 public:
  explicit IdleBytes(const MemoryHistory& history) : first_(history.first), change_(history.end - history.first + 1) {}
  /// From one event on, up to before another; both are clamped to the history.
  void add(uint32_t from, uint32_t to, int64_t bytes) {
    const auto place = [&](uint32_t row) {
      return std::min<size_t>(row > first_ ? row - first_ : 0, change_.size() - 1);
    };
    if (place(from) >= place(to)) return;
    change_[place(from)] += bytes;
    change_[place(to)] -= bytes;
  }
  /// The highest level without them.
  [[nodiscard]] int64_t peak_without(const MemorySnapshot& snapshot, const MemoryHistory& history) const {
    LevelWalk walk(snapshot, history);
    int64_t highest = history.initial_bytes, idle = 0;
    for (MemoryLevel level; walk.next(level);) {
      idle += change_[level.row - first_];
      highest = std::max(highest, level.allocated_bytes - idle);
    }
    return highest;
  }

 private:
  uint32_t first_;
  std::vector<int64_t> change_;
};

}  // namespace profgpu
