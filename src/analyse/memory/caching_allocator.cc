#include "analyse/memory/caching_allocator.h"

#include <algorithm>
#include <bit>

namespace profgpu {
namespace {

constexpr int64_t kMinBlock = 512, kMiB = 1 << 20;
constexpr int64_t kSmallest = kMiB;  // requests up to here are small
constexpr int64_t kSmallSegment = 2 * kMiB, kLargeSegment = 20 * kMiB;
constexpr int64_t kOwnSegment = 10 * kMiB;        // requests from here on have segments of their own size
constexpr int64_t kRounding = 2 * kMiB;           // of those
constexpr int64_t kMaxWaste = kLargeSegment;      // of a block that may not be split
constexpr int64_t kAddresses = int64_t{1} << 40;  // of an expandable segment: more than any device has

int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

// To the next of so many equal parts of the power of two below.
int64_t rounded_to_division(int64_t bytes, int64_t divisions) {
  if (bytes <= 4 || divisions <= 1 || std::has_single_bit(static_cast<uint64_t>(bytes))) return bytes;
  const auto floor = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(bytes)));
  const int64_t part = floor >> (std::bit_width(static_cast<uint64_t>(divisions)) - 1);
  if (part == 0) return 2 * floor;
  return round_up(bytes, part);
}

}  // namespace

int64_t CachingAllocator::rounded(int64_t bytes) const {
  if (bytes < kMinBlock) return kMinBlock;
  const int log2 = std::bit_width(static_cast<uint64_t>(bytes)) - 1;
  const int place = std::clamp(log2 - 20, 0, static_cast<int>(settings_.roundup_divisions.size()) - 1);
  const int64_t divisions = settings_.roundup_divisions[static_cast<size_t>(place)];
  if (divisions > 1 && bytes > kMinBlock * divisions) return rounded_to_division(bytes, divisions);
  return round_up(bytes, kMinBlock);
}

bool CachingAllocator::is_large(int64_t rounded_bytes) { return rounded_bytes > kSmallest; }

int64_t CachingAllocator::segment_bytes(int64_t rounded_bytes) {
  if (rounded_bytes <= kSmallest) return kSmallSegment;
  return rounded_bytes < kOwnSegment ? kLargeSegment : round_up(rounded_bytes, kRounding);
}

void CachingAllocator::insert_free(Blocks::iterator block) {
  const Segment& s = segments_[block->second.segment];
  if (block->second.mapped) free_of(s).insert({s.stream, block->second.bytes, block->first});
}

void CachingAllocator::erase_free(Blocks::iterator block) {
  const Segment& s = segments_[block->second.segment];
  free_of(s).erase({s.stream, block->second.bytes, block->first});
}

bool CachingAllocator::is_neighbor(Blocks::iterator a, Blocks::iterator b) const {
  return a->second.segment == b->second.segment && a->first + static_cast<uint64_t>(a->second.bytes) == b->first;
}

std::optional<CachingAllocator::Blocks::iterator> CachingAllocator::best_fit(int64_t bytes, int64_t stream,
                                                                             PoolKey pool) {
  FreeBlocks& all = free_[pool];
  auto found = all.lower_bound({stream, bytes, 0});
  const auto fits = [&](FreeBlocks::iterator it) { return it != all.end() && std::get<0>(*it) == stream; };
  if (!fits(found)) return std::nullopt;
  // Of blocks of expandable segments the one that ends the segment may grow, so it counts with what is unmapped behind.
  const auto room = [&](FreeBlocks::iterator it) {
    const auto block = blocks_.find(std::get<2>(*it)), next = std::next(block);
    const bool grows = next != blocks_.end() && is_neighbor(block, next) && !next->second.mapped;
    return block->second.bytes + (grows ? next->second.bytes : 0);
  };
  const auto is_expandable = [&](FreeBlocks::iterator it) {
    return segments_[blocks_.find(std::get<2>(*it))->second.segment].expandable;
  };
  if (is_expandable(found) && settings_.expandable_segments)
    for (auto next = std::next(found); fits(next) && room(next) < room(found); ++next) found = next;
  const int64_t size = std::get<1>(*found);
  if (bytes < settings_.max_split_bytes && size >= settings_.max_split_bytes) return std::nullopt;
  if (bytes >= settings_.max_split_bytes && size >= bytes + kMaxWaste) return std::nullopt;
  return blocks_.find(std::get<2>(*found));
}

bool CachingAllocator::splits(const Segment& s, int64_t block_bytes, int64_t bytes) const {
  const int64_t rest = block_bytes - bytes;
  if (!s.large || settings_.expandable_segments) return rest >= kMinBlock;
  return bytes < settings_.max_split_bytes && rest > kSmallest;
}

CachingAllocator::Blocks::iterator CachingAllocator::take_segment(int64_t bytes, int64_t stream, PoolKey pool,
                                                                  const Device& device) {
  const int64_t size = segment_bytes(bytes);
  const uint64_t address = device(size);
  const auto segment = static_cast<uint32_t>(segments_.size());
  segments_.push_back({address, size, stream, pool.first, pool.second, false, false});
  segment_at_[address] = segment;
  reserved_ += size;
  return blocks_.insert_or_assign(address, Block{size, segment, false, true}).first;
}

CachingAllocator::Blocks::iterator CachingAllocator::merged_with_neighbors(Blocks::iterator block) {
  const auto mergeable = [](Blocks::iterator a, Blocks::iterator b) {
    return !a->second.allocated && !b->second.allocated && a->second.mapped == b->second.mapped;
  };
  if (const auto next = std::next(block); next != blocks_.end() && is_neighbor(block, next) && mergeable(block, next)) {
    erase_free(next);
    block->second.bytes += next->second.bytes;
    blocks_.erase(next);
  }
  if (block != blocks_.begin()) {
    const auto before = std::prev(block);
    if (is_neighbor(before, block) && mergeable(before, block)) {
      erase_free(before);
      before->second.bytes += block->second.bytes;
      blocks_.erase(block);
      return before;
    }
  }
  return block;
}

// Pages of whole units from the beginning of an unmapped block on; the block that they become part of is not in the
// free list yet.
CachingAllocator::Blocks::iterator CachingAllocator::map_pages(Blocks::iterator unmapped, int64_t bytes) {
  const int64_t unit = segments_[unmapped->second.segment].large ? kLargeSegment : kSmallSegment;
  const int64_t size = std::min(round_up(bytes, unit), unmapped->second.bytes);
  if (size < unmapped->second.bytes)
    blocks_.insert_or_assign(unmapped->first + static_cast<uint64_t>(size),
                             Block{unmapped->second.bytes - size, unmapped->second.segment, false, false});
  unmapped->second.bytes = size;
  unmapped->second.mapped = true;
  reserved_ += size;
  return merged_with_neighbors(unmapped);
}

CachingAllocator::Blocks::iterator CachingAllocator::take_pages(int64_t bytes, int64_t stream, PoolKey pool,
                                                                const Device& device) {
  for (auto block = blocks_.begin(); block != blocks_.end(); ++block) {
    const Segment& s = segments_[block->second.segment];
    if (block->second.mapped || !s.expandable || s.stream != stream || PoolKey(s.pool, s.large) != pool) continue;
    // What is free before it counts; what is mapped behind it does not get closer by mapping.
    auto from = block;
    if (block != blocks_.begin()) {
      const auto before = std::prev(block);
      if (is_neighbor(before, block) && before->second.mapped && !before->second.allocated) from = before;
    }
    const int64_t free_before = from == block ? 0 : from->second.bytes;
    if (free_before + block->second.bytes < bytes) continue;
    if (from != block) erase_free(from);
    const auto mapped = map_pages(block, bytes - free_before);
    return mapped;
  }
  const uint64_t address = device(kAddresses);
  const auto segment = static_cast<uint32_t>(segments_.size());
  segments_.push_back({address, kAddresses, stream, pool.first, pool.second, true, false});
  const auto block = blocks_.insert_or_assign(address, Block{kAddresses, segment, false, false}).first;
  return map_pages(block, bytes);
}

CachingAllocator::Placement CachingAllocator::alloc(int64_t bytes, int64_t stream, uint32_t pool_id,
                                                    const Device& device) {
  const int64_t size = rounded(bytes);
  const PoolKey pool{pool_id, is_large(size)};
  Blocks::iterator block;
  if (const auto found = best_fit(size, stream, pool)) {
    block = *found;
    erase_free(block);
  } else {
    block = settings_.expandable_segments ? take_pages(size, stream, pool, device)
                                          : take_segment(size, stream, pool, device);
  }
  if (splits(segments_[block->second.segment], block->second.bytes, size)) {
    const auto rest = blocks_
                          .insert_or_assign(block->first + static_cast<uint64_t>(size),
                                            Block{block->second.bytes - size, block->second.segment, false, true})
                          .first;
    block->second.bytes = size;
    insert_free(rest);
  }
  block->second.allocated = true;
  return {block->first, block->second.bytes};
}

bool CachingAllocator::free(uint64_t address) {
  const auto block = blocks_.find(address);
  if (block == blocks_.end() || !block->second.allocated) return false;
  block->second.allocated = false;
  insert_free(merged_with_neighbors(block));
  return true;
}

bool CachingAllocator::is_wholly_free(uint32_t segment) const {
  const auto block = blocks_.find(segments_[segment].address);
  return block != blocks_.end() && !block->second.allocated && block->second.mapped &&
         block->second.bytes == segments_[segment].bytes;
}

void CachingAllocator::drop_segment(uint32_t segment) {
  const auto block = blocks_.find(segments_[segment].address);
  erase_free(block);
  blocks_.erase(block);
  segment_at_.erase(segments_[segment].address);
  reserved_ -= segments_[segment].bytes;
  segments_[segment].gone = true;
}

bool CachingAllocator::release_segment(uint64_t address) {
  const auto at = segment_at_.find(address);
  if (at == segment_at_.end() || !is_wholly_free(at->second)) return false;
  drop_segment(at->second);
  return true;
}

// Whole units of pages within free blocks.
int64_t CachingAllocator::release_pages(uint32_t segment) {
  const Segment& s = segments_[segment];
  const int64_t unit = s.large ? kLargeSegment : kSmallSegment;
  int64_t released = 0;
  for (auto block = blocks_.find(s.address); block != blocks_.end() && block->second.segment == segment; ++block) {
    if (block->second.allocated || !block->second.mapped) continue;
    const auto offset = static_cast<int64_t>(block->first - s.address);
    const int64_t from = round_up(offset, unit), to = (offset + block->second.bytes) / unit * unit;
    if (to <= from) continue;
    erase_free(block);
    const uint64_t begin = s.address + static_cast<uint64_t>(from), end = s.address + static_cast<uint64_t>(to);
    const int64_t behind = offset + block->second.bytes - to;
    if (behind > 0) insert_free(blocks_.insert_or_assign(end, Block{behind, segment, false, true}).first);
    auto unmapped = block;
    if (from > offset) {
      block->second.bytes = from - offset;
      insert_free(block);
      unmapped = blocks_.insert_or_assign(begin, Block{to - from, segment, false, false}).first;
    } else {
      block->second.bytes = to - from, block->second.mapped = false;
    }
    released += to - from;
    reserved_ -= to - from;
    block = merged_with_neighbors(unmapped);
  }
  return released;
}

int64_t CachingAllocator::release_cached() {
  int64_t released = 0;
  for (uint32_t i = 0; i < segments_.size(); ++i) {
    if (segments_[i].gone) continue;
    if (segments_[i].expandable) {
      released += release_pages(i);
    } else if (is_wholly_free(i)) {
      released += segments_[i].bytes;
      drop_segment(i);
    }
  }
  return released;
}

void CachingAllocator::add_segment(uint64_t address, int64_t bytes, int64_t stream, bool large, uint32_t pool,
                                   const std::vector<Live>& live) {
  const auto segment = static_cast<uint32_t>(segments_.size());
  segments_.push_back({address, bytes, stream, pool, large, false, false});
  segment_at_[address] = segment;
  reserved_ += bytes;
  uint64_t at = address;
  const auto add_free = [&](uint64_t end) {
    if (end > at)
      insert_free(blocks_.insert_or_assign(at, Block{static_cast<int64_t>(end - at), segment, false, true}).first);
  };
  for (const Live& l : live) {
    add_free(l.address);
    blocks_.insert_or_assign(l.address, Block{l.bytes, segment, true, true});
    at = l.address + static_cast<uint64_t>(l.bytes);
  }
  add_free(address + static_cast<uint64_t>(bytes));
}

}  // namespace profgpu
