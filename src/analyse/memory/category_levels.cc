#include "analyse/memory/category_levels.h"

#include <algorithm>

namespace profgpu {
namespace {

// Of what is freed, but may still be used by other streams, after each of the rows.
std::vector<int64_t> pending_at(const MemorySnapshot& snapshot, const MemoryHistory& history,
                                const std::vector<uint32_t>& rows) {
  const AllocationEvents& events = snapshot.events;
  std::vector<int64_t> pending, requested(events.count_addresses());  // by place of the address
  int64_t now = 0;
  size_t next = 0;
  for (uint32_t row = history.first; row < history.end && next < rows.size(); ++row) {
    int64_t& of_block = requested[events.address_place(row)];
    switch (events.action(row)) {
      case AllocationAction::kFreeRequested:
        if (!events.completes_frees()) break;
        now += events.bytes(row) - of_block;
        of_block = events.bytes(row);
        break;
      case AllocationAction::kAlloc:
      case AllocationAction::kFreeCompleted:
        now -= of_block;
        of_block = 0;
        break;
      default:
        break;
    }
    for (; next < rows.size() && rows[next] == row; ++next) pending.push_back(now);
  }
  pending.resize(rows.size());
  return pending;
}

}  // namespace

std::vector<CategoryPoint> highest_points(const std::vector<SnapshotPoint>& timeline) {
  std::vector<CategoryPoint> points;
  const size_t each = std::max<size_t>((timeline.size() + kCategoryPoints - 1) / kCategoryPoints, 1);
  for (size_t begin = 0; begin < timeline.size(); begin += each) {
    const auto first = timeline.begin() + static_cast<ptrdiff_t>(begin);
    const auto last = timeline.begin() + static_cast<ptrdiff_t>(std::min(begin + each, timeline.size()));
    const SnapshotPoint& top = *std::max_element(
        first, last, [](const auto& a, const auto& b) { return a.allocated_bytes < b.allocated_bytes; });
    CategoryPoint point;
    point.event = top.event, point.time_ns = top.time_ns, point.reserved_bytes = top.reserved_bytes;
    points.push_back(point);
  }
  return points;
}

std::vector<CategoryPoint> category_levels(const MemorySnapshot& snapshot, const MemoryHistory& history,
                                           const std::vector<CategoryOf>& categories,
                                           const std::vector<SnapshotPoint>& timeline) {
  std::vector<CategoryPoint> points = highest_points(timeline);
  std::vector<uint32_t> rows;
  for (const CategoryPoint& p : points) rows.push_back(history.first + static_cast<uint32_t>(p.event));
  const std::vector<int64_t> pending = pending_at(snapshot, history, rows);
  for (size_t i = 0; i < points.size(); ++i) points[i].pending_free_bytes = pending[i];
  const auto place = [&](uint32_t row) {
    return static_cast<size_t>(std::ranges::lower_bound(rows, row) - rows.begin());
  };
  std::vector<std::array<int64_t, kMemoryCategories>> change(points.size() + 1);
  for (size_t i = 0; i < categories.size(); ++i) {
    const Allocation& a = history.allocations[i];
    const auto c = static_cast<size_t>(categories[i].category);
    change[a.made == Allocation::kOutside ? 0 : place(a.made)][c] += a.bytes;
    change[a.freed == Allocation::kOutside ? points.size() : place(a.freed)][c] -= a.bytes;
  }
  std::array<int64_t, kMemoryCategories> level{};
  for (size_t i = 0; i < points.size(); ++i) {
    for (size_t c = 0; c < level.size(); ++c) level[c] += change[i][c];
    points[i].bytes = level;
  }
  return points;
}

}  // namespace profgpu
