#include "base/json_reader.h"

#include <gtest/gtest.h>

#include <random>

#include <simdjson.h>

namespace profgpu {
namespace {

struct Padded {
  explicit Padded(std::string s) : size(s.size()), text(std::move(s)) { text.append(kJsonPadding, '\0'); }
  [[nodiscard]] JsonReader reader() const { return {text.data(), text.data() + size}; }
  size_t size;
  std::string text;
};

bool accepts(const std::string& text) {
  const Padded padded(text);
  JsonReader reader = padded.reader();
  return reader.skip_value() && reader.peek() == 0;
}

TEST(JsonReader, ReadsAnObject) {
  const Padded text(R"( {"a": "x\"y", "b": [1, -2.5e3, null], "c": {}} )");
  JsonReader reader = text.reader();
  std::string seen;
  EXPECT_TRUE(read_object(reader, [&](std::string_view key) {
    std::string_view raw;
    const bool ok = reader.raw_value(raw);
    seen += std::string(key) + "=" + std::string(raw) + ";";
    return ok;
  }));
  EXPECT_EQ(seen, R"(a="x\"y";b=[1, -2.5e3, null];c={};)");
}

TEST(JsonReader, TellsCutTextFromMalformedText) {
  for (const char* cut : {"{", "{\"a", "{\"a\"", "{\"a\":", "{\"a\":1", "{\"a\":[1,", "\"abc", "\"abc\\", "12"}) {
    const Padded text(cut);
    JsonReader reader = text.reader();
    EXPECT_FALSE(reader.skip_value()) << cut;
    EXPECT_TRUE(reader.at_end()) << cut;
  }
  for (const char* bad : {"{1:2} ", "[\"a\" 2] ", "{\"a\" 1} ", "[}", "{]", "] "}) {
    const Padded text(bad);
    JsonReader reader = text.reader();
    EXPECT_FALSE(reader.skip_value()) << bad;
    EXPECT_FALSE(reader.at_end()) << bad;
  }
}

TEST(JsonReader, DepthIsLimited) {
  EXPECT_TRUE(accepts(std::string(200, '[') + std::string(200, ']')));
  EXPECT_FALSE(accepts(std::string(200000, '[') + std::string(200000, ']')));
}

TEST(JsonReader, StringsOfEveryLengthAroundTheStride) {
  for (size_t n = 0; n < 70; ++n) {
    for (const char* end : {"", "\\\"", "\\\\"}) {
      const std::string body = std::string(n, 'x') + end;
      const Padded text("\"" + body + "\" ");
      JsonReader reader = text.reader();
      JsonString token;
      ASSERT_TRUE(reader.string(token)) << n;
      EXPECT_EQ(token.raw, body);
      EXPECT_EQ(token.escaped, *end != 0);
      EXPECT_FALSE(token.non_ascii);
    }
  }
}

TEST(JsonReader, Unescapes) {
  int64_t replaced = 0;
  EXPECT_EQ(unescaped({R"(a\n\t\"\\\/)", true, false}, replaced), "a\n\t\"\\/");
  EXPECT_EQ(unescaped({R"(\u00e9\u20ac\ud83d\ude00)", true, false}, replaced), "é€😀");
  EXPECT_EQ(replaced, 0);
  EXPECT_EQ(unescaped({R"(\ud83d-\ude00)", true, false}, replaced), "\uFFFD-\uFFFD");
  EXPECT_EQ(unescaped({R"(\uZZZZ)", true, false}, replaced), "\uFFFDZZZZ");
  EXPECT_EQ(unescaped({"a\xff\xfe", false, true}, replaced), "a\uFFFD\uFFFD");
  EXPECT_EQ(replaced, 5);
}

TEST(JsonReader, SkipsArraysOfStringsAndNumbersAsOneValue) {
  for (size_t n = 0; n < 40; ++n)
    for (const char* array : {R"(["", ""])", R"(["[16, 1]", "a\\", "\"]", "{"])", R"([["a","b"] , [1, 2, []], "c"])",
                              R"([ "a" , "b" ])", R"([{"a": "]"}, "b"])"}) {
      const Padded text(std::string(n, ' ') + array + "!");
      JsonReader reader = text.reader();
      std::string_view raw;
      EXPECT_TRUE(reader.raw_value(raw)) << array;
      EXPECT_EQ(raw, array);
      EXPECT_EQ(reader.peek(), '!') << array;
    }
  for (const char* bad : {R"(["a" "b"] )", R"(["a"" , "b"] )", R"(["a, "b"] )", R"(["a" 2] )", R"([1 "a"] )"})
    EXPECT_FALSE(accepts(bad)) << bad;
}

// Whatever simdjson takes we take; what we do not check (literals, escapes) we may take as well.
TEST(JsonReader, AgreesWithSimdjsonOnMutatedText) {
  const std::string seed =
      R"({"traceEvents":[{"ph":"X","ts":1.5,"args":{"a":[1,2,{"b":null}],"c":"d\\\"e"}},{"x":true}],"k":-1e5})";
  std::mt19937 random(11);
  int valid = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = seed;
    for (unsigned k = random() % 3; k-- > 0;) text[random() % text.size()] = "{}[],:\"\\ 1ax"[random() % 12];
    simdjson::dom::parser parser;
    if (parser.parse(text).error() != simdjson::SUCCESS) continue;
    ++valid;
    EXPECT_TRUE(accepts(text)) << text;
  }
  EXPECT_GT(valid, 1000);
}

}  // namespace
}  // namespace profgpu
