#include "base/gzip.h"

#include <gtest/gtest.h>
#include <zlib.h>

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
}  // namespace profgpu
