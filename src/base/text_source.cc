#include "base/text_source.h"

#include <fcntl.h>
#include <libdeflate.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

namespace profgpu {
namespace {

constexpr size_t kInputBytes = 256 << 10;

/// The bytes of the file as they are.
class FileBytes {
 public:
  FileBytes(int fd, std::string head) : fd_(fd), head_(std::move(head)) {}
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;
  ~FileBytes() { ::close(fd_); }

  // Fills the buffer as far as the file goes. The bytes that were read to tell the format come first.
  size_t read(char* buffer, size_t size) {
    size_t got = std::min(size, head_.size() - head_used_);
    std::memcpy(buffer, head_.data() + head_used_, got);
    head_used_ += got;
    while (got < size && error_ == 0) {
      const ssize_t n = ::read(fd_, buffer + got, size - got);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) error_ = errno;
      if (n <= 0) break;
      got += static_cast<size_t>(n);
    }
    return got;
  }
  [[nodiscard]] int error() const { return error_; }

 private:
  int fd_;
  std::string head_;
  size_t head_used_ = 0;
  int error_ = 0;
};

class PlainSource final : public TextSource {
 public:
  PlainSource(std::unique_ptr<FileBytes> file, int64_t size) : file_(std::move(file)) { file_bytes_ = size; }

  size_t read(char* buffer, size_t size) override {
    const size_t got = file_->read(buffer, size);
    file_bytes_read_ += static_cast<int64_t>(got);
    if (got == size) return got;
    end_ = file_->error() == 0 ? End::kComplete : End::kUnreadable;
    if (file_->error() != 0) problem_ = std::strerror(file_->error());
    return got;
  }

 private:
  std::unique_ptr<FileBytes> file_;
};

/// What both compressed formats share: input in blocks, and how the end is told.
class CompressedSource : public TextSource {
 public:
  CompressedSource(std::unique_ptr<FileBytes> file, int64_t size) : file_(std::move(file)), input_(kInputBytes) {
    file_bytes_ = size;
  }

  size_t read(char* buffer, size_t size) override {
    size_t got = 0;
    while (got < size && end_ == End::kOpen) {
      if (used_ == filled_) refill();
      got += inflate_some(buffer + got, size - got);
    }
    return got;
  }

 protected:
  // Inflates from input_[used_, filled_); with no input left (filled_ == 0) sets end_.
  virtual size_t inflate_some(char* out, size_t size) = 0;

  void finish(End end, std::string problem) {
    end_ = end;
    problem_ = std::move(problem);
  }
  // The file is at its end: complete if nothing is pending, else cut short.
  void finish_input(bool pending) {
    if (file_->error() != 0) return finish(End::kUnreadable, std::strerror(file_->error()));
    if (pending) return finish(End::kTruncated, "ends in the middle of its compressed data");
    finish(End::kComplete, "");
  }

  std::unique_ptr<FileBytes> file_;
  std::vector<char> input_;
  size_t used_ = 0, filled_ = 0;

 private:
  void refill() {
    filled_ = file_->read(input_.data(), input_.size());
    used_ = 0;
    file_bytes_read_ += static_cast<int64_t>(filled_);
  }
};

/// Inflated by zlib, which needs no more memory than a window; checked by libdeflate, because a quarter of zlib's time
/// would go into the checksum.
class GzipSource final : public CompressedSource {
 public:
  GzipSource(std::unique_ptr<FileBytes> file, int64_t size) : CompressedSource(std::move(file), size) {
    ready_ = inflateInit2(&stream_, 15 + 16) == Z_OK && inflateValidate(&stream_, 0) == Z_OK;
  }
  ~GzipSource() override { inflateEnd(&stream_); }

 private:
  size_t inflate_some(char* out, size_t size) override {
    if (!ready_) {
      finish(End::kDamaged, "zlib could not be started");
      return 0;
    }
    if (filled_ == 0) {
      finish_input(in_member_);
      return 0;
    }
    stream_.next_in = reinterpret_cast<Bytef*>(input_.data() + used_);
    stream_.avail_in = static_cast<uInt>(filled_ - used_);
    stream_.next_out = reinterpret_cast<Bytef*>(out);
    stream_.avail_out = static_cast<uInt>(std::min<size_t>(size, 1u << 30));
    const uInt room = stream_.avail_out;
    const int rc = ::inflate(&stream_, Z_NO_FLUSH);
    keep_trailer(filled_ - stream_.avail_in);
    checksum_ = libdeflate_crc32(checksum_, out, room - stream_.avail_out);
    in_member_ = true;
    if (rc == Z_STREAM_END) {
      if (trailer_ != (uint64_t{stream_.total_out} << 32 | checksum_))
        finish(End::kDamaged, "has damaged compressed data");
      in_member_ = false;  // another member may follow
      inflateReset(&stream_);
      checksum_ = 0;
      members_++;
    } else if (rc != Z_OK && rc != Z_BUF_ERROR) {
      if (members_ > 0 && stream_.total_out == 0) {
        finish(End::kComplete, "");  // padding after the last member, which gzip ignores too
      } else {
        finish(End::kDamaged, "has damaged compressed data");
      }
    }
    return room - stream_.avail_out;
  }

  // Moves on to `used`, remembering the eight bytes before it: at the end of a member, its checksum and length.
  void keep_trailer(size_t used) {
    for (size_t i = std::max(used_, used - std::min<size_t>(used, 8)); i < used; ++i)
      trailer_ = trailer_ >> 8 | uint64_t{static_cast<unsigned char>(input_[i])} << 56;
    used_ = used;
  }

  z_stream stream_{};
  uint64_t trailer_ = 0;
  uint32_t checksum_ = 0;
  bool ready_ = false;
  bool in_member_ = false;
  int members_ = 0;
};

class ZstdSource final : public CompressedSource {
 public:
  ZstdSource(std::unique_ptr<FileBytes> file, int64_t size)
      : CompressedSource(std::move(file), size), stream_(ZSTD_createDStream()) {}
  ~ZstdSource() override { ZSTD_freeDStream(stream_); }

 private:
  size_t inflate_some(char* out, size_t size) override {
    if (filled_ == 0) {
      finish_input(in_frame_);
      return 0;
    }
    ZSTD_inBuffer in{input_.data(), filled_, used_};
    ZSTD_outBuffer result{out, size, 0};
    const size_t rc = ZSTD_decompressStream(stream_, &result, &in);
    used_ = in.pos;
    if (ZSTD_isError(rc) != 0) finish(End::kDamaged, "has damaged compressed data");
    in_frame_ = rc != 0;
    return result.pos;
  }

  ZSTD_DStream* stream_;
  bool in_frame_ = false;
};

}  // namespace

Result<std::unique_ptr<TextSource>> open_text(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    const char* hint = errno == ENOENT ? "check the path" : errno == EACCES ? "check the file's permissions" : "";
    return Error{path + ": " + std::strerror(errno), hint};
  }
  struct stat info {};
  ::fstat(fd, &info);
  if (S_ISDIR(info.st_mode) || S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode) || S_ISCHR(info.st_mode)) {
    ::close(fd);
    return Error{path + ": not a regular file"};
  }
  std::string head(4, '\0');
  const ssize_t n = ::read(fd, head.data(), head.size());
  if (n < 0) {
    const int error = errno;
    ::close(fd);
    return Error{path + ": " + std::strerror(error)};
  }
  head.resize(static_cast<size_t>(n));
  const int64_t size = info.st_size;
  const bool gzip = head.starts_with("\x1f\x8b");
  const bool zstd = head.starts_with("\x28\xb5\x2f\xfd");
  auto file = std::make_unique<FileBytes>(fd, std::move(head));
  std::unique_ptr<TextSource> source;
  if (gzip) {
    source = std::make_unique<GzipSource>(std::move(file), size);
  } else if (zstd) {
    source = std::make_unique<ZstdSource>(std::move(file), size);
  } else {
    source = std::make_unique<PlainSource>(std::move(file), size);
  }
  return source;
}

}  // namespace profgpu
