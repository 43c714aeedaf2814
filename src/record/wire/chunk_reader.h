// The chunks of a recording in memory, and the rows of a chunk. Accepts any bytes: whatever is not a whole, undamaged
// chunk is skipped and counted. No allocation.
//
// Budget: 2 ns a value, 15 ns a kernel row, on one core of 2020; the checksum is 0.5 ns a byte.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/varint.h"
#include "record/wire/crc32c.h"
#include "record/wire/format.h"
#include "record/wire/rows.h"

namespace profgpu::wire {

enum class FileState : uint8_t {
  kReadable,
  kNotARecording,  ///< other bytes at the start
  kTextConverted,  ///< our magic with converted line ends
  kCut,            ///< ends within the file header
  kNewer,          ///< a version that this reader would misread
};

/// A whole chunk with the right checksum, in the file's bytes.
struct ChunkView {
  ChunkKind kind{};
  const uint8_t* body = nullptr;
  size_t length = 0;
  size_t offset = 0;  ///< of its header in the file

  /// The number of rows it claims; 0 if its body is too short for a body header or that many rows.
  uint32_t rows() const {
    BodyHeader header;
    if (length < sizeof header) return 0;
    __builtin_memcpy(&header, body, sizeof header);
    if (header.rows > kMaxRows || header.rows > length + kMaxFreeRows) return 0;
    return header.rows;
  }
};

/// Walks the chunks of a file. After damage it continues at the next whole chunk, if there is one.
class ChunkReader {
 public:
  ChunkReader(const void* file, size_t size)
      : data_(static_cast<const uint8_t*>(file)), size_(size), search_budget_(8 * uint64_t{size} + kMaxBodyBytes) {
    state_ = examine();
    at_ = state_ == FileState::kReadable ? sizeof(FileHeader) : size_;
  }

  FileState state() const { return state_; }
  uint32_t version() const { return version_; }

  /// False at the end of what can be read.
  bool next(ChunkView& chunk) {
    if (at_ == size_) return false;
    if (take(at_, chunk)) return true;
    const size_t from = at_;
    for (size_t at = from + 1; at + sizeof(ChunkHeader) <= size_ && search_budget_ > 0; ++at) {
      at = next_magic(at);
      if (at == size_ || !take(at, chunk)) continue;
      ++damaged_places_;
      damaged_bytes_ += at - from;
      return true;
    }
    torn_bytes_ = size_ - from;
    at_ = size_;
    return false;
  }

  /// How often bytes were skipped before a whole chunk, and how many bytes.
  uint64_t damaged_places() const { return damaged_places_; }
  uint64_t damaged_bytes() const { return damaged_bytes_; }
  /// Bytes at the end of the file after the last whole chunk. Known once next() was false.
  uint64_t torn_bytes() const { return torn_bytes_; }

 private:
  FileState examine() {
    size_t same = 0;
    while (same < sizeof kFileMagic && same < size_ && data_[same] == kFileMagic[same]) ++same;
    if (same < sizeof kFileMagic) {
      if (same == size_ && size_ > 0) return FileState::kCut;
      return same >= 4 ? FileState::kTextConverted : FileState::kNotARecording;
    }
    if (size_ < sizeof(FileHeader)) return FileState::kCut;
    FileHeader header;
    __builtin_memcpy(&header, data_, sizeof header);
    version_ = header.version;
    return version_ > kFormatVersion ? FileState::kNewer : FileState::kReadable;
  }

  // Offset of the next magic at or after `at`; size_ if there is none.
  size_t next_magic(size_t at) const {
    for (; at + sizeof(ChunkHeader) <= size_; ++at) {
      uint32_t magic;
      __builtin_memcpy(&magic, data_ + at, sizeof magic);
      if (magic == kChunkMagic) return at;
    }
    return size_;
  }

  bool take(size_t at, ChunkView& chunk) {
    ChunkHeader header;
    if (size_ - at < sizeof header) return false;
    __builtin_memcpy(&header, data_ + at, sizeof header);
    const uint8_t* const body = data_ + at + sizeof header;
    if (header.magic != kChunkMagic || header.length > kMaxBodyBytes || header.length > size_ - at - sizeof header)
      return false;
    const uint32_t sum = crc32c(0, &header, offsetof(ChunkHeader, checksum));
    if (crc32c(sum, body, header.length) != header.checksum) {
      // Bytes crafted to look like chunk headers must not cost a checksum of the rest of the file each.
      search_budget_ -= search_budget_ < header.length ? search_budget_ : header.length;
      return false;
    }
    chunk = {static_cast<ChunkKind>(header.kind), body, header.length, at};
    at_ = at + sizeof header + header.length;
    return true;
  }

  const uint8_t* data_;
  size_t size_;
  size_t at_ = 0;
  FileState state_ = FileState::kNotARecording;
  uint32_t version_ = 0;
  uint64_t search_budget_;
  uint64_t damaged_places_ = 0, damaged_bytes_ = 0, torn_bytes_ = 0;
};

/// One column of a chunk: where its bytes are.
struct Column {
  Encoding encoding{};
  const uint8_t* begin = nullptr;
  const uint8_t* end = nullptr;
};

/// Takes the column that begins at `at`; returns its end, or null if it does not fit before `end`.
inline const uint8_t* take_column(const uint8_t* at, const uint8_t* end, Column& column) {
  if (at == end) return nullptr;
  column.encoding = static_cast<Encoding>(*at++);
  uint64_t length = 0;
  at = get_varint(at, end, length);
  if (at == nullptr || length > static_cast<uint64_t>(end - at)) return nullptr;
  column.begin = at;
  column.end = at + length;
  return column.end;
}

/// Fills one member of each row after the other, as Row::columns names them.
template <typename Row>
class RowReader {
 public:
  RowReader(const ChunkView& chunk, Row* rows, uint32_t count)
      : at_(chunk.body + sizeof(BodyHeader)), end_(chunk.body + chunk.length), rows_(rows), count_(count) {}

  template <typename T>
  void time(T Row::*member) { plain(member); }
  template <typename T>
  void delta(T Row::*member) { plain(member); }
  template <typename T>
  void plain(T Row::*member) {
    column([=](Row& row) -> T& { return row.*member; });
  }
  template <typename T, size_t N>
  void element(T (Row::*member)[N], int index) {
    column([=](Row& row) -> T& { return (row.*member)[index]; });
  }

  /// The last column: how many of its bytes are a row's is in the row's length.
  void texts() {
    Column column;
    if (good_) good_ = take_column(at_, end_, column) != nullptr && column.encoding == Encoding::kBytes;
    const uint8_t* at = column.begin;
    for (uint32_t i = 0; good_ && i < count_; ++i) {
      good_ = rows_[i].length <= static_cast<uint64_t>(column.end - at);
      rows_[i].text = reinterpret_cast<const char*>(at);
      at += good_ ? rows_[i].length : 0;
    }
  }

  bool good() const { return good_; }

 private:
  template <typename Get>
  void column(Get get) {
    // An earlier writer did not know the column: its rows keep the row type's default.
    if (!good_ || at_ == end_) return;
    Column column;
    const uint8_t* const after = take_column(at_, end_, column);
    good_ = after != nullptr && column.encoding <= Encoding::kDelta && values(column, get);
    at_ = after;
  }

  template <typename Get>
  bool values(const Column& column, Get get) {
    const uint8_t* at = column.begin;
    uint64_t value = 0;
    if (column.encoding == Encoding::kConstant) {
      if (get_varint(at, column.end, value) == nullptr) return false;
      for (uint32_t i = 0; i < count_; ++i)
        if (!put(get(rows_[i]), from_zigzag(value))) return false;
      return true;
    }
    const bool zigzagged = column.encoding != Encoding::kPlain;
    const uint64_t keep = column.encoding == Encoding::kDelta ? ~uint64_t{0} : 0;
    for (uint32_t i = 0; i < count_; ++i) {
      uint64_t read = 0;
      if (at != column.end && *at < 0x80) {
        read = *at++;
      } else if (at = get_varint(at, column.end, read); at == nullptr) {
        return false;
      }
      value = (value & keep) + (zigzagged ? from_zigzag(read) : read);
      if (!put(get(rows_[i]), value)) return false;
    }
    return true;
  }

  // A value too large for the member is damage.
  template <typename T>
  static bool put(T& member, uint64_t value) {
    member = static_cast<T>(value);
    return static_cast<uint64_t>(member) == value;
  }

  const uint8_t* at_;
  const uint8_t* end_;
  Row* rows_;
  uint32_t count_;
  bool good_ = true;
};

/// Fills rows[0 .. chunk.rows()), which the caller has set to Row{}; their texts are in the file's bytes. False: the
/// chunk is damaged although its checksum is right, or uses a later encoding.
template <typename Row>
bool read_rows(const ChunkView& chunk, Row* rows) {
  const uint32_t count = chunk.rows();
  if (count == 0) return chunk.length >= sizeof(BodyHeader);
  RowReader<Row> reader(chunk, rows, count);
  Row::columns(reader);
  if constexpr (requires { Row::kHasText; }) reader.texts();
  return reader.good();
}

}  // namespace profgpu::wire
