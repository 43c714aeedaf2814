#include "base/protobuf_writer.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace profgpu
