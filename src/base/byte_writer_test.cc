#include "base/byte_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>

namespace profgpu {
namespace {

TEST(ByteWriter, WritesAllInOrder) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  std::atomic<int64_t> written{0};
  ByteWriter out(ends[1], &written);
  out.put("a").put('b').put_number(-12);
  EXPECT_EQ(written, 0);
  EXPECT_EQ(out.flush(), 0);
  EXPECT_EQ(written, 5);
  char text[8];
  EXPECT_EQ(::read(ends[0], text, sizeof text), 5);
  EXPECT_EQ(std::string_view(text, 5), "ab-12");
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(ByteWriter, KeepsTheFirstError) {
  const int full = ::open("/dev/full", O_WRONLY);
  ASSERT_GE(full, 0);
  ByteWriter out(full);
  const std::string megabyte(1 << 20, 'x');
  out.put(megabyte);
  EXPECT_EQ(out.error(), ENOSPC);
  ::close(full);
  out.put(megabyte);
  EXPECT_EQ(out.flush(), ENOSPC);
}

}  // namespace
}  // namespace profgpu
