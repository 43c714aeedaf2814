#include "analyse/memory/memory_peak.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "analyse/memory/attention.h"
#include "analyse/memory/level_courses.h"
#include "base/statistics.h"
#include "base/text.h"

namespace profgpu {
namespace {

constexpr size_t kMaxHolders = 100;
constexpr uint32_t kShortLived = 50;       // this part of the events,
constexpr uint32_t kShortLivedEvents = 64;  // or this many: a tensor that goes at once lives for a few

std::vector<CategoryRow> category_rows(const MemoryHistory& history, const StackBook& stacks,
                                       const std::vector<CategoryOf>& categories) {
  const std::vector<bool> attention = made_in_attention(history, stacks);
  std::array<CategoryRow, kMemoryCategories> rows;
  for (size_t c = 0; c < rows.size(); ++c) rows[c].category = static_cast<MemoryCategory>(c);
  for (size_t i = 0; i < history.allocations.size(); ++i) {
    const Allocation& a = history.allocations[i];
    if (!history.is_at_peak(a)) continue;
    CategoryRow& row = rows[static_cast<size_t>(categories[i].category)];
    row.bytes += a.bytes, ++row.blocks;
    if (categories[i].certainty == Certainty::kCertain) row.certain_bytes += a.bytes;
    if (categories[i].certainty == Certainty::kInferred && row.category != MemoryCategory::kUnknown)
      row.inferred_bytes += a.bytes;
    if (attention[i]) row.attention_bytes += a.bytes;
  }
  std::vector<CategoryRow> held;
  for (CategoryRow& row : rows) {
    row.peak_pct = percent_of(row.bytes, history.peak_bytes);
    if (row.blocks > 0) held.push_back(row);
  }
  std::stable_sort(held.begin(), held.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return held;
}

std::string_view before_words(const Allocation& a) {
  return a.made == Allocation::kOutside ? "(before the recording)" : "(no stack recorded)";
}

// What two paths of modules begin with.
std::string common_module(std::string_view a, std::string_view b) {
  const auto [end, other] = std::ranges::mismatch(a, b);
  const bool whole = (end == a.end() || *end == '.') && (other == b.end() || *other == '.');
  const std::string_view same = a.substr(0, static_cast<size_t>(end - a.begin()));
  if (whole) return std::string(same);
  const size_t dot = same.rfind('.');
  return std::string(same.substr(0, dot == same.npos ? 0 : dot));
}

std::vector<HolderRow> holder_rows(const MemoryHistory& history, const StackBook& stacks,
                                   const std::vector<CategoryOf>& categories) {
  std::map<std::pair<uint32_t, MemoryCategory>, HolderRow> by_stack;  // a line is looked up once for each
  std::map<std::tuple<MemoryLine, MemoryCategory, std::string>, HolderRow> by_line;
  for (size_t i = 0; i < history.allocations.size(); ++i) {
    const Allocation& a = history.allocations[i];
    if (!history.is_at_peak(a)) continue;
    HolderRow& row = by_stack[{a.stack, categories[i].category}];
    if (row.blocks == 0 && a.stack == MemoryStacks::kNone) row.function = before_words(a);
    row.bytes += a.bytes, ++row.blocks;
  }
  for (const auto& [key, of_stack] : by_stack) {
    MemoryLine line = stacks.line(key.first);
    if (!of_stack.function.empty()) line.function = of_stack.function;
    HolderRow& row = by_line[{line, key.second, stacks.op(key.first)}];
    row.function = line.function, row.file = line.file, row.line = line.line;
    row.category = key.second, row.op = stacks.op(key.first);
    row.module = row.blocks == 0 ? stacks.module(key.first) : common_module(row.module, stacks.module(key.first));
    row.bytes += of_stack.bytes, row.blocks += of_stack.blocks;
  }
  std::vector<HolderRow> rows;
  for (auto& [key, row] : by_line) {
    row.peak_pct = percent_of(row.bytes, history.peak_bytes);
    rows.push_back(std::move(row));
  }
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  if (rows.size() > kMaxHolders) rows.resize(kMaxHolders);
  return rows;
}

// The highest level, had the marked allocations not been.
int64_t peak_without(const MemorySnapshot& snapshot, const MemoryHistory& history, const std::vector<bool>& marked) {
  return highest_level(snapshot, history, [&](size_t i) { return marked[i] ? 0 : history.allocations[i].bytes; });
}

}  // namespace

SnapshotPeak snapshot_peak(const MemorySnapshot& snapshot, const MemoryHistory& history, const StackBook& stacks,
                           const MemoryPhases& phases, const std::vector<CategoryOf>& categories) {
  SnapshotPeak peak;
  peak.device = history.device;
  peak.allocated_bytes = history.peak_bytes;
  peak.phase = memory_phase_name(MemoryPhase::kUnknown);
  peak.reserved_bytes = history.initial_reserved_bytes;
  if (history.peak_row) {
    const uint32_t row = *history.peak_row;
    peak.event = row - history.first;
    if (const int64_t time_us = snapshot.events.time_us(row); time_us != AllocationEvent::kNoTime)
      peak.time_ns = 1000 * time_us;
    peak.phase = memory_phase_name(phases.at(row));
    if (phases.has_steps()) peak.step = phases.step(row);
    for (uint32_t i = history.first; i <= row && peak.reserved_bytes; ++i)
      *peak.reserved_bytes += reserved_change(snapshot.events, i);
  }
  // A ring that lost events may tell less reserved than allocated.
  if (peak.reserved_bytes && *peak.reserved_bytes < peak.allocated_bytes) peak.reserved_bytes.reset();
  if (peak.reserved_bytes) peak.unused_bytes = *peak.reserved_bytes - peak.allocated_bytes;
  peak.categories = category_rows(history, stacks, categories);
  peak.holders = holder_rows(history, stacks, categories);
  return peak;
}

namespace {

// "LogSoftmaxBackward0" is of "log_softmax".
std::string operator_of(std::string_view node) {
  std::string name;
  for (const char c : node.substr(0, node.find("Backward"))) {
    const bool upper = c >= 'A' && c <= 'Z';
    if (upper && !name.empty()) name += '_';
    name += upper ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return name;
}

// "div", "div_Tensor" and "div__Scalar" are calls of "div", "div_sum" is none.
bool is_call_of(std::string_view call, std::string_view name) {
  if (!call.starts_with(name)) return false;
  const std::string_view overload = call.substr(name.size());
  return overload.empty() || overload == "_int" || overload == "_out" || overload.starts_with("__") ||
         (overload.size() > 1 && overload[0] == '_' && overload[1] >= 'A' && overload[1] <= 'Z');
}

// Lines of the program whose allocations the node's operator made; of many, none is more likely than another.
std::string forward_lines(const MemoryHistory& history, const StackBook& stacks, std::string_view node) {
  constexpr size_t kMost = 2;
  const std::string name = operator_of(node);
  std::vector<MemoryLine> lines;
  for (const Allocation& a : history.allocations) {
    const StackFacts& facts = stacks.of(a.stack);
    if (facts.line == UINT32_MAX || facts.in_backward || !is_call_of(stacks.op(a.stack), name)) continue;
    const MemoryLine line = stacks.line(a.stack);
    if (std::ranges::count(lines, line) > 0) continue;
    if (lines.size() == kMost) return "";
    lines.push_back(line);
  }
  return joined(lines, " or ", [](const MemoryLine& l) {
    return fmt::format("{} ({}:{})", l.function, l.file, l.line);
  });
}

}  // namespace

std::optional<PeakSpike> peak_spike(const MemorySnapshot& snapshot, const MemoryHistory& history,
                                    const StackBook& stacks, const std::vector<CategoryOf>& categories) {
  if (!history.peak_row) return std::nullopt;
  const uint32_t most = std::max<uint32_t>((history.end - history.first) / kShortLived, kShortLivedEvents);
  const auto is_short = [&](size_t i) {
    const Allocation& a = history.allocations[i];
    const StackFacts& stack = stacks.of(a.stack);
    // An optimizer's step, and what clips gradients before it, frees its own when it is over, however many parameters
    // that takes.
    const bool soon = stack.role == MemoryRole::kOptimizer || stack.clips || a.freed - a.made <= most;
    const bool passing = categories[i].category == MemoryCategory::kTemporary ||
                         categories[i].category == MemoryCategory::kWorkspace;
    return passing && a.made != Allocation::kOutside && a.freed != Allocation::kOutside && soon;
  };
  std::map<MemoryLine, PeakSpike> by_line;
  for (size_t i = 0; i < history.allocations.size(); ++i) {
    const Allocation& a = history.allocations[i];
    // All that has no stack, such as what autograd's threads make where no frames of C++ are recorded, is no line.
    if (!is_short(i) || !history.is_at_peak(a) || a.stack == MemoryStacks::kNone) continue;
    PeakSpike& s = by_line[stacks.line(a.stack)];
    s.bytes += a.bytes;
    s.lifetime_events = std::max<int64_t>(s.lifetime_events, a.freed - a.made);
    s.workspace |= categories[i].category == MemoryCategory::kWorkspace;
    s.cross_entropy |= stacks.of(a.stack).cross_entropy;
    s.clips |= stacks.of(a.stack).clips;
  }
  const auto highest = std::max_element(by_line.begin(), by_line.end(),
                                        [](const auto& a, const auto& b) { return a.second.bytes < b.second.bytes; });
  if (highest == by_line.end()) return std::nullopt;
  std::vector<bool> of_line(snapshot.stacks.stacks());  // by stack, looked up once
  for (uint32_t s = 0; s < snapshot.stacks.stacks(); ++s) of_line[s] = stacks.line(s) == highest->first;
  std::vector<bool> marked(history.allocations.size());
  for (size_t i = 0; i < marked.size(); ++i)
    marked[i] = is_short(i) && history.allocations[i].stack < of_line.size() && of_line[history.allocations[i].stack];
  PeakSpike spike = highest->second;
  spike.function = highest->first.function, spike.file = highest->first.file, spike.line = highest->first.line;
  spike.peak_without_bytes = peak_without(snapshot, history, marked);
  if (spike.file.empty() && contains(spike.function, "Backward")) {
    spike.node = spike.function;
    spike.forward = forward_lines(history, stacks, spike.node);
  }
  return spike;
}

std::optional<int64_t> duplicate_parameters(const MemoryHistory& history, const StackBook& stacks,
                                            const std::vector<CategoryOf>& categories) {
  // Layers that lines of one model make alike are no copies: each such line has the sizes of its weight and bias alone.
  constexpr size_t kMinSizes = 3;
  struct Copy {
    int64_t bytes = 0;
    std::map<int64_t, int64_t> sizes;  // how many blocks of each
  };
  std::map<MemoryLine, Copy> by_line;
  for (size_t i = 0; i < history.allocations.size(); ++i) {
    const Allocation& a = history.allocations[i];
    // Without a stack nothing tells copies apart.
    if (categories[i].category != MemoryCategory::kParameter || !history.is_at_peak(a)) continue;
    if (a.stack == MemoryStacks::kNone) continue;
    Copy& copy = by_line[stacks.line(a.stack)];
    copy.bytes += a.bytes, ++copy.sizes[a.bytes];
  }
  const auto is_copy = [&](const Copy& small, const Copy& large) {
    return std::ranges::any_of(std::array{1, 2, 4}, [&](int64_t times) {
      return std::ranges::equal(small.sizes, large.sizes, [&](const auto& s, const auto& l) {
        return times * s.first == l.first && s.second == l.second;
      });
    });
  };
  int64_t bytes = 0;
  for (auto a = by_line.begin(); a != by_line.end(); ++a)
    for (auto b = std::next(a); b != by_line.end(); ++b) {
      const auto& [small, large] =
          std::minmax(a->second, b->second, [](const Copy& x, const Copy& y) { return x.bytes < y.bytes; });
      const bool telling = percent_of(small.bytes, history.peak_bytes) >= 1 && small.sizes.size() >= kMinSizes;
      if (telling && is_copy(small, large)) bytes += small.bytes;
    }
  return only_if(bytes > 0, bytes);
}

}  // namespace profgpu
