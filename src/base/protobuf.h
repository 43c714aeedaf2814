// Protocol buffers, written and read field by field (protobuf.dev/programming-guides/encoding).
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/varint.h"

namespace profgpu {

/// Fields in the order of the message; those that nobody asks for are passed over.
class ProtobufReader {
 public:
  /// `message` must outlive what text() gives.
  explicit ProtobufReader(std::string_view message) : rest_(message) {}

  /// Steps to the next field. False at the end of the message, and where it is broken.
  bool next() {
    text_ = {};
    number_ = 0;
    uint64_t tag = 0, length = 0;
    if (rest_.empty() || broken_) return false;
    if (!take_varint(rest_, tag) || tag >> 3 == 0 || tag >> 3 > kLastField) return fail();
    field_ = static_cast<uint32_t>(tag >> 3);
    switch (tag & 7) {
      case 0:
        return take_varint(rest_, number_) || fail();
      case 1:
        if (!take(8)) return fail();
        for (size_t i = 0; i < 8; ++i) number_ |= uint64_t{static_cast<unsigned char>(taken_[i])} << (8 * i);
        return true;
      case 2:
        if (!take_varint(rest_, length) || !take(length)) return fail();
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
  /// Of a varint or a fixed64; 0 for a text and for four bytes.
  [[nodiscard]] uint64_t number() const { return number_; }
  /// Of a double.
  [[nodiscard]] double real() const {
    double value;
    std::memcpy(&value, &number_, sizeof value);
    return value;
  }
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

  std::string_view rest_, taken_, text_;
  uint64_t number_ = 0;
  uint32_t field_ = 0;
  bool broken_ = false;
};

class ProtobufWriter {
 public:
  void number(uint32_t field, uint64_t value) { tag(field, 0), append_varint(bytes_, value); }
  /// int32 and int64: negative values take ten bytes, as the format wants it.
  void integer(uint32_t field, int64_t value) { number(field, static_cast<uint64_t>(value)); }
  void fixed64(uint32_t field, uint64_t value) {
    tag(field, 1);
    char bytes[8];
    for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(value >> (8 * i));
    bytes_.append(bytes, sizeof bytes);
  }
  void real(uint32_t field, double value) {
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    fixed64(field, bits);
  }
  void text(uint32_t field, std::string_view value) {
    tag(field, 2);
    append_varint(bytes_, value.size());
    bytes_ += value;
  }
  /// `fill` writes the fields of a message within this one.
  template <class Fill>
  void message(uint32_t field, Fill&& fill) {
    tag(field, 2);
    const size_t at = bytes_.size();
    bytes_ += '\0';
    fill();
    // Most messages are shorter than 128 bytes: their length fits the byte that was left for it.
    std::string length;
    append_varint(length, bytes_.size() - at - 1);
    bytes_.replace(at, 1, length);
  }

  [[nodiscard]] const std::string& bytes() const { return bytes_; }
  /// Fields that another writer wrote.
  void append(std::string_view fields) { bytes_ += fields; }
  void clear() { bytes_.clear(); }

 private:
  void tag(uint32_t field, uint32_t wire_type) { append_varint(bytes_, field << 3 | wire_type); }
  std::string bytes_;
};

}  // namespace profgpu
