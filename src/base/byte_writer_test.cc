#include "base/byte_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstdlib>

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

TEST(ByteWriter, CompressesToOneGzipStream) {
  char path[] = "/tmp/profgpu_byte_writer_XXXXXX";
  const int fd = ::mkstemp(path);
  ASSERT_GE(fd, 0);
  std::atomic<int64_t> written{0};
  ByteWriter out(fd, &written);
  out.compress();
  // Longer than the buffer several times, and not the same all over.
  std::string text;
  for (uint32_t i = 0; i < 300'000; ++i) out.put_number(i * i % 1009), text += std::to_string(i * i % 1009);
  EXPECT_EQ(out.close(), 0);
  EXPECT_EQ(written, ::lseek(fd, 0, SEEK_CUR));
  EXPECT_LT(written, static_cast<int64_t>(text.size()) / 2);
  ::close(fd);
  const gzFile in = ::gzopen(path, "rb");
  std::string read(text.size() + 1, '\0');
  EXPECT_EQ(::gzread(in, read.data(), static_cast<unsigned>(read.size())), static_cast<int>(text.size()));
  read.resize(text.size());
  EXPECT_EQ(read, text);
  ::gzclose(in);
  ::unlink(path);
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

TEST(ByteWriter, KeepsTheFirstErrorOfWhatItCompresses) {
  const int full = ::open("/dev/full", O_WRONLY);
  ASSERT_GE(full, 0);
  ByteWriter out(full);
  out.compress();
  out.put("a few bytes, which leave in the end");
  EXPECT_EQ(out.error(), 0);
  EXPECT_EQ(out.close(), ENOSPC);
  ::close(full);
}

}  // namespace
}  // namespace profgpu
