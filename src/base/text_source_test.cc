#include "base/text_source.h"

#include <gtest/gtest.h>
#include <zstd.h>

#include "tests/support/test_folder.h"
#include "tests/support/zlib_text.h"

namespace profgpu {
namespace {

std::string sample() {
  std::string text;
  for (int i = 0; i < 200000; ++i) text += std::to_string(i * 7919 % 100003) + ",";
  return text;
}

std::string gzip(const std::string& text) { return deflated(text, 15 + 16); }

std::string zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

class TextSourceTest : public testing::Test {
 protected:
  // What reading a file of these bytes gives, in pieces of an odd size.
  std::string read(const std::string& bytes) {
    auto source = open_text(folder_.write("text", bytes));
    EXPECT_TRUE(source);
    std::string text;
    char piece[4099];
    while ((*source)->end() == TextSource::End::kOpen) text.append(piece, (*source)->read(piece, sizeof piece));
    end_ = (*source)->end();
    problem_ = (*source)->problem();
    return text;
  }
  const TestFolder folder_;
  std::string problem_;
  TextSource::End end_ = TextSource::End::kOpen;
};

TEST_F(TextSourceTest, PlainGzipAndZstdGiveTheSameText) {
  const std::string text = sample();
  for (const std::string& bytes : {text, gzip(text), zstd(text)}) {
    EXPECT_EQ(read(bytes), text);
    EXPECT_EQ(end_, TextSource::End::kComplete);
  }
}

TEST_F(TextSourceTest, GzipMembersFollowEachOtherAndPaddingIsIgnored) {
  EXPECT_EQ(read(gzip("one ") + gzip("two")), "one two");
  EXPECT_EQ(end_, TextSource::End::kComplete);
  EXPECT_EQ(read(gzip("one") + std::string(512, '\0')), "one");
  EXPECT_EQ(end_, TextSource::End::kComplete);
}

TEST_F(TextSourceTest, ACutFileGivesWhatItHoldsAndSaysSo) {
  const std::string text = sample();
  for (const std::string& bytes : {gzip(text), zstd(text)}) {
    const std::string got = read(bytes.substr(0, bytes.size() / 2));
    EXPECT_EQ(end_, TextSource::End::kTruncated);
    EXPECT_GT(got.size(), text.size() / 8);
    EXPECT_TRUE(text.starts_with(got));
  }
}

TEST_F(TextSourceTest, DamageIsFoundAndWhatCameBeforeIsKept) {
  std::string bytes = gzip(sample());
  for (size_t i = bytes.size() / 2; i < bytes.size() / 2 + 40; ++i) bytes[i] = static_cast<char>(~bytes[i]);
  EXPECT_GT(read(bytes).size(), 100000U);
  EXPECT_EQ(end_, TextSource::End::kDamaged);
  EXPECT_EQ(problem_, "has damaged compressed data");
}

TEST_F(TextSourceTest, ChecksumAndLengthOfEveryGzipMemberAreChecked) {
  const std::string text = sample(), first = gzip(text), whole = first + gzip("two");
  for (const size_t end : {first.size(), whole.size()}) {
    for (size_t back = 1; back <= 8; ++back) {
      std::string bytes = whole;
      bytes[end - back] = static_cast<char>(bytes[end - back] ^ 1);
      EXPECT_EQ(read(bytes), end == first.size() ? text : text + "two") << back;
      EXPECT_EQ(end_, TextSource::End::kDamaged) << back;
    }
  }
}

// Input is read in blocks of 256 KiB; a trailer may lie in two of them.
TEST_F(TextSourceTest, AGzipTrailerMayBeCutByAnInputBlock) {
  std::string noise(256 << 10, '\0');
  uint32_t state = 1;
  for (char& c : noise) c = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  const size_t more = gzip(noise).size() - noise.size();
  for (size_t left = 0; left <= 24; ++left) {
    const std::string text = noise.substr(more + 8 - std::min<size_t>(left, more + 8));
    EXPECT_EQ(read(gzip(text) + gzip("two")), text + "two") << left;
    EXPECT_EQ(end_, TextSource::End::kComplete) << left;
  }
}

TEST_F(TextSourceTest, ErrorsNameTheFile) {
  EXPECT_NE(open_text("/nonexistent/file").error().message.find("/nonexistent/file"), std::string::npos);
  EXPECT_NE(open_text("/").error().message.find("not a regular file"), std::string::npos);
  EXPECT_EQ(read(""), "");
  EXPECT_EQ(end_, TextSource::End::kComplete);
}

TEST_F(TextSourceTest, Utf16WithItsMark) {
  const std::string little("\xff\xfe" "a\0\xe9\0\x3d\xd8\0\xde" "\n\0", 12), big("\xfe\xff\0a\0\xe9\xd8\x3d\xde\0\0\n", 12);
  for (const std::string& bytes : {little, big}) {
    EXPECT_EQ(read(bytes), "a\u00e9\U0001F600\n");
    EXPECT_EQ(end_, TextSource::End::kComplete);
  }
  EXPECT_EQ(read(std::string("\xff\xfe" "b\0\x3d\xd8" "a\0", 8)), "b\uFFFDa");
  for (const char* dirt : {"\xff\xfe\nstep", "\xfe\xff" "ab"}) EXPECT_EQ(read(dirt), dirt);
  std::string longer = "\xff\xfe";
  for (int i = 0; i < 1'000'000; ++i) longer += static_cast<char>('a' + i % 26), longer += '\0';
  const std::string text = read(longer);
  EXPECT_EQ(text.size(), 1'000'000u);
  EXPECT_EQ(text.back(), static_cast<char>('a' + 999'999 % 26));
}

}  // namespace
}  // namespace profgpu
