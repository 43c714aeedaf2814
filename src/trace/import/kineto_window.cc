#include "trace/import/kineto_window.h"

#include "trace/import/kineto.h"

namespace profgpu {
namespace {

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

// Whether `at`, a '{', follows the end of another object in a list. Inside a string this could only be if the string
// held `},{` and then ended, which leaves no valid key; looks_like_event() checks that one follows.
bool after_object(const char* begin, const char* at) {
  const char* p = at;
  while (p > begin && is_space(p[-1])) --p;
  if (p == begin || p[-1] != ',') return false;
  --p;
  while (p > begin && is_space(p[-1])) --p;
  return p > begin && p[-1] == '}';
}

// Skips a whole value that is no event, as null. False: it is none, or its end cannot be told from damage.
bool skip_other(JsonReader& reader, const char* end) {
  JsonReader value(reader.position(), end);
  if (!value.skip_value()) return false;
  const char next = value.peek();
  if (next == ',' || next == ']') reader.seek(value.position());
  return next == ',' || next == ']';
}

}  // namespace

bool looks_like_event(const char* at, const char* end) {
  if (at >= end || *at != '{') return false;
  ++at;
  while (at < end && is_space(*at)) ++at;
  const std::string_view rest(at, static_cast<size_t>(end - at));
  for (const std::string_view key : {"\"ph\"", "\"name\"", "\"cat\"", "\"pid\"", "\"ts\"", "\"tid\"", "\"args\""})
    if (rest.starts_with(key)) return true;
  return false;
}

void Window::reserve(size_t size) {
  if (size <= capacity_) return;
  auto bigger = std::make_unique_for_overwrite<char[]>(size + kJsonPadding);
  if (size_ > 0) std::memcpy(bigger.get(), text_.get(), size_);
  text_ = std::move(bigger);
  capacity_ = size;
}

void Window::fill(TextSource& source, size_t size) {
  if (size > size_) {
    reserve(size);
    size_ += source.read(text_.get() + size_, size - size_);
  }
  reserve(size_);
  std::memset(text_.get() + size_, 0, kJsonPadding);
}

void Window::assign(const char* from, const char* to) {
  size_ = 0;
  const auto bytes = static_cast<size_t>(to - from);
  reserve(bytes);
  if (bytes > 0) std::memcpy(text_.get(), from, bytes);
  size_ = bytes;
}

size_t Window::last_event() const {
  const char* at = end();
  while (at > begin()) {
    at = static_cast<const char*>(memrchr(begin(), '{', static_cast<size_t>(at - begin())));
    if (at == nullptr || at == begin()) return 0;
    if (looks_like_event(at, end()) && after_object(begin(), at)) return static_cast<size_t>(at - begin());
  }
  return 0;
}

size_t Window::next_event(size_t from) const {
  const char* at = begin() + from;
  while (at < end()) {
    at = static_cast<const char*>(memchr(at, '{', static_cast<size_t>(end() - at)));
    if (at == nullptr) return size_;
    if (looks_like_event(at, end()) && after_object(begin(), at)) return static_cast<size_t>(at - begin());
    ++at;
  }
  return size_;
}

WindowResult parse_window(KinetoEvents& events, const Window& window, bool last) {
  WindowResult result;
  JsonReader reader(window.begin(), window.end());
  for (;;) {
    const char c = reader.peek();
    const auto offset = static_cast<size_t>(reader.position() - window.begin());
    if (c == 0 && offset >= window.size()) {
      result.offset = window.size();
      return result;
    }
    if (c == ',') {
      reader.seek(reader.position() + 1);
      continue;
    }
    if (c == '{' && events.read(reader)) continue;
    if (c == ']') {
      JsonReader after(reader.position() + 1, window.end());
      const char next = after.peek();
      if (next == 0 || next == ',' || next == '}') {
        result.end = WindowResult::End::kArrayEnd;
        result.offset = offset;
        return result;
      }
    }
    if (c != '{' && skip_other(reader, window.end())) {
      ++result.damaged;
      continue;
    }
    // Something else, a damaged event, or one that the text ends in. The last is what a cut leaves, unless whole
    // events follow.
    const bool cut = c == '{' && reader.at_end();
    const size_t next = cut && !last ? window.size() : window.next_event(offset + 1);
    if (cut && next == window.size()) {
      result.end = WindowResult::End::kUnfinished;
      result.offset = offset;
      return result;
    }
    ++result.damaged;
    reader.seek(window.begin() + next);
  }
}

}  // namespace profgpu
