#include "base/text_block.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace profgpu {
namespace {

// Whatever a block's width is, its answers are those of its bytes looked at one by one.
class TextBlockTest : public testing::Test {
 protected:
  template <class Answer, class Expected>
  void check(Answer&& answer, Expected&& expected) {
    for (size_t at = 0; at + TextBlock::kBytes <= text_.size(); ++at) {
      unsigned bits = 0;
      for (size_t i = 0; i < TextBlock::kBytes; ++i)
        bits |= static_cast<unsigned>(expected(static_cast<unsigned char>(text_[at + i]))) << i;
      ASSERT_EQ(TextBlock::bits(answer(TextBlock(text_.data() + at))), bits) << "at " << at;
    }
  }
  void SetUp() override {
    std::mt19937 random(1);
    for (int byte = 0; byte < 256; ++byte) text_.push_back(static_cast<char>(byte));
    const std::string_view often = " \t\r\n\"\\{}[],:";
    for (int i = 0; i < 4096; ++i)
      text_.push_back(i % 2 == 0 ? often[random() % often.size()] : static_cast<char>(random()));
  }
  std::string text_;
};

TEST_F(TextBlockTest, FindsBytes) {
  for (const char c : {'"', '\\', '\0', '\x7F', '\x80', '\xFF'})
    check([c](const TextBlock& b) { return b.is(c); },
          [c](unsigned char x) { return x == static_cast<unsigned char>(c); });
  check([](const TextBlock& b) { return b.is('"') | b.is('\\'); },
        [](unsigned char x) { return x == '"' || x == '\\'; });
  check([](const TextBlock& b) { return b.bracket(); },
        [](unsigned char x) { return x == '[' || x == ']' || x == '{' || x == '}'; });
  check([](const TextBlock& b) { return b.high(); }, [](unsigned char x) { return x >= 0x80; });
  for (const char c : {'\x1F', ',', '\x7F', '\xF0'})
    check([c](const TextBlock& b) { return b.up_to(c); },
          [c](unsigned char x) { return x <= static_cast<unsigned char>(c); });
  check([](const TextBlock& b) { return b.ink(); },
        [](unsigned char x) { return x != ' ' && x != '\t' && x != '\n' && x != '\r'; });
}

TEST_F(TextBlockTest, ComparesBeginnings) {
  const std::string same(text_);
  for (size_t at = 0; at + TextBlock::kBytes <= 512; ++at)
    for (size_t count = 1; count <= TextBlock::kBytes; ++count) {
      EXPECT_TRUE(TextBlock(text_.data() + at).begins_as(same.data() + at, count));
      std::string other = same.substr(at, TextBlock::kBytes);
      other[count - 1] = static_cast<char>(other[count - 1] ^ 1);
      EXPECT_FALSE(TextBlock(text_.data() + at).begins_as(other.data(), count));
      other = same.substr(at, TextBlock::kBytes);
      if (count < TextBlock::kBytes) other[count] = static_cast<char>(other[count] ^ 1);
      EXPECT_TRUE(TextBlock(text_.data() + at).begins_as(other.data(), count));
    }
}

TEST_F(TextBlockTest, FindStopsAtTheFirstOrTheEnd) {
  const std::string text = std::string(37, 'x') + "\"" + std::string(30, '"');
  const auto quote = [](const TextBlock& b) { return b.is('"'); };
  EXPECT_EQ(find(text.data(), text.data() + 50, quote), text.data() + 37);
  EXPECT_EQ(find(text.data(), text.data() + 30, quote), text.data() + 30);
}

}  // namespace
}  // namespace profgpu
