// Rows to a chunk, in memory that the caller has: no allocation.
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
  template <typename M>
  void time(M) { ++columns; }
  template <typename M>
  void plain(M) { ++columns; }
  template <typename M>
  void delta(M) { ++columns; }
  template <typename M>
  void element(M, int) { ++columns; }
};

/// Bytes that a chunk of so many rows takes at the most.
template <typename Row>
size_t max_chunk_bytes(size_t rows) {
  ColumnCount count;
  Row::columns(count);
  return sizeof(ChunkHeader) + sizeof(BodyHeader) +
         count.columns * (1 + kMaxVarintBytes + (rows + 1) * kMaxVarintBytes);
}

/// Puts the header before a body of `length` bytes that stands behind it. Returns the chunk's size.
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
    // A chunk has at least a byte a row beyond kMaxFreeRows: readers refuse it otherwise.
    if (constant && (count_ <= kMaxFreeRows || !first_column_)) encoding = Encoding::kConstant;
    first_column_ = false;
    *out_++ = static_cast<uint8_t>(encoding);
    // The length stands before the bytes in as few bytes as it could ever need; a varint may be longer than it must be.
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

/// Writes a chunk of 1 to kMaxRows rows at `out`, which has max_chunk_bytes<Row>(count). Returns its size in bytes.
template <typename Row>
size_t put_chunk(const Row* rows, size_t count, uint8_t* out) {
  uint8_t* const body = out + sizeof(ChunkHeader);
  ColumnWriter<Row> writer(rows, count, body + sizeof(BodyHeader));
  Row::columns(writer);
  const BodyHeader header{static_cast<uint32_t>(count), 0, writer.first_ns(), writer.last_ns()};
  __builtin_memcpy(body, &header, sizeof header);
  return seal_chunk(out, Row::kKind, static_cast<size_t>(writer.end() - body));
}

/// A name and the number that rows use for it.
struct StringRef {
  uint32_t id;
  uint32_t length;
  const char* text;
};
inline size_t max_string_chunk_bytes(size_t strings, size_t text_bytes) {
  return sizeof(ChunkHeader) + sizeof(BodyHeader) + 3 * (1 + kMaxVarintBytes) + 2 * (strings + 1) * kMaxVarintBytes +
         text_bytes;
}

/// A chunk of rows that end in bytes: the columns that `columns` writes, then `text` of `length` of all, one after the
/// other.
template <typename Row, typename Columns>
size_t put_text_chunk(ChunkKind kind, const Row* rows, size_t count, uint8_t* out, Columns columns) {
  uint8_t* const body = out + sizeof(ChunkHeader);
  ColumnWriter<Row> writer(rows, count, body + sizeof(BodyHeader));
  columns(writer);
  uint8_t* end = writer.end();
  uint64_t bytes = 0;
  for (size_t i = 0; i < count; ++i) bytes += rows[i].length;
  *end++ = static_cast<uint8_t>(Encoding::kBytes);
  end = put_varint(end, bytes);
  for (size_t i = 0; i < count; ++i) {
    __builtin_memcpy(end, rows[i].text, rows[i].length);
    end += rows[i].length;
  }
  const BodyHeader header{static_cast<uint32_t>(count), 0, 0, 0};
  __builtin_memcpy(body, &header, sizeof header);
  return seal_chunk(out, kind, static_cast<size_t>(end - body));
}

/// A chunk of names: columns id (delta), length (plain), text (bytes).
inline size_t put_string_chunk(const StringRef* strings, size_t count, uint8_t* out) {
  return put_text_chunk(ChunkKind::kStrings, strings, count, out, [](ColumnWriter<StringRef>& writer) {
    writer.delta(&StringRef::id);
    writer.plain(&StringRef::length);
  });
}

/// A chunk of payloads. `Row` has PayloadRef's members.
template <typename Row>
size_t put_payload_chunk(const Row* rows, size_t count, uint8_t* out) {
  return put_text_chunk(ChunkKind::kPayloads, rows, count, out, [](ColumnWriter<Row>& writer) {
    writer.delta(&Row::event);
    writer.plain(&Row::domain);
    writer.plain(&Row::schema);
    writer.plain(&Row::size);
    writer.plain(&Row::length);
  });
}
inline size_t max_payload_chunk_bytes(size_t payloads, size_t text_bytes) {
  return sizeof(ChunkHeader) + sizeof(BodyHeader) + 6 * (1 + kMaxVarintBytes) + 5 * (payloads + 1) * kMaxVarintBytes +
         text_bytes;
}

}  // namespace profgpu::wire
