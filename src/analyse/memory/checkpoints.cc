#include "analyse/memory/checkpoints.h"

#include <algorithm>
#include <map>

namespace profgpu {
namespace {

// Lines of the program's forwards that call a module's forward, from the innermost outward.
std::vector<uint32_t> sites_of(const MemorySnapshot& snapshot, const StackBook& stacks, uint32_t stack) {
  std::vector<uint32_t> sites;
  bool calls = false;
  const auto [begin, end] = snapshot.stacks.frames_of(stack);
  for (const uint32_t* frame = begin; frame != end; ++frame) {
    const ModuleCall call = stacks.module_call(*frame);
    if (call == ModuleCall::kPrograms && calls && std::ranges::find(sites, *frame) == sites.end())
      sites.push_back(*frame);
    calls |= call != ModuleCall::kNone;
  }
  return sites;
}

struct Under {
  std::map<uint32_t, std::pair<int64_t, int64_t>> by_stack;  // activations at the peak: how many, bytes
  uint32_t last_made = 0;
  int64_t last_bytes = 0;  // of what was made last before the peak
  int64_t bytes = 0;
  std::vector<size_t> allocations;
};

// How often the stacks of most of the bytes are there.
int64_t calls_of(const Under& under) {
  std::map<int64_t, int64_t> bytes;
  for (const auto& [stack, held] : under.by_stack) bytes[held.first] += held.second;
  const auto most = std::ranges::max_element(bytes, {}, [](const auto& b) { return b.second; });
  return most == bytes.end() ? 0 : most->first;
}

}  // namespace

std::vector<CheckpointSite> checkpoint_sites(const MemorySnapshot& snapshot, const MemoryHistory& history,
                                             const StackBook& stacks, const std::vector<CategoryOf>& categories) {
  std::map<uint32_t, std::vector<uint32_t>> sites_by_stack;
  std::map<uint32_t, Under> by_site;  // by frame
  for (size_t i = 0; i < categories.size(); ++i) {
    const Allocation& a = history.allocations[i];
    if (a.made == Allocation::kOutside || stacks.of(a.stack).role != MemoryRole::kForward) continue;
    const auto [at, fresh] = sites_by_stack.try_emplace(a.stack);
    if (fresh) at->second = sites_of(snapshot, stacks, a.stack);
    const bool activation = categories[i].category == MemoryCategory::kActivation;
    for (const uint32_t site : at->second) {
      Under& under = by_site[site];
      if (history.peak_row && a.made <= *history.peak_row && a.made >= under.last_made)
        under.last_made = a.made, under.last_bytes = a.bytes;
      if (!activation) continue;
      under.allocations.push_back(i);
      if (!history.is_at_peak(a)) continue;
      auto& [count, bytes] = under.by_stack[a.stack];
      ++count, bytes += a.bytes, under.bytes += a.bytes;
    }
  }
  std::vector<CheckpointSite> sites;
  for (auto& [frame, under] : by_site) {
    CheckpointSite site;
    site.calls = calls_of(under);
    if (site.calls < 2) continue;
    site.line = stacks.line_of_frame(frame);
    site.bytes = under.bytes;
    site.kept_bytes = std::min(under.bytes, site.calls * under.last_bytes + under.bytes / site.calls);
    site.allocations = std::move(under.allocations);
    if (site.saved_bytes() > 0) sites.push_back(std::move(site));
  }
  std::ranges::stable_sort(sites, std::greater(), &CheckpointSite::saved_bytes);
  return sites;
}

}  // namespace profgpu
