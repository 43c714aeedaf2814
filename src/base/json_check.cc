#include "base/json_check.h"

#include <cstddef>

namespace profgpu {
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
    if (!take('u')) return std::string_view("\"\\/bfnrt").find(peek()) != std::string_view::npos && at_++ < text_.size();
    for (int i = 0; i < 4; ++i, ++at_)
      if (std::string_view("0123456789abcdefABCDEF").find(peek()) == std::string_view::npos || at_ == text_.size()) return false;
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
