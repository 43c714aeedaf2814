#include "analyse/rank/snapshot.h"

#include "analyse/memory/lifetimes.h"
#include "analyse/memory/memory_categories.h"
#include "analyse/memory/memory_phases.h"
#include "analyse/rank/memory.h"

namespace profgpu {
namespace {

void add_device(const MemorySnapshot& snapshot, const MemoryHistory& device, const StackBook& stacks,
                SnapshotHistory& out) {
  LevelWalk walk(snapshot, device);
  for (MemoryLevel level; walk.next(level);) {
    out.device[level.row] = device.device;
    out.event[level.row] = level.row - device.first;
    out.allocated_bytes[level.row] = level.allocated_bytes;
    out.reserved_bytes[level.row] = level.reserved_bytes.value_or(SnapshotHistory::kNotKnown);
    out.frame[level.row] = stacks.of(snapshot.events.stack(level.row)).line;
  }
  const MemoryPhases phases(snapshot, device, stacks);
  const std::vector<CategoryOf> categories = memory_categories(snapshot, device, stacks, phases);
  for (size_t i = 0; i < categories.size(); ++i) {
    const Allocation& a = device.allocations[i];
    if (a.made == Allocation::kOutside) continue;
    out.category[a.made] = categories[i].category;
    if (a.freed != Allocation::kOutside) out.freed[a.made] = a.freed - device.first;
  }
}

}  // namespace

Snapshot Snapshot::compute(const Facts& facts) {
  const auto& all = facts.trace().snapshots;
  if (all.empty()) return {};
  return {snapshot_section(*all.back(), facts.get<Memory>().capacity_bytes)};
}

SnapshotHistory SnapshotHistory::compute(const Facts& facts) {
  SnapshotHistory out;
  if (facts.trace().snapshots.empty()) return out;
  const MemorySnapshot& snapshot = *facts.trace().snapshots.back();
  out.snapshot = &snapshot;
  const size_t rows = snapshot.events.size();
  out.device.resize(rows), out.event.resize(rows), out.allocated_bytes.resize(rows, kNotKnown);
  out.reserved_bytes.resize(rows, kNotKnown), out.freed.resize(rows, kNotKnown);
  out.category.resize(rows, MemoryCategory::kUnknown), out.frame.resize(rows, MemoryStacks::kNone);
  const StackBook stacks(snapshot);
  for (const MemoryHistory& device : memory_histories(snapshot)) add_device(snapshot, device, stacks, out);
  for (uint32_t s = 0; s < snapshot.segments.size(); ++s)
    out.segment_of_block.insert(out.segment_of_block.end(), snapshot.segments[s].blocks, s);
  return out;
}

}  // namespace profgpu
