#include "analyse/memory/out_of_memory.h"

#include <algorithm>

#include "analyse/memory/caching_allocator.h"
#include "analyse/memory/failed_passes.h"

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

// That the request may have: not those of other streams, of the pool of other sizes, of CUDA graphs and the program's
// own pools.
struct FreeBlocks {
  int64_t largest = 0, all = 0;
};

FreeBlocks free_blocks(const MemorySnapshot& snapshot, int32_t device, const AllocationKind& asked, bool large) {
  FreeBlocks free;
  for (const MemorySegment& s : snapshot.segments) {
    if (s.device != device) continue;
    const bool other = asked.pool != UINT32_MAX && s.pool != asked.pool;
    if (other || s.stream != asked.stream || s.large != large) continue;
    for (const MemoryBlock& block : snapshot.blocks_of(s))
      if (block.state == BlockState::kInactive) free.all += block.size, free.largest = std::max(free.largest, block.size);
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

// Where little is unused, what the program needs next would not fit either, however it lies.
constexpr int64_t kMuchUnused = 10;  // this part of what is reserved

OomCause cause_of_failure(const MemorySnapshot& snapshot, const OutOfMemory& oom, std::optional<int64_t> capacity_bytes) {
  if (oom.device_free_bytes >= segment_for(snapshot, oom.requested_bytes)) return OomCause::kLimit;
  const std::optional<int64_t> reachable = oom.reachable_bytes();
  if (!reachable) return OomCause::kUnknown;
  if (oom.requested_bytes > capacity_bytes.value_or(*reachable)) return OomCause::kRequest;
  if (oom.outside_bytes && 2 * *oom.outside_bytes > *capacity_bytes) return OomCause::kOutside;
  const int64_t usable = oom.usable_bytes.value_or(*oom.unused_bytes);
  const bool much = kMuchUnused * usable >= *oom.reserved_bytes;
  return oom.fits_in_pieces() && much ? OomCause::kFragmentation : OomCause::kNeed;
}

}  // namespace

std::string_view oom_cause_name(OomCause cause) {
  constexpr std::string_view kNames[] = {"unknown", "need", "fragmentation", "limit", "outside", "request",
                                          "growth"};
  return kNames[static_cast<size_t>(cause)];
}

std::optional<int64_t> first_states(const MemoryHistory& history, const MemoryPhases& phases,
                                    const std::vector<CategoryOf>& categories, uint32_t failed) {
  const auto& ends = phases.step_ends();
  if (ends.empty() || ends.front() > failed || (ends.size() > 1 && ends[1] <= failed)) return std::nullopt;
  int64_t bytes = 0, of_before = 0;
  for (size_t i = 0; i < categories.size(); ++i) {
    const Allocation& a = history.allocations[i];
    if (categories[i].category != MemoryCategory::kOptimizerState || !a.is_alive_after(failed)) continue;
    (a.made == Allocation::kOutside ? of_before : bytes) += a.bytes;
  }
  return only_if(bytes > of_before && bytes * kMuchUnused >= history.peak_bytes, bytes);
}

std::optional<OutOfMemory> out_of_memory(const MemorySnapshot& snapshot, const std::vector<MemoryHistory>& histories,
                                         const StackBook& stacks, std::optional<int64_t> capacity_bytes) {
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
  if (is_unchanged_since(snapshot, *history, row)) {
    const FreeBlocks free =
        free_blocks(snapshot, oom.device, events.kind_of(row), oom.requested_bytes > kSmallBytes);
    oom.largest_free_block_bytes = free.largest;
    if (oom.unused_bytes) oom.usable_bytes = std::min(free.all, *oom.unused_bytes);
  }
  if (const auto reachable = oom.reachable_bytes(); capacity_bytes && reachable && *capacity_bytes >= *reachable)
    oom.outside_bytes = *capacity_bytes - *reachable;
  oom.cause = cause_of_failure(snapshot, oom, oom.outside_bytes ? capacity_bytes : std::nullopt);
  oom.steps_after = steps_after(MemoryPhases(snapshot, *history, stacks), row);
  oom.in_optimizer = stacks.of(events.stack(row)).role == MemoryRole::kOptimizer;
  MemoryLine line = stacks.line(events.stack(row));
  oom.function = std::move(line.function), oom.file = std::move(line.file), oom.line = line.line;
  return oom;
}

}  // namespace profgpu
