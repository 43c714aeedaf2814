// Bytes to a file descriptor through a bounded buffer.
#pragma once

#include <atomic>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

namespace profgpu {

/// The first error is kept, and what comes after it is dropped: callers look at it once, in the end, or from time to
/// time in order to stop early. The descriptor stays the caller's. Call flush() last.
class ByteWriter {
 public:
  /// `written`, if given, always says how many bytes have left the buffer.
  explicit ByteWriter(int fd, std::atomic<int64_t>* written = nullptr) : fd_(fd), written_(written) {
    buffer_.reserve(kBufferBytes + kBufferBytes / 4);
  }
  ByteWriter(const ByteWriter&) = delete;
  ByteWriter& operator=(const ByteWriter&) = delete;

  ByteWriter& put(std::string_view bytes) {
    buffer_.append(bytes);
    if (buffer_.size() >= kBufferBytes) flush();
    return *this;
  }
  ByteWriter& put(char byte) { return put(std::string_view(&byte, 1)); }
  ByteWriter& put_number(int64_t n) {
    char digits[24];
    return put(std::string_view(digits, static_cast<size_t>(std::to_chars(digits, digits + sizeof digits, n).ptr - digits)));
  }

  /// 0, or the errno of the first write that failed.
  int flush();
  [[nodiscard]] int error() const { return error_; }

 private:
  static constexpr size_t kBufferBytes = 256 << 10;
  int fd_;
  int error_ = 0;
  std::atomic<int64_t>* written_;
  std::string buffer_;
};

}  // namespace profgpu
