#include "app/compare/memory_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace profgpu {
namespace {

using MemoryLines = std::map<MemoryLineKey, double>;

struct LineBytes {
  int64_t line = 0;
  double bytes = 0;
};

/// Lines of one function with one operator and category.
struct LineGroup {
  std::vector<LineBytes> before, after;   // in the order of the file
};

/// Places of a group's two sides that are one line; SIZE_MAX: the side does not have it.
struct LinePair {
  size_t before = SIZE_MAX, after = SIZE_MAX;
};

// Most of all what holds as much is the same line, then what has the same number.
int likeness(const LineBytes& before, const LineBytes& after) {
  constexpr int kSameBytes = 4, kSameLine = 3, kAny = 1;
  if (before.bytes == after.bytes) return before.line == after.line ? kSameBytes + 1 : kSameBytes;
  return before.line == after.line ? kSameLine : kAny;
}

std::vector<LinePair> with_one_number(const LineGroup& group) {
  const size_t n = group.before.size(), m = group.after.size();
  std::vector<LinePair> pairs;
  size_t i = 0, j = 0;
  while (i < n || j < m) {
    const bool old_first = j >= m || (i < n && group.before[i].line < group.after[j].line);
    const bool both = i < n && j < m && group.before[i].line == group.after[j].line;
    if (both) pairs.push_back({i++, j++});
    else if (old_first) pairs.push_back({i++, SIZE_MAX});
    else pairs.push_back({SIZE_MAX, j++});
  }
  return pairs;
}

// The pairs, in the order of both files, that are most alike.
std::vector<LinePair> aligned(const LineGroup& group) {
  constexpr size_t kMostCells = 1'000'000;   // no function has so many lines
  const size_t n = group.before.size(), m = group.after.size();
  if (n * m > kMostCells) return with_one_number(group);
  std::vector<std::vector<int>> best(n + 1, std::vector<int>(m + 1));   // of what follows
  for (size_t i = n; i-- > 0;)
    for (size_t j = m; j-- > 0;)
      best[i][j] = std::max({best[i + 1][j], best[i][j + 1],
                             best[i + 1][j + 1] + likeness(group.before[i], group.after[j])});
  std::vector<LinePair> pairs;
  size_t i = 0, j = 0;
  while (i < n || j < m) {
    if (i < n && j < m && best[i][j] == best[i + 1][j + 1] + likeness(group.before[i], group.after[j]))
      pairs.push_back({i++, j++});
    else if (j >= m || (i < n && best[i][j] == best[i + 1][j]))
      pairs.push_back({i++, SIZE_MAX});
    else
      pairs.push_back({SIZE_MAX, j++});
  }
  return pairs;
}

std::string_view base_name(std::string_view file) { return file.substr(file.rfind('/') + 1); }

std::set<std::string> files_of(const MemoryLines& lines) {
  std::set<std::string> files;
  for (const auto& [key, bytes] : lines) files.insert(key.file);
  return files;
}

// Files of `before` that `after` has in another folder, as of another checkout.
std::map<std::string, std::string> moved_files(const MemoryLines& before, const MemoryLines& after) {
  const std::set<std::string> old_files = files_of(before), new_files = files_of(after);
  std::map<std::string, std::string> moved;
  for (const std::string& file : old_files) {
    if (file.empty() || new_files.contains(file)) continue;
    const auto is_it = [&](const std::string& other) {
      return !old_files.contains(other) && base_name(other) == base_name(file);
    };
    if (std::ranges::count_if(new_files, is_it) == 1) moved[file] = *std::ranges::find_if(new_files, is_it);
  }
  return moved;
}

std::string line_name(const MemoryLineKey& group, const LineBytes* before, const LineBytes* after) {
  std::string name = group.device + group.function;
  if (!group.file.empty()) {
    const bool moves = before != nullptr && after != nullptr && before->line != after->line;
    const int64_t line = before != nullptr ? before->line : after->line;
    name += moves ? fmt::format(" ({}:{} → {})", group.file, line, after->line)
                  : fmt::format(" ({}:{})", group.file, line);
  }
  return name + ", " + group.category;
}

}  // namespace

std::vector<NumberChange> memory_line_changes(const RunSummary& before, const RunSummary& after) {
  if (before.memory_lines.empty() || after.memory_lines.empty() || before.held_only != after.held_only) return {};
  const std::map<std::string, std::string> moved = moved_files(before.memory_lines, after.memory_lines);
  std::map<MemoryLineKey, LineGroup> groups;   // their keys have no line
  const auto group_of = [&](MemoryLineKey key) -> LineGroup& {
    key.line = 0;
    if (const auto at = moved.find(key.file); at != moved.end()) key.file = at->second;
    return groups[std::move(key)];
  };
  for (const auto& [key, bytes] : before.memory_lines) group_of(key).before.push_back({key.line, bytes});
  for (const auto& [key, bytes] : after.memory_lines) group_of(key).after.push_back({key.line, bytes});
  std::map<std::string, NumberChange> by_name;   // operators of one line are not told apart
  for (const auto& [key, group] : groups)
    for (const LinePair pair : aligned(group)) {
      const LineBytes* const was = pair.before == SIZE_MAX ? nullptr : &group.before[pair.before];
      const LineBytes* const is = pair.after == SIZE_MAX ? nullptr : &group.after[pair.after];
      const std::string name = line_name(key, was, is);
      NumberChange& change = by_name[name];
      change.name = name;
      change.before = change.before.value_or(0) + (was != nullptr ? was->bytes : 0);
      change.after = change.after.value_or(0) + (is != nullptr ? is->bytes : 0);
    }
  std::vector<NumberChange> rows;
  for (auto& [name, change] : by_name) rows.push_back(std::move(change));
  std::ranges::stable_sort(rows, std::greater(),
                           [](const NumberChange& n) { return std::abs(*n.after - *n.before); });
  return rows;
}

}  // namespace profgpu
