#include "base/byte_writer.h"

#include <zlib.h>

#include "base/descriptor.h"

namespace profgpu {

class ByteWriter::Gzip {
 public:
  Gzip() : ready_(::deflateInit2(&stream_, kLevel, Z_DEFLATED, kGzipWindow, kMemory, Z_DEFAULT_STRATEGY) == Z_OK) {}
  ~Gzip() {
    if (ready_) ::deflateEnd(&stream_);
  }
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;
  [[nodiscard]] bool ready() const { return ready_; }

  void begin(std::string_view bytes) {
    // zlib's interface is older than const.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream_.avail_in = static_cast<uInt>(bytes.size());
  }
  /// The next compressed bytes; empty: all that was begun is through.
  std::string_view next(bool last) {
    stream_.next_out = reinterpret_cast<Bytef*>(out_);
    stream_.avail_out = sizeof out_;
    ::deflate(&stream_, last ? Z_FINISH : Z_NO_FLUSH);
    return {out_, sizeof out_ - stream_.avail_out};
  }

 private:
  static constexpr int kLevel = 5, kGzipWindow = 15 + 16, kMemory = 8;
  z_stream stream_{};
  bool ready_;
  char out_[64 << 10];
};

ByteWriter::ByteWriter(int fd, std::atomic<int64_t>* written) : fd_(fd), written_(written) {
  buffer_.reserve(kBufferBytes + kBufferBytes / 4);
}

ByteWriter::~ByteWriter() = default;

void ByteWriter::write(std::string_view bytes) {
  if (error_ == 0) error_ = write_all(fd_, bytes);
  if (written_ != nullptr && error_ == 0) *written_ += static_cast<int64_t>(bytes.size());
}

void ByteWriter::deflate(bool last) {
  gzip_->begin(buffer_);
  for (std::string_view some = gzip_->next(last); !some.empty() && error_ == 0; some = gzip_->next(last)) write(some);
}

int ByteWriter::flush() {
  if (gzip_) deflate(false);
  else write(buffer_);
  buffer_.clear();
  return error_;
}

void ByteWriter::compress() {
  gzip_ = std::make_unique<Gzip>();
  if (!gzip_->ready()) error_ = ENOMEM;
}

int ByteWriter::close() {
  if (!gzip_) return flush();
  deflate(true);
  buffer_.clear();
  return error_;
}

}  // namespace profgpu
