// "Did you mean": the known word that is nearest to an unknown one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace profgpu {

/// Fewest insertions, deletions, replacements and swaps of neighbours that turn a into b.
size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate nearest to `word`, or one that it begins; empty if none is near enough to be worth a guess.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace profgpu
