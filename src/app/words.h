// Words as people type them: ranks, sizes, names that they half remember; and commands for them to type.
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

/// Nullopt: no such list.
std::optional<RankRanges> rank_ranges(std::string_view text);

/// Those of `there`, which is in ascending order, that the list names. An error where a part of it names none.
Result<std::vector<int>> chosen_ranks(const RankRanges& ranges, std::span<const int> there);

// "Did you mean": the known word that is nearest to an unknown one.

/// Fewest insertions, deletions, replacements and swaps of neighbours that turn a into b.
size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate nearest to `word`, or one that it begins; empty if none is near enough to be worth a guess.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

/// "did you mean NEAREST?"; `otherwise` where none is near.
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

// Commands that a person is to copy.

/// The words as a shell would take them.
std::string shell_line(const std::vector<std::string>& words);

}  // namespace profgpu
