// Windows of a long array of events.
#pragma once

#include <cstring>
#include <memory>

#include "base/text_source.h"
#include "trace/import/kineto_event.h"

namespace profgpu {

constexpr size_t kWindowBytes = 256 << 10;   // stays in a core's second cache between reading and parsing
constexpr size_t kLongestEvent = 16 << 20;

/// A piece of text, followed by the padding that JsonReader needs.
class Window {
 public:
  [[nodiscard]] const char* begin() const { return text_.get(); }
  [[nodiscard]] const char* end() const { return text_.get() + size_; }
  [[nodiscard]] size_t size() const { return size_; }

  /// Reads until `size` bytes are there or the source ends.
  void fill(TextSource& source, size_t size);
  void assign(const char* from, const char* to);
  void truncate(size_t size) { size_ = size; }
  void drop_front(size_t bytes) {
    std::memmove(text_.get(), text_.get() + bytes, size_ - bytes);
    size_ -= bytes;
  }
  /// Offset of the last place where an event seems to start, not counting the window's own start; 0 if there is none.
  [[nodiscard]] size_t last_event() const;
  /// Offset of the first such place after `from`; size() if there is none.
  [[nodiscard]] size_t next_event(size_t from) const;

 private:
  void reserve(size_t size);
  std::unique_ptr<char[]> text_;
  size_t size_ = 0, capacity_ = 0;
};

struct WindowResult {
  enum class End { kAllRead, kUnfinished, kArrayEnd };
  End end = End::kAllRead;
  size_t offset = 0;      ///< of the unfinished event or the closing bracket
  int64_t damaged = 0;    ///< places skipped
};

/// Reads the events of a window that begins at an event. `last`: no text follows it.
WindowResult parse_window(KinetoEvents& events, const Window& window, bool last);

}  // namespace profgpu
