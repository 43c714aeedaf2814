// A pull reader over JSON text in memory: the cursor moves, nothing is copied or built.
//
// Budget: text is searched 16 bytes at a time; a value that nobody asks for costs one pass over its bytes.
// The text must be followed by kJsonPadding readable bytes. Reading never goes past `end` in meaning: a token that
// reaches it fails with at_end(), which tells a cut text from a malformed one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/text_block.h"

namespace profgpu {

constexpr size_t kJsonPadding = 64;
constexpr int kJsonMaxDepth = 256;

/// A string token: the raw bytes between its quotes.
struct JsonString {
  std::string_view raw;
  bool escaped = false;    ///< contains a backslash
  bool non_ascii = false;  ///< contains bytes from 0x80
};

class JsonReader {
 public:
  JsonReader(const char* begin, const char* end) : at_(begin), end_(end) {}
  /// Of all of `text`, to which the padding is appended.
  static JsonReader over(std::string& text) {
    const size_t size = text.size();
    text.append(kJsonPadding, '\0');
    return {text.data(), text.data() + size};
  }

  [[nodiscard]] const char* position() const { return at_; }
  [[nodiscard]] const char* end() const { return end_; }
  void seek(const char* position) { at_ = position, cut_ = false; }
  /// After a failure: whether the text ended where more was needed.
  [[nodiscard]] bool at_end() const { return cut_; }

  /// The next byte that is not white space, or 0 at the end of the text. Does not consume it.
  char peek() {
    // Mostly none, one blank, or a line's end and what the next line is indented by.
    if (at_ < end_ && is_space(*at_) && ++at_ < end_ && is_space(*at_))
      at_ = find(at_, end_, [](const TextBlock& b) { return b.ink(); });
    if (at_ < end_) return *at_;
    cut_ = true;
    return 0;
  }
  /// Consumes `c` if it is next.
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  bool string(JsonString& token) {
    if (peek() != '"') return false;
    // Keys and most names end within one block.
    const char* from = at_ + 1;
    const TextBlock block(from);
    const unsigned hits = TextBlock::bits(block.is('"') | block.is('\\'));
    if (hits == 0) return long_string(token);
    const char* to = from + __builtin_ctz(hits);
    if (*to != '"' || to >= end_) return long_string(token);
    token.raw = {from, static_cast<size_t>(to - from)};
    token.escaped = false;
    token.non_ascii = (TextBlock::bits(block.high()) & (hits ^ (hits - 1))) != 0;
    at_ = to + 1;
    return true;
  }
  /// The raw key of an object's member, and the colon after it.
  bool key(std::string_view& key) {
    if (peek() != '"') return false;
    const char* from = at_ + 1;
    const TextBlock block(from);
    const unsigned hits = TextBlock::bits(block.is('"') | block.is('\\'));
    if (hits == 0) return long_key(key);
    const char* to = from + __builtin_ctz(hits);
    if (to + 1 >= end_ || to[0] != '"' || to[1] != ':') return long_key(key);
    key = {from, static_cast<size_t>(to - from)};
    at_ = to + 2;
    return true;
  }
  static auto ends_scalar(const TextBlock& b) { return b.up_to(' ') | b.is('"') | b.is(',') | b.is(':') | b.bracket(); }
  /// A number, literal or anything else up to the next delimiter or control character, as text.
  bool scalar(std::string_view& token) {
    peek();
    const char* from = at_;
    at_ = find(from, end_, ends_scalar);
    if (at_ >= end_) return cut();
    token = {from, static_cast<size_t>(at_ - from)};
    return !token.empty();
  }
  bool skip_value() { return skip_value(0); }
  /// Consumes any value and gives its text.
  bool raw_value(std::string_view& text) {
    peek();
    const char* from = at_;
    if (!skip_value()) return false;
    text = {from, static_cast<size_t>(at_ - from)};
    return true;
  }

 private:
  static bool is_space(char c) {
    return static_cast<unsigned char>(c) <= ' ' && (c == ' ' || c == '\n' || c == '\r' || c == '\t');
  }
  bool long_string(JsonString& token);
  bool long_key(std::string_view& key);
  bool skip_value(int depth);
  /// Consumes an array that holds no objects; else false, and the reader stays where it is.
  bool skip_flat_array();
  bool cut() {
    cut_ = true;
    return false;
  }

  const char* at_;
  const char* end_;
  bool cut_ = false;
};

/// Calls `field(key)` for each key of an object with the reader before its value; `field` consumes the value and
/// returns false to stop. False if the object is malformed or `field` stopped.
template <class Field>
bool read_object(JsonReader& reader, Field&& field) {
  if (!reader.take('{')) return false;
  if (reader.take('}')) return true;
  for (;;) {
    std::string_view key;
    if (!reader.key(key) || !field(key)) return false;
    if (reader.take(',')) continue;
    return reader.take('}');
  }
}

/// Calls `element()` with the reader before each element of an array.
template <class Element>
bool read_array(JsonReader& reader, Element&& element) {
  if (!reader.take('[')) return false;
  if (reader.take(']')) return true;
  for (;;) {
    if (!element()) return false;
    if (reader.take(',')) continue;
    return reader.take(']');
  }
}

/// The text that a token stands for: escapes resolved, invalid UTF-8 and lone surrogates replaced by U+FFFD.
/// `replaced` counts the replacements.
std::string unescaped(const JsonString& token, int64_t& replaced);
/// The text of the next value; false, and `text` as it was: that is no whole string.
bool read_text(JsonReader& reader, std::string& text);

// Whether text is JSON, to the letter of RFC 8259. JsonReader takes more, since what it reads was written by others.

/// One value, with nothing before or after it; nested at most 64 deep. Strings may hold any bytes from 0x20 on.
bool is_json(std::string_view text);

}  // namespace profgpu
