#include "analyse/memory/memory_savings.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace profgpu {
namespace {

using Category = MemoryCategory;
using Factors = std::array<double, kMemoryCategories>;

struct Scaled {
  Category category = Category::kUnknown;
  double factor = 1;
};
struct Change {
  std::string_view text, assumes;
  std::array<Scaled, 3> scaled;
  bool trains;  // only where a backward pass or an optimizer is seen
};

// Adam's two states in float32 become one byte each and a little for scales; a shard is one of eight.
constexpr double kEightBit = 0.26, kShard = 1.0 / 8;
constexpr Change kChanges[] = {
    {"activation checkpointing of every block",
     "a block keeps its input alone: a tenth of the activations",
     {{{Category::kActivation, 0.1}}},
     true},
    {"micro-batch of half the size, gradients accumulated",
     "activations and temporary tensors grow with the batch",
     {{{Category::kActivation, 0.5}, {Category::kTemporary, 0.5}}},
     true},
    {"8-bit optimizer states", "the states are float32 now", {{{Category::kOptimizerState, kEightBit}}}, true},
    {"optimizer states offloaded to the host",
     "none of them stays on the device",
     {{{Category::kOptimizerState, 0}}},
     true},
    {"ZeRO stage 1 over 8 GPUs", "optimizer states are sharded evenly", {{{Category::kOptimizerState, kShard}}}, true},
    {"ZeRO stage 2 or FSDP SHARD_GRAD_OP over 8 GPUs",
     "optimizer states and gradients are sharded evenly",
     {{{Category::kOptimizerState, kShard}, {Category::kGradient, kShard}}},
     true},
    {"ZeRO stage 3 or FSDP FULL_SHARD over 8 GPUs",
     "parameters, gradients and optimizer states are sharded evenly; gathered parameters of a block come on top",
     {{{Category::kOptimizerState, kShard}, {Category::kGradient, kShard}, {Category::kParameter, kShard}}},
     true},
    {"batch of half the size",
     "activations and temporary tensors grow with the batch",
     {{{Category::kActivation, 0.5}, {Category::kTemporary, 0.5}}},
     false},
    {"parameters in half the bytes",
     "bf16 instead of float32, or int8 instead of bf16",
     {{{Category::kParameter, 0.5}}},
     false}};

int64_t scaled(int64_t bytes, double factor) { return std::llround(static_cast<double>(bytes) * factor); }

Factors factors_of(const Change& change) {
  Factors factors;
  factors.fill(1);
  for (const Scaled& s : change.scaled) factors[static_cast<size_t>(s.category)] = s.factor;
  return factors;
}

}  // namespace

int64_t scaled_peak(const MemorySnapshot& snapshot, const MemoryHistory& history,
                    const std::vector<CategoryOf>& categories, const Factors& factors) {
  const auto bytes = [&](size_t i) {
    return scaled(history.allocations[i].bytes, factors[static_cast<size_t>(categories[i].category)]);
  };
  int64_t level = 0;
  size_t next = 0;
  std::vector<size_t> freed_before;  // of before the first event, in the order in which they are freed
  for (; next < history.allocations.size() && history.allocations[next].made == Allocation::kOutside; ++next) {
    level += bytes(next);
    if (history.allocations[next].freed != Allocation::kOutside) freed_before.push_back(next);
  }
  int64_t highest = level;
  size_t before = 0;
  std::vector<uint32_t> live(snapshot.events.count_addresses());  // place in allocations + 1
  for (uint32_t row = history.first; row < history.end; ++row) {
    const AllocationAction action = snapshot.events.action(row);
    if (action == AllocationAction::kAlloc) {
      live[snapshot.events.address_place(row)] = static_cast<uint32_t>(next + 1);
      level += bytes(next++);
      highest = std::max(highest, level);
    } else if (action == AllocationAction::kFreeCompleted) {
      uint32_t& place = live[snapshot.events.address_place(row)];
      if (place != 0)
        level -= bytes(place - 1);
      else if (before < freed_before.size())
        level -= bytes(freed_before[before++]);
      place = 0;
    }
  }
  return highest;
}

std::vector<SavingRow> memory_savings(const MemorySnapshot& snapshot, const MemoryHistory& history,
                                      const std::vector<CategoryOf>& categories) {
  constexpr double kWorthSaying = 0.01;
  const bool trains = std::any_of(categories.begin(), categories.end(), [](const CategoryOf& c) {
    return c.category == Category::kGradient || c.category == Category::kOptimizerState;
  });
  std::vector<SavingRow> rows;
  for (const Change& change : kChanges) {
    if (change.trains != trains) continue;
    const int64_t peak = scaled_peak(snapshot, history, categories, factors_of(change));
    const int64_t saved = history.peak_bytes - peak;
    if (static_cast<double>(saved) < kWorthSaying * static_cast<double>(history.peak_bytes)) continue;
    rows.push_back({std::string(change.text), std::string(change.assumes), peak, saved});
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const SavingRow& a, const SavingRow& b) { return a.saved_bytes > b.saved_bytes; });
  return rows;
}

}  // namespace profgpu
