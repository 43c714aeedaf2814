#include "base/protobuf.h"

#include <gtest/gtest.h>

#include <string>

namespace profgpu {
namespace {

// The first three are the examples of the encoding's own guide.
TEST(ProtobufWriter, WritesFields) {
  ProtobufWriter w;
  w.number(1, 150);
  EXPECT_EQ(w.bytes(), "\x08\x96\x01");
  w.clear();
  w.text(2, "testing");
  EXPECT_EQ(w.bytes(), "\x12\x07testing");
  w.clear();
  w.message(3, [&] { w.number(1, 150); });
  EXPECT_EQ(w.bytes(), "\x1a\x03\x08\x96\x01");
  w.clear();
  w.integer(1, -1);
  EXPECT_EQ(w.bytes(), "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
  w.clear();
  w.real(44, 1.0);
  EXPECT_EQ(w.bytes(), std::string("\xe1\x02\0\0\0\0\0\0\xf0\x3f", 10));
}

TEST(ProtobufWriter, LongMessagesHaveLongLengths) {
  ProtobufWriter w;
  const std::string text(300, 'x');
  w.message(1, [&] { w.message(1, [&] { w.text(1, text); }); });
  // 300 bytes, and tag and two bytes of length for each of three levels.
  EXPECT_EQ(w.bytes().size(), 309u);
  EXPECT_EQ(w.bytes().substr(0, 9), "\x0a\xb2\x02\x0a\xaf\x02\x0a\xac\x02");
}

using namespace std::string_literals;

// "1=abc 2= " and "!" where it breaks.
std::string read(std::string_view message) {
  ProtobufReader reader(message);
  std::string out;
  while (reader.next()) out += std::to_string(reader.field()) + "=" + std::string(reader.text()) + " ";
  EXPECT_FALSE(reader.next());
  return out + (reader.broken() ? "!" : "");
}

TEST(ProtobufReader, ReadsWhatTheWriterWrites) {
  ProtobufWriter w;
  w.text(1, "abc");
  w.number(2, UINT64_MAX);
  w.real(3, 0.5);
  w.message(536870911, [&] { w.text(1, std::string(200, 'x')); });
  w.text(4, "");
  EXPECT_EQ(read(w.bytes()), "1=abc 2= 3= 536870911=\x0a\xc8\x01" + std::string(200, 'x') + " 4= ");
  EXPECT_EQ(read(""), "");
  EXPECT_EQ(read("\x0d\x01\x02\x03\x04\x0a\x01z"), "1= 1=z ");  // fixed32
}

TEST(ProtobufReader, StopsWhereAMessageIsBroken) {
  ProtobufWriter w;
  w.text(1, "abc");
  for (size_t n = 1; n < w.bytes().size(); ++n) EXPECT_EQ(read(w.bytes().substr(0, n)), "!") << n;
  EXPECT_EQ(read("\x0a\x01z\x0a\x02z"), "1=z !");
  EXPECT_EQ(read("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01z"), "!");       // a length of 2^64 - 1
  EXPECT_EQ(read("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"), "!");        // a number of 65 bits
  EXPECT_EQ(read("\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"), "!");    // and of more
  EXPECT_EQ(read("\x0b\x0c"), "!");                                            // a group
  EXPECT_EQ(read("\x02\x00"s), "!");                                           // field 0
  EXPECT_EQ(read("\x0f"), "!");                                                // no such type
  EXPECT_EQ(read("\x0d\x01\x02"), "!");
  EXPECT_EQ(read("\x09\x01\x02"), "!");
}

}  // namespace

TEST(Protobuf, numbers_are_read_as_they_were_written) {
  ProtobufWriter writer;
  writer.number(1, UINT64_MAX), writer.integer(2, -5), writer.fixed64(3, 0x0102030405060708), writer.real(4, -2.5);
  writer.text(5, "x");
  ProtobufReader reader(writer.bytes());
  ASSERT_TRUE(reader.next());
  EXPECT_EQ(reader.number(), UINT64_MAX);
  ASSERT_TRUE(reader.next());
  EXPECT_EQ(static_cast<int64_t>(reader.number()), -5);
  ASSERT_TRUE(reader.next());
  EXPECT_EQ(reader.number(), 0x0102030405060708u);
  ASSERT_TRUE(reader.next());
  EXPECT_EQ(reader.real(), -2.5);
  ASSERT_TRUE(reader.next());
  EXPECT_EQ(reader.number(), 0u);
  EXPECT_FALSE(reader.next());
}

}  // namespace profgpu
