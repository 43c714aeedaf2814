// Text as a terminal shows it: the cells it takes, cutting, wrapping, and making what a file says harmless.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace profgpu {

/// What a name from a file becomes before anybody shows it: invalid UTF-8 is U+FFFD, tabs and line feeds are blanks,
/// and what a terminal would obey or nobody could see (C0, DEL, C1, bidi controls, zero-width characters, stacks of
/// combining marks) is written out, "\x1b" or "\u202e". Nothing that comes out can move a cursor. Idempotent.
std::string sanitised(std::string_view text);

/// Cells that sanitised text takes: 2 for wide characters, 0 for combining ones.
int display_width(std::string_view text);

/// At most `width` cells; what is cut is marked by "…". The text is sanitised already.
std::string truncated(std::string_view text, int width);
/// The same, but cut in front: the end of a path says more than its beginning.
std::string truncated_front(std::string_view text, int width);

/// With blanks up to `width` cells, on the right or on the left of the text. Longer texts stay whole.
std::string padded_right(std::string text, int width);
std::string padded_left(std::string text, int width);

/// Lines of at most `width` cells, broken at blanks, inside a word only where the word alone is too long. Line feeds
/// stay breaks and blanks in front stay indentation. `width` under 1: no other breaks. At least one line.
std::vector<std::string> wrapped(std::string_view text, int width);

/// The lines of a text, without their line feeds and without an empty last one.
std::vector<std::string_view> lines_of(std::string_view text);

/// 0 for combining marks, 2 for East Asian wide and fullwidth characters and emoji, 1 for the rest.
int char_width(uint32_t code_point);

}  // namespace profgpu
