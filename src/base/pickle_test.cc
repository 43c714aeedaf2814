#include "base/pickle.h"

#include <gtest/gtest.h>

#include <map>

namespace profgpu {
namespace {

using namespace std::string_literals;

class Bytes : public TextSource {
 public:
  Bytes(std::string text, size_t piece) : text_(std::move(text)), piece_(piece) {}
  size_t read(char* buffer, size_t size) override {
    size_t done = 0;
    while (done < size && at_ < text_.size()) {
      const size_t n = std::min({piece_, size - done, text_.size() - at_});
      std::copy_n(text_.data() + at_, n, buffer + done);
      at_ += n, done += n;
    }
    if (at_ == text_.size()) end_ = End::kComplete;
    return done;
  }

 private:
  std::string text_;
  size_t piece_, at_ = 0;
};

/// Keeps texts; dicts with a key "row" become rows of table 1, lists of such rows stay.
struct TestSink {
  std::vector<std::string> texts;
  std::map<std::string, uint32_t, std::less<>> ids;
  std::vector<int64_t> rows;

  uint32_t text(std::string_view t) {
    const auto [at, fresh] = ids.try_emplace(std::string(t), static_cast<uint32_t>(texts.size()));
    if (fresh) texts.emplace_back(t);
    return at->second;
  }
  std::string_view text_of(uint32_t id) { return texts[id]; }
  PickleValue dict(const PickleObjects& objects, PickleValue, std::span<const PickleValue> pairs) {
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      if (!pairs[i].is(PickleKind::kText) || texts[pairs[i].index()] != "row") continue;
      rows.push_back(objects.integer(pairs[i + 1]).value_or(-1));
      return PickleValue::rows(1, static_cast<uint32_t>(rows.size() - 1));
    }
    return {};
  }
  PickleValue sequence(const PickleObjects&, PickleValue, std::span<const PickleValue>) { return {}; }
};

/// As Python prints it; bounded, since references may be cyclic.
std::string shown(const PickleObjects& objects, const TestSink& sink, PickleValue v, int depth = 0) {
  if (depth > 6) return "...";
  v = objects.resolved(v);
  const auto listed = [&](std::string_view open, std::string_view close) {
    std::string out(open);
    for (const PickleValue item : objects.items(v))
      out += (out.size() > 1 ? ", " : "") + shown(objects, sink, item, depth + 1);
    return out + std::string(close);
  };
  switch (v.kind()) {
    case PickleKind::kNothing: return "nothing";
    case PickleKind::kNone: return "None";
    case PickleKind::kBool: return v.index() != 0 ? "True" : "False";
    case PickleKind::kInteger: return std::to_string(v.inline_integer());
    case PickleKind::kWide:
      if (const auto whole = objects.integer(v)) return std::to_string(*whole);
      return std::to_string(objects.number(v).value_or(-1));
    case PickleKind::kText: return "'" + sink.texts[v.index()] + "'";
    case PickleKind::kSequence: return listed("[", "]");
    case PickleKind::kDict: return listed("{", "}");
    case PickleKind::kRows: {
      std::string out;
      for (uint32_t i = 0; i < v.count(); ++i)
        out += (i > 0 ? ", #" : "#") + std::to_string(sink.rows[v.row() + i]);
      return out;
    }
  }
  return "?";
}

struct Outcome {
  std::string text;    ///< or the error
  bool cut = false;
  size_t rows = 0;
};

Outcome outcome(const std::string& pickle, size_t piece = 1 << 20) {
  Bytes source(pickle, piece);
  TestSink sink;
  PickleReader<TestSink> reader(source, sink);
  const auto read = reader.read();
  if (!read) return {"error: " + read.error().message};
  return {shown(reader.objects(), sink, read->root), read->cut, sink.rows.size()};
}

std::string value_of(const std::string& pickle) { return outcome(pickle).text; }

TEST(Pickle, ReadsNumbers) {
  EXPECT_EQ(value_of("\x80\x04K\x07."s), "7");
  EXPECT_EQ(value_of("M\x34\x12."s), "4660");
  EXPECT_EQ(value_of("J\xff\xff\xff\xff."s), "-1");
  EXPECT_EQ(value_of("\x8a\x00."s), "0");
  EXPECT_EQ(value_of("\x8a\x06\x00\x00\x00\x00\x00\x7f."s), "139637976727552");
  EXPECT_EQ(value_of("\x8a\x01\x80."s), "-128");
  EXPECT_EQ(value_of("\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f."s), "9223372036854775807");
  EXPECT_EQ(value_of("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00."s), "18446744073709551616.000000");
  EXPECT_EQ(value_of("\x8b\x01\x00\x00\x00\x05."s), "5");
  EXPECT_EQ(value_of("G\x3f\xf8\x00\x00\x00\x00\x00\x00."s), "1.500000");
  EXPECT_EQ(value_of("(\x88\x89Nt."s), "[True, False, None]");
}

TEST(Pickle, ReadsOldProtocols) {
  EXPECT_EQ(value_of("(lp0\nI1\naI01\naL5L\naF2.5\naS'a\\'b'\np1\naVc\\u00e9\nag1\na."),
            "[1, True, 5, 2.500000, 'a'b', 'c\xc3\xa9', 'a'b']");
  EXPECT_EQ(value_of("(dp0\nS'k'\nI3\ns."), "{'k', 3}");
  EXPECT_EQ(value_of("(U\x01" "ad."s), "error: damaged pickle at byte 5: a key has no value");
}

TEST(Pickle, ReadsContainersAndSharedObjects) {
  EXPECT_EQ(value_of("\x80\x04]\x94(K\x01\x8c\x01x\x94h\x01K\x02K\x03\x86\x94h\x02\x65."s), "[1, 'x', 'x', [2, 3], [2, 3]]");
  EXPECT_EQ(value_of("\x80\x02}q\x00(X\x01\x00\x00\x00kq\x01]q\x02(h\x01\x65u."s), "{'k', ['k']}");
  EXPECT_EQ(value_of(")."), "[]");
}

TEST(Pickle, CyclicReferencesStayReferences) {
  EXPECT_EQ(value_of("]\x94h\x00\x61."s), "[[[[[[[...]]]]]]]");
  EXPECT_EQ(value_of("}\x94\x8c\x01k\x94h\x00s."s).substr(0, 12), "{'k', {'k', ");
}

std::string row(int x) { return "}\x94\x8c\x03row\x94K"s + static_cast<char>(x) + "s"; }

TEST(Pickle, RowsThatFollowEachOtherAreOneItem) {
  Bytes source("]\x94("s + row(3) + row(4) + row(5) + "h\x01\x65."s, 1 << 20);
  TestSink sink;
  PickleReader<TestSink> reader(source, sink);
  const auto read = reader.read();
  ASSERT_TRUE(static_cast<bool>(read));
  const auto items = reader.objects().items(read->root);
  ASSERT_EQ(items.size(), 2U);
  EXPECT_EQ(items[0], PickleValue::rows(1, 0, 3));
  EXPECT_EQ(items[1], PickleValue::rows(1, 0));
  EXPECT_EQ(value_of("("s + row(3) + row(4) + row(5) + "\x87."s), "[#3, #4, #5]");
  EXPECT_EQ(value_of("("s + row(3) + row(4) + "0\x85."s), "[#3]");
}

TEST(Pickle, RowsThatComeInPiecesAreOneItem) {
  Bytes source("]\x94("s + row(3) + row(4) + "e("s + row(5) + row(6) + "e" + row(7) + "a."s, 1 << 20);
  TestSink sink;
  PickleReader<TestSink> reader(source, sink);
  const auto read = reader.read();
  ASSERT_TRUE(static_cast<bool>(read));
  const auto items = reader.objects().items(read->root);
  ASSERT_EQ(items.size(), 1U);
  EXPECT_EQ(items[0], PickleValue::rows(1, 0, 5));
  // A dict keeps its pairs.
  EXPECT_EQ(value_of("}("s + "\x8c\x01" "a" + row(1) + "\x8c\x01" "b" + row(2) + "u("s + "\x8c\x01" "c" + row(3) + "u."s),
            "{'a', #1, 'b', #2, 'c', #3}");
}

TEST(Pickle, ADictThatIsReferredToBeforeItIsCompleteBecomesItsRow) {
  // A list within the dict refers to the dict; both are seen again behind it.
  EXPECT_EQ(value_of("(}\x94(\x8c\x03row\x94K\x05\x8c\x01l\x94]\x94h\x00\x61uh\x00h\x03t."s), "[#5, #5, [#5]]");
}

TEST(Pickle, DoesNotDependOnTheSizeOfPieces) {
  std::string pickle = "\x80\x04]\x94("s;
  for (int i = 0; i < 20; ++i) pickle += row(i) + "\x8a\x06\x00\x00\x00\x00\x00\x7f"s + "\x8c\x05hello"s;
  pickle += "X\x00\x00\x06\x00"s + std::string(0x60000, 'x');   // longer than a window
  pickle += "\x65."s;
  const std::string whole = value_of(pickle);
  EXPECT_NE(whole.find("#19, 139637976727552, 'hello', 'xxx"), std::string::npos);
  for (const size_t piece : {size_t{1}, size_t{7}, size_t{4096}}) EXPECT_EQ(outcome(pickle, piece).text, whole);
}

TEST(Pickle, RefusesWhateverRunsCode) {
  const std::map<std::string, std::string> bad = {
      {"cos\nsystem\n(S'id'\ntR.", "GLOBAL os system at byte 0"},
      {"\x80\x04\x8c\x05posix\x94\x8c\x06system\x94\x93."s, "STACK_GLOBAL posix system at byte 19"},
      {"K\x01)R."s, "REDUCE at byte 3"},
      {"(ios\nsystem\n.", "INST os system at byte 1"},
      {"(K\x01o."s, "OBJ at byte 3"},
      {"K\x01)\x81."s, "NEWOBJ at byte 3"},
      {"K\x01)}\x92."s, "NEWOBJ_EX at byte 4"},
      {"K\x01}b."s, "BUILD at byte 3"},
      {"\x82\x01."s, "EXT1 at byte 0"},
      {"\x83\x01\x00."s, "EXT2 at byte 0"},
      {"\x84\x01\x00\x00\x00."s, "EXT4 at byte 0"},
      {"Pabc\n.", "PERSID at byte 0"},
      {"K\x01Q."s, "BINPERSID at byte 2"},
      {"\x97."s, "NEXT_BUFFER at byte 0"},
      {"K\x01\x98."s, "READONLY_BUFFER at byte 2"},
  };
  for (const auto& [pickle, what] : bad)
    EXPECT_EQ(value_of(pickle), "error: pickle opcode " + what + " would run code");
  const std::pair<std::string, std::string> unused[] = {
      {"\x8f."s, "EMPTY_SET at byte 0"},
      {"(\x91."s, "FROZENSET at byte 1"},
      {"C\x01x."s, "SHORT_BINBYTES at byte 0"},
      {"B\x01\x00\x00\x00x."s, "BINBYTES at byte 0"},
      {"\x96\x01\x00\x00\x00\x00\x00\x00\x00x."s, "BYTEARRAY8 at byte 0"},
  };
  for (const auto& [pickle, what] : unused)
    EXPECT_EQ(value_of(pickle), "error: pickle opcode " + what + ": sets and bytes are not read");
  EXPECT_EQ(value_of("\xff."s), "error: damaged pickle at byte 0: 0xff is not a pickle opcode");
  EXPECT_EQ(value_of("cos\x1b[31m\nsystem\n."s), "error: pickle opcode GLOBAL os [31m system at byte 0 would run code");
}

TEST(Pickle, RefusesWhatMakesNoSense) {
  for (const std::string& pickle :
       {"e."s, "u."s, "a."s, "."s, "h\x05."s, "\x94."s, "K\x01(K\x02\x65."s, "(K\x01u."s, "\x80\x06."s, "1"s, "0"s, "2"s, "Ix\n."s,
        "g-1\n."s, "\x87."s, "t."s, "K\x01s."s}) {
    const std::string text = value_of(pickle);
    EXPECT_EQ(text.substr(0, 22), "error: damaged pickle ") << pickle << ": " << text;
  }
}

TEST(Pickle, BoundsDeclaredSizes) {
  const std::string too = "error: the pickle has ";
  EXPECT_EQ(value_of("X\x00\xca\x9a\x3b."s), too + "a longer text than profgpu reads (at byte 0)");
  EXPECT_EQ(value_of("\x8d\xff\xff\xff\xff\xff\xff\xff\xff."s), too + "a longer text than profgpu reads (at byte 0)");
  EXPECT_EQ(value_of("\x8b\xff\xff\xff\x7f."s), too + "a longer number than profgpu reads (at byte 0)");
  EXPECT_EQ(value_of("K\x01r\xff\xff\xff\x07."s), too + "a larger memo than profgpu reads (at byte 7)");
  EXPECT_EQ(value_of(std::string(2000, '(')), too + "deeper nesting than profgpu reads (at byte 1000)");
  EXPECT_EQ(value_of(std::string(PickleLimits::kValues + 10, 'N')).substr(0, 40), too + "more values than p");
}

TEST(Pickle, AMemoBombIsNotUnfolded) {
  // Each list holds the one before ten times: 10^30 items, were they copied.
  std::string pickle = "\x80\x04]\x94"s;
  for (int i = 0; i < 30; ++i) {
    pickle += "]\x94("s;
    for (int n = 0; n < 10; ++n) pickle += "h"s + static_cast<char>(i);
    pickle += "\x65"s;
  }
  Bytes source(pickle + "."s, 1 << 20);
  TestSink sink;
  PickleReader<TestSink> reader(source, sink);
  const auto read = reader.read();
  ASSERT_TRUE(static_cast<bool>(read));
  EXPECT_EQ(reader.objects().items(read->root).size(), 10U);
}

TEST(Pickle, ACutFileGivesWhatItHolds) {
  const std::string list = "\x80\x04}\x94(\x8c\x01" "a\x94]\x94("s + row(1) + row(2);
  EXPECT_EQ(value_of(list), "{'a', [#1, #2]}");
  EXPECT_TRUE(outcome(list).cut);
  EXPECT_EQ(value_of(list + "}\x94(\x8c\x03ro"s), "{'a', [#1, #2, {}]}");
  EXPECT_EQ(value_of(list + "}\x94(\x8c\x03row\x94"s), "{'a', [#1, #2, {}]}");
  // Python writes a list of one without a mark: the list of lists is complete only behind its one item.
  EXPECT_EQ(value_of("\x80\x04}\x94(\x8c\x01" "a\x94]\x94]\x94("s + row(1) + row(2)), "{'a', [[#1, #2]]}");
  EXPECT_EQ(value_of("\x80\x04}\x94(\x8c\x01" "b\x94K\x01\x8c\x01" "a\x94]\x94]\x94]\x94("s + row(1)), "{'b', 1, 'a', [[[#1]]]}");
  EXPECT_EQ(value_of(""), "nothing");
}

TEST(Pickle, EveryPrefixEnds) {
  const std::string pickle = "\x80\x04}\x94(\x8c\x01" "a\x94]\x94("s + row(1) + row(2) + "\x65\x8c\x01" "b\x94K\x01K\x02\x86\x94\x8c\x01" "c\x94G\x3f\xf8\x00\x00\x00\x00\x00\x00u."s;
  EXPECT_EQ(value_of(pickle), "{'a', [#1, #2], 'b', [1, 2], 'c', 1.500000}");
  for (size_t n = 0; n < pickle.size(); ++n) {
    const Outcome cut = outcome(pickle.substr(0, n));
    EXPECT_TRUE(cut.cut) << n << ": " << cut.text;
  }
}

// Far from the end of the text small dicts are read at once, near it step by step.
void expect_same_far_from_end(const std::string& pickle, const std::string& text, size_t rows) {
  for (const size_t behind : {0, 5, 64, 4096}) {
    for (const size_t piece : {size_t{1}, size_t{1} << 20}) {
      const Outcome read = outcome(pickle + std::string(behind, 'K'), piece);
      EXPECT_EQ(read.text, text) << behind;
      EXPECT_EQ(read.rows, rows) << behind;
      EXPECT_FALSE(read.cut);
    }
  }
}

TEST(Pickle, ReadsDictsOfKnownKeysAtOnce) {
  // In the memo: the list, a dict, 'row', 'x', and what follows.
  const std::string begin = "\x80\x04]\x94(}\x94(\x8c\x03row\x94K\x01\x8c\x01x\x94Nu"s;
  expect_same_far_from_end(begin + "}\x94(h\x02J\xfb\xff\xff\xffh\x03\x8a\x06\x00\x00\x00\x00\x00\x7fu"s +
                               "}\x94(h\x03K\x09h\x03\x8a\x01\x80u"s + "h\x05h\x04h\x01"s + "e."s,
                           "[#1, #-5, {'x', 9, 'x', -128}, {'x', 9, 'x', -128}, #-5, #1]", 2);
  // Without a place in the memo, with one that is said, and with members that come later.
  expect_same_far_from_end(begin + "}(h\x02K\x02u}q\x04(h\x02M\x00\x01j\x03\x00\x00\x00\x88u"s +
                               "}r\x05\x00\x00\x00(h\x03\x89u(h\x03K\x07u"s + "h\x04h\x05"s + "e."s,
                           "[#1, #2, #256, {'x', False, 'x', 7}, #256, {'x', False, 'x', 7}]", 3);
}

TEST(Pickle, ReadsOtherDictsStepByStep) {
  const std::string begin = "\x80\x04]\x94(\x8c\x03row\x94"s;
  expect_same_far_from_end(begin + "}\x94(h\x01h\x02ue."s, "['row', #-1]", 1);   // itself
  expect_same_far_from_end(begin + "}\x94(h\x01\x8c\x01y\x94uh\x03h\x02"s + "e."s, "['row', #-1, 'y', #-1]", 1);
  expect_same_far_from_end(begin + "}\x94(K\x01K\x02uh\x02"s + "e."s, "['row', {1, 2}, {1, 2}]", 0);
  expect_same_far_from_end(begin + "}\x94(h\x01]\x94(K\x04"s + "eu]\x94h\x03"s + "e."s, "['row', #-1, [], [4]]", 1);
  expect_same_far_from_end(begin + "}\x94h\x02"s + "e."s, "['row', {}, {}]", 0);
  std::string many = "}\x94(";
  for (int i = 0; i < 20; ++i) many += "h\x01K\x05";
  expect_same_far_from_end(begin + many + "uh\x02"s + "e."s, "['row', #5, #5]", 1);
  EXPECT_EQ(value_of(begin + "}\x94(h\x01h\x77u"s + std::string(64, 'N')).substr(0, 5), "error");
  EXPECT_EQ(value_of(begin + "}\x94(h\x01u"s + std::string(64, 'N')).substr(0, 5), "error");
}

}  // namespace
}  // namespace profgpu
