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

// Commands that a person is to copy.

/// The words as a shell would take them.
std::string shell_line(const std::vector<std::string>& words);

// Text broken into lines.

/// Breaks at spaces so that no line is longer than `width` columns unless one word is. The first line begins with
/// `indent`, the others with as many blanks. A line feed in the text ends a line. Always ends with a line feed.
std::string wrap(std::string_view text, int width, std::string_view indent);

/// Columns that UTF-8 text takes, each character counted as one.
int columns(std::string_view text);

}  // namespace profgpu
