#include "analyse/memory/checkpoints.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "analyse/memory/level_courses.h"

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

struct SiteLevel {
  int64_t others = 0, site = 0;
  SiteLevel& operator+=(const SiteLevel& l) {
    others += l.others, site += l.site;
    return *this;
  }
  SiteLevel& operator-=(const SiteLevel& l) {
    others -= l.others, site -= l.site;
    return *this;
  }
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
    if (stacks.of(a.stack).checkpointed) continue;
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
    site.inputs_bytes = std::min(under.bytes, site.calls * under.last_bytes);
    site.allocations = std::move(under.allocations);
    if (site.saved_bytes() > 0) sites.push_back(std::move(site));
  }
  std::ranges::stable_sort(sites, std::greater(), &CheckpointSite::saved_bytes);
  return sites;
}

int64_t checkpointed_peak(const MemorySnapshot& snapshot, const MemoryHistory& history, const CheckpointSite& site) {
  std::vector<bool> of_site(history.allocations.size());
  for (const size_t a : site.allocations) of_site[a] = true;
  const double kept = static_cast<double>(site.inputs_bytes) / static_cast<double>(site.bytes);
  int64_t highest = 0, most_of_site = 0;  // the second: of this pass
  walk_levels<SiteLevel>(
      snapshot, history,
      [&](size_t i) {
        const int64_t bytes = history.allocations[i].bytes;
        return of_site[i] ? SiteLevel{0, bytes} : SiteLevel{bytes, 0};
      },
      [&](uint32_t, const SiteLevel& level) {
        if (level.site == 0) most_of_site = 0;
        most_of_site = std::max(most_of_site, level.site);
        const bool again = level.site > 0 && level.site < most_of_site;
        const int64_t inputs = std::llround(static_cast<double>(level.site) * kept);
        highest = std::max(highest, level.others + inputs + (again ? std::min(site.call_bytes(), level.site) : 0));
      });
  return highest;
}

}  // namespace profgpu
