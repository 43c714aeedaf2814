#include "analyse/memory/growing_caches.h"

#include <map>

namespace profgpu {
namespace {

constexpr size_t kMinTokens = 5;
constexpr size_t kOfTen = 8;  // of ten tokens, so many grow as the others do: a new sequence begins with less

/// Allocations of one size that follow each other: those of one token.
struct TokenTensors {
  std::vector<size_t> places;  // in the history's allocations
  int64_t bytes = 0;
};

// Whether each of a token's tensors is freed once that of the next is made, and before those of the one after that.
bool is_replaced(const MemoryHistory& history, const std::vector<TokenTensors>& tokens, size_t token) {
  const TokenTensors &last = tokens[token], &next = tokens[token + 1];
  if (last.places.size() != next.places.size()) return false;
  const uint32_t after =
      token + 2 < tokens.size() ? history.allocations[tokens[token + 2].places.front()].made : Allocation::kOutside;
  for (size_t i = 0; i < last.places.size(); ++i) {
    const uint32_t freed = history.allocations[last.places[i]].freed;
    if (freed <= history.allocations[next.places[i]].made || freed >= after) return false;
  }
  return true;
}

// The growth of most tokens; 0: they do not grow alike.
int64_t growth_by_token(const MemoryHistory& history, const std::vector<TokenTensors>& tokens) {
  if (tokens.size() < kMinTokens) return 0;
  std::map<int64_t, size_t> counts;
  for (size_t i = 1; i < tokens.size(); ++i)
    if (const int64_t more = tokens[i].bytes - tokens[i - 1].bytes; more > 0 && is_replaced(history, tokens, i - 1))
      ++counts[more];
  for (const auto& [more, count] : counts)
    if (10 * count >= kOfTen * (tokens.size() - 1)) return more;
  return 0;
}

}  // namespace

void judge_growing_caches(const MemoryHistory& history, const StackBook& stacks, std::vector<CategoryOf>& categories) {
  std::map<uint32_t, std::vector<TokenTensors>> by_stack;
  for (size_t i = 0; i < history.allocations.size(); ++i) {
    const Allocation& a = history.allocations[i];
    const MemoryCategory category = categories[i].category;
    const bool passing = category == MemoryCategory::kTemporary || category == MemoryCategory::kActivation;
    if (a.made == Allocation::kOutside || !passing || stacks.of(a.stack).role != MemoryRole::kForward) continue;
    std::vector<TokenTensors>& tokens = by_stack[a.stack];
    if (tokens.empty() || tokens.back().bytes != a.bytes) tokens.push_back({{}, a.bytes});
    tokens.back().places.push_back(i);
  }
  for (const auto& [stack, tokens] : by_stack)
    if (growth_by_token(history, tokens) > 0)
      for (const TokenTensors& token : tokens)
        for (const size_t i : token.places) categories[i] = {MemoryCategory::kCache, Certainty::kInferred};
}

}  // namespace profgpu
