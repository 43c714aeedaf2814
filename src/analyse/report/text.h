// Text for terminals: width in cells, cutting, wrapping, and sanitizing of names from files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace profgpu {

/// Makes a name from a file safe to show: invalid UTF-8 becomes U+FFFD, tabs and line feeds become blanks, and control
/// or invisible characters (C0, DEL, C1, bidi controls, zero-width characters, stacks of combining marks) are escaped,
/// as in "\x1b" or "\u202e". The result can't move a cursor. Idempotent.
std::string sanitised(std::string_view text);

/// Cells of sanitised text: 2 for wide characters, 0 for combining ones.
int display_width(std::string_view text);

/// At most `width` cells, with "…" for the part cut off. The text must be sanitised.
std::string truncated(std::string_view text, int width);
/// Cut in front: the end of a path matters more than its beginning.
std::string truncated_front(std::string_view text, int width);

/// With blanks up to `width` cells, to the right or left of the text. Longer texts stay whole.
std::string padded_right(std::string text, int width);
std::string padded_left(std::string text, int width);

/// Lines of at most `width` cells, broken at blanks, and within words that are too long. Line feeds stay breaks,
/// leading blanks indentation. `width` under 1: no other breaks. At least one line.
std::vector<std::string> wrapped(std::string_view text, int width);

/// The lines of a text, without their line feeds and without an empty last one.
std::vector<std::string_view> lines_of(std::string_view text);

/// 0 for combining marks, 2 for East Asian wide and fullwidth characters and emoji, 1 for the rest.
int char_width(uint32_t code_point);

}  // namespace profgpu
