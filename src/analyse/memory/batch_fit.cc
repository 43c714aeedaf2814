#include "analyse/memory/batch_fit.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "analyse/memory/level_courses.h"

namespace profgpu {
namespace {

enum class Growth : uint8_t { kFixed, kGrows, kUnclear };

/// Whether it grows with the batch.
Growth growth_of(const Allocation& a, MemoryCategory category, const StackBook& stacks,
                 const std::set<int64_t>& fixed_sizes) {
  const MemoryRole role = stacks.of(a.stack).role;
  switch (category) {
    case MemoryCategory::kActivation:
    case MemoryCategory::kInput:
      return Growth::kGrows;
    // Engines allocate it once, as large as what is free; a model's forward for each sequence.
    case MemoryCategory::kCache:
      return stacks.of(a.stack).in_forward ? Growth::kGrows : Growth::kFixed;
    case MemoryCategory::kTemporary:
      if (role == MemoryRole::kOptimizer || role == MemoryRole::kParameter) return Growth::kFixed;
      // Gradients of parameters before they are added, and copies of parameters in another type.
      return fixed_sizes.contains(a.bytes) ? Growth::kUnclear : Growth::kGrows;
    case MemoryCategory::kMemoryPool:
    case MemoryCategory::kAutograd:
    case MemoryCategory::kUnknown:
      return Growth::kUnclear;
    default:
      return Growth::kFixed;
  }
}

/// Bytes of a level by how they grow.
struct Parts {
  int64_t fixed = 0, grows = 0, unclear = 0;

  static Parts of(Growth growth, int64_t bytes) {
    return {growth == Growth::kFixed ? bytes : 0, growth == Growth::kGrows ? bytes : 0,
            growth == Growth::kUnclear ? bytes : 0};
  }
  Parts& operator+=(const Parts& p) {
    fixed += p.fixed, grows += p.grows, unclear += p.unclear;
    return *this;
  }
  Parts& operator-=(const Parts& p) {
    fixed -= p.fixed, grows -= p.grows, unclear -= p.unclear;
    return *this;
  }
};

}  // namespace

void BatchLevels::add(int64_t fixed_bytes, int64_t grows_bytes) {
  auto next = grows_by_fixed.lower_bound(fixed_bytes);
  if (next != grows_by_fixed.end() && next->second >= grows_bytes) return;
  while (next != grows_by_fixed.begin() && std::prev(next)->second <= grows_bytes)
    next = grows_by_fixed.erase(std::prev(next));
  grows_by_fixed.insert_or_assign(next, fixed_bytes, grows_bytes);
}

std::optional<double> BatchLevels::largest(double capacity_bytes) const {
  double batch = INFINITY;
  for (const auto& [fixed, grows] : grows_by_fixed)
    if (grows > 0)
      batch = std::min(batch, (capacity_bytes - static_cast<double>(fixed)) / static_cast<double>(grows));
  return std::isfinite(batch) ? std::optional(std::max(batch, 0.0)) : std::nullopt;
}

void BatchFit::fit_into(int64_t capacity) {
  const auto bytes = static_cast<double>(capacity);
  capacity_bytes = capacity;
  largest = likely.largest(bytes / overhead), largest_low = most.largest(bytes / overhead);
  largest_high = likely.largest(bytes);
}

void BatchFit::add_failed(int64_t allocated_bytes, int64_t requested_bytes) {
  if (capacity_bytes && requested_bytes >= *capacity_bytes) return;   // no batch asks for that: a wrong size
  const int64_t fixed = std::max<int64_t>(allocated_bytes - scaling_bytes, 0);
  const int64_t grows = allocated_bytes - fixed + requested_bytes;
  double_peak_bytes = std::max(double_peak_bytes, fixed + 2 * grows);
  double_high_bytes = std::max(double_high_bytes, double_peak_bytes);
  likely.add(fixed, grows), most.add(fixed, grows);
  if (capacity_bytes) fit_into(*capacity_bytes);
}

std::optional<BatchFit> batch_fit(const MemorySnapshot& snapshot, const MemoryHistory& history,
                                  const StackBook& stacks, const std::vector<CategoryOf>& categories,
                                  std::optional<int64_t> capacity_bytes, std::optional<int64_t> peak_reserved_bytes) {
  std::set<int64_t> fixed_sizes;
  for (size_t i = 0; i < categories.size(); ++i)
    if (categories[i].category == MemoryCategory::kParameter || categories[i].category == MemoryCategory::kGradient)
      fixed_sizes.insert(history.allocations[i].bytes);
  std::vector<Growth> growth;
  growth.reserve(categories.size());
  for (size_t i = 0; i < categories.size(); ++i)
    growth.push_back(growth_of(history.allocations[i], categories[i].category, stacks, fixed_sizes));
  BatchFit fit;
  const auto peak = static_cast<double>(history.peak_bytes);
  if (peak_reserved_bytes && peak > 0) fit.overhead = std::max(1.0, static_cast<double>(*peak_reserved_bytes) / peak);
  bool before_first = true;
  walk_levels<Parts>(
      snapshot, history, [&](size_t i) { return Parts::of(growth[i], history.allocations[i].bytes); },
      [&](uint32_t row, const Parts& p) {
        fit.double_peak_bytes = std::max(fit.double_peak_bytes, p.fixed + p.unclear + 2 * p.grows);
        fit.double_high_bytes = std::max(fit.double_high_bytes, p.fixed + 2 * (p.unclear + p.grows));
        fit.likely.add(p.fixed + p.unclear, p.grows);
        fit.most.add(p.fixed, p.unclear + p.grows);
        const bool at_peak = history.peak_row ? !before_first && row == *history.peak_row : before_first;
        before_first = false;
        if (at_peak) fit.fixed_bytes = p.fixed + p.unclear, fit.scaling_bytes = p.grows;
      });
  if (fit.scaling_bytes <= 0) return std::nullopt;
  if (capacity_bytes) fit.fit_into(*capacity_bytes);
  return fit;
}

}  // namespace profgpu
