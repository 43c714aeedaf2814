#include "analyse/memory/memory_categories.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "analyse/memory/growing_caches.h"
#include "analyse/memory/persistent_blocks.h"
#include "base/text.h"

namespace profgpu {
namespace {

using Category = MemoryCategory;
constexpr uint32_t kOutside = Allocation::kOutside;

// The names that PyTorch's profiler gives categories.
std::optional<Category> recorded_category(std::string_view name) {
  constexpr std::pair<std::string_view, Category> kNames[] = {{"PARAMETER", Category::kParameter},
                                                              {"GRADIENT", Category::kGradient},
                                                              {"OPTIMIZER_STATE", Category::kOptimizerState},
                                                              {"ACTIVATION", Category::kActivation},
                                                              {"TEMPORARY", Category::kTemporary},
                                                              {"AUTOGRAD_DETAIL", Category::kTemporary},
                                                              {"INPUT", Category::kActivation}};
  for (const auto& [known, category] : kNames) {
    const auto same = [](char a, char b) { return lower(a) == lower(b); };
    if (name.size() == known.size() && std::equal(name.begin(), name.end(), known.begin(), same)) return category;
  }
  return std::nullopt;
}

class Classifier {
 public:
  Classifier(const MemorySnapshot& snapshot, const MemoryHistory& history, const StackBook& stacks,
             const MemoryPhases& phases)
      : snapshot_(snapshot),
        history_(history),
        stacks_(stacks),
        phases_(phases),
        last_row_(history.end > 0 ? history.end - 1 : 0) {
    for (const Allocation& a : history.allocations)
      if (a.freed == kOutside) sizes_that_stay_.push_back(a.bytes);
    std::ranges::sort(sizes_that_stay_);
    for (const Allocation& a : history.allocations) {
      const StackFacts& stack = stacks.of(a.stack);
      if (stack.graph) graph_pools_.insert(a.pool);
      if (stack.buffer != UINT32_MAX)
        buffer_line_ = std::max(buffer_line_, snapshot.stacks.frame(stack.buffer).line);
    }
    find_masters();
    for (uint32_t row = history.first; row < history.end; ++row)
      if (snapshot.events.action(row) == AllocationAction::kOom) failures_.push_back(row);
    for (const Allocation& a : history.allocations)
      if (is_collected_over_steps(a)) collections_.insert(a.stack);
    for (const Allocation& a : history.allocations)
      if (a.made != kOutside && has_ended(a)) {
        Precedent& of_stack = precedents_[a.stack];
        if (reaches_backward(a))
          of_stack.reaches_backward = true;
        else
          of_stack.longest = std::max(of_stack.longest, a.freed - a.made);
      }
  }

  std::vector<CategoryOf> run() {
    std::vector<CategoryOf> all;
    all.reserve(history_.allocations.size());
    for (const Allocation& a : history_.allocations) all.push_back(of(a));
    const auto is_made = [&](size_t i) {
      const Allocation& a = history_.allocations[i];
      return a.freed == kOutside && stacks_.of(a.stack).role == MemoryRole::kMade;
    };
    judge_made_blocks(history_, phases_, is_made, all);
    judge_growing_caches(history_, stacks_, all);
    judge_blocks_of_before(history_, phases_, only_forwards(), all);
    return all;
  }

 private:
  // DeepSpeed's optimizers copy their part of the 16-bit parameters, widen the copy to the master weights, and drop it:
  // what stays and is twice as large as the copy before it. Parameters of 32 bits are only copied.
  void find_masters() {
    const Allocation* before = nullptr;   // of the same function
    for (const Allocation& a : history_.allocations) {
      const StackFacts& stack = stacks_.of(a.stack);
      if (stack.masters == UINT32_MAX) continue;
      const bool widened = before != nullptr && same_function(stacks_.of(before->stack).masters, stack.masters) &&
                           is_widened(*before, a);
      const std::string_view op = stack.op.valid() ? snapshot_.strings[stack.op] : std::string_view();
      const bool converted = contains(op, "at::_ops::to_dtype::") || contains(op, "at::_ops::clone::");
      if (a.freed == kOutside && (widened || converted)) masters_.insert(&a);
      before = &a;
    }
  }
  [[nodiscard]] bool same_function(uint32_t a, uint32_t b) const {
    const MemoryFrame &x = snapshot_.stacks.frame(a), &y = snapshot_.stacks.frame(b);
    return x.name == y.name && x.file == y.file;
  }
  // Sizes are rounded up. The copy is there when the wider one is made, and gone when the function goes on.
  [[nodiscard]] static bool is_widened(const Allocation& copy, const Allocation& wide) {
    constexpr int64_t kRounding_bytes = 1024;
    constexpr uint32_t kSoon = 8;   // events
    return copy.made != kOutside && wide.made != kOutside && copy.freed != kOutside && copy.freed > wide.made &&
           copy.freed - wide.made <= kSoon && std::abs(2 * copy.bytes - wide.bytes) <= kRounding_bytes;
  }

  [[nodiscard]] CategoryOf of(const Allocation& a) const {
    if (a.made != kOutside) {
      const StringId recorded = snapshot_.events.kind_of(a.made).category;
      if (recorded.valid())
        if (const auto category = recorded_category(snapshot_.strings[recorded]))
          return {*category, Certainty::kCertain};
    }
    const PoolKind pool = pool_kind(snapshot_.pools[a.pool]);
    if (pool == PoolKind::kGraph) return {Category::kGraphPool, Certainty::kCertain};
    if (pool == PoolKind::kProgram && graph_pools_.contains(a.pool))
      return {Category::kGraphPool, Certainty::kLikely};
    if (masters_.contains(&a)) return {Category::kOptimizerState, Certainty::kLikely};
    if (is_unseen_workspace(a)) return {Category::kWorkspace, Certainty::kInferred};
    switch (stacks_.of(a.stack).role) {
      case MemoryRole::kWorkspace:
        return {Category::kWorkspace, Certainty::kCertain};
      case MemoryRole::kCache:
        return {Category::kCache, Certainty::kLikely};
      case MemoryRole::kCommunication:
        return communication(a);
      case MemoryRole::kParameter:
        return parameter(a);
      case MemoryRole::kMade:
        // Whether it is a module's, the sizes of gradients tell.
        return a.freed == kOutside ? CategoryOf() : parameter(a);
      case MemoryRole::kGradientBuffer:
        return {gradient_buffer(a), Certainty::kLikely};
      default:
        // Lifetimes name nothing in such a pool: if graphs share it, each replay uses the tensors again.
        return pool == PoolKind::kProgram ? CategoryOf{Category::kMemoryPool, Certainty::kCertain} : by_lifetime(a);
    }
  }

  [[nodiscard]] CategoryOf by_lifetime(const Allocation& a) const {
    switch (stacks_.of(a.stack).role) {
      case MemoryRole::kGradient:
        return kept(a, Category::kGradient, Certainty::kCertain);
      case MemoryRole::kBackward:
        return kept(a, Category::kGradient, Certainty::kLikely);
      case MemoryRole::kOptimizer:
        return kept(a, Category::kOptimizerState, Certainty::kLikely);
      case MemoryRole::kForward:
      case MemoryRole::kProgram:
        return of_forward(a);
      default:
        return a.made == kOutside ? of_before(a) : without_stack(a);
    }
  }

  // Moving and loading makes copies that are gone at once. What a backward pass frees was made in a forward, of a
  // program that trains within an __init__().
  [[nodiscard]] CategoryOf parameter(const Allocation& a) const {
    if (a.freed == kOutside) return {Category::kParameter, Certainty::kLikely};
    const bool activation = reaches_backward(a) && phases_.at(a.freed) == MemoryPhase::kBackward;
    return {activation ? Category::kActivation : Category::kTemporary, Certainty::kLikely};
  }
  // FSDP's shard of a gradient is what the optimizer uses; all else of it goes within the backward pass.
  [[nodiscard]] CategoryOf communication(const Allocation& a) const {
    const StackFacts& stack = stacks_.of(a.stack);
    if (stack.reduces && stack.in_backward && a.made != kOutside)
      if (const CategoryOf c = kept(a, Category::kGradient, Certainty::kLikely); c.category == Category::kGradient)
        return c;
    return {Category::kCommunication, Certainty::kLikely};
  }
  // Megatron makes a buffer of all parameters, with a distributed optimizer, and then one of all gradients.
  [[nodiscard]] Category gradient_buffer(const Allocation& a) const {
    const uint32_t frame = stacks_.of(a.stack).buffer;
    return snapshot_.stacks.frame(frame).line == buffer_line_ ? Category::kGradient : Category::kParameter;
  }
  // What is still there when the phase that made it is over, or the recording is.
  [[nodiscard]] CategoryOf kept(const Allocation& a, Category category, Certainty certainty) const {
    if (category == Category::kGradient && stacks_.of(freed_in(a)).zeroes_gradients)
      return {category, Certainty::kCertain};
    const bool over = a.freed == kOutside || phases_.at(a.freed) != phases_.at(a.made) ||
                      step_of(a.freed) != step_of(a.made) || phases_.backward_passes(a.freed) != backward_of(a.made);
    if (over) return {category, certainty};
    // Where nothing tells the optimizer's steps, what outlives all else of its pass, and is as large as something that
    // stays, is a gradient.
    if (category == Category::kGradient && a.made != kOutside && !phases_.has_steps() &&
        phases_.is_after_last_of_backward(a.freed) && std::ranges::binary_search(sizes_that_stay_, a.bytes))
      return {category, Certainty::kInferred};
    return {Category::kTemporary, Certainty::kLikely};
  }
  [[nodiscard]] CategoryOf of_forward(const Allocation& a) const {
    const bool forward = stacks_.of(a.stack).role == MemoryRole::kForward;
    const bool backward = reaches_backward(a);
    if (!forward && collections_.contains(a.stack)) return {};
    if (backward && (forward || a.freed != kOutside)) return {Category::kActivation, Certainty::kLikely};
    if (has_ended(a)) return {Category::kTemporary, Certainty::kLikely};
    // What became of the same stack's earlier allocations tells what would have become of this one.
    const auto precedent = precedents_.find(a.stack);
    const bool known = precedent != precedents_.end();
    if (known && age(a) <= precedent->second.longest) return {Category::kTemporary, Certainty::kLikely};
    if (forward || (known && precedent->second.reaches_backward)) return {Category::kActivation, Certainty::kLikely};
    if (a.freed != kOutside) return {Category::kTemporary, Certainty::kLikely};
    // A data set, a buffer, a result: what the program keeps, the recording does not tell.
    return {};
  }
  // What the program gathers over several steps and frees then, such as experience that it replays, no graph holds. The
  // next batch, made in the step before and freed by the one after, is no such thing.
  [[nodiscard]] bool is_collected_over_steps(const Allocation& a) const {
    constexpr uint32_t kManySteps = 3;
    return a.made != kOutside && a.freed != kOutside && stacks_.of(a.stack).role == MemoryRole::kProgram &&
           step_of(a.freed) - step_of(a.made) >= kManySteps;
  }
  // cuBLAS's, of a recording that keeps no frames of C++: PyTorch's own size for it, made once in a product, and kept.
  [[nodiscard]] bool is_unseen_workspace(const Allocation& a) const {
    constexpr int64_t kCublasBytes = 2 * (4096 << 10) + 8 * (16 << 10);   // CUBLAS_WORKSPACE_CONFIG=:4096:2:16:8
    return !stacks_.has_native_frames() && a.bytes == kCublasBytes && a.made != kOutside && a.freed == kOutside;
  }
  [[nodiscard]] bool reaches_backward(const Allocation& a) const {
    return phases_.backward_passes(a.freed == kOutside ? last_row_ : a.freed) > backward_of(a.made);
  }
  // Events until memory ran out, or the recording ended.
  [[nodiscard]] uint32_t age(const Allocation& a) const {
    const auto failure = std::ranges::lower_bound(failures_, a.made);
    return (a.freed == kOutside || failure == failures_.end() ? last_row_ : *failure) - a.made;
  }
  // Neither alive nor freed because memory ran out before its backward pass began.
  [[nodiscard]] bool has_ended(const Allocation& a) const {
    if (a.freed == kOutside) return false;
    const auto failure = std::ranges::lower_bound(failures_, a.made);
    return failure == failures_.end() || *failure > a.freed || reaches_backward(a);
  }
  [[nodiscard]] CategoryOf of_before(const Allocation& a) const {
    if (a.freed == kOutside) return {};
    if (stacks_.of(freed_in(a)).zeroes_gradients) return {Category::kGradient, Certainty::kCertain};
    switch (phases_.at(a.freed)) {
      case MemoryPhase::kBackward:
        return {Category::kActivation, Certainty::kInferred};
      // Gradients of before are freed before the next backward pass; later it is a state that the optimizer replaces.
      case MemoryPhase::kOptimizer:
        return {phases_.backward_passes(a.freed) > 0 ? Category::kOptimizerState : Category::kGradient,
                Certainty::kInferred};
      default:
        return {};
    }
  }
  // Of a recording that keeps no frames of C++ it is autograd's.
  [[nodiscard]] CategoryOf without_stack(const Allocation& a) const {
    if (stacks_.empty() || stacks_.has_native_frames()) return {};
    return kept(a, Category::kGradient, Certainty::kInferred);
  }

  // The stack of what frees it; none where the recording gives frees the stacks of their allocations.
  [[nodiscard]] uint32_t freed_in(const Allocation& a) const {
    if (a.freed == kOutside || !snapshot_.events.is_free(a.freed)) return MemoryStacks::kNone;
    const uint32_t stack = snapshot_.events.stack(a.freed);
    return stack == a.stack ? MemoryStacks::kNone : stack;
  }
  [[nodiscard]] uint32_t step_of(uint32_t row) const { return row == kOutside ? 0 : phases_.step(row); }
  [[nodiscard]] uint32_t backward_of(uint32_t row) const { return row == kOutside ? 0 : phases_.backward_passes(row); }

  // Modules run, and there is neither a backward pass nor an optimizer: what stays of before is the model.
  [[nodiscard]] bool only_forwards() const {
    if (phases_.all_backward_passes() > 0 || phases_.has_steps()) return false;
    for (const MemoryAnnotation& a : snapshot_.annotations)
      if (snapshot_.strings[a.name].starts_with("Optimizer.")) return false;
    return std::any_of(history_.allocations.begin(), history_.allocations.end(),
                       [&](const Allocation& a) { return stacks_.of(a.stack).role == MemoryRole::kForward; });
  }

  const MemorySnapshot& snapshot_;
  const MemoryHistory& history_;
  const StackBook& stacks_;
  const MemoryPhases& phases_;
  uint32_t last_row_;
  int32_t buffer_line_ = 0;               // the last that makes such a buffer
  std::vector<int64_t> sizes_that_stay_;  // to the end, in order
  std::vector<uint32_t> failures_;        // rows at which memory ran out
  struct Precedent {
    bool reaches_backward = false;
    uint32_t longest = 0;  // events that those live which are freed before a backward pass
  };
  std::map<uint32_t, Precedent> precedents_;  // by stack
  std::set<const Allocation*> masters_;
  std::set<uint32_t> collections_;        // stacks of what the program gathers over steps
  std::set<uint32_t> graph_pools_;        // pools in which PyTorch's code for graphs allocates
};

}  // namespace

std::string_view memory_category_name(MemoryCategory category) {
  constexpr std::string_view kNames[kMemoryCategories] = {"parameter", "gradient",      "optimizer_state", "activation",
                                                          "temporary", "communication", "kv_cache",        "graph_pool",
                                                          "memory_pool", "workspace",   "input",           "autograd",
                                                          "unknown"};
  return kNames[static_cast<size_t>(category)];
}

std::vector<CategoryOf> memory_categories(const MemorySnapshot& snapshot, const MemoryHistory& history,
                                          const StackBook& stacks, const MemoryPhases& phases) {
  return Classifier(snapshot, history, stacks, phases).run();
}

}  // namespace profgpu
