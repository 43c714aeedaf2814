#include "base/text_source.h"

#include <fcntl.h>
#include <libdeflate.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/gzip.h"
#include "base/spool.h"
#include "base/zip.h"

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
    while (got < size && end_ == End::kOpen) got += inflate_some(buffer + got, size - got);
    return got;
  }

 protected:
  // Inflates from input_[used_, filled_); where nothing is left of the input sets end_.
  virtual size_t inflate_some(char* out, size_t size) = 0;

  void finish(End end, std::string problem = {}) {
    end_ = end;
    problem_ = std::move(problem);
  }
  void finish_damaged() { finish(End::kDamaged, "has damaged compressed data"); }
  // The file is at its end: complete if nothing is pending, else cut short.
  void finish_input(bool pending) {
    if (file_->error() != 0) return finish(End::kUnreadable, std::strerror(file_->error()));
    if (pending) return finish(End::kTruncated, "ends in the middle of its compressed data");
    finish(End::kComplete);
  }

  [[nodiscard]] size_t input_left() const { return filled_ - used_; }
  // Reads more of the file behind what is left of the input.
  void refill() {
    const size_t kept = std::min<size_t>(used_, Inflater::kStepsBack), dropped = used_ - kept;
    std::memmove(input_.data(), input_.data() + dropped, filled_ - dropped);
    filled_ -= dropped;
    used_ = kept;
    const size_t room = input_.size() - filled_, got = file_->read(input_.data() + filled_, room);
    input_over_ = got < room;
    filled_ += got;
    file_bytes_read_ += static_cast<int64_t>(got);
  }

  std::unique_ptr<FileBytes> file_;
  std::vector<char> input_;
  size_t used_ = 0, filled_ = 0;
  bool input_over_ = false;
};

/// RFC 1952: members one after the other, each with a header, deflated text, its checksum and its length.
class GzipSource final : public CompressedSource {
 public:
  using CompressedSource::CompressedSource;

 private:
  // What is wrong is said once all text before it has been delivered.
  size_t inflate_some(char* out, size_t size) override {
    switch (part_) {
      case Part::kHeader: begin_member(); break;
      case Part::kText: return inflate_text(out, size);
      case Part::kTrailer: end_member(); break;
      case Part::kCut: finish_input(true); break;
      case Part::kDamaged: finish_damaged(); break;
    }
    return 0;
  }

  // The next byte, or -1 where the file is at its end.
  int next() {
    if (input_left() == 0) refill();
    if (input_left() == 0) part_ = Part::kCut;
    return input_left() == 0 ? -1 : static_cast<unsigned char>(input_[used_++]);
  }

  // What follows the last member may be padding, which gzip ignores too.
  void begin_member() {
    if (input_left() == 0) refill();
    if (input_left() == 0) return finish_input(false);
    part_ = Part::kText;
    inflater_->reset();
    checksum_ = length_ = 0;
    if (!skip_header()) part_ = Part::kDamaged;
    if (part_ == Part::kDamaged && members_ > 0) finish(End::kComplete);
  }

  // RFC 1952, 2.3. False: it is none.
  bool skip_header() {
    constexpr int kHeaderChecksum = 2, kExtra = 4, kName = 8, kComment = 16, kReserved = 0xE0;
    for (const int byte : {0x1F, 0x8B, 8})
      if (const int c = next(); c != byte) return c < 0;
    const int flags = next();
    if (flags < 0) return true;
    if ((flags & kReserved) != 0) return false;
    for (int i = 0; i < 6; ++i) next();   // time, compression, system
    if ((flags & kExtra) != 0) {
      const int low = next(), high = next();
      for (int i = 0; i < low + high * 256; ++i) next();
    }
    for (const int text : {kName, kComment})
      while ((flags & text) != 0 && next() > 0) {}
    if ((flags & kHeaderChecksum) != 0) next(), next();
    return true;
  }

  size_t inflate_text(char* out, size_t size) {
    if (input_left() == 0) refill();
    const auto* input = reinterpret_cast<const uint8_t*>(input_.data());
    const uint8_t* at = input + used_;
    auto* const begin = reinterpret_cast<uint8_t*>(out);
    uint8_t* to = begin;
    const Inflater::State state = inflater_->inflate(at, input + filled_, to, begin + size);
    const bool stuck = at == input + used_ && to == begin && input_left() > 0;
    used_ = static_cast<size_t>(at - input);
    const auto got = static_cast<size_t>(to - begin);
    checksum_ = libdeflate_crc32(checksum_, begin, got);
    length_ += static_cast<uint32_t>(got);
    if (state == Inflater::State::kEnd) part_ = Part::kTrailer;
    else if (state == Inflater::State::kDamaged || stuck) part_ = Part::kDamaged;
    else if (got == 0 && input_left() == 0 && input_over_) part_ = Part::kCut;
    if (part_ == Part::kDamaged && members_ > 0 && length_ == 0) finish(End::kComplete);
    return got;
  }

  void end_member() {
    part_ = Part::kHeader;
    uint64_t trailer = 0;
    for (int i = 0; i < 64; i += 8) trailer |= static_cast<uint64_t>(next() & 0xFF) << i;
    if (part_ == Part::kHeader && trailer != (uint64_t{length_} << 32 | checksum_)) part_ = Part::kDamaged;
    ++members_;
  }

  enum class Part { kHeader, kText, kTrailer, kCut, kDamaged };
  const std::unique_ptr<Inflater> inflater_ = Inflater::make();
  Part part_ = Part::kHeader;
  uint32_t checksum_ = 0, length_ = 0;   // of the member's text so far
  int members_ = 0;
};

/// The file in a zip archive; the archive is at its first byte.
class ZipSource final : public CompressedSource {
 public:
  ZipSource(std::unique_ptr<FileBytes> file, int64_t size, bool deflated)
      : CompressedSource(std::move(file), size), left_(size), inflater_(deflated ? Inflater::make() : nullptr) {
    if (inflater_) inflater_->reset();
  }

 private:
  size_t inflate_some(char* out, size_t size) override {
    if (input_left() == 0) refill();
    // What comes behind it in the archive is not its own.
    const size_t there = std::min<size_t>(input_left(), static_cast<size_t>(left_));
    if (there == 0) {
      finish_input(left_ > 0 || inflater_ != nullptr);
      return 0;
    }
    const char* const from = input_.data() + used_;
    if (!inflater_) {
      const size_t got = std::min(there, size);
      std::memcpy(out, from, got);
      take(got);
      if (left_ == 0) finish(End::kComplete);
      return got;
    }
    const auto* at = reinterpret_cast<const uint8_t*>(from);
    auto* const begin = reinterpret_cast<uint8_t*>(out);
    uint8_t* to = begin;
    const Inflater::State state = inflater_->inflate(at, at + there, to, begin + size);
    const auto used = at - reinterpret_cast<const uint8_t*>(from);
    if (state == Inflater::State::kEnd) finish(End::kComplete);
    else if (state == Inflater::State::kDamaged || (used == 0 && to == begin)) finish_damaged();
    else take(static_cast<size_t>(used));
    return static_cast<size_t>(to - begin);
  }
  void take(size_t bytes) {
    used_ += bytes;
    left_ -= static_cast<int64_t>(bytes);
  }

  int64_t left_;  // of the packed bytes
  const std::unique_ptr<Inflater> inflater_;
};

class ZstdSource final : public CompressedSource {
 public:
  ZstdSource(std::unique_ptr<FileBytes> file, int64_t size)
      : CompressedSource(std::move(file), size), stream_(ZSTD_createDStream()) {}
  ~ZstdSource() override { ZSTD_freeDStream(stream_); }

 private:
  size_t inflate_some(char* out, size_t size) override {
    if (input_left() == 0) refill();
    if (input_left() == 0) {
      finish_input(in_frame_);
      return 0;
    }
    ZSTD_inBuffer in{input_.data(), filled_, used_};
    ZSTD_outBuffer result{out, size, 0};
    const size_t rc = ZSTD_decompressStream(stream_, &result, &in);
    used_ = in.pos;
    if (ZSTD_isError(rc) != 0) finish_damaged();
    in_frame_ = rc != 0;
    return result.pos;
  }

  ZSTD_DStream* stream_;
  bool in_frame_ = false;
};

/// UTF-16, as PowerShell writes what a program prints, as UTF-8.
class Utf16Source final : public TextSource {
 public:
  Utf16Source(std::unique_ptr<TextSource> text, bool big_endian) : text_(std::move(text)), big_endian_(big_endian) {
    file_bytes_ = text_->file_bytes();
  }

  size_t read(char* buffer, size_t size) override {
    while (ready_.size() - used_ < size && text_->end() == End::kOpen) decode_more();
    const size_t got = std::min(size, ready_.size() - used_);
    std::memcpy(buffer, ready_.data() + used_, got);
    used_ += got;
    if (got < size) end_ = text_->end(), problem_ = text_->problem();
    return got;
  }

 private:
  void decode_more() {
    ready_.erase(0, std::exchange(used_, 0));
    std::string units(kInputBytes, '\0');
    units.resize(text_->read(units.data(), units.size()));
    file_bytes_read_ = text_->file_bytes_read();
    for (size_t i = 0; i + 1 < units.size(); i += 2) {
      const auto byte = [&](size_t at) { return static_cast<uint32_t>(static_cast<unsigned char>(units[at])); };
      add(big_endian_ ? byte(i) << 8 | byte(i + 1) : byte(i + 1) << 8 | byte(i));
    }
  }

  void add(uint32_t unit) {
    constexpr uint32_t kMark = 0xFEFF, kReplacement = 0xFFFD;
    const uint32_t high = std::exchange(high_, 0);
    if (unit >= 0xD800 && unit < 0xDC00) {
      if (high != 0) put(kReplacement);
      high_ = unit;
    } else if (unit >= 0xDC00 && unit < 0xE000) {
      put(high != 0 ? 0x10000 + ((high - 0xD800) << 10) + (unit - 0xDC00) : kReplacement);
    } else {
      if (high != 0) put(kReplacement);
      if (unit != kMark) put(unit);
    }
  }

  void put(uint32_t code) {
    const auto rest = [&](int shift) { ready_ += static_cast<char>(0x80 | ((code >> shift) & 0x3F)); };
    if (code < 0x80) {
      ready_ += static_cast<char>(code);
    } else if (code < 0x800) {
      ready_ += static_cast<char>(0xC0 | code >> 6), rest(0);
    } else if (code < 0x10000) {
      ready_ += static_cast<char>(0xE0 | code >> 12), rest(6), rest(0);
    } else {
      ready_ += static_cast<char>(0xF0 | code >> 18), rest(12), rest(6), rest(0);
    }
  }

  std::unique_ptr<TextSource> text_;
  bool big_endian_;
  std::string ready_;
  size_t used_ = 0;
  uint32_t high_ = 0;   // the first half of a pair
};

Result<int> open_file(const std::string& path) {
  if (is_pipe_path(path)) return open_spooled(path);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    const char* hint = errno == ENOENT ? "check the path" : errno == EACCES ? "check the file's permissions" : "";
    return Error{path + ": " + std::strerror(errno), hint};
  }
  struct stat info {};
  ::fstat(fd, &info);
  if (S_ISDIR(info.st_mode) || S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode) || S_ISCHR(info.st_mode)) {
    ::close(fd);
    return Error{path + ": not a regular file",
                 S_ISFIFO(info.st_mode) ? "name it -, and read it as standard input: profgpu … - < FILE" : ""};
  }
  return fd;
}

}  // namespace

Result<std::unique_ptr<TextSource>> open_text(const std::string& path) {
  const auto opened = open_file(path);
  if (!opened) return opened.error();
  const int fd = *opened;
  struct stat info {};
  ::fstat(fd, &info);
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
  // A frame, or one to be skipped before it, as pzstd writes them.
  const bool skippable = head.size() == 4 && (head[0] & 0xF0) == 0x50 && head.substr(1) == "\x2a\x4d\x18";
  // With a character of ASCII behind the mark: dirt may begin alike.
  const bool marked = head.size() == 4 && (head[2] == '\0') != (head[3] == '\0');
  const bool little = marked && head.starts_with("\xff\xfe") && head[3] == '\0';
  const bool big = marked && head.starts_with("\xfe\xff") && head[2] == '\0';
  const bool zstd = skippable || head.starts_with("\x28\xb5\x2f\xfd");
  if (head == "PK\x03\x04") {
    const auto packed = file_in_zip(fd, size);
    if (!packed || ::lseek(fd, packed->offset, SEEK_SET) < 0) {
      ::close(fd);
      return packed ? Error{path + ": " + std::strerror(errno)} : packed.error().within(path);
    }
    return std::unique_ptr<TextSource>(
        std::make_unique<ZipSource>(std::make_unique<FileBytes>(fd, ""), packed->packed_bytes, packed->deflated));
  }
  auto file = std::make_unique<FileBytes>(fd, std::move(head));
  std::unique_ptr<TextSource> source;
  if (gzip) {
    source = std::make_unique<GzipSource>(std::move(file), size);
  } else if (zstd) {
    source = std::make_unique<ZstdSource>(std::move(file), size);
  } else {
    source = std::make_unique<PlainSource>(std::move(file), size);
  }
  if (little || big) source = std::make_unique<Utf16Source>(std::move(source), big);
  return source;
}

}  // namespace profgpu
