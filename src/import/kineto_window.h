// Windows of a long array of events, and the threads that parse them.
#pragma once

#include <condition_variable>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/text_source.h"
#include "import/kineto_event.h"
#include "trace/trace_builder.h"

namespace profgpu {

constexpr size_t kWindowBytes = 1 << 20;
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

/// Parses windows on threads of its own, in whatever order they get to them.
class WindowPipeline {
 public:
  /// `last` is that window's result; meaningful after finish().
  struct Outcome {
    bool wrong_cut = false;       ///< a window that was not the last ended within an event or the array
    int64_t damaged = 0;
    WindowResult last;
    std::unique_ptr<Window> last_window;
  };

  WindowPipeline(TraceBuilder& builder, int threads);
  ~WindowPipeline() { stop(); }
  void submit(std::unique_ptr<Window> window, bool last);
  /// An empty window, used before if there is one.
  std::unique_ptr<Window> empty_window();
  [[nodiscard]] bool failed();
  Outcome finish();

 private:
  struct Job {
    std::unique_ptr<Window> window;
    uint32_t order = 0;
    bool last = false;
  };
  void work(Shard& shard);
  void stop();

  std::mutex mutex_;
  std::condition_variable has_work_, has_room_;
  std::deque<Job> jobs_;
  std::vector<std::unique_ptr<Window>> free_;
  std::vector<std::thread> threads_;
  Outcome outcome_;
  uint32_t next_order_ = 0;
  bool closed_ = false;
};

}  // namespace profgpu
