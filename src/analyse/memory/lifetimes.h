// Allocations of a memory snapshot, each from the event that made it to the one that freed it, and the levels that they
// add up to: paired as PyTorch's own viewer pairs them. Bytes are as requested.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "trace/memory_snapshot.h"

namespace profgpu {

struct Allocation {
  static constexpr uint32_t kOutside = UINT32_MAX;
  uint32_t made = kOutside;   ///< row of the event; kOutside: it was there before the first one
  /// Row of the event that completes it, or of the next at its address where none does; kOutside: alive when the
  /// snapshot was taken.
  uint32_t freed = kOutside;
  uint32_t stack = MemoryStacks::kNone;
  uint32_t pool = 0;  ///< of MemorySnapshot::pools
  int64_t bytes = 0;

  [[nodiscard]] bool is_alive_after(uint32_t row) const {
    return (made == kOutside || made <= row) && (freed == kOutside || freed > row);
  }
};

/// A device's events and what follows from them. Rows count over the events of all devices.
struct MemoryHistory {
  int32_t device = 0;
  uint32_t first = 0, end = 0;          ///< rows of its events
  std::vector<Allocation> allocations;  ///< those of before the first event, then in the order in which they were made
  int64_t initial_bytes = 0;            ///< allocated before the first event
  int64_t peak_bytes = 0;               ///< the highest level; the first time that it is reached
  std::optional<uint32_t> peak_row;     ///< none: before the first event
  /// Reserved before the first event; none where the file ends early, so that what came later is not known, or where
  /// the recording left out the events of segments.
  std::optional<int64_t> initial_reserved_bytes;
  /// Of the allocations that no event makes or frees, in their order.
  std::vector<uint64_t> initial_addresses;
  bool lacks_segments = false;  ///< the recording left out the events of segments
  bool recorded = false;   ///< an allocation or a free is among the events; else only what the snapshot holds is known
  bool truncated = false;  ///< something was freed, or is there, of which no event tells the making

  /// The row of the peak, or the one before the first where the level only falls.
  [[nodiscard]] bool is_at_peak(const Allocation& a) const {
    return peak_row ? a.is_alive_after(*peak_row) : a.made == Allocation::kOutside;
  }
};

/// By device: those with events or segments. An allocation of no event that is alive counts as made before the first.
std::vector<MemoryHistory> memory_histories(const MemorySnapshot& snapshot);

/// What an event adds to the device's reserved memory.
int64_t reserved_change(const AllocationEvents& events, uint32_t row);

struct MemoryLevel {
  uint32_t row = 0;  ///< after this event
  int64_t allocated_bytes = 0;
  std::optional<int64_t> reserved_bytes;
};

/// Levels after each event of a device in turn. Keeps four bytes for each distinct address.
class LevelWalk {
 public:
  LevelWalk(const MemorySnapshot& snapshot, const MemoryHistory& history);
  /// False: there are no more.
  bool next(MemoryLevel& level);

 private:
  const AllocationEvents& events_;
  const MemoryHistory& history_;
  std::vector<uint32_t> live_;  ///< by place of the address: row of the event + 1; 0: not allocated
  uint32_t row_;
  int64_t allocated_;
  std::optional<int64_t> reserved_;
};

}  // namespace profgpu
