// Words as people type them: ranks, steps, sizes, misspelled names; and commands for them to type.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace profgpu {

// Ranks: "0,3,8-11".

/// First and last of each part.
using RankRanges = std::vector<std::pair<int, int>>;

/// Nullopt: not such a list.
std::optional<RankRanges> rank_ranges(std::string_view text);

/// Those of `known`, which is in ascending order, that the list names. An error if a part of it names none.
Result<std::vector<int>> chosen_ranks(const RankRanges& ranges, std::span<const int> known);

/// First and end of "10:20", either of which may be left out; of "10", too, with `single`. Nullopt: no such range.
std::optional<std::pair<int64_t, int64_t>> step_range(std::string_view text, bool single = false);

// "Did you mean": the known word that is nearest to an unknown one.

/// Fewest insertions, deletions, replacements and swaps of neighbours that turn a into b.
size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate nearest to `word`, or one that begins with it; empty if none is near enough to be worth a guess.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

/// "did you mean NEAREST?"; `otherwise` if none is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known, std::string_view otherwise);
template <class All>
std::vector<std::string> names_of(const All& all) {
  std::vector<std::string> names;
  for (const auto* one : all) names.emplace_back(one->name);
  return names;
}

// Sizes as people type them.

/// Bytes: "20GiB", "20G", "20GB", "20000 MiB", "1.5T", "4096". K, M, G, T with or without "iB" are powers of 1024, as
/// nvidia-smi and memory makers count; with "B" alone powers of 1000. Case does not matter. Nullopt: not a size.
std::optional<double> size_bytes(std::string_view text);

// Commands to copy.

/// The words as a shell would take them.
std::string shell_line(const std::vector<std::string>& words);

}  // namespace profgpu
