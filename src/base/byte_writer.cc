#include "base/byte_writer.h"

#include <unistd.h>

#include <cerrno>

namespace profgpu {

int ByteWriter::flush() {
  std::string_view left = buffer_;
  while (!left.empty() && error_ == 0) {
    const ssize_t n = ::write(fd_, left.data(), left.size());
    if (n >= 0) {
      left.remove_prefix(static_cast<size_t>(n));
    } else if (errno != EINTR) {
      error_ = errno;
    }
  }
  if (written_ != nullptr && error_ == 0) *written_ += static_cast<int64_t>(buffer_.size());
  buffer_.clear();
  return error_;
}

}  // namespace profgpu
