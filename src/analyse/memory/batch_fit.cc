#include "analyse/memory/batch_fit.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <set>
#include <utility>

#include "analyse/memory/failed_passes.h"
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
      if (role == MemoryRole::kOptimizer || role == MemoryRole::kParameter || role == MemoryRole::kMade)
        return Growth::kFixed;
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
  Parts operator+(Parts p) const { return p += *this; }
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
  if (outcome == BatchOutcome::kFits) return;
  // It did not fit, whatever the figures are.
  const bool known = outcome == BatchOutcome::kFailed && largest < 1;
  if (!known) largest.reset(), largest_low.reset();
  if (largest_high) largest_high = std::min(*largest_high, 1.0);
}

std::string_view batch_outcome_name(BatchOutcome outcome) {
  constexpr std::string_view kNames[] = {"fits", "failed", "unfinished"};
  return kNames[static_cast<size_t>(outcome)];
}

namespace {

bool is_any_category(MemoryCategory category, std::initializer_list<MemoryCategory> some) {
  return std::ranges::find(some, category) != some.end();
}

/// Takes the moments that a batch has to fit into.
class Fitting {
 public:
  Fitting(const MemorySnapshot& snapshot, const MemoryHistory& history, const MemoryPhases& phases,
          std::vector<Growth> growth)
      : snapshot_(snapshot),
        history_(history),
        phases_(phases),
        growth_(std::move(growth)),
        failed_(failed_passes(snapshot, history, phases)) {}

  BatchFit run() {
    const bool ends_failed = !failed_.empty() && steps_after(phases_, failed_.back().failed) == 0;
    if (!ends_failed) {
      fit_.after_failure = !failed_.empty();
      walk([&](uint32_t row, const Parts& p) {
        if (!is_failed(row)) take(p);
      });
      return std::move(fit_);
    }
    const FailedPass& last = failed_.back();
    std::vector<bool> grows(growth_.size());
    for (size_t i = 0; i < grows.size(); ++i) grows[i] = growth_[i] == Growth::kGrows;
    const auto step = reference_step(snapshot_, history_, phases_, last, grows);
    fit_.outcome = step ? BatchOutcome::kFailed : BatchOutcome::kUnfinished;
    const std::vector<int64_t> since = step ? kept_since(*step, last.failed) : std::vector<int64_t>();
    walk([&](uint32_t row, const Parts& p) {
      if (last.begin <= row && row <= last.failed) take(p);
      if (step && step->begin <= row && row < step->end && !is_failed(row))
        take(scaled(p, since[row - step->begin], step->scale));
    });
    add_request(last.failed);
    if (!step) fit_.double_peak_bytes.reset(), fit_.double_high_bytes.reset();
    else fit_.full_peak_bytes = highest_;
    return std::move(fit_);
  }

 private:
  template <class Take>
  void walk(Take&& take_row) {
    walk_levels<Parts>(
        snapshot_, history_, [&](size_t i) { return Parts::of(growth_[i], history_.allocations[i].bytes); },
        [&](uint32_t row, const Parts& p) {
          if (row < history_.end && snapshot_.events.size() > row &&
              snapshot_.events.action(row) == AllocationAction::kOom)
            at_failure_ = p;
          take_row(row, p);
        });
  }
  [[nodiscard]] bool is_failed(uint32_t row) const {
    return std::ranges::any_of(failed_, [&](const FailedPass& p) { return p.contains(row); });
  }
  void take(const Parts& p) {
    fit_.double_peak_bytes = std::max(fit_.double_peak_bytes.value_or(0), p.fixed + p.unclear + 2 * p.grows);
    fit_.double_high_bytes = std::max(fit_.double_high_bytes.value_or(0), p.fixed + 2 * (p.unclear + p.grows));
    fit_.likely.add(p.fixed + p.unclear, p.grows);
    fit_.most.add(p.fixed, p.unclear + p.grows);
    if (const int64_t level = p.fixed + p.unclear + p.grows; level > highest_ || highest_ == 0) {
      highest_ = level;
      fit_.fixed_bytes = p.fixed + p.unclear, fit_.scaling_bytes = p.grows;
    }
  }
  static Parts scaled(const Parts& p, int64_t kept_bytes, double scale) {
    const auto times = [&](int64_t bytes) { return std::llround(scale * static_cast<double>(bytes)); };
    return {p.fixed + kept_bytes, times(p.grows), times(p.unclear)};
  }
  // The request that found no memory would have been there as well. It is taken to grow with the batch.
  void add_request(uint32_t row) {
    take(at_failure_ + Parts{0, snapshot_.events.bytes(row), 0});
  }

  // What the step leaves behind that is there when the next one fails: of the optimizer's states of its first step what
  // was not there yet, by the step's rows; of what each step keeps one more, since the next one keeps its own as well.
  [[nodiscard]] std::vector<int64_t> kept_since(const ReferenceStep& step, uint32_t failed) const {
    std::vector<int64_t> bytes(step.end - step.begin);
    const std::set<uint32_t> piling = piling_up(step, failed);
    for (size_t i = 0; i < growth_.size(); ++i) {
      const Allocation& a = history_.allocations[i];
      const bool made = a.made != Allocation::kOutside && a.made >= step.begin && a.made < step.end;
      if (!made || !a.is_alive_after(failed)) continue;
      const bool state = growth_[i] == Growth::kFixed && phases_.at(a.made) == MemoryPhase::kOptimizer;
      const bool more = piling.contains(a.stack);
      if (state || more) bytes[0] += a.bytes;
      if (state && !more) bytes[a.made - step.begin] -= a.bytes;
    }
    std::partial_sum(bytes.begin(), bytes.end(), bytes.begin());
    return bytes;
  }

  // Stacks of which blocks of earlier steps are there as well when memory runs out. What replaces the one of the step
  // before is not among them.
  [[nodiscard]] std::set<uint32_t> piling_up(const ReferenceStep& step, uint32_t failed) const {
    std::set<uint32_t> stacks;
    for (const Allocation& a : history_.allocations)
      if (a.made != Allocation::kOutside && a.made < step.begin && phases_.step(a.made) > 0 && a.is_alive_after(failed))
        stacks.insert(a.stack);
    stacks.erase(MemoryStacks::kNone);
    return stacks;
  }

  const MemorySnapshot& snapshot_;
  const MemoryHistory& history_;
  const MemoryPhases& phases_;
  std::vector<Growth> growth_;
  std::vector<FailedPass> failed_;
  BatchFit fit_;
  Parts at_failure_;
  int64_t highest_ = 0;
};

}  // namespace

std::optional<BatchFit> batch_fit(const MemorySnapshot& snapshot, const MemoryHistory& history,
                                  const StackBook& stacks, const MemoryPhases& phases,
                                  const std::vector<CategoryOf>& categories, std::optional<int64_t> capacity_bytes,
                                  std::optional<int64_t> peak_reserved_bytes) {
  std::set<int64_t> fixed_sizes;
  for (size_t i = 0; i < categories.size(); ++i)
    // Of parameters that are sharded the gathered ones have the size of a whole gradient.
    if (is_any_category(categories[i].category, {MemoryCategory::kParameter, MemoryCategory::kGradient,
                                                 MemoryCategory::kCommunication}))
      fixed_sizes.insert(history.allocations[i].bytes);
  std::vector<Growth> growth;
  growth.reserve(categories.size());
  for (size_t i = 0; i < categories.size(); ++i)
    growth.push_back(growth_of(history.allocations[i], categories[i].category, stacks, fixed_sizes));
  BatchFit fit = Fitting(snapshot, history, phases, std::move(growth)).run();
  const auto peak = static_cast<double>(history.peak_bytes);
  if (peak_reserved_bytes && peak > 0) fit.overhead = std::max(1.0, static_cast<double>(*peak_reserved_bytes) / peak);
  if (fit.scaling_bytes <= 0) return std::nullopt;
  if (capacity_bytes) fit.fit_into(*capacity_bytes);
  return fit;
}

}  // namespace profgpu
