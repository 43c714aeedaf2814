// Text broken into lines.
#pragma once

#include <string>
#include <string_view>

namespace profgpu {

/// Breaks at spaces so that no line is longer than `width` columns unless one word is. The first line begins with
/// `indent`, the others with as many blanks. A line feed in the text ends a line. Always ends with a line feed.
std::string wrap(std::string_view text, int width, std::string_view indent);

/// Columns that UTF-8 text takes, each character counted as one.
int columns(std::string_view text);

}  // namespace profgpu
