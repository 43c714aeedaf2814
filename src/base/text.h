// Text: ASCII letters and digits, blanks, pieces, lists, and the order that people expect.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace profgpu {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
constexpr bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
constexpr bool is_letter(char c) { return is_upper(c) || is_lower(c); }
/// Of ASCII, whatever the locale; other bytes stay.
constexpr char lower(char c) { return is_upper(c) ? static_cast<char>(c + 32) : c; }
constexpr char upper(char c) { return is_lower(c) ? static_cast<char>(c - 32) : c; }
std::string lower_case(std::string_view text);
std::string upper_case(std::string_view text);
/// At least one digit, and nothing else.
bool all_digits(std::string_view text);

inline bool contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }
// Parts in a table, or in braces.
template <class Parts = std::initializer_list<std::string_view>>
bool contains_any(std::string_view text, const Parts& parts) {
  return std::ranges::any_of(parts, [&](std::string_view part) { return contains(text, part); });
}
template <class Parts = std::initializer_list<std::string_view>>
bool starts_with_any(std::string_view text, const Parts& parts) {
  return std::ranges::any_of(parts, [&](std::string_view part) { return text.starts_with(part); });
}
template <class Texts = std::initializer_list<std::string_view>>
bool is_any_of(std::string_view text, const Texts& texts) {
  return std::ranges::any_of(texts, [&](std::string_view one) { return text == one; });
}
/// The text, or at most its first `longest` bytes, cut between characters, and "…". 72 suit a name within a sentence.
std::string shortened(std::string_view text, size_t longest = 72);
/// A list as JSON writes it, without line breaks and indentation: "[[32, 1000], []]".
std::string list_on_one_line(std::string_view text);

/// Without blanks, tabs and line ends around it.
std::string_view without_blanks(std::string_view text);
/// The text in pieces between `separator`; empty pieces are left out.
std::vector<std::string_view> pieces_of(std::string_view text, char separator);
/// What follows the last slash of a path.
constexpr std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }
/// What comes before that slash; empty: there is none.
constexpr std::string_view folder_of(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? std::string_view() : path.substr(0, slash);
}
/// The value of the first line "KEY: value", as in /proc/PID/status; empty if there is none.
std::string_view line_value(std::string_view text, std::string_view key, char separator = ':');

/// The digits in groups of three, those after a point left alone: "-1,234.5678".
std::string with_separators(std::string digits);
/// "1,234"
inline std::string format_count(int64_t n) { return with_separators(std::to_string(n)); }

/// For an element's content or a quoted attribute of HTML.
std::string html_escaped(std::string_view text);

/// One of our codes as words: "data_loading" to "data loading". Not for names from a trace.
std::string words(std::string_view code);

/// One part more of a list; the first has no separator in front.
inline void append_listed(std::string& list, std::string_view part, std::string_view separator = ", ") {
  if (!list.empty()) list += separator;
  list += part;
}
/// "a, b, c". `text`: a part's words, or the member that has them.
template <class Parts, class Text = std::identity>
std::string joined(const Parts& parts, std::string_view separator = ", ", Text&& text = {}) {
  std::string list;
  for (const auto& part : parts) append_listed(list, std::invoke(text, part), separator);
  return list;
}

/// Whether `a` comes before `b` where numbers count by their value: "r9" before "r10", "9" before "10" before "a".
bool natural_less(std::string_view a, std::string_view b);

// UTF-8: encoding, decoding, and repair of text that is not.

void append_utf8(std::string& out, uint32_t code_point);
/// One character: its code point and its bytes.
struct Character {
  uint32_t code_point = 0xFFFD;
  size_t bytes = 1;
  bool valid = false;   ///< false: a byte that belongs to no character
};

/// The character at the start of `s`, which is not empty.
Character first_character(std::string_view s);

/// C0, DEL and C1: what terminals obey.
bool is_control(uint32_t code_point);
/// Bidi controls, line separators, zero-width characters and tags: what changes other text and cannot be seen.
bool is_invisible(uint32_t code_point);

/// Length of the valid sequence at the start of `s` (1 to 4), or 0 if there is none (overlong, surrogate, cut, stray).
size_t utf8_sequence(std::string_view s);
/// Replaces each byte that is not part of a valid sequence by U+FFFD; returns how many.
int64_t replace_invalid_utf8(std::string& text);
/// The text with that done.
std::string valid_utf8(std::string_view text);

}  // namespace profgpu
