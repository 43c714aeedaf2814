#include "analyse/memory/memory_savings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "analyse/memory/attention.h"
#include "analyse/memory/checkpoints.h"
#include "analyse/memory/level_courses.h"

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
  std::array<Scaled, 4> scaled;
  bool trains;           // only where a backward pass or an optimizer is seen
  bool shards = false;  // what FSDP and ZeRO do already, if the job uses them
};

// Of allocations that a category does not tell.
struct PartChange {
  std::string_view text, assumes;
  double factor;
  bool (*applies)(const StackFacts& stack, Category category, bool attention);
};

// Adam's two states in float32 become one byte each and a little for scales; a shard is one of eight.
constexpr double kEightBit = 0.26, kShard = 1.0 / 8;
constexpr std::string_view kEveryBlock = "activation checkpointing of every block";
constexpr Change kChanges[] = {
    {kEveryBlock,
     "a block keeps its input alone: a tenth of the activations",
     {{{Category::kActivation, 0.1}}},
     true},
    {"micro-batch of half the size, gradients accumulated",
     "activations and temporary tensors grow with the batch",
     {{{Category::kActivation, 0.5}, {Category::kTemporary, 0.5}}},
     true},
    {"activations offloaded to the host",
     "none of them stays on the device; those that are being copied come on top",
     {{{Category::kActivation, 0}}},
     true},
    {"tensor and sequence parallel over 8 GPUs",
     "parameters, their gradients and states, and activations are split evenly; gathered inputs come on top",
     {{{Category::kOptimizerState, kShard},
       {Category::kGradient, kShard},
       {Category::kParameter, kShard},
       {Category::kActivation, kShard}}},
     true},
    {"optimizer states offloaded to the host",
     "none of them stays on the device",
     {{{Category::kOptimizerState, 0}}},
     true},
    {"ZeRO stage 1 over 8 GPUs", "optimizer states are sharded evenly", {{{Category::kOptimizerState, kShard}}}, true,
     true},
    {"ZeRO stage 2 or FSDP SHARD_GRAD_OP over 8 GPUs",
     "optimizer states and gradients are sharded evenly",
     {{{Category::kOptimizerState, kShard}, {Category::kGradient, kShard}}},
     true,
     true},
    {"ZeRO stage 3 or FSDP FULL_SHARD over 8 GPUs",
     "parameters, gradients and optimizer states are sharded evenly; gathered parameters of a block come on top",
     {{{Category::kOptimizerState, kShard}, {Category::kGradient, kShard}, {Category::kParameter, kShard}}},
     true,
     true},
    {"batch of half the size",
     "activations and temporary tensors grow with the batch",
     {{{Category::kActivation, 0.5}, {Category::kTemporary, 0.5}}},
     false},
    {"parameters in half the bytes",
     "bf16 instead of float32, or int8 instead of bf16",
     {{{Category::kParameter, 0.5}}},
     false}};

bool is_score(const StackFacts&, Category category, bool attention) {
  return attention && (category == Category::kActivation || category == Category::kTemporary);
}
bool is_optimizers_temporary(const StackFacts& stack, Category category, bool) {
  return stack.role == MemoryRole::kOptimizer && category == Category::kTemporary;
}
bool is_activation(const StackFacts&, Category category, bool) { return category == Category::kActivation; }

bool is_cross_entropy(const StackFacts& stack, Category category, bool) {
  return stack.cross_entropy && (category == Category::kActivation || category == Category::kTemporary);
}

constexpr PartChange kPartChanges[] = {
    {"chunked or fused cross entropy (Liger, torch.compile of the loss)",
     "copies, logarithms and gradients of the logits are never whole; the logits stay", 0, is_cross_entropy},
    {"flash attention: torch.nn.functional.scaled_dot_product_attention",
     "what attention itself makes is never written", 0, is_score},
    {"fused optimizer (fused=True)", "its step makes no temporary tensors", 0, is_optimizers_temporary}};
bool is_of_model(const StackFacts& stack, Category category, bool) {
  switch (category) {
    case Category::kParameter:
    case Category::kGradient:
    case Category::kOptimizerState:
    case Category::kActivation:
    case Category::kTemporary:
      return stack.role != MemoryRole::kWorkspace;
    default:
      return false;
  }
}
constexpr PartChange kHalf = {"bf16 for all of it (model.to(torch.bfloat16))",
                              "it is float32 now; small updates may round to nothing", 0.5, is_of_model};
constexpr PartChange kAutocast = {"bf16 activations (torch.autocast)", "activations are float32 now", 0.5,
                                  is_activation};

// Blocks of the largest size of one category.
struct Largest {
  int64_t bytes = 0, blocks = 0;
  void add(int64_t size) {
    if (size > bytes) bytes = size, blocks = 0;
    blocks += size == bytes ? 1 : 0;
  }
};

// What the largest of an optimizer's states, beside the largest gradient or parameter, tells of their types.
struct StateTypes {
  bool eight_bit = false;    // a half or a quarter of it
  bool sixteen_bit = false;  // twice as large: the parameters have 16 bits
  double eight_bit_factor = kEightBit;
};

StateTypes state_types(const MemoryHistory& history, const std::vector<CategoryOf>& categories) {
  Largest gradient, parameter, state;
  for (size_t i = 0; i < categories.size(); ++i) {
    const Allocation& a = history.allocations[i];
    const Category category = categories[i].category;
    if (category == Category::kGradient) gradient.add(a.bytes);
    if (category == Category::kParameter && a.freed == Allocation::kOutside) parameter.add(a.bytes);
    if (category == Category::kOptimizerState && a.freed == Allocation::kOutside) state.add(a.bytes);
  }
  const int64_t trained = gradient.bytes > 0 ? gradient.bytes : parameter.bytes;
  StateTypes types;
  types.eight_bit = state.bytes > 0 && (4 * state.bytes == trained || 2 * state.bytes == trained);
  types.sixteen_bit = state.bytes > 0 && state.bytes == 2 * trained;
  // Adam's two and a copy of the parameters, which stays.
  const bool has_copy = parameter.bytes == trained && state.blocks >= 3 * parameter.blocks;
  if (types.sixteen_bit && has_copy) types.eight_bit_factor = (2 * kEightBit + 1) / 3;
  return types;
}

// The loss widens logits, and no autocast narrowed them: the model has 16 bits.
bool widens_logits(const MemoryHistory& history, const StackBook& stacks) {
  return !stacks.has_autocast() && std::ranges::any_of(history.allocations, [&](const Allocation& a) {
    const std::string op = stacks.of(a.stack).cross_entropy ? stacks.op(a.stack) : std::string();
    return op == "_to_copy" || op == "to_dtype" || op.starts_with("to_");
  });
}

int64_t scaled(int64_t bytes, double factor) { return std::llround(static_cast<double>(bytes) * factor); }

// The peak with each allocation's bytes times its factor.
template <class FactorOf>
int64_t peak_of(const MemorySnapshot& snapshot, const MemoryHistory& history, FactorOf&& factor_of) {
  return highest_level(snapshot, history,
                       [&](size_t i) { return scaled(history.allocations[i].bytes, factor_of(i)); });
}

// Of lines within each other the one that saves most, and one more.
template <class Add>
void add_checkpoints(const MemorySnapshot& snapshot, const MemoryHistory& history,
                     const std::vector<CheckpointSite>& sites, Add&& add) {
  constexpr size_t kShown = 2;
  for (size_t i = 0; i < std::min(sites.size(), kShown); ++i) {
    const CheckpointSite& site = sites[i];
    add(fmt::format("activation checkpointing of the {} modules that {} ({}:{}) calls", site.calls, site.line.function,
                    site.line.file, site.line.line),
        "each keeps its input and is computed again in the backward pass, one at a time",
        checkpointed_peak(snapshot, history, site));
  }
}

// Of these stacks the one that allocates last in the recording.
uint32_t last_to_allocate(const MemoryHistory& history, const std::vector<uint32_t>& stacks) {
  for (auto a = history.allocations.rbegin(); a != history.allocations.rend(); ++a)
    if (a->made != Allocation::kOutside && std::ranges::binary_search(stacks, a->stack)) return a->stack;
  return MemoryStacks::kNone;
}

constexpr double kWorthSaying = 0.01;  // of the peak

Factors factors_of(const Change& change) {
  Factors factors;
  factors.fill(1);
  for (const Scaled& s : change.scaled) factors[static_cast<size_t>(s.category)] = s.factor;
  return factors;
}

}  // namespace

int64_t scaled_peak(const MemorySnapshot& snapshot, const MemoryHistory& history,
                    const std::vector<CategoryOf>& categories, const Factors& factors) {
  return peak_of(snapshot, history, [&](size_t i) { return factors[static_cast<size_t>(categories[i].category)]; });
}

std::vector<SavingRow> memory_savings(const MemorySnapshot& snapshot, const MemoryHistory& history,
                                      const StackBook& stacks, const std::vector<CategoryOf>& categories,
                                      const std::vector<uint32_t>& graphs) {
  const bool trains = std::any_of(categories.begin(), categories.end(), [](const CategoryOf& c) {
    return c.category == Category::kGradient || c.category == Category::kOptimizerState;
  });
  std::vector<SavingRow> rows;
  const auto add = [&](std::string text, std::string_view assumes, int64_t peak) {
    const int64_t saved = history.peak_bytes - peak;
    if (static_cast<double>(saved) >= kWorthSaying * static_cast<double>(history.peak_bytes))
      rows.push_back({std::move(text), std::string(assumes), peak, saved});
  };
  StateTypes types = state_types(history, categories);
  types.sixteen_bit |= widens_logits(history, stacks);
  // Which modules to compute again follows from the lines that call them, if there are any.
  const std::vector<CheckpointSite> sites =
      trains ? checkpoint_sites(snapshot, history, stacks, categories) : std::vector<CheckpointSite>();
  const auto add_change = [&](const Change& change) {
    add(std::string(change.text), change.assumes, scaled_peak(snapshot, history, categories, factors_of(change)));
  };
  for (const Change& change : kChanges) {
    const bool done = change.text == kEveryBlock ? stacks.has_checkpoints() || !sites.empty()
                                                 : change.shards && stacks.has_shards();
    if (change.trains == trains && !done) add_change(change);
  }
  if (trains && !types.eight_bit)
    add_change({"8-bit optimizer states", "the states are float32 now",
                {{{Category::kOptimizerState, types.eight_bit_factor}}}, true});
  const std::vector<bool> attention = made_in_attention(history, stacks);
  const auto add_part = [&](const PartChange& change) {
    add(std::string(change.text), change.assumes, peak_of(snapshot, history, [&](size_t i) {
          const StackFacts& stack = stacks.of(history.allocations[i].stack);
          return change.applies(stack, categories[i].category, attention[i]) ? change.factor : 1;
        }));
  };
  for (const PartChange& change : kPartChanges) add_part(change);
  if (!graphs.empty())
    add("torch.inference_mode() around the forward pass", "of each pass only what is made last is kept: its output",
        peak_of(snapshot, history, [&, output = last_to_allocate(history, graphs)](size_t i) {
          const uint32_t stack = history.allocations[i].stack;
          return stack != output && std::ranges::binary_search(graphs, stack) ? 0 : 1;
        }));
  if (trains && !types.sixteen_bit) add_part(kHalf);
  if (trains && !types.sixteen_bit && !stacks.has_autocast()) add_part(kAutocast);
  add_checkpoints(snapshot, history, sites, add);
  std::stable_sort(rows.begin(), rows.end(),
                   [](const SavingRow& a, const SavingRow& b) { return a.saved_bytes > b.saved_bytes; });
  return rows;
}

}  // namespace profgpu
