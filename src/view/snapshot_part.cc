#include <fmt/format.h>

#include <algorithm>

#include "analyse/report/quantity.h"
#include "view/overview.h"

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

// What saves most; the rest is in the section's own table.
void add_early_frees(const SnapshotSection& snapshot, ReportPart& part) {
  constexpr size_t kShown = 2;
  size_t shown = 0;
  int64_t left_out = 0;
  for (const EarlyFreeRow& row : snapshot.early_frees) {
    if (row.saved_bytes <= 0) continue;
    if (shown++ < kShown) part.sentences.push_back(early_free_sentence(row));
    else ++left_out;
  }
  if (left_out > 0)
    part.sentences.push_back(fmt::format("{} more {} held although {} step is over (--section snapshot).", left_out,
                                         left_out == 1 ? "line is" : "lines are", left_out == 1 ? "its" : "their"));
}

}  // namespace

bool has_times(const RankReport& rank) { return !rank.snapshot || !rank.devices.empty() || !rank.ops.empty(); }

ReportPart savings_part(const SnapshotSection& snapshot, size_t most, bool reasons) {
  ReportPart part{"What would lower the peak", {}, {}};
  // Sharding in one way or another is one idea; with one GPU it is none.
  const auto shards = [](const SavingRow& row) { return row.change.find(" GPUs") != std::string::npos; };
  std::vector<const SavingRow*> chosen;
  size_t sharded = 0;
  for (const SavingRow& row : snapshot.savings)
    if (reasons || !shards(row) || sharded++ == 0) chosen.push_back(&row);
  if (chosen.size() > most) chosen.resize(most);
  for (const SavingRow* row : chosen) {
    std::string text = fmt::format("{}{}: {} instead of {}", row->change, shards(*row) ? " (assumed)" : "",
                                   format_bytes(static_cast<double>(row->peak_bytes)),
                                   format_bytes(static_cast<double>(row->peak_bytes + row->saved_bytes)));
    part.sentences.push_back(reasons ? text + "; " + row->assumes : std::move(text));
  }
  return part;
}

SnapshotParts snapshot_parts(const SnapshotSection& snapshot, std::optional<int64_t> capacity_bytes, size_t lines) {
  SnapshotParts parts;
  const char* const share = snapshot.history_recorded ? "peak_pct" : "share_pct";
  parts.sentence = peak_sentence(snapshot, capacity_bytes);
  parts.devices = device_part(snapshot);
  parts.categories = {
      (snapshot.history_recorded ? "Memory at the peak" : "Memory held when the snapshot was taken") +
          (snapshot.peak.device ? on_device(snapshot, *snapshot.peak.device) : ""),
      {},
      {{"category", "held_bytes", share, "blocks"}, {}}};
  for (const CategoryRow& c : snapshot.peak.categories)
    parts.categories.table.rows.push_back(
        {category_words(c.category), c.bytes, c.peak_pct, value_of(only_if(c.blocks > 0, c.blocks))});
  if (snapshot.peak.unused_bytes)
    parts.categories.table.rows.push_back({"reserved but unused", *snapshot.peak.unused_bytes, Value(), Value()});
  if (snapshot.outside)
    for (const auto& [words, bytes] : {std::pair("outside PyTorch", snapshot.outside->own_bytes),
                                       std::pair("other processes", snapshot.outside->other_bytes)})
      if (bytes && *bytes > 0)
        parts.categories.table.rows.push_back({words, *bytes, Value(), Value()});
  add_early_frees(snapshot, parts.categories);
  if (snapshot.kept_of_steps)
    parts.categories.sentences.push_back(fmt::format(
        "{} keeps something of each of {} steps, {} in all, and frees none of it. Growth is judged from five steps on: "
        "record more.",
        snapshot.kept_of_steps->place(), snapshot.kept_of_steps->steps,
        format_bytes(static_cast<double>(snapshot.kept_of_steps->bytes))));
  if (snapshot.batch) parts.categories.sentences.push_back(batch_sentence(*snapshot.batch));
  constexpr size_t kMaxSavings = 3;
  parts.savings = savings_part(snapshot, kMaxSavings, false);
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
        "Recording began after the first allocations. Earlier blocks have no stack; their category is inferred from size "
        "and lifetime, or unknown.");
  return parts;
}

}  // namespace profgpu
