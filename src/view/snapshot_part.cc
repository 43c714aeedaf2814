#include <algorithm>

#include "view/overview.h"
#include "view/wording.h"

namespace profgpu {
namespace {

// One row for each device, where several hold memory.
ReportPart device_part(const SnapshotSection& snapshot) {
  ReportPart part{"Memory by device",
                  {},
                  {{"device", "peak_allocated_bytes", "peak_reserved_bytes", "requested_bytes", "reserved_bytes",
                    "largest_free_block_bytes", "most_of"},
                   {}}};
  for (const SnapshotDevice& d : snapshot.devices)
    if (d.peak)
      part.table.rows.push_back({d.device, value_of(only_if(d.history_recorded, d.peak_allocated_bytes)),
                                 value_of(d.peak_reserved_bytes), d.requested_bytes, d.reserved_bytes,
                                 d.largest_free_block_bytes, category_words(d.peak->categories.front().category)});
  return part;
}

}  // namespace

bool has_times(const RankReport& rank) { return !rank.snapshot || !rank.devices.empty() || !rank.ops.empty(); }

SnapshotParts snapshot_parts(const SnapshotSection& snapshot, std::optional<int64_t> capacity_bytes, size_t lines) {
  SnapshotParts parts;
  const char* const share = snapshot.history_recorded ? "peak_pct" : "share_pct";
  parts.sentence = peak_sentence(snapshot, capacity_bytes);
  parts.devices = device_part(snapshot);
  parts.categories = {
      (snapshot.history_recorded ? "Memory at the peak" : "Memory held when the snapshot was taken") +
          (snapshot.peak.device ? on_device(snapshot, *snapshot.peak.device) : ""),
      {},
      {{"category", "held_bytes", share, "blocks", "certain_bytes", "inferred_bytes"}, {}}};
  for (const CategoryRow& c : snapshot.peak.categories) {
    const bool known = c.category != MemoryCategory::kUnknown;
    parts.categories.table.rows.push_back({category_words(c.category), c.bytes, c.peak_pct,
                                           value_of(only_if(c.blocks > 0, c.blocks)),
                                           known ? Value(c.certain_bytes) : Value(),
                                           known ? Value(c.inferred_bytes) : Value()});
  }
  if (snapshot.peak.unused_bytes)
    parts.categories.table.rows.push_back(
        {"reserved but unused", *snapshot.peak.unused_bytes, Value(), Value(), Value(), Value()});
  if (snapshot.outside)
    for (const auto& [words, bytes] : {std::pair("outside PyTorch", snapshot.outside->own_bytes),
                                       std::pair("other processes", snapshot.outside->other_bytes)})
      if (bytes && *bytes > 0)
        parts.categories.table.rows.push_back({words, *bytes, Value(), Value(), Value(), Value()});
  for (const EarlyFreeRow& row : snapshot.early_frees)
    if (row.saved_bytes > 0) parts.categories.sentences.push_back(early_free_sentence(row));
  if (snapshot.batch) parts.categories.sentences.push_back(batch_sentence(*snapshot.batch));
  parts.holders = {snapshot.history_recorded ? "Held at the peak by" : "Held when the snapshot was taken, by line",
                   {},
                   {{"line", "category", "op", "held_bytes", share, "blocks"}, {}}};
  for (size_t i = 0; i < std::min(snapshot.peak.holders.size(), lines); ++i) {
    const HolderRow& h = snapshot.peak.holders[i];
    parts.holders.table.rows.push_back(
        {h.place(), category_words(h.category), h.op.empty() ? Value() : Value(h.op), h.bytes, h.peak_pct, h.blocks});
  }
  for (const std::string& events : snapshot.left_out)
    parts.categories.sentences.emplace_back(
        events == "free_completed"
            ? "The recording leaves out free_completed: memory counts as free once the program frees it, though other "
              "streams may still use it."
            : "The recording leaves out the events of segments, so reserved memory over time is unknown.");
  if (!snapshot.stacks_recorded)
    parts.categories.sentences.emplace_back(
        "The recording has no stacks, so it does not tell what memory is for, nor which line allocates it: record with "
        "torch.cuda.memory._record_memory_history(max_entries=1_000_000), without context=None.");
  if (snapshot.truncated && snapshot.history_recorded && snapshot.stacks_recorded)
    parts.categories.sentences.emplace_back(
        "The history does not reach back to the first allocation: of what was there before, only blocks that are still "
        "held can have a stack; the category of the rest is inferred from size and lifetime, or unknown.");
  return parts;
}

}  // namespace profgpu
