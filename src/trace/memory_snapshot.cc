#include "trace/memory_snapshot.h"

#include <algorithm>

#include "base/hash.h"

namespace profgpu {
namespace {

constexpr size_t kFirstSlots = 64;

/// Inserts `place` into open-addressing slots unless one that is the same is there; returns the one that is.
template <class Same>
uint32_t slot_of(std::vector<uint32_t>& slots, uint64_t hash, uint32_t place, Same&& same) {
  const size_t mask = slots.size() - 1;
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    if (slots[i] == 0) {
      slots[i] = place + 1;
      return place;
    }
    if (same(slots[i] - 1)) return slots[i] - 1;
  }
}

/// Twice as many slots once half of them are taken.
template <class HashOf>
void make_room(std::vector<uint32_t>& slots, size_t used, HashOf&& hash_of) {
  if (2 * (used + 1) <= slots.size()) return;
  slots.assign(std::max(kFirstSlots, 2 * slots.size()), 0);
  for (size_t i = 0; i < used; ++i)
    slot_of(slots, hash_of(i), static_cast<uint32_t>(i), [](uint32_t) { return false; });
}

uint64_t hash_of(const MemoryFrame& f) {
  return mixed_bits((uint64_t{f.name.value} << 32 | f.file.value) + kGoldenRatio * static_cast<uint32_t>(f.line));
}

uint64_t hash_of(const uint32_t* begin, const uint32_t* end) {
  uint64_t hash = kGoldenRatio * static_cast<uint64_t>(end - begin);
  for (; begin != end; ++begin) hash = (hash ^ *begin) * 0x9fb21c651e98df25;  // an odd number whose bits are mixed
  return mixed_bits(hash);
}

}  // namespace

uint32_t DistinctNumbers::place(uint64_t number) {
  make_room(slots_, numbers_.size(), [&](size_t i) { return mixed_bits(numbers_[i]); });
  const auto fresh = static_cast<uint32_t>(numbers_.size());
  const uint32_t at =
      slot_of(slots_, mixed_bits(number), fresh, [&](uint32_t place) { return numbers_[place] == number; });
  if (at == fresh) numbers_.push_back(number);
  return at;
}

std::optional<uint32_t> DistinctNumbers::find(uint64_t number) const {
  if (slots_.empty()) return std::nullopt;
  const size_t mask = slots_.size() - 1;
  for (size_t i = mixed_bits(number) & mask; slots_[i] != 0; i = (i + 1) & mask)
    if (numbers_[slots_[i] - 1] == number) return slots_[i] - 1;
  return std::nullopt;
}

void PlaceColumn::widen() {
  narrow_.drain([&](uint16_t place) { wide_.push_back(place == kNarrowNone ? kNone : place); });
}

uint32_t MemoryStacks::frame(const MemoryFrame& frame) {
  make_room(frame_slots_, frames_.size(), [&](size_t i) { return hash_of(frames_[i]); });
  const auto fresh = static_cast<uint32_t>(frames_.size());
  const uint32_t at =
      slot_of(frame_slots_, hash_of(frame), fresh, [&](uint32_t place) { return frames_[place] == frame; });
  if (at == fresh) frames_.push_back(frame);
  return at;
}

uint32_t MemoryStacks::stack(const std::vector<uint32_t>& frames) {
  if (frames.empty()) return kNone;
  const auto hash_at = [&](size_t i) { return hash_of(places_.data() + first_[i], places_.data() + first_[i + 1]); };
  make_room(stack_slots_, stacks(), hash_at);
  const auto fresh = static_cast<uint32_t>(stacks());
  const uint64_t hash = hash_of(frames.data(), frames.data() + frames.size());
  const uint32_t at = slot_of(stack_slots_, hash, fresh, [&](uint32_t place) {
    return std::equal(frames.begin(), frames.end(), places_.data() + first_[place], places_.data() + first_[place + 1]);
  });
  if (at != fresh) return at;
  places_.insert(places_.end(), frames.begin(), frames.end());
  first_.push_back(places_.size());
  return at;
}

size_t MemoryStacks::memory_bytes() const {
  return frames_.capacity() * sizeof(MemoryFrame) +
         4 * (frame_slots_.capacity() + places_.capacity() + stack_slots_.capacity()) + 8 * first_.capacity();
}

std::string_view block_state_name(BlockState state) {
  switch (state) {
    case BlockState::kAllocated:
      return "active_allocated";
    case BlockState::kPendingFree:
      return "active_pending_free";
    case BlockState::kInactive:
      break;
  }
  return "inactive";
}

PoolKind pool_kind(std::pair<int64_t, int64_t> id) {
  if (id.first != 0) return PoolKind::kGraph;
  return id.second != 0 ? PoolKind::kProgram : PoolKind::kDefault;
}

std::string_view pool_kind_name(PoolKind kind) {
  switch (kind) {
    case PoolKind::kGraph:
      return "cuda_graph";
    case PoolKind::kProgram:
      return "memory_pool";
    case PoolKind::kDefault:
      break;
  }
  return "default";
}

std::string_view allocation_action_name(AllocationAction action) {
  constexpr std::string_view kNames[] = {"alloc",        "free_requested", "free_completed", "segment_alloc",
                                         "segment_free", "segment_map",    "segment_unmap",  "snapshot",
                                         "oom",          "other"};
  return kNames[static_cast<size_t>(action)];
}

uint32_t AllocationEvents::kind(const AllocationKind& kind) {
  // Kinds are few, and mostly one of the last ones seen; where a program gives each event metadata of its own they are
  // many, and no longer worth a search.
  constexpr size_t kSearched = 64;
  const auto begin = kinds_.rbegin();
  const auto end = begin + static_cast<ptrdiff_t>(std::min(kinds_.size(), kSearched));
  if (const auto at = std::find(begin, end, kind); at != end) return static_cast<uint32_t>(kinds_.rend() - at - 1);
  kinds_.push_back(kind);
  if (kind.action == AllocationAction::kFreeCompleted) freeing_ = kind.action;
  return static_cast<uint32_t>(kinds_.size() - 1);
}

void AllocationEvents::push_kind(uint32_t kind) {
  if (wide_kind_.size() == 0 && kind > UINT8_MAX) {
    for (size_t i = 0; i < kind_.size(); ++i) wide_kind_.push_back(kind_[i]);
    kind_.clear();
  }
  if (kind > UINT8_MAX || wide_kind_.size() > 0) wide_kind_.push_back(kind);
  else kind_.push_back(static_cast<uint8_t>(kind));
}

void AllocationEvents::push(const AllocationEvent& event) {
  push_kind(event.kind);
  address_.push_back(addresses_.place(event.address));
  size_.push_back(sizes_.place(static_cast<uint64_t>(event.size)));
  stack_.push_back(event.stack);
  // A ring's first event is not always its earliest.
  constexpr int64_t kBefore_us = 60'000'000;
  if (base_us_ == AllocationEvent::kNoTime && event.time_us != AllocationEvent::kNoTime)
    base_us_ = std::max<int64_t>(event.time_us - kBefore_us, 0);
  const bool unknown = event.time_us == AllocationEvent::kNoTime;
  const int64_t since = event.time_us - base_us_;
  if (time_us_.size() == 0 && !unknown && (since < 0 || since >= int64_t{kUnknownTime})) widen();
  if (time_us_.size() == 0)
    since_base_us_.push_back(unknown ? kUnknownTime : static_cast<uint32_t>(since));
  else
    time_us_.push_back(event.time_us);
}

void AllocationEvents::push_copy(size_t i) {
  push_kind(wide_kind_.size() > 0 ? wide_kind_[i] : kind_[i]);
  address_.push_back(address_[i]);
  size_.push_back(size_[i]);
  stack_.push_back(stack_[i]);
  if (time_us_.size() > 0)
    time_us_.push_back(time_us_[i]);
  else
    since_base_us_.push_back(since_base_us_[i]);
}

void AllocationEvents::widen() {
  Blocks<int64_t> wide;
  for (size_t i = 0; i < since_base_us_.size(); ++i) wide.push_back(time_us(i));
  time_us_ = std::move(wide);
  since_base_us_.clear();
}

int64_t AllocationEvents::time_us(size_t i) const {
  if (time_us_.size() > 0) return time_us_[i];
  return since_base_us_[i] == kUnknownTime ? AllocationEvent::kNoTime : base_us_ + since_base_us_[i];
}

size_t AllocationEvents::memory_bytes() const {
  const size_t columns = wide_kind_.size() + since_base_us_.size() + 2 * time_us_.size();
  const size_t places = address_.memory_bytes() + size_.memory_bytes() + stack_.memory_bytes();
  return kind_.size() + 4 * columns + places + sizeof(AllocationKind) * kinds_.capacity() + addresses_.memory_bytes() +
         sizes_.memory_bytes();
}

size_t MemorySnapshot::memory_bytes() const {
  return strings.memory_bytes() + stacks.memory_bytes() + events.memory_bytes() +
         segments.capacity() * sizeof(MemorySegment) + blocks.capacity() * sizeof(MemoryBlock) +
         annotations.capacity() * sizeof(MemoryAnnotation) + 72 * timeline.time_ns.capacity();
}

}  // namespace profgpu
