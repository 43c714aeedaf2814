// Rows to a chunk, in the caller's memory: no allocation.
//
// Budget: 25 ns a kernel row on one core of 2020.
#pragma once

#include "base/varint.h"
#include "record/wire/crc32c.h"
#include "record/wire/format.h"

namespace profgpu::wire {

// Counts columns, for the size that a chunk can have.
struct ColumnCount {
  size_t columns = 0;
  void time(auto) { ++columns; }
  void plain(auto) { ++columns; }
  void delta(auto) { ++columns; }
  void element(auto, int) { ++columns; }
};

/// The maximum size of a chunk with so many rows, whose texts have `text_bytes` together.
template <typename Row>
size_t max_chunk_bytes(size_t rows, size_t text_bytes = 0) {
  ColumnCount count;
  Row::columns(count);
  const size_t text = requires { Row::kHasText; } ? 1 + kMaxVarintBytes + text_bytes : 0;
  return sizeof(ChunkHeader) + sizeof(BodyHeader) + count.columns * (1 + kMaxVarintBytes + (rows + 1) * kMaxVarintBytes) +
         text;
}

/// Puts the header in front of a body of `length` bytes. Returns the chunk's size.
inline size_t seal_chunk(uint8_t* chunk, ChunkKind kind, size_t length) {
  ChunkHeader header{kChunkMagic, static_cast<uint16_t>(kind), 0, static_cast<uint32_t>(length), 0};
  uint32_t sum = crc32c(0, &header, offsetof(ChunkHeader, checksum));
  header.checksum = crc32c(sum, chunk + sizeof header, length);
  __builtin_memcpy(chunk, &header, sizeof header);
  return sizeof header + length;
}

template <typename Row>
class ColumnWriter {
 public:
  ColumnWriter(const Row* rows, size_t count, uint8_t* out) : rows_(rows), count_(count), out_(out) {}

  template <typename T>
  void time(T Row::*member) {
    for (size_t i = 0; i < count_; ++i) {
      const auto t = static_cast<int64_t>(rows_[i].*member);
      if (i == 0 || t < first_ns_) first_ns_ = t;
      if (i == 0 || t > last_ns_) last_ns_ = t;
    }
    delta(member);
  }
  template <typename T>
  void plain(T Row::*member) {
    column([=](const Row& row) { return static_cast<uint64_t>(row.*member); }, Encoding::kPlain);
  }
  template <typename T>
  void delta(T Row::*member) {
    column([=](const Row& row) { return static_cast<uint64_t>(row.*member); }, Encoding::kDelta);
  }
  template <typename A>
  void element(A Row::*member, int index) {
    column([=](const Row& row) { return static_cast<uint64_t>((row.*member)[index]); }, Encoding::kPlain);
  }

  uint8_t* end() const { return out_; }
  int64_t first_ns() const { return first_ns_; }
  int64_t last_ns() const { return last_ns_; }

 private:
  template <typename Get>
  void column(Get get, Encoding encoding) {
    bool constant = true;
    const uint64_t first = get(rows_[0]);
    uint64_t signs = 0;
    for (size_t i = 0; i < count_; ++i) {
      const uint64_t value = get(rows_[i]);
      constant = constant && value == first;
      signs |= value;
    }
    if (encoding == Encoding::kPlain && (signs >> 63) != 0) encoding = Encoding::kZigzag;
    // Readers refuse a chunk with less than a byte per row beyond kMaxFreeRows.
    if (constant && (count_ <= kMaxFreeRows || !first_column_)) encoding = Encoding::kConstant;
    first_column_ = false;
    *out_++ = static_cast<uint8_t>(encoding);
    // The length precedes the bytes, in as many bytes as it could ever need: a varint may be longer than necessary.
    uint8_t* const length_at = out_;
    out_ += kLengthBytes;
    uint8_t* const begin = out_;
    if (encoding == Encoding::kConstant) {
      out_ = put_varint(out_, zigzag(first));
    } else if (encoding == Encoding::kPlain) {
      for (size_t i = 0; i < count_; ++i) out_ = put_varint(out_, get(rows_[i]));
    } else if (encoding == Encoding::kZigzag) {
      for (size_t i = 0; i < count_; ++i) out_ = put_varint(out_, zigzag(get(rows_[i])));
    } else {
      uint64_t before = 0;
      for (size_t i = 0; i < count_; ++i) {
        const uint64_t value = get(rows_[i]);
        out_ = put_varint(out_, zigzag(value - before));
        before = value;
      }
    }
    put_length(length_at, static_cast<uint32_t>(out_ - begin));
  }

  static constexpr size_t kLengthBytes = 4;
  static_assert(kMaxBodyBytes < 1u << (7 * kLengthBytes));
  static void put_length(uint8_t* at, uint32_t length) {
    for (size_t i = 0; i + 1 < kLengthBytes; ++i, length >>= 7) at[i] = static_cast<uint8_t>(length | 0x80);
    at[kLengthBytes - 1] = static_cast<uint8_t>(length & 0x7f);
  }

  const Row* rows_;
  size_t count_;
  uint8_t* out_;
  bool first_column_ = true;
  int64_t first_ns_ = 0, last_ns_ = 0;
};

/// The texts of rows, as the last column.
template <typename Row>
uint8_t* put_texts(const Row* rows, size_t count, uint8_t* out) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < count; ++i) bytes += rows[i].length;
  *out++ = static_cast<uint8_t>(Encoding::kBytes);
  out = put_varint(out, bytes);
  for (size_t i = 0; i < count; ++i) {
    __builtin_memcpy(out, rows[i].text, rows[i].length);
    out += rows[i].length;
  }
  return out;
}

/// Writes a chunk of 1 to kMaxRows rows at `out`, which has max_chunk_bytes<Row>(). Returns its size in bytes.
template <typename Row>
size_t put_chunk(const Row* rows, size_t count, uint8_t* out) {
  uint8_t* const body = out + sizeof(ChunkHeader);
  ColumnWriter<Row> writer(rows, count, body + sizeof(BodyHeader));
  Row::columns(writer);
  uint8_t* end = writer.end();
  if constexpr (requires { Row::kHasText; }) end = put_texts(rows, count, end);
  const BodyHeader header{static_cast<uint32_t>(count), 0, writer.first_ns(), writer.last_ns()};
  __builtin_memcpy(body, &header, sizeof header);
  return seal_chunk(out, Row::kKind, static_cast<size_t>(end - body));
}

}  // namespace profgpu::wire
