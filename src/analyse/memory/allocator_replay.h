// A device's recorded requests played through the model of the allocator: with the settings that they were recorded
// with it must ask the device for the same segments at the same events and place every block where it was; with others
// it tells what these would have given.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyse/memory/lifetimes.h"
#include "trace/memory_snapshot.h"

namespace profgpu {

struct AllocatorReplay {
  int64_t peak_reserved_bytes = 0, end_reserved_bytes = 0;
  /// Of the recorded settings: the first event at which the model does something else; none: it does the same to the
  /// end.
  std::optional<uint32_t> departs_row;
  std::string departure;  ///< what it does instead
};

constexpr uint32_t kMaxReplayedEvents = 4'000'000;  ///< of a device: a few seconds

/// Empty: the recording tells enough.
std::string_view why_no_replay(const MemorySnapshot& snapshot, const MemoryHistory& history);

/// With the recorded settings, compared with what was recorded.
AllocatorReplay replayed(const MemorySnapshot& snapshot, const MemoryHistory& history);
/// With others, from the first event on: what was there before stays where it was. Where PyTorch gave segments back,
/// all that is cached is given back.
AllocatorReplay replayed_with(const MemorySnapshot& snapshot, const MemoryHistory& history,
                              const AllocatorSettings& settings);

}  // namespace profgpu
