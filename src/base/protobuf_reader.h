// Protocol buffers, read field by field (protobuf.dev/programming-guides/encoding): texts and messages. Numbers and
// fields that nobody asks for are passed over.
#pragma once

#include <cstdint>
#include <string_view>

namespace profgpu {

class ProtobufReader {
 public:
  /// `message` must outlive what text() gives.
  explicit ProtobufReader(std::string_view message) : rest_(message) {}

  /// Steps to the next field. False at the end of the message, and where it is broken.
  bool next() {
    text_ = {};
    uint64_t tag = 0, length = 0;
    if (rest_.empty() || broken_) return false;
    if (!varint(tag) || tag >> 3 == 0 || tag >> 3 > kLastField) return fail();
    field_ = static_cast<uint32_t>(tag >> 3);
    switch (tag & 7) {
      case 0:
        return varint(length) || fail();
      case 1:
        return take(8) || fail();
      case 2:
        if (!varint(length) || !take(length)) return fail();
        text_ = taken_;
        return true;
      case 5:
        return take(4) || fail();
      default:
        return fail();  // groups, which proto3 has none of
    }
  }
  [[nodiscard]] uint32_t field() const { return field_; }
  /// Of a text or a message; empty for a number.
  [[nodiscard]] std::string_view text() const { return text_; }
  /// The message is cut, or a length in it lies.
  [[nodiscard]] bool broken() const { return broken_; }

 private:
  static constexpr uint64_t kLastField = (1U << 29) - 1;
  bool fail() {
    broken_ = true;
    return false;
  }
  bool take(uint64_t bytes) {
    if (bytes > rest_.size()) return false;
    taken_ = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return true;
  }
  bool varint(uint64_t& value) {
    value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (!take(1)) return false;
      const auto byte = static_cast<uint8_t>(taken_.front());
      if (shift == 63 && byte > 1) return false;  // over 64 bits
      value |= uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }

  std::string_view rest_, taken_, text_;
  uint32_t field_ = 0;
  bool broken_ = false;
};

}  // namespace profgpu
