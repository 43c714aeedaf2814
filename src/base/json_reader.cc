#include "base/json_reader.h"

#include <cstddef>

#include "base/text.h"

namespace profgpu {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = static_cast<char>(c | 0x20);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

std::optional<uint32_t> hex4(std::string_view s) {
  if (s.size() < 4) return std::nullopt;
  uint32_t v = 0;
  for (int i = 0; i < 4; ++i) {
    const int d = hex_digit(s[i]);
    if (d < 0) return std::nullopt;
    v = v << 4 | static_cast<uint32_t>(d);
  }
  return v;
}

// The escape that starts `s` (after its backslash and 'u'); advances `used` by the characters taken.
uint32_t unicode_escape(std::string_view s, size_t& used) {
  const auto first = hex4(s);
  if (!first) return 0xFFFD;
  used += 4;
  if (*first < 0xD800 || *first > 0xDFFF) return *first;
  if (*first < 0xDC00 && s.size() >= 10 && s[4] == '\\' && s[5] == 'u') {
    const auto second = hex4(s.substr(6));
    if (second && *second >= 0xDC00 && *second <= 0xDFFF) {
      used += 6;
      return 0x10000 + ((*first - 0xD800) << 10) + (*second - 0xDC00);
    }
  }
  return 0xFFFD;
}

}  // namespace

bool JsonReader::long_string(JsonString& token) {
  const char* from = ++at_;
  token.escaped = false;
  for (const char* p = from;;) {
    p = find(p, end_, [](const TextBlock& b) { return b.is('"') | b.is('\\'); });
    if (p >= end_) return cut();
    if (*p == '"') {
      token.raw = {from, static_cast<size_t>(p - from)};
      token.non_ascii = find(from, p, [](const TextBlock& b) { return b.high(); }) != p;
      at_ = p + 1;
      return true;
    }
    token.escaped = true;
    p += 2;
  }
}

bool JsonReader::long_key(std::string_view& key) {
  JsonString token;
  if (!string(token) || !take(':')) return false;
  key = token.raw;
  return true;
}

bool JsonReader::skip_value(int depth) {
  const char c = peek();
  if (c == '"') {
    JsonString ignored;
    return string(ignored);
  }
  if (c != '{' && c != '[') {
    std::string_view ignored;
    return scalar(ignored);
  }
  if (depth >= kJsonMaxDepth) return false;
  if (c == '[' && skip_flat_array()) return true;
  if (c == '{') return read_object(*this, [&](std::string_view) { return skip_value(depth + 1); });
  return read_array(*this, [&] { return skip_value(depth + 1); });
}

// Shapes, strides, types and values: arrays of numbers and strings, or of such arrays. Only brackets and strings
// matter; commas are checked beside strings, where one quote too few would make text of what is none.
bool JsonReader::skip_flat_array() {
  constexpr int kDeepest = 8;
  int depth = 0;
  bool in_string = false;
  const char* next = at_;   // what lies before it in a string is escaped
  for (const char* from = at_; from < end_; from += TextBlock::kBytes) {
    const TextBlock block(from);
    unsigned hits = TextBlock::bits(block.bracket() | block.is('"') | block.is('\\'));
    for (; hits != 0; hits &= hits - 1) {
      const char* p = from + __builtin_ctz(hits);
      if (p >= end_) return false;
      if (in_string) {
        if (*p == '\\' && p >= next) next = p + 2;
        if (*p != '"' || p < next) continue;
        if (p[1] != ',' && p[1] != ']') return false;
        in_string = false;
      } else if (*p == '[') {
        if (++depth > kDeepest) return false;
      } else if (*p == '"') {
        if (p[-1] != '[' && p[-1] != ',' && !(p[-1] == ' ' && p[-2] == ',')) return false;
        in_string = true;
      } else if (*p != ']') {
        return false;
      } else if (--depth == 0) {
        at_ = p + 1;
        return true;
      }
    }
  }
  return false;
}

std::string unescaped(const JsonString& token, int64_t& replaced) {
  std::string out;
  out.reserve(token.raw.size());
  for (size_t i = 0; i < token.raw.size(); ++i) {
    const char c = token.raw[i];
    if (c != '\\' || i + 1 == token.raw.size()) {
      out.push_back(c);
      continue;
    }
    switch (token.raw[++i]) {
      case 'n': out.push_back('\n'); break;
      case 't': out.push_back('\t'); break;
      case 'r': out.push_back('\r'); break;
      case 'b': out.push_back('\b'); break;
      case 'f': out.push_back('\f'); break;
      case 'u': {
        size_t used = 0;
        const uint32_t code = unicode_escape(token.raw.substr(i + 1), used);
        replaced += code == 0xFFFD;
        append_utf8(out, code);
        i += used;
        break;
      }
      default: out.push_back(token.raw[i]);
    }
  }
  if (token.non_ascii) replaced += replace_invalid_utf8(out);
  return out;
}

bool read_text(JsonReader& reader, std::string& text) {
  JsonString token;
  int64_t replaced = 0;
  if (!reader.string(token)) return false;
  text = unescaped(token, replaced);
  return true;
}

namespace {

constexpr int kDeepest = 64;

class Check {
 public:
  explicit Check(std::string_view text) : text_(text) {}
  bool all() { return value(0) && at_ == text_.size(); }

 private:
  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char c) {
    if (peek() != c || at_ == text_.size()) return false;
    ++at_;
    return true;
  }
  bool take(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  void blanks() {
    while (peek() == ' ' || peek() == '\n' || peek() == '\r' || peek() == '\t') ++at_;
  }
  bool digits() {
    const size_t from = at_;
    while (peek() >= '0' && peek() <= '9') ++at_;
    return at_ > from;
  }
  bool number() {
    take('-');
    if (!take('0') && !digits()) return false;
    if (take('.') && !digits()) return false;
    if (!take('e') && !take('E')) return true;
    if (!take('+')) take('-');
    return digits();
  }
  bool escape() {
    if (!take('u'))
      return std::string_view("\"\\/bfnrt").find(peek()) != std::string_view::npos && at_++ < text_.size();
    for (int i = 0; i < 4; ++i, ++at_)
      if (std::string_view("0123456789abcdefABCDEF").find(peek()) == std::string_view::npos || at_ == text_.size())
        return false;
    return true;
  }
  bool string() {
    if (!take('"')) return false;
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '"') return true;
      if (static_cast<unsigned char>(c) < 0x20 || (c == '\\' && !escape())) return false;
    }
    return false;
  }
  bool members(char close, int depth) {
    blanks();
    if (take(close)) return true;
    for (;;) {
      blanks();
      if (close == '}' && !(string() && (blanks(), take(':')))) return false;
      blanks();
      if (!value(depth + 1)) return false;
      blanks();
      if (take(close)) return true;
      if (!take(',')) return false;
    }
  }
  bool value(int depth) {
    if (depth > kDeepest) return false;
    if (take('{')) return members('}', depth);
    if (take('[')) return members(']', depth);
    if (peek() == '"') return string();
    return take("true") || take("false") || take("null") || number();
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

bool is_json(std::string_view text) { return Check(text).all(); }

}  // namespace profgpu
