// The memory snapshot of a rank: the last one, where several were taken.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analyse/memory/snapshot_section.h"
#include "analyse/memory/stack_facts.h"
#include "analyse/rank/facts.h"
#include "trace/memory_snapshot.h"

namespace profgpu {

struct Snapshot {
  std::optional<SnapshotSection> section;
  static Snapshot compute(const Facts& facts);
};

/// What is known of each event of the snapshot, for tables: by row.
struct SnapshotHistory {
  static constexpr int64_t kNotKnown = -1;
  const MemorySnapshot* snapshot = nullptr;  ///< null: there is none; the rest is empty then
  std::vector<int32_t> device;
  std::vector<uint32_t> event;           ///< its place in the device's trace
  std::vector<int64_t> allocated_bytes;  ///< after it
  std::vector<int64_t> reserved_bytes;   ///< after it, or kNotKnown
  std::vector<int64_t> freed;            ///< of an allocation the event that frees it, or kNotKnown
  std::vector<MemoryCategory> category;  ///< of an allocation
  std::vector<uint32_t> frame;           ///< the line that counts for it, or MemoryStacks::kNone
  std::vector<uint32_t> segment_of_block;
  static SnapshotHistory compute(const Facts& facts);
};

}  // namespace profgpu
