#include "base/gzip.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <random>
#include <string>
#include <vector>

#include "tests/support/zlib_text.h"

namespace profgpu {

namespace {

std::string inflated(const std::string& gzip, size_t most) {
  z_stream z{};
  inflateInit2(&z, 15 + 16);
  std::string out(most, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(gzip.data()));
  z.avail_in = static_cast<uInt>(gzip.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(inflate(&z, Z_FINISH), Z_STREAM_END);
  out.resize(z.total_out);
  inflateEnd(&z);
  return out;
}

TEST(Gzip, IsReadByZlib) {
  std::string text;
  for (uint32_t i = 0; i < 100'000; ++i) text += static_cast<char>(i * i % 251);
  EXPECT_EQ(inflated(gzipped(text), text.size() + 1), text);
  EXPECT_EQ(inflated(gzipped({}), 1), "");
  EXPECT_LT(gzipped(std::string(100'000, 'a')).size(), 1000U);
}

// RFC 4648, section 10.
TEST(Gzip, Base64HasTheStandardsVectors) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foo"), "Zm9v");
  EXPECT_EQ(base64("foob"), "Zm9vYg==");
  EXPECT_EQ(base64("fooba"), "Zm9vYmE=");
  EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(base64("\xff\xfe\xfd"), "//79");
  for (const char* text : {"", "f", "fo", "foo", "foob", "fooba", "foobar", "\xff\xfe\xfd"})
    EXPECT_EQ(from_base64(base64(text)), text);
  for (const char* wrong : {"=", "Zg", "Zg=", "Zg===", "Zh==", "Z", "Zg==Zg==", "Zm9v ", "Zm9*", "Zm9v\n"})
    EXPECT_FALSE(from_base64(wrong)) << wrong;
}

}  // namespace

// Both ways to inflate: the same text from the same bytes, whole, cut and damaged.

namespace {

struct Inflated {
  std::string text;
  Inflater::State state = Inflater::State::kOpen;
  size_t used = 0;   // of the input
};

// No more than `piece` bytes of input and `room` bytes of output at once.
Inflated inflated(Inflater& inflater, const std::string& bytes, size_t piece, size_t room = 4099) {
  Inflated result;
  const auto* const begin = reinterpret_cast<const uint8_t*>(bytes.data());
  const uint8_t *at = begin, *const end = begin + bytes.size();
  std::string text(room, '\0');
  inflater.reset();
  for (bool moved = true; moved && result.state == Inflater::State::kOpen;) {
    const uint8_t* const from = at;
    auto* out = reinterpret_cast<uint8_t*>(text.data());
    auto* const first = out;
    result.state = inflater.inflate(at, at + std::min<size_t>(piece, static_cast<size_t>(end - at)), out, out + room);
    result.text.append(text, 0, static_cast<size_t>(out - first));
    moved = at != from || out != first;
  }
  result.used = static_cast<size_t>(at - begin);
  return result;
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
    trace += "{\"ph\": \"X\", \"ts\": " + std::to_string(i * 7919 % 100003) + ", \"name\": \"aten::op_" +
             std::to_string(i % 97) + "\"},\n";
  for (int length = 0; length < 17; ++length) skewed.append(size_t{1} << length, static_cast<char>('a' + length));
  for (size_t distance = 1; distance < 40; ++distance) {
    near += noise(distance, 256, static_cast<unsigned>(distance));
    for (int i = 0; i < 300; ++i) near += near[near.size() - distance];
  }
  const std::string far = noise(32768, 256, 1);
  return {"",     "a",  trace,           noise(100000, 256, 2),   noise(100000, 3, 3),
          skewed, near, far + far + far, std::string(400000, 'x')};
}

class Inflating : public testing::TestWithParam<bool> {
 protected:
  const std::unique_ptr<Inflater> inflater_ = Inflater::make(GetParam());   // one for all: nothing of a stream stays
};
INSTANTIATE_TEST_SUITE_P(Both, Inflating, testing::Values(false, true));

TEST_P(Inflating, GivesTheTextOfEveryWayToDeflate) {
  const std::vector<std::string> all = texts();
  for (size_t i = 0; i < all.size(); ++i)
    for (const int level : {0, 1, 9})
      for (const int strategy : {Z_DEFAULT_STRATEGY, Z_FILTERED, Z_HUFFMAN_ONLY, Z_RLE, Z_FIXED})
        for (const size_t piece : {3, 1 << 20}) {
          const std::string bytes = deflated(all[i], -15, level, strategy);
          const Inflated got = inflated(*inflater_, bytes + "more than eight bytes", piece);
          EXPECT_TRUE(got.text == all[i] && got.state == Inflater::State::kEnd && got.used == bytes.size())
              << "text " << i << ", level " << level << ", strategy " << strategy << ", pieces of " << piece;
        }
}

TEST_P(Inflating, OfACutStreamItGivesTheBeginning) {
  const std::string text = texts()[2].substr(0, 3000);
  for (const int strategy : {Z_DEFAULT_STRATEGY, Z_HUFFMAN_ONLY, Z_FIXED})
    for (const int level : {0, 6}) {
      const std::string bytes = deflated(text, -15, level, strategy);
      for (size_t size = 0; size < bytes.size(); ++size) {
        const Inflated got = inflated(*inflater_, bytes.substr(0, size), 7);
        EXPECT_TRUE(text.starts_with(got.text) && got.state == Inflater::State::kOpen && got.used == size) << size;
      }
    }
}

TEST_P(Inflating, DamageEndsIt) {
  std::mt19937 random(4);
  int found = 0;
  for (const std::string& text : texts()) {
    const std::string good = deflated(text.substr(0, 20000), -15);
    for (int i = 0; i < 500; ++i) {
      std::string bytes = good;
      for (size_t flips = 1 + random() % 3; flips > 0; --flips)
        bytes[(random() % 2 != 0 ? random() % 64 : random()) % bytes.size()] ^= static_cast<char>(1U << random() % 8);
      found += inflated(*inflater_, bytes, 1 << 16).state == Inflater::State::kDamaged;
    }
  }
  EXPECT_GT(found, 500);
}

// Codes that no deflater makes: too many, too few, single ones, invalid symbols, distances before the text.
TEST_P(Inflating, NoiseDoesNoHarm) {
  for (unsigned seed = 0; seed < 8000; ++seed) {
    std::string bytes = noise(20 + seed % 200, 256, seed);
    bytes[0] = static_cast<char>((bytes[0] & ~7) |
                                 (seed % 4 == 0 ? 2 : 4));  // fixed codes, or the stream's own; not the last block
    EXPECT_LE(inflated(*inflater_, bytes, 1 << 16).used, bytes.size());
  }
}

}  // namespace

}  // namespace profgpu
