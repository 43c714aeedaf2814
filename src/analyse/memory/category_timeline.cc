#include "analyse/memory/category_timeline.h"

#include <algorithm>
#include <numeric>

#include "analyse/memory/category_levels.h"

namespace profgpu {
namespace {

// In the order of PyTorch's profiler, whose own analysis of the data flow they are.
constexpr MemoryCategory kProfilers[CategoryTimeline::kCategories] = {
    MemoryCategory::kParameter, MemoryCategory::kOptimizerState, MemoryCategory::kInput,
    MemoryCategory::kTemporary, MemoryCategory::kActivation,     MemoryCategory::kGradient,
    MemoryCategory::kAutograd,  MemoryCategory::kUnknown};

int64_t level_at(const CategoryTimeline& timeline, size_t i) {
  return std::accumulate(timeline.bytes[i].begin(), timeline.bytes[i].end(), int64_t{0});
}

std::vector<CategoryRow> held_rows(const std::array<int64_t, CategoryTimeline::kCategories>& bytes, int64_t peak) {
  std::vector<CategoryRow> rows;
  for (size_t c = 0; c < bytes.size(); ++c) {
    if (bytes[c] == 0) continue;
    CategoryRow row;
    row.category = kProfilers[c];
    row.bytes = bytes[c];
    row.peak_pct = 100 * static_cast<double>(bytes[c]) / static_cast<double>(peak);
    if (row.category != MemoryCategory::kUnknown) row.certain_bytes = bytes[c];
    rows.push_back(row);
  }
  std::ranges::stable_sort(rows, std::greater(), &CategoryRow::bytes);
  return rows;
}

}  // namespace

SnapshotSection timeline_section(const CategoryTimeline& timeline) {
  SnapshotSection out;
  out.categories_only = true;
  const size_t count = timeline.time_ns.size();
  const size_t stretch = std::max<size_t>((count + kSnapshotPoints - 1) / kSnapshotPoints, 1);
  size_t highest = 0;
  for (size_t begin = 0; begin < count; begin += stretch) {
    size_t top = begin;
    for (size_t i = begin; i < std::min(begin + stretch, count); ++i)
      if (level_at(timeline, i) > level_at(timeline, top)) top = i;
    if (level_at(timeline, top) > level_at(timeline, highest)) highest = top;
    out.timeline.push_back({static_cast<int64_t>(top), timeline.time_ns[top], level_at(timeline, top), std::nullopt});
  }
  if (count == 0) return out;
  out.category_timeline = highest_points(out.timeline);
  for (CategoryPoint& point : out.category_timeline)
    for (size_t c = 0; c < CategoryTimeline::kCategories; ++c)
      point.bytes[static_cast<size_t>(kProfilers[c])] = timeline.bytes[static_cast<size_t>(point.event)][c];
  out.events = static_cast<int64_t>(count);
  out.allocated_bytes = level_at(timeline, count - 1);
  out.peak_allocated_bytes = level_at(timeline, highest);
  out.peak_event = static_cast<int64_t>(highest);
  out.peak.event = out.peak_event;
  out.peak.time_ns = timeline.time_ns[highest];
  out.peak.phase = "unknown";
  out.peak.allocated_bytes = out.peak_allocated_bytes;
  out.peak.categories = held_rows(timeline.bytes[highest], out.peak_allocated_bytes);
  return out;
}

}  // namespace profgpu
