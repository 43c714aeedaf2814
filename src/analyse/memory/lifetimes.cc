#include "analyse/memory/lifetimes.h"

#include <algorithm>
#include <iterator>
#include <map>

namespace profgpu {
namespace {

/// Pairs one device's events.
class Pairing {
 public:
  Pairing(const MemorySnapshot& snapshot, MemoryHistory& history)
      : events_(snapshot.events), history_(history), live_(snapshot.events.count_addresses()) {}

  void run() {
    // Room for what turns out to have been there before; growing would hold everything twice.
    size_t made = 0;
    for (uint32_t row = history_.first; row < history_.end; ++row)
      made += events_.action(row) == AllocationAction::kAlloc ? 1 : 0;
    made_.reserve(made + made / 16 + 4096);
    for (uint32_t row = history_.first; row < history_.end; ++row) {
      const AllocationAction action = events_.action(row);
      if (action == AllocationAction::kAlloc)
        make(row);
      else if (events_.is_free(row))
        release(row);
      else
        continue;
      history_.recorded = true;
    }
  }
  [[nodiscard]] bool is_live(uint64_t address) const {
    const auto place = events_.find_address(address);
    return place && live_[*place] != 0;
  }
  void add_before(const Allocation& a) {
    before_.push_back(a);
    history_.initial_bytes += a.bytes;
  }
  void add_held(const Allocation& a, uint64_t address) {
    history_.initial_addresses.push_back(address);
    add_before(a);
  }
  // Which are known only now; the level of every event is higher by what was there before the first.
  void finish() {
    history_.truncated = !before_.empty();
    made_.insert(made_.begin(), before_.begin(), before_.end());
    history_.allocations = std::move(made_);
    history_.peak_bytes = history_.initial_bytes + std::max<int64_t>(highest_, 0);
    if (highest_ > 0) history_.peak_row = highest_row_;
  }

 private:
  void make(uint32_t row) {
    // What was there is gone, though no event says when.
    if (live_[events_.address_place(row)] != 0) release(row);
    made_.push_back({row, Allocation::kOutside, events_.stack(row), pool_of(row), events_.bytes(row)});
    live_[events_.address_place(row)] = static_cast<uint32_t>(made_.size());
    level_ += events_.bytes(row);
    if (level_ > highest_) highest_ = level_, highest_row_ = row;
  }
  void release(uint32_t row) {
    uint32_t& live = live_[events_.address_place(row)];
    if (live == 0) {
      add_before({Allocation::kOutside, row, MemoryStacks::kNone, pool_of(row), events_.bytes(row)});
      level_ -= events_.bytes(row);
      return;
    }
    Allocation& a = made_[live - 1];
    a.freed = row;
    level_ -= a.bytes;
    live = 0;
  }
  [[nodiscard]] uint32_t pool_of(uint32_t row) const {
    const uint32_t pool = events_.kind_of(row).pool;
    return pool == UINT32_MAX ? 0 : pool;
  }

  const AllocationEvents& events_;
  MemoryHistory& history_;
  std::vector<Allocation> before_, made_;
  std::vector<uint32_t> live_;       // by place of the address: place in made_ + 1
  int64_t level_ = 0, highest_ = 0;  // relative to before the first event
  uint32_t highest_row_ = 0;
};

void add_initial_blocks(const MemorySnapshot& snapshot, const MemoryHistory& history, Pairing& pairing) {
  for (const MemorySegment& s : snapshot.segments) {
    if (s.device != history.device) continue;
    for (const MemoryBlock& block : snapshot.blocks_of(s)) {
      if (block.state != BlockState::kAllocated || pairing.is_live(block.address)) continue;
      pairing.add_held({Allocation::kOutside, Allocation::kOutside, block.stack, s.pool, block.requested},
                       block.address);
    }
  }
}

// Of PyTorch versions whose events tell no pool: that of the segment that the address is in, unless another segment was
// there before.
void take_pools_of_segments(const MemorySnapshot& snapshot, MemoryHistory& history) {
  struct Place {
    uint64_t end = 0;
    uint32_t pool = 0;
    uint32_t since = 0;  // the row that takes the segment; before the first: it was there
  };
  std::map<uint64_t, Place> segments;
  for (const MemorySegment& s : snapshot.segments)
    if (s.device == history.device)
      segments[s.address] = {s.address + static_cast<uint64_t>(s.total), s.pool, history.first};
  const AllocationEvents& events = snapshot.events;
  for (uint32_t row = history.first; row < history.end; ++row)
    if (events.action(row) == AllocationAction::kSegmentAlloc)
      if (const auto at = segments.find(events.address(row)); at != segments.end()) at->second.since = row;
  for (Allocation& a : history.allocations) {
    // The allocation's own event, else the one that frees it.
    const uint32_t row = a.made != Allocation::kOutside ? a.made : a.freed;
    if (row == Allocation::kOutside || events.kind_of(row).pool != UINT32_MAX) continue;
    const auto after = segments.upper_bound(events.address(row));
    if (after == segments.begin()) continue;
    const Place& place = std::prev(after)->second;
    if (events.address(row) < place.end && row >= place.since) a.pool = place.pool;
  }
}

// A recording may leave out what becomes of segments (skip_actions). Then something is allocated from the beginning on,
// or where no segment is, and no event takes one for it.
bool lacks_segment_events(const MemorySnapshot& snapshot, const MemoryHistory& history) {
  std::map<uint64_t, uint64_t> segments;   // end by address
  for (const MemorySegment& s : snapshot.segments)
    if (s.device == history.device) segments[s.address] = s.address + static_cast<uint64_t>(s.total);
  if (segments.empty()) return false;
  const AllocationEvents& events = snapshot.events;
  bool outside = false;
  for (uint32_t row = history.first; row < history.end; ++row) {
    if (reserved_change(events, row) != 0) return false;
    if (events.action(row) != AllocationAction::kAlloc) continue;
    const auto after = segments.upper_bound(events.address(row));
    outside |= after == segments.begin() || events.address(row) >= std::prev(after)->second;
  }
  return outside || (history.recorded && history.initial_bytes == 0);
}

// Backward from what the snapshot says at the end.
std::optional<int64_t> reserved_before(const MemorySnapshot& snapshot, const MemoryHistory& history) {
  if (snapshot.cut || history.lacks_segments) return std::nullopt;
  int64_t reserved = 0;
  for (const MemorySegment& s : snapshot.segments)
    if (s.device == history.device) reserved += s.total;
  for (uint32_t row = history.first; row < history.end; ++row) reserved -= reserved_change(snapshot.events, row);
  return reserved >= 0 ? std::optional(reserved) : std::nullopt;
}

}  // namespace

int64_t reserved_change(const AllocationEvents& events, uint32_t row) {
  switch (events.action(row)) {
    case AllocationAction::kSegmentAlloc:
    case AllocationAction::kSegmentMap:
      return events.bytes(row);
    case AllocationAction::kSegmentFree:
    case AllocationAction::kSegmentUnmap:
      return -events.bytes(row);
    default:
      return 0;
  }
}

std::vector<MemoryHistory> memory_histories(const MemorySnapshot& snapshot) {
  std::map<int32_t, MemoryHistory> by_device;
  for (const MemorySegment& s : snapshot.segments) by_device[s.device].device = s.device;
  for (const DeviceEvents& d : snapshot.traces) {
    MemoryHistory& history = by_device[d.device];
    history.device = d.device;
    history.first = static_cast<uint32_t>(d.first);
    history.end = static_cast<uint32_t>(d.first + d.count);
  }
  std::vector<MemoryHistory> all;
  for (auto& [device, history] : by_device) {
    Pairing pairing(snapshot, history);
    pairing.run();
    // Of a cut file the events that made its blocks may be in the part that is missing.
    if (!snapshot.cut || history.first == history.end) add_initial_blocks(snapshot, history, pairing);
    pairing.finish();
    if (snapshot.pools.size() > 1) take_pools_of_segments(snapshot, history);
    history.lacks_segments = lacks_segment_events(snapshot, history);
    history.initial_reserved_bytes = reserved_before(snapshot, history);
    all.push_back(std::move(history));
  }
  return all;
}

LevelWalk::LevelWalk(const MemorySnapshot& snapshot, const MemoryHistory& history)
    : events_(snapshot.events),
      history_(history),
      live_(snapshot.events.count_addresses()),
      row_(history.first),
      allocated_(history.initial_bytes),
      reserved_(history.initial_reserved_bytes) {}

bool LevelWalk::next(MemoryLevel& level) {
  if (row_ >= history_.end) return false;
  const AllocationAction action = events_.action(row_);
  if (action == AllocationAction::kAlloc) {
    uint32_t& live = live_[events_.address_place(row_)];
    if (live != 0) allocated_ -= events_.bytes(live - 1);
    live = row_ + 1;
    allocated_ += events_.bytes(row_);
  } else if (events_.is_free(row_)) {
    uint32_t& live = live_[events_.address_place(row_)];
    allocated_ -= events_.bytes(live == 0 ? row_ : live - 1);
    live = 0;
  }
  if (reserved_) *reserved_ += reserved_change(events_, row_);
  level = {row_++, allocated_, reserved_};
  return true;
}

}  // namespace profgpu
