// Text of a bounded length, built without allocation; what does not fit is cut. Always ends with NUL.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

namespace profgpu::inject {

template <size_t kBytes>
class Text {
 public:
  Text& operator<<(const char* more) {
    while (*more != 0 && length_ + 1 < kBytes) text_[length_++] = *more++;
    text_[length_] = 0;
    return *this;
  }
  Text& operator<<(char c) {
    const char more[2] = {c, 0};
    return *this << more;
  }
  Text& operator<<(int64_t number) {
    char digits[24];
    char* at = digits + sizeof digits;
    *--at = 0;
    uint64_t rest = number < 0 ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
    do *--at = static_cast<char>('0' + rest % 10);
    while ((rest /= 10) != 0);
    if (number < 0) *--at = '-';
    return *this << at;
  }
  Text& operator<<(uint32_t number) { return *this << static_cast<int64_t>(number); }

  [[nodiscard]] const char* c_str() const { return text_; }
  [[nodiscard]] size_t length() const { return length_; }
  [[nodiscard]] bool is_full() const { return length_ + 1 >= kBytes; }

 private:
  size_t length_ = 0;
  char text_[kBytes] = {};
};

}  // namespace profgpu::inject
