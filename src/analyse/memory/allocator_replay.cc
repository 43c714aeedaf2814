#include "analyse/memory/allocator_replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <unordered_map>

#include "analyse/memory/caching_allocator.h"

namespace profgpu {
namespace {

using Action = AllocationAction;

constexpr int64_t kSegmentOfSmall = 2 << 20, kMaxSlack = 1 << 20;
constexpr uint64_t kMadeUp = uint64_t{1} << 56;  // where segments of the model's own lie: no device's addresses

struct KnownSegment {
  int64_t bytes = 0, stream = 0;
  bool large = true;
  uint32_t pool = 0;
};

struct KnownBlock {
  int64_t bytes = 0;
  bool exact = false;  ///< as the snapshot says; else what was requested, rounded
};

/// What was there before the first event: what is there in the end, with the events undone.
struct InitialState {
  std::map<uint64_t, KnownSegment> segments;
  std::map<uint64_t, KnownBlock> blocks;
};

// A block that is not split where at most kMaxSlack would be left has all of that: no free block is as small, since
// splits leave more and merges only add.
int64_t with_slack(uint64_t address, const KnownBlock& block, uint64_t next, const KnownSegment& segment) {
  const auto gap = static_cast<int64_t>(next - address) - block.bytes;
  return !block.exact && segment.large && gap > 0 && gap <= kMaxSlack ? block.bytes + gap : block.bytes;
}

class Player {
 public:
  Player(const MemorySnapshot& snapshot, const MemoryHistory& history, AllocatorSettings settings, bool compares)
      : snapshot_(snapshot),
        events_(snapshot.events),
        history_(history),
        model_(std::move(settings)),
        compares_(compares) {}

  AllocatorReplay run() {
    set_up();
    result_.peak_reserved_bytes = model_.reserved_bytes();
    for (uint32_t row = history_.first; row < history_.end; ++row) {
      step(row);
      result_.peak_reserved_bytes = std::max(result_.peak_reserved_bytes, model_.reserved_bytes());
    }
    result_.end_reserved_bytes = model_.reserved_bytes();
    return std::move(result_);
  }

 private:
  InitialState undone() {
    InitialState state;
    for (const MemorySegment& s : snapshot_.segments) {
      if (s.device != history_.device) continue;
      state.segments[s.address] = {s.total, s.stream, s.large, s.pool};
      for (const MemoryBlock& block : snapshot_.blocks_of(s))
        if (block.state != BlockState::kInactive) state.blocks[block.address] = {block.size, true};
    }
    for (const auto& [address, segment] : state.segments) pool_at_[address] = segment.pool;
    for (uint32_t row = history_.end; row-- > history_.first;) {
      const uint64_t address = events_.address(row);
      switch (events_.action(row)) {
        case Action::kAlloc:
          state.blocks.erase(address);
          break;
        case Action::kFreeRequested:
        case Action::kFreeCompleted:
          if (!events_.is_free(row)) break;
          state.blocks[address] = {model_.rounded(events_.bytes(row)), false};
          break;
        case Action::kSegmentAlloc:
          state.segments.erase(address);
          break;
        case Action::kSegmentFree:
          state.segments[address] = {events_.bytes(row), events_.kind_of(row).stream,
                                     events_.bytes(row) > kSegmentOfSmall, pool_of(row)};
          break;
        default:
          break;
      }
    }
    return state;
  }

  void set_up() {
    const InitialState state = undone();
    auto block = state.blocks.begin();
    for (const auto& [address, segment] : state.segments) {
      const uint64_t end = address + static_cast<uint64_t>(segment.bytes);
      std::vector<CachingAllocator::Live> live;
      while (block != state.blocks.end() && block->first < address) ++block;  // of no segment
      for (; block != state.blocks.end() && block->first < end; ++block) {
        const auto next = std::next(block);
        const uint64_t until = next != state.blocks.end() && next->first < end ? next->first : end;
        // A block that would reach into the next one is damage.
        const int64_t bytes = std::min(with_slack(block->first, block->second, until, segment),
                                       static_cast<int64_t>(until - block->first));
        live.push_back({block->first, bytes});
        placed_[block->first] = block->first;
      }
      model_.add_segment(address, segment.bytes, segment.stream, segment.large, segment.pool, live);
    }
  }

  [[nodiscard]] uint32_t pool_of(uint32_t row) const {
    const uint32_t recorded = events_.kind_of(row).pool;
    if (recorded != UINT32_MAX) return recorded;
    const auto after = pool_at_.upper_bound(events_.address(row));  // of old versions the segment tells
    return after == pool_at_.begin() ? 0 : std::prev(after)->second;
  }

  void depart(uint32_t row, std::string what) {
    if (!compares_ || result_.departs_row) return;
    result_.departs_row = row;
    result_.departure = std::move(what);
  }

  void step(uint32_t row) {
    switch (events_.action(row)) {
      case Action::kSegmentAlloc:
        taken_.push_back(row);
        break;
      case Action::kSegmentFree:
        give_back(row);
        break;
      case Action::kAlloc:
        alloc(row);
        break;
      case Action::kFreeRequested:
      case Action::kFreeCompleted:
        if (events_.is_free(row)) release(row);
        break;
      case Action::kOom:
        taken_.clear();
        break;
      default:
        break;
    }
  }

  // Where PyTorch took a segment for this request, the model's is that one.
  uint64_t device(uint32_t row, int64_t bytes) {
    if (compares_ && !result_.departs_row && !taken_.empty() && events_.bytes(taken_.front()) == bytes) {
      const uint64_t address = events_.address(taken_.front());
      taken_.pop_front();
      return address;
    }
    depart(row, taken_.empty() ? fmt::format("takes a segment of {} bytes where PyTorch had a free block", bytes)
                               : fmt::format("takes a segment of {} bytes where PyTorch took one of {}", bytes,
                                             events_.bytes(taken_.front())));
    taken_.clear();
    const uint64_t address = next_made_up_;
    next_made_up_ += static_cast<uint64_t>(bytes) + kSegmentOfSmall;
    return address;
  }

  void alloc(uint32_t row) {
    const auto placement = model_.alloc(events_.bytes(row), events_.kind_of(row).stream, pool_of(row),
                                        [&](int64_t bytes) { return device(row, bytes); });
    if (!taken_.empty()) {
      depart(row,
             fmt::format("has a free block where PyTorch took a segment of {} bytes", events_.bytes(taken_.front())));
      taken_.clear();
    }
    if (placement.address != events_.address(row))
      depart(row, fmt::format("places the block at {:#x}, PyTorch at {:#x}", placement.address, events_.address(row)));
    placed_[events_.address(row)] = placement.address;
    releasing_ = false;
  }

  void release(uint32_t row) {
    releasing_ = false;
    const auto at = placed_.find(events_.address(row));
    if (at == placed_.end() || !model_.free(at->second)) {
      depart(row, "frees a block that the model does not have");
      return;
    }
    placed_.erase(at);
  }

  void give_back(uint32_t row) {
    if (compares_ && !result_.departs_row) {
      if (!model_.release_segment(events_.address(row))) depart(row, "cannot give back a segment that PyTorch does");
      return;
    }
    if (!releasing_) model_.release_cached();
    releasing_ = true;
  }

  const MemorySnapshot& snapshot_;
  const AllocationEvents& events_;
  const MemoryHistory& history_;
  CachingAllocator model_;
  bool compares_;
  AllocatorReplay result_;
  std::map<uint64_t, uint32_t> pool_at_;           // of segments in the snapshot
  std::unordered_map<uint64_t, uint64_t> placed_;  // where the model has what PyTorch has there
  std::deque<uint32_t> taken_;                     // segments that PyTorch took for the next request: rows
  uint64_t next_made_up_ = kMadeUp;
  bool releasing_ = false;
};

}  // namespace

std::string_view why_no_replay(const MemorySnapshot& snapshot, const MemoryHistory& history) {
  const auto is_expandable = [&](const MemorySegment& s) { return s.device == history.device && s.expandable; };
  if (snapshot.settings.expandable_segments || std::ranges::any_of(snapshot.segments, is_expandable))
    return "the recording has expandable segments: the model does not map and unmap parts of a segment";
  if (snapshot.cut) return "the file ends early";
  if (history.end - history.first > kMaxReplayedEvents) return "the history has over four million events";
  if (!history.initial_reserved_bytes) return "what was reserved before the first event is unknown";
  return {};
}

AllocatorReplay replayed(const MemorySnapshot& snapshot, const MemoryHistory& history) {
  return Player(snapshot, history, snapshot.settings, true).run();
}

AllocatorReplay replayed_with(const MemorySnapshot& snapshot, const MemoryHistory& history,
                              const AllocatorSettings& settings) {
  return Player(snapshot, history, settings, false).run();
}

}  // namespace profgpu
