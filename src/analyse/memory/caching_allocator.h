// PyTorch's CUDA caching allocator as a model: the same pools, rounding, choice of blocks, splitting and merging, so
// that a recorded stream of requests can be played with other settings.
//
// After c10/cuda/CUDACachingAllocator.cpp of PyTorch 2.x: requests are rounded to 512 bytes (or to divisions of a power
// of two); those up to 1 MiB are served from segments of 2 MiB, those under 10 MiB from segments of 20 MiB, larger ones
// from segments of their own size rounded to 2 MiB. The smallest free block of the stream that is large enough is
// taken, the lowest address first; what is over is split off where it is at least 512 bytes (small) or over 1 MiB
// (large). Free neighbors are merged. Expandable segments map pages of 2 MiB (small) or 20 MiB (large) as they are
// needed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "trace/memory_snapshot.h"

namespace profgpu {

class CachingAllocator {
 public:
  explicit CachingAllocator(AllocatorSettings settings) : settings_(std::move(settings)) {}

  /// What a request becomes.
  [[nodiscard]] int64_t rounded(int64_t bytes) const;
  static bool is_large(int64_t rounded_bytes);
  /// Of a segment that is taken for it.
  static int64_t segment_bytes(int64_t rounded_bytes);

  struct Placement {
    uint64_t address = 0;
    int64_t block_bytes = 0;
  };
  /// Where the device puts a segment of so many bytes.
  using Device = std::function<uint64_t(int64_t bytes)>;
  Placement alloc(int64_t bytes, int64_t stream, uint32_t pool, const Device& device);
  /// False: nothing is allocated there.
  bool free(uint64_t address);
  /// Gives a segment back; false: there is none, or something is allocated in it.
  bool release_segment(uint64_t address);
  /// Gives back all that holds nothing, as torch.cuda.empty_cache() does; bytes.
  int64_t release_cached();
  [[nodiscard]] int64_t reserved_bytes() const { return reserved_; }

  /// A segment that is there, with its blocks in order of address; between them it is free.
  struct Live {
    uint64_t address = 0;
    int64_t bytes = 0;
  };
  void add_segment(uint64_t address, int64_t bytes, int64_t stream, bool large, uint32_t pool,
                   const std::vector<Live>& live);

 private:
  struct Block {
    int64_t bytes = 0;
    uint32_t segment = 0;
    bool allocated = false, mapped = true;
  };
  struct Segment {
    uint64_t address = 0;
    int64_t bytes = 0;  ///< expandable: of addresses
    int64_t stream = 0;
    uint32_t pool = 0;
    bool large = true, expandable = false, gone = false;
  };
  using Blocks = std::map<uint64_t, Block>;
  using PoolKey = std::pair<uint32_t, bool>;                 ///< pool, large
  using FreeBlock = std::tuple<int64_t, int64_t, uint64_t>;  ///< stream, bytes, address
  using FreeBlocks = std::set<FreeBlock>;

  [[nodiscard]] FreeBlocks& free_of(const Segment& s) { return free_[{s.pool, s.large}]; }
  void insert_free(Blocks::iterator block);
  void erase_free(Blocks::iterator block);
  std::optional<Blocks::iterator> best_fit(int64_t bytes, int64_t stream, PoolKey pool);
  Blocks::iterator take_segment(int64_t bytes, int64_t stream, PoolKey pool, const Device& device);
  Blocks::iterator take_pages(int64_t bytes, int64_t stream, PoolKey pool, const Device& device);
  Blocks::iterator map_pages(Blocks::iterator unmapped, int64_t bytes);
  Blocks::iterator merged_with_neighbors(Blocks::iterator block);
  [[nodiscard]] bool splits(const Segment& s, int64_t block_bytes, int64_t bytes) const;
  bool is_neighbor(Blocks::iterator a, Blocks::iterator b) const;
  [[nodiscard]] bool is_wholly_free(uint32_t segment) const;
  int64_t release_pages(uint32_t segment);
  void drop_segment(uint32_t segment);

  AllocatorSettings settings_;
  Blocks blocks_;  ///< of all segments, by address
  std::vector<Segment> segments_;
  std::map<uint64_t, uint32_t> segment_at_;
  std::map<PoolKey, FreeBlocks> free_;
  int64_t reserved_ = 0;
};

}  // namespace profgpu
