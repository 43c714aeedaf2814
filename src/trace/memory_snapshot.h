// MemorySnapshot: what PyTorch's caching allocator held at one instant, and what it had done until then, as columns.
//
// Made of a file that torch.cuda.memory._dump_snapshot() wrote. Sizes are bytes, times microseconds of Unix time as
// PyTorch gives them. Strings are of the snapshot's own pool. Rows refer to each other by number; kNone: to none.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "trace/blocks.h"
#include "trace/string_pool.h"

namespace profgpu {

/// Numbers of which few are distinct, as places in a table of them. Budget: one hash and one compare a number.
class DistinctNumbers {
 public:
  uint32_t place(uint64_t number);
  /// None: the number was never given a place.
  [[nodiscard]] std::optional<uint32_t> find(uint64_t number) const;
  [[nodiscard]] uint64_t operator[](uint32_t place) const { return numbers_[place]; }
  [[nodiscard]] size_t size() const { return numbers_.size(); }
  [[nodiscard]] size_t memory_bytes() const { return 8 * numbers_.capacity() + 4 * slots_.capacity(); }

 private:
  std::vector<uint64_t> numbers_;
  std::vector<uint32_t> slots_;  ///< place + 1; 0 is empty; power-of-two size
};

/// Places in a table, or kNone: in two bytes each as long as all of them fit. Budget: one compare more than an array.
class PlaceColumn {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  void push_back(uint32_t place) {
    const bool fits = place < kNarrowNone || place == kNone;
    if (wide_.size() == 0 && fits) return narrow_.push_back(static_cast<uint16_t>(place));   // kNone: its lowest bits
    if (wide_.size() == 0) widen();
    wide_.push_back(place);
  }
  [[nodiscard]] uint32_t operator[](size_t i) const {
    if (wide_.size() > 0) return wide_[i];
    return narrow_[i] == kNarrowNone ? kNone : narrow_[i];
  }
  [[nodiscard]] size_t size() const { return wide_.size() > 0 ? wide_.size() : narrow_.size(); }
  [[nodiscard]] size_t memory_bytes() const { return 2 * narrow_.size() + 4 * wide_.size(); }

 private:
  static constexpr uint16_t kNarrowNone = UINT16_MAX;
  void widen();
  Blocks<uint16_t> narrow_;
  Blocks<uint32_t> wide_;  ///< instead
};

struct MemoryFrame {
  StringId name, file;
  int32_t line = 0;
  bool operator==(const MemoryFrame&) const = default;
};

/// Frames and stacks of them, each once. A stack is its frames from the innermost outward.
class MemoryStacks {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  uint32_t frame(const MemoryFrame& frame);
  uint32_t stack(const std::vector<uint32_t>& frames);
  [[nodiscard]] const MemoryFrame& frame(uint32_t frame) const { return frames_[frame]; }
  [[nodiscard]] std::pair<const uint32_t*, const uint32_t*> frames_of(uint32_t stack) const {
    if (stack == kNone) return {nullptr, nullptr};
    return {places_.data() + first_[stack], places_.data() + first_[stack + 1]};
  }
  [[nodiscard]] size_t frames() const { return frames_.size(); }
  [[nodiscard]] size_t stacks() const { return first_.size() - 1; }
  [[nodiscard]] size_t memory_bytes() const;

 private:
  std::vector<MemoryFrame> frames_;
  std::vector<uint32_t> frame_slots_;
  std::vector<uint32_t> places_;     ///< frames of all stacks
  std::vector<size_t> first_ = {0};  ///< of each stack in places_
  std::vector<uint32_t> stack_slots_;
};

enum class BlockState : uint8_t {
  kAllocated,    ///< a tensor has it
  kPendingFree,  ///< freed, but other streams may still use it
  kInactive,     ///< cached
};
std::string_view block_state_name(BlockState state);

struct MemoryBlock {
  uint64_t address = 0;
  int64_t size = 0;
  int64_t requested = 0;  ///< of the last that had it
  BlockState state = BlockState::kInactive;
  uint32_t stack = MemoryStacks::kNone;
};

struct MemorySegment {
  int32_t device = 0;
  uint64_t address = 0;
  int64_t total = 0, allocated = 0, active = 0, requested = 0;
  int64_t stream = 0;
  bool large = true;  ///< of the pool of blocks over 1 MiB
  bool expandable = false;
  uint32_t pool = 0;                     ///< of MemorySnapshot::pools
  uint32_t stack = MemoryStacks::kNone;  ///< where it was taken from the device
  uint32_t first_block = 0, blocks = 0;  ///< in MemorySnapshot::blocks, by address
};

/// What made a pool, as its id tells: of the two numbers PyTorch counts one for pools that a CUDA graph makes for
/// itself, and the other for those that the program makes.
enum class PoolKind : uint8_t {
  kDefault,  ///< (0, 0)
  kGraph,    ///< (n, 0): a CUDA graph's own
  kProgram,  ///< (0, n): a torch.cuda.MemPool, or a graph_pool_handle() that graphs share
};
PoolKind pool_kind(std::pair<int64_t, int64_t> id);
/// "default", "cuda_graph", "memory_pool"
std::string_view pool_kind_name(PoolKind kind);

enum class AllocationAction : uint8_t {
  kAlloc,
  kFreeRequested,
  kFreeCompleted,  ///< "free" of old files too
  kSegmentAlloc,
  kSegmentFree,
  kSegmentMap,
  kSegmentUnmap,
  kSnapshot,
  kOom,
  kOther,  ///< of a kind that is not known here, or the program's own
};
std::string_view allocation_action_name(AllocationAction action);

/// What events mostly share.
struct AllocationKind {
  AllocationAction action = AllocationAction::kOther;
  int64_t stream = 0;
  uint32_t pool = UINT32_MAX;  ///< of MemorySnapshot::pools; UINT32_MAX: not recorded
  StringId compile_context, user_metadata, category;
  bool operator==(const AllocationKind&) const = default;
};

struct AllocationEvent {
  uint32_t kind = 0;     ///< of AllocationEvents::kinds()
  uint64_t address = 0;  ///< of an out-of-memory event the bytes that were free on the device
  int64_t size = 0;      ///< as requested, of segments as taken
  int64_t time_us = kNoTime;
  uint32_t stack = MemoryStacks::kNone;
  static constexpr int64_t kNoTime = -1;
};

/// Events in 11 bytes each, 17 where stacks, sizes or addresses are many, in the order of the file.
class AllocationEvents {
 public:
  uint32_t kind(const AllocationKind& kind);
  void push(const AllocationEvent& event);
  void push_copy(size_t i);
  [[nodiscard]] size_t size() const { return stack_.size(); }
  [[nodiscard]] AllocationAction action(size_t i) const { return kind_of(i).action; }
  /// Whether memory is free from here on: its free is complete. A recording that leaves these events out
  /// (skip_actions) has it free when the program frees it.
  [[nodiscard]] bool is_free(size_t i) const { return action(i) == freeing_; }
  [[nodiscard]] bool completes_frees() const { return freeing_ == AllocationAction::kFreeCompleted; }
  [[nodiscard]] const AllocationKind& kind_of(size_t i) const {
    return kinds_[wide_kind_.size() > 0 ? wide_kind_[i] : kind_[i]];
  }
  [[nodiscard]] uint64_t address(size_t i) const { return addresses_[address_[i]]; }
  /// Its place among all distinct addresses, which count_addresses() counts.
  [[nodiscard]] uint32_t address_place(size_t i) const { return address_[i]; }
  [[nodiscard]] size_t count_addresses() const { return addresses_.size(); }
  [[nodiscard]] int64_t bytes(size_t i) const { return static_cast<int64_t>(sizes_[size_[i]]); }
  [[nodiscard]] uint32_t stack(size_t i) const { return stack_[i]; }
  [[nodiscard]] int64_t time_us(size_t i) const;
  /// The place of an address; none where no event has it.
  [[nodiscard]] std::optional<uint32_t> find_address(uint64_t address) const { return addresses_.find(address); }
  [[nodiscard]] size_t memory_bytes() const;

 private:
  static constexpr uint32_t kUnknownTime = UINT32_MAX;
  void widen();
  void push_kind(uint32_t kind);
  AllocationAction freeing_ = AllocationAction::kFreeRequested;
  std::vector<AllocationKind> kinds_;
  Blocks<uint8_t> kind_;
  Blocks<uint32_t> wide_kind_;  ///< instead, where they do not fit 8 bits
  PlaceColumn address_, size_, stack_;
  DistinctNumbers addresses_, sizes_;
  int64_t base_us_ = AllocationEvent::kNoTime;
  Blocks<uint32_t> since_base_us_;
  Blocks<int64_t> time_us_;  ///< instead, where times do not fit 32 bits
};

/// As a device: memory of the host that is pinned for copies (PyTorch 2.14 and later, where a program records it).
constexpr int32_t kPinnedHost = -1;

/// A device's events: rows first .. first + count - 1 of the events.
struct DeviceEvents {
  int32_t device = 0;
  size_t first = 0, count = 0;
};

/// A range of the program's that was open at a time, such as "Optimizer.step#AdamW.step".
struct MemoryAnnotation {
  int64_t time_us = 0;
  StringId name;
  int32_t device = 0;
  bool start = false;
};

/// PYTORCH_CUDA_ALLOC_CONF as the allocator understood it.
struct AllocatorSettings {
  bool known = false;  ///< the file has them
  std::string text;
  int64_t max_split_bytes = INT64_MAX;  ///< blocks from here on are not split
  bool expandable_segments = false;
  /// Divisions of each power of two from 1 MiB on, for smaller sizes the first; 0: none.
  std::array<int64_t, 16> roundup_divisions{};
  bool operator==(const AllocatorSettings&) const = default;
};

/// Bytes by category over time, where the profiler wrote no more (export_memory_timeline).
struct CategoryTimeline {
  static constexpr size_t kCategories = 8;  ///< in the profiler's own order, the last "unknown"
  std::vector<int64_t> time_ns;
  std::vector<std::array<int64_t, kCategories>> bytes;
};

struct MemorySnapshot {
  StringPool strings;
  MemoryStacks stacks;
  std::vector<MemorySegment> segments;  ///< by device, then address
  std::vector<MemoryBlock> blocks;
  [[nodiscard]] std::span<const MemoryBlock> blocks_of(const MemorySegment& segment) const {
    return std::span(blocks).subspan(segment.first_block, segment.blocks);
  }
  AllocationEvents events;
  std::vector<DeviceEvents> traces;  ///< by device; without those of no event
  std::vector<MemoryAnnotation> annotations;
  std::vector<std::pair<int64_t, int64_t>> pools = {{0, 0}};  ///< ids of memory pools; the first is the default
  AllocatorSettings settings;
  CategoryTimeline timeline;
  std::string path;
  int64_t first_us = AllocationEvent::kNoTime, last_us = AllocationEvent::kNoTime;  ///< of its events and annotations
  bool cut = false;                                                                 ///< the file ends early

  [[nodiscard]] size_t memory_bytes() const;
};

}  // namespace profgpu
