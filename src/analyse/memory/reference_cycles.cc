#include "analyse/memory/reference_cycles.h"

#include <algorithm>
#include <map>
#include <set>

namespace profgpu {
namespace {

constexpr size_t kMaxCycleRows = 10;

// Frees under the collector, until something is allocated again, are one run of it. Number of the run by row.
std::map<uint32_t, uint32_t> collector_runs(const MemorySnapshot& snapshot, const MemoryHistory& history,
                                            const StackBook& stacks) {
  std::map<uint32_t, uint32_t> runs;
  uint32_t run = 0;
  bool allocated = true;
  for (uint32_t row = history.first; row < history.end; ++row) {
    if (snapshot.events.action(row) == AllocationAction::kAlloc) allocated = true;
    if (!snapshot.events.is_free(row) || !stacks.of(snapshot.events.stack(row)).collector) continue;
    if (allocated) ++run;
    allocated = false;
    runs[row] = run;
  }
  return runs;
}

struct Collected {
  CycleRow row;
  std::set<uint32_t> runs;
};

}  // namespace

bool is_collected(const MemorySnapshot& snapshot, const StackBook& stacks, const Allocation& a) {
  if (a.freed == Allocation::kOutside || !snapshot.events.is_free(a.freed)) return false;
  const uint32_t stack = snapshot.events.stack(a.freed);
  return stack != a.stack && stacks.of(stack).collector;
}

std::vector<CycleRow> reference_cycles(const MemorySnapshot& snapshot, const MemoryHistory& history,
                                       const StackBook& stacks, const std::vector<CategoryOf>& categories) {
  const std::map<uint32_t, uint32_t> runs = collector_runs(snapshot, history, stacks);
  if (runs.empty()) return {};
  std::map<MemoryLine, Collected> by_line;
  for (size_t i = 0; i < history.allocations.size(); ++i) {
    const Allocation& a = history.allocations[i];
    if (a.stack == MemoryStacks::kNone || !is_collected(snapshot, stacks, a)) continue;
    Collected& of_line = by_line[stacks.line(a.stack)];
    of_line.row.category = categories[i].category;
    of_line.row.collected_bytes += a.bytes, ++of_line.row.blocks;
    if (history.is_at_peak(a)) of_line.row.bytes += a.bytes;
    of_line.runs.insert(runs.at(a.freed));
  }
  std::vector<CycleRow> rows;
  for (auto& [line, collected] : by_line) {
    CycleRow& row = collected.row;
    row.function = line.function, row.file = line.file, row.line = line.line;
    row.runs = static_cast<int64_t>(collected.runs.size());
    rows.push_back(std::move(row));
  }
  std::ranges::stable_sort(rows, std::greater(), &CycleRow::collected_bytes);
  if (rows.size() > kMaxCycleRows) rows.resize(kMaxCycleRows);
  return rows;
}

}  // namespace profgpu
