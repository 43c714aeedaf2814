// Against zlib: the same text from the same bytes, whole, cut and damaged.
#include "base/inflate.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <random>
#include <string>
#include <vector>

namespace profgpu {
namespace {

struct Inflated {
  std::string text;
  bool whole = false;
  size_t used = 0;   // of the input, where it is whole
  bool operator==(const Inflated&) const = default;
};

void PrintTo(const Inflated& i, std::ostream* out) {
  *out << i.text.size() << " bytes of text from " << i.used << (i.whole ? ", whole" : ", not whole");
}

// No more than `piece` bytes of input at once beyond those that the inflater asks for.
Inflated inflated(Inflater& inflater, const std::string& bytes, size_t piece, Inflater::State* end = nullptr) {
  Inflated result;
  const auto* begin = reinterpret_cast<const uint8_t*>(bytes.data());
  const uint8_t* at = begin;
  inflater.reset();
  for (;;) {
    const size_t used = static_cast<size_t>(at - begin), given = std::min(bytes.size() - used, Inflater::kLookahead + piece);
    const auto state = inflater.inflate(at, at + given, used + given == bytes.size());
    result.text += inflater.text();
    if (state == Inflater::State::kMoreInput || state == Inflater::State::kMoreRoom) continue;
    result.whole = state == Inflater::State::kEnd;
    result.used = result.whole ? static_cast<size_t>(at - begin) : 0;
    if (end != nullptr) *end = state;
    return result;
  }
}

Inflated inflated_by_zlib(const std::string& bytes) {
  Inflated result;
  z_stream z{};
  inflateInit2(&z, -15);
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  z.avail_in = static_cast<uInt>(bytes.size());
  std::string piece(1 << 16, '\0');
  int rc = Z_OK;
  while (rc == Z_OK) {
    z.next_out = reinterpret_cast<Bytef*>(piece.data());
    z.avail_out = static_cast<uInt>(piece.size());
    rc = inflate(&z, Z_NO_FLUSH);
    result.text.append(piece, 0, piece.size() - z.avail_out);
  }
  result.whole = rc == Z_STREAM_END;
  result.used = result.whole ? z.total_in : 0;
  inflateEnd(&z);
  return result;
}

std::string deflated(const std::string& text, int level, int strategy) {
  std::string out(compressBound(text.size()) + 64, '\0');
  z_stream z{};
  deflateInit2(&z, level, Z_DEFLATED, -15, 8, strategy);
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  deflate(&z, Z_FINISH);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

std::string noise(size_t size, unsigned letters, unsigned seed) {
  std::mt19937 random(seed);
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(random() % letters);
  return text;
}

// Text like a trace's; noise; codes of every length; matches of every short distance, of the longest, and of a run.
std::vector<std::string> texts() {
  std::string trace, skewed, near;
  for (int i = 0; i < 8000; ++i)
    trace += "{\"ph\": \"X\", \"ts\": " + std::to_string(i * 7919 % 100003) + ", \"name\": \"aten::op_" + std::to_string(i % 97) + "\"},\n";
  for (int length = 0; length < 17; ++length) skewed.append(size_t{1} << length, static_cast<char>('a' + length));
  for (size_t distance = 1; distance < 40; ++distance) {
    near += noise(distance, 256, static_cast<unsigned>(distance));
    for (int i = 0; i < 300; ++i) near += near[near.size() - distance];
  }
  const std::string far = noise(32768, 256, 1);
  return {"", "a", trace, noise(100000, 256, 2), noise(100000, 3, 3), skewed, near, far + far + far, std::string(400000, 'x')};
}

TEST(Inflater, GivesWhatZlibGivesForEveryWayToDeflate) {
  Inflater inflater;   // one for all: nothing of a stream stays
  const std::vector<std::string> all = texts();
  for (size_t i = 0; i < all.size(); ++i)
    for (const int level : {0, 1, 9})
      for (const int strategy : {Z_DEFAULT_STRATEGY, Z_FILTERED, Z_HUFFMAN_ONLY, Z_RLE, Z_FIXED})
        for (const size_t piece : {1, 1 << 20}) {
          const std::string bytes = deflated(all[i], level, strategy);
          EXPECT_EQ(inflated(inflater, bytes + "more", piece), (Inflated{all[i], true, bytes.size()}))
              << "text " << i << ", level " << level << ", strategy " << strategy << ", pieces of " << piece;
        }
}

TEST(Inflater, ACutStreamGivesWhatItsBitsSay) {
  Inflater inflater;
  const std::string text = texts()[2].substr(0, 3000);
  for (const int strategy : {Z_DEFAULT_STRATEGY, Z_HUFFMAN_ONLY, Z_FIXED})
    for (const int level : {0, 6}) {
      const std::string bytes = deflated(text, level, strategy);
      for (size_t size = 0; size < bytes.size(); ++size) {
        const std::string cut = bytes.substr(0, size);
        Inflater::State end{};
        EXPECT_EQ(inflated(inflater, cut, 1, &end), inflated_by_zlib(cut)) << size;
        EXPECT_EQ(end, Inflater::State::kTruncated) << size;
      }
    }
}

TEST(Inflater, DamageIsFoundWhereZlibFindsIt) {
  Inflater inflater;
  std::mt19937 random(4);
  for (const std::string& text : texts()) {
    const std::string good = deflated(text.substr(0, 20000), 6, Z_DEFAULT_STRATEGY);
    for (int i = 0; i < 1500; ++i) {
      std::string bytes = good;
      for (size_t flips = 1 + random() % 3; flips > 0; --flips)
        bytes[(random() % 2 != 0 ? random() % 64 : random()) % bytes.size()] ^= static_cast<char>(1U << random() % 8);
      ASSERT_EQ(inflated(inflater, bytes, 1 << 16), inflated_by_zlib(bytes));
    }
  }
}

// Codes that no deflater makes: too many, too few, single ones, invalid symbols, distances before the text.
TEST(Inflater, NoiseIsReadAsZlibReadsIt) {
  Inflater inflater;
  for (unsigned seed = 0; seed < 40000; ++seed) {
    std::string bytes = noise(20 + seed % 200, 256, seed);
    bytes[0] = static_cast<char>((bytes[0] & ~7) | (seed % 4 == 0 ? 2 : 4));   // fixed codes, or the stream's own; not the last block
    ASSERT_EQ(inflated(inflater, bytes, 1 << 16), inflated_by_zlib(bytes)) << seed;
  }
}

}  // namespace
}  // namespace profgpu
