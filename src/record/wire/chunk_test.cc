// What is written can be read, and what was hurt on the way is never taken for something else.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "record/wire/chunk_reader.h"
#include "record/wire/chunk_writer.h"
#include "record/wire/rows.h"

namespace profgpu::wire {
namespace {

using Random = std::mt19937_64;

// Values as they come in recordings: small ones, all sizes, or the same in all rows.
template <typename T>
T any_value(Random& random, int manner) {
  uint64_t bits = 0;
  if (manner == 1) bits = random() >> (random() % 64);
  if (manner == 2) bits = random();
  if constexpr (std::is_enum_v<T>) {
    return static_cast<T>(static_cast<std::underlying_type_t<T>>(bits));
  } else {
    return static_cast<T>(bits);
  }
}

template <typename Row>
struct Filler {
  Row& row;
  Random& random;
  const std::vector<int>& manner;
  size_t column = 0;
  int next() { return manner[column++ % manner.size()]; }
  template <typename T>
  void time(T Row::*m) { row.*m = any_value<T>(random, next()); }
  template <typename T>
  void plain(T Row::*m) { row.*m = any_value<T>(random, next()); }
  template <typename T>
  void delta(T Row::*m) { row.*m = any_value<T>(random, next()); }
  template <typename T, size_t N>
  void element(T (Row::*m)[N], int i) { (row.*m)[i] = any_value<T>(random, next()); }
};

template <typename Row>
struct Values {
  const Row& row;
  std::vector<uint64_t> all;
  template <typename T>
  void time(T Row::*m) { all.push_back(static_cast<uint64_t>(row.*m)); }
  template <typename T>
  void plain(T Row::*m) { all.push_back(static_cast<uint64_t>(row.*m)); }
  template <typename T>
  void delta(T Row::*m) { all.push_back(static_cast<uint64_t>(row.*m)); }
  template <typename A>
  void element(A Row::*m, int i) { all.push_back(static_cast<uint64_t>((row.*m)[i])); }
};

template <typename Row>
std::vector<uint64_t> values(const Row& row) {
  Values<Row> v{row, {}};
  Row::columns(v);
  return v.all;
}

template <typename Row>
std::vector<Row> random_rows(Random& random, size_t count) {
  std::vector<int> manner(8);
  for (int& m : manner) m = static_cast<int>(random() % 3);
  std::vector<Row> rows(count);
  for (Row& row : rows) {
    Filler<Row> filler{row, random, manner};
    Row::columns(filler);
  }
  return rows;
}

std::string header() {
  FileHeader h{{}, kFormatVersion, 0};
  std::copy(std::begin(kFileMagic), std::end(kFileMagic), h.magic);
  return {reinterpret_cast<const char*>(&h), sizeof h};
}

template <typename Row>
std::string chunk(const std::vector<Row>& rows) {
  std::string bytes(max_chunk_bytes<Row>(rows.size()), '\0');
  bytes.resize(put_chunk(rows.data(), rows.size(), reinterpret_cast<uint8_t*>(bytes.data())));
  return bytes;
}

// A chunk around any body.
std::string sealed(uint16_t kind, const std::string& body) {
  std::string bytes(sizeof(ChunkHeader), '\0');
  bytes += body;
  seal_chunk(reinterpret_cast<uint8_t*>(bytes.data()), static_cast<ChunkKind>(kind), body.size());
  return bytes;
}

std::string body_header(uint32_t rows) {
  const BodyHeader h{rows, 0, 0, 0};
  return {reinterpret_cast<const char*>(&h), sizeof h};
}

struct Walk {
  std::vector<ChunkView> chunks;
  uint64_t damaged_places = 0, damaged_bytes = 0, torn_bytes = 0;
};
Walk walk(const std::string& file) {
  Walk w;
  ChunkReader reader(file.data(), file.size());
  for (ChunkView c; reader.next(c);) w.chunks.push_back(c);
  w.damaged_places = reader.damaged_places();
  w.damaged_bytes = reader.damaged_bytes();
  w.torn_bytes = reader.torn_bytes();
  return w;
}

template <typename Row>
class EveryRow : public testing::Test {};
using AllRows = testing::Types<Property, ClockSync, ThreadRow, QueueRow, LaunchShape, DeviceRow, Kernel, Copy, Set,
                               Call, Sync, Overhead, Allocation, GraphLaunch, ExternalId, RangeEvent, CollectiveRow,
                               ThreadSample, ThreadWait, Drop, Window, Note>;
TYPED_TEST_SUITE(EveryRow, AllRows);

TYPED_TEST(EveryRow, comes_back_as_it_was) {
  Random random(7);
  for (const size_t count : {1, 2, 3, 64, 255, 1000, 4096}) {
    const std::vector<TypeParam> rows = random_rows<TypeParam>(random, count);
    const std::string bytes = chunk(rows);
    ASSERT_LE(bytes.size(), max_chunk_bytes<TypeParam>(count));
    const std::string file = header() + bytes;
    const Walk w = walk(file);
    ASSERT_EQ(w.chunks.size(), 1U);
    ASSERT_EQ(w.chunks[0].rows(), count);
    std::vector<TypeParam> read(count);
    ASSERT_TRUE(read_rows(w.chunks[0], read.data()));
    for (size_t i = 0; i < count; ++i) ASSERT_EQ(values(read[i]), values(rows[i])) << i;
  }
}

TYPED_TEST(EveryRow, has_times_in_its_header) {
  Random random(8);
  const auto rows = random_rows<TypeParam>(random, 100);
  const std::string file = header() + chunk(rows);
  BodyHeader h;
  std::memcpy(&h, file.data() + sizeof(FileHeader) + sizeof(ChunkHeader), sizeof h);
  EXPECT_LE(h.first_ns, h.last_ns);
}

TYPED_TEST(EveryRow, random_bodies_are_refused_or_read_within_bounds) {
  Random random(9);
  for (int round = 0; round < 3000; ++round) {
    std::string body = body_header(static_cast<uint32_t>(random() % 50));
    for (size_t n = random() % 200; n > 0; --n)
      body.push_back(static_cast<char>(random() % 2 == 0 ? random() % 6 : random() % 256));
    const std::string file = header() + sealed(static_cast<uint16_t>(TypeParam::kKind), body);
    const Walk w = walk(file);
    ASSERT_EQ(w.chunks.size(), 1U);
    std::vector<TypeParam> rows(w.chunks[0].rows());
    (void)read_rows(w.chunks[0], rows.data());
  }
}

// Kernels, names, notes and an end.
struct Sample {
  std::string file = header();
  std::vector<size_t> ends;  // of the chunks
  void add(const std::string& bytes) {
    file += bytes;
    ends.push_back(file.size());
  }
  Sample() {
    Random random(3);
    const StringRef names[] = {{1, 4, "gemm"}, {2, 0, ""}, {7, 6, "a\0b\xff\xfe\xfd"}};
    std::string strings(max_chunk_bytes<StringRef>(3, 10), '\0');
    strings.resize(put_chunk(names, 3, reinterpret_cast<uint8_t*>(strings.data())));
    add(strings);
    add(chunk(random_rows<Kernel>(random, 20)));
    add(chunk(random_rows<Note>(random, 2)));
    add(sealed(static_cast<uint16_t>(ChunkKind::kEnd), ""));
  }
};

TEST(Chunks, names_come_back) {
  const Sample sample;
  std::vector<std::pair<uint32_t, std::string>> names;
  StringRef rows[3];
  ASSERT_TRUE(read_rows(walk(sample.file).chunks[0], rows));
  for (const StringRef& row : rows) names.emplace_back(row.id, std::string(row.text, row.length));
  ASSERT_EQ(names.size(), 3U);
  EXPECT_EQ(names[0], (std::pair<uint32_t, std::string>(1, "gemm")));
  EXPECT_EQ(names[1], (std::pair<uint32_t, std::string>(2, "")));
  EXPECT_EQ(names[2], (std::pair<uint32_t, std::string>(7, std::string("a\0b\xff\xfe\xfd", 6))));
}

TEST(Chunks, payloads_come_back) {
  const PayloadRef payloads[] = {
      {1, 7, 1u << 24, 3, 3, "a\0b"}, {1, 7, ~uint64_t{0}, ~uint64_t{0}, 0, ""}, {9, 0, 5, 400, 2, "xy"}};
  std::string bytes(max_chunk_bytes<PayloadRef>(3, 5), '\0');
  bytes.resize(put_chunk(payloads, 3, reinterpret_cast<uint8_t*>(bytes.data())));
  const std::string file = header() + bytes;
  const ChunkView chunk = walk(file).chunks.at(0);
  EXPECT_EQ(chunk.kind, ChunkKind::kPayloads);
  PayloadRef rows[3];
  ASSERT_EQ(chunk.rows(), 3U);
  ASSERT_TRUE(read_rows(chunk, rows));
  for (size_t i = 0; i < 3; ++i) {
    const PayloadRef &p = rows[i], &wanted = payloads[i];
    EXPECT_EQ(std::tie(p.event, p.domain, p.schema, p.size),
              std::tie(wanted.event, wanted.domain, wanted.schema, wanted.size));
    EXPECT_EQ(std::string(p.text, p.length), std::string(wanted.text, wanted.length));
  }
}

TEST(Chunks, texts_longer_than_their_column_are_damage) {
  const StringRef names[] = {{1, 4, "gemm"}, {2, 3, "add"}};
  std::string bytes(max_chunk_bytes<StringRef>(2, 7), '\0');
  bytes.resize(put_chunk(names, 2, reinterpret_cast<uint8_t*>(bytes.data())));
  std::string body = bytes.substr(sizeof(ChunkHeader), bytes.size() - sizeof(ChunkHeader) - 1);
  body[body.size() - 7] = 6;   // the column's length, one less
  const std::string file = header() + sealed(static_cast<uint16_t>(ChunkKind::kStrings), body);
  StringRef rows[2];
  EXPECT_FALSE(read_rows(walk(file).chunks[0], rows));
}

TEST(Chunks, a_file_cut_anywhere_gives_the_whole_chunks_before_the_cut) {
  const Sample sample;
  for (size_t size = 0; size < sample.file.size(); ++size) {
    const std::string cut = sample.file.substr(0, size);
    ChunkReader reader(cut.data(), cut.size());
    if (size < sizeof(FileHeader)) {
      EXPECT_EQ(reader.state(), size == 0 ? FileState::kNotARecording : FileState::kCut);
      continue;
    }
    const Walk w = walk(cut);
    const auto whole = std::count_if(sample.ends.begin(), sample.ends.end(), [&](size_t end) { return end <= size; });
    ASSERT_EQ(w.chunks.size(), static_cast<size_t>(whole)) << size;
    EXPECT_EQ(w.torn_bytes, size - (whole == 0 ? sizeof(FileHeader) : sample.ends[static_cast<size_t>(whole) - 1]));
    EXPECT_EQ(w.damaged_places, 0U);
  }
}

TEST(Chunks, a_flipped_bit_costs_its_chunk_and_no_other) {
  const Sample sample;
  for (size_t at = sizeof(FileHeader); at < sample.file.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string hurt = sample.file;
      hurt[at] = static_cast<char>(hurt[at] ^ (1 << bit));
      const Walk w = walk(hurt);
      ASSERT_EQ(w.chunks.size(), sample.ends.size() - 1) << at << " " << bit;
      ASSERT_EQ(w.damaged_places + (w.torn_bytes > 0 ? 1 : 0), 1U);
    }
  }
}

TEST(Chunks, columns_that_came_later_are_skipped_and_missing_ones_keep_the_row_s_own_start) {
  Random random(5);
  std::vector<ThreadSample> rows = random_rows<ThreadSample>(random, 300);
  for (size_t i = 0; i < rows.size(); ++i) rows[i].time_ns = static_cast<int64_t>(i) * 1000;
  const std::string whole = chunk(rows);
  std::string body = whole.substr(sizeof(ChunkHeader));
  const std::string later = header() + sealed(27, body + std::string("\x09\x02zz", 4));
  std::vector<ThreadSample> read(300);
  ASSERT_TRUE(read_rows(walk(later).chunks[0], read.data()));
  EXPECT_EQ(values(read[299]), values(rows[299]));

  // An earlier writer that knew the time only.
  Column time;
  const auto* bytes = reinterpret_cast<const uint8_t*>(body.data());
  const uint8_t* end = take_column(bytes + sizeof(BodyHeader), bytes + body.size(), time);
  const std::string earlier = header() + sealed(27, body.substr(0, static_cast<size_t>(end - bytes)));
  std::vector<ThreadSample> old(300);
  ASSERT_TRUE(read_rows(walk(earlier).chunks[0], old.data()));
  EXPECT_EQ(old[299].time_ns, rows[299].time_ns);
  EXPECT_EQ(old[299].system_call, -1);
  EXPECT_EQ(old[299].user_ns, 0U);
}

TEST(Chunks, values_too_large_for_their_member_are_damage) {
  // Drop::of has 16 bits.
  std::string body = body_header(1);
  for (const uint64_t value : {uint64_t{1}, uint64_t{70000}, uint64_t{1}, uint64_t{1}}) {
    uint8_t text[kMaxVarintBytes];
    const auto length = static_cast<size_t>(put_varint(text, value) - text);
    body.push_back(static_cast<char>(Encoding::kPlain));
    body.push_back(static_cast<char>(length));
    body.append(reinterpret_cast<const char*>(text), length);
  }
  const std::string file = header() + sealed(32, body);
  Drop drop;
  EXPECT_FALSE(read_rows(walk(file).chunks[0], &drop));
}

TEST(Chunks, an_unknown_encoding_is_damage) {
  const std::string file = header() + sealed(32, body_header(1) + std::string("\x05\x01\x01", 3));
  Drop drop;
  EXPECT_FALSE(read_rows(walk(file).chunks[0], &drop));
}

TEST(Chunks, a_small_chunk_cannot_ask_for_a_million_rows) {
  const std::string file = header() + sealed(32, body_header(kMaxRows) + std::string("\x00\x01\x01", 3));
  EXPECT_EQ(walk(file).chunks[0].rows(), 0U);
}

TEST(Chunks, unknown_kinds_are_whole_chunks_like_others) {
  Sample sample;
  sample.add(sealed(999, "whatever"));
  const Walk w = walk(sample.file);
  ASSERT_EQ(w.chunks.size(), 5U);
  EXPECT_EQ(static_cast<int>(w.chunks[4].kind), 999);
}

TEST(Chunks, a_file_full_of_false_headers_is_read_in_time_that_grows_with_its_size) {
  std::string file = header();
  // Each says that all the rest of the file is its body.
  const size_t count = 1 << 18;
  for (size_t i = 0; i < count; ++i) {
    const ChunkHeader h{kChunkMagic, 16, 0, static_cast<uint32_t>((count - i - 1) * sizeof(ChunkHeader)), 1};
    file.append(reinterpret_cast<const char*>(&h), sizeof h);
  }
  const Walk w = walk(file);
  EXPECT_TRUE(w.chunks.empty());
  EXPECT_EQ(w.torn_bytes, file.size() - sizeof(FileHeader));
}

TEST(Chunks, other_files_are_told_from_ours) {
  const auto state = [](const std::string& file) { return ChunkReader(file.data(), file.size()).state(); };
  EXPECT_EQ(state(""), FileState::kNotARecording);
  EXPECT_EQ(state("{\"traceEvents\": []}"), FileState::kNotARecording);
  EXPECT_EQ(state(header()), FileState::kReadable);
  EXPECT_EQ(state("\x89PGT\n\x1a\n\x01"), FileState::kTextConverted);
  std::string newer = header();
  newer[8] = 2;
  EXPECT_EQ(state(newer), FileState::kNewer);
}

}  // namespace
}  // namespace profgpu::wire
