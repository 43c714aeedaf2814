// Protocol buffers, written field by field (protobuf.dev/programming-guides/encoding).
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace profgpu {

class ProtobufWriter {
 public:
  void number(uint32_t field, uint64_t value) { tag(field, 0), varint(value); }
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
    varint(value.size());
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
    const std::string length = varint_text(bytes_.size() - at - 1);
    bytes_.replace(at, 1, length);
  }

  [[nodiscard]] const std::string& bytes() const { return bytes_; }
  /// Fields that another writer wrote.
  void append(std::string_view fields) { bytes_ += fields; }
  void clear() { bytes_.clear(); }

 private:
  void tag(uint32_t field, uint32_t wire_type) { varint(field << 3 | wire_type); }
  static std::string varint_text(uint64_t n) {
    std::string out;
    for (; n >= 0x80; n >>= 7) out += static_cast<char>(n | 0x80);
    return out += static_cast<char>(n);
  }
  void varint(uint64_t n) {
    for (; n >= 0x80; n >>= 7) bytes_ += static_cast<char>(n | 0x80);
    bytes_ += static_cast<char>(n);
  }
  std::string bytes_;
};

}  // namespace profgpu
