#include "analyse/memory/out_of_memory.h"

#include <algorithm>

#include "analyse/memory/caching_allocator.h"

namespace profgpu {
namespace {

constexpr int64_t kSmallBytes = 1 << 20;  // what asks for at most this is served from pools of its own

// What is free in the snapshot is what was free then, unless something changed since.
bool is_unchanged_since(const MemorySnapshot& snapshot, const MemoryHistory& history, uint32_t row) {
  for (uint32_t i = row + 1; i < history.end; ++i) {
    const AllocationAction action = snapshot.events.action(i);
    if (action != AllocationAction::kSnapshot && action != AllocationAction::kOom && action != AllocationAction::kOther)
      return false;
  }
  return !snapshot.cut;
}

struct FreeBlocks {
  int64_t largest = 0;       // that the request may have
  int64_t other_pools = 0;   // in all, which it may not have: of CUDA graphs and the program's own pools
};

FreeBlocks free_blocks(const MemorySnapshot& snapshot, int32_t device, const AllocationKind& asked, bool large) {
  FreeBlocks free;
  for (const MemorySegment& s : snapshot.segments) {
    if (s.device != device) continue;
    const bool other = asked.pool != UINT32_MAX && s.pool != asked.pool;
    for (uint32_t b = s.first_block; b < s.first_block + s.blocks; ++b) {
      const MemoryBlock& block = snapshot.blocks[b];
      if (block.state != BlockState::kInactive) continue;
      if (other) free.other_pools += block.size;
      else if (s.stream == asked.stream && s.large == large) free.largest = std::max(free.largest, block.size);
    }
  }
  return free;
}

int64_t segment_for(const MemorySnapshot& snapshot, int64_t requested_bytes) {
  return CachingAllocator::segment_bytes(CachingAllocator(snapshot.settings).rounded(requested_bytes));
}

const MemoryHistory* last_failing(const MemorySnapshot& snapshot, const std::vector<MemoryHistory>& histories,
                                  uint32_t& row) {
  const MemoryHistory* found = nullptr;
  for (const MemoryHistory& history : histories)
    for (uint32_t i = history.end; history.device != kPinnedHost && i-- > history.first;) {
      if (snapshot.events.action(i) != AllocationAction::kOom) continue;
      if (found == nullptr || snapshot.events.time_us(i) > snapshot.events.time_us(row)) found = &history, row = i;
      break;
    }
  return found;
}

}  // namespace

std::string_view oom_cause_name(OomCause cause) {
  constexpr std::string_view kNames[] = {"unknown", "need", "fragmentation", "limit"};
  return kNames[static_cast<size_t>(cause)];
}

std::optional<OutOfMemory> out_of_memory(const MemorySnapshot& snapshot, const std::vector<MemoryHistory>& histories,
                                         const StackBook& stacks) {
  uint32_t row = 0;
  const MemoryHistory* history = last_failing(snapshot, histories, row);
  if (history == nullptr) return std::nullopt;
  const AllocationEvents& events = snapshot.events;
  OutOfMemory oom;
  oom.device = history->device;
  oom.event = row - history->first;
  if (const int64_t time_us = events.time_us(row); time_us != AllocationEvent::kNoTime) oom.time_ns = 1000 * time_us;
  oom.requested_bytes = events.bytes(row);
  oom.device_free_bytes = static_cast<int64_t>(events.address(row));
  LevelWalk walk(snapshot, *history);
  MemoryLevel level;
  while (walk.next(level) && level.row < row) {
  }
  oom.allocated_bytes = level.allocated_bytes;
  if (level.reserved_bytes && *level.reserved_bytes >= level.allocated_bytes) {
    oom.reserved_bytes = level.reserved_bytes;
    oom.unused_bytes = *level.reserved_bytes - level.allocated_bytes;
  }
  FreeBlocks free;
  if (is_unchanged_since(snapshot, *history, row)) {
    free = free_blocks(snapshot, oom.device, events.kind_of(row), oom.requested_bytes > kSmallBytes);
    oom.largest_free_block_bytes = free.largest;
  }
  if (oom.device_free_bytes >= segment_for(snapshot, oom.requested_bytes)) {
    oom.cause = OomCause::kLimit;
  } else if (oom.unused_bytes) {
    const int64_t in_pieces = *oom.unused_bytes - free.other_pools + oom.device_free_bytes;
    oom.cause = in_pieces >= oom.requested_bytes ? OomCause::kFragmentation : OomCause::kNeed;
  }
  MemoryLine line = stacks.line(events.stack(row));
  oom.function = std::move(line.function), oom.file = std::move(line.file), oom.line = line.line;
  return oom;
}

}  // namespace profgpu
