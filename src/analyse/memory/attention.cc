#include "analyse/memory/attention.h"

#include <map>
#include <set>

namespace profgpu {

std::vector<bool> made_in_attention(const MemoryHistory& history, const StackBook& stacks) {
  std::map<uint64_t, std::set<int64_t>> scores;  // sizes by scope
  for (const Allocation& a : history.allocations) {
    const StackFacts& stack = stacks.of(a.stack);
    if (stack.softmax && stack.in_forward && stack.scope != 0) scores[stack.scope].insert(a.bytes);
  }
  std::vector<bool> made;
  made.reserve(history.allocations.size());
  for (const Allocation& a : history.allocations) {
    const StackFacts& stack = stacks.of(a.stack);
    const auto sizes = scores.find(stack.scope);
    const bool beside = sizes != scores.end() && stack.role == MemoryRole::kForward && !stack.linear;
    const auto is_size = [&](int64_t bytes) { return sizes->second.contains(bytes); };
    const bool mask = stack.dropout && beside && (is_size(2 * a.bytes) || is_size(4 * a.bytes));
    made.push_back(stack.attention || (beside && is_size(a.bytes)) || mask);
  }
  return made;
}

}  // namespace profgpu
