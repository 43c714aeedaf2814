// Bytes to a file descriptor through a bounded buffer.
#pragma once

#include <atomic>
#include <charconv>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace profgpu {

/// The first error is kept, and what comes after it is dropped: callers look at it once, in the end, or from time to
/// time in order to stop early. The descriptor stays the caller's. Call flush() or close() last.
class ByteWriter {
 public:
  /// `written`, if given, always says how many bytes have left the buffer.
  explicit ByteWriter(int fd, std::atomic<int64_t>* written = nullptr);
  ~ByteWriter();
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
    return put(
        std::string_view(digits, static_cast<size_t>(std::to_chars(digits, digits + sizeof digits, n).ptr - digits)));
  }

  /// 0, or the errno of the first write that failed.
  int flush();
  /// Everything from the first byte on leaves as gzip (RFC 1952). Call before anything is put, and close() in the end.
  void compress();
  /// flush(), and the end of what is compressed.
  int close();
  [[nodiscard]] int error() const { return error_; }

 private:
  static constexpr size_t kBufferBytes = 256 << 10;
  class Gzip;
  void write(std::string_view bytes);
  void deflate(bool last);

  int fd_;
  int error_ = 0;
  std::atomic<int64_t>* written_;
  std::string buffer_;
  std::unique_ptr<Gzip> gzip_;   // null: bytes leave as they are
};

}  // namespace profgpu
