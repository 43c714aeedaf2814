#include "live/recording_tail.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "wire/chunk_reader.h"

namespace profgpu {
namespace {

using wire::ChunkKind;

// Later chunks may need them, however old they are.
bool is_lasting(ChunkKind kind) {
  switch (kind) {
    case ChunkKind::kStrings:
    case ChunkKind::kProperties:
    case ChunkKind::kClockSyncs:
    case ChunkKind::kThreads:
    case ChunkKind::kQueues:
    case ChunkKind::kLaunchShapes:
    case ChunkKind::kDevices:
    case ChunkKind::kWindows: return true;
    default: return false;
  }
}

bool read_whole(int fd, int64_t offset, void* out, size_t size) {
  return ::pread(fd, out, size, offset) == static_cast<ssize_t>(size);
}

}  // namespace

Result<RecordingTail> RecordingTail::open(const std::string& path, int64_t kept_ns) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return Error{path + ": " + std::strerror(errno)};
  RecordingTail tail(fd, kept_ns);
  tail.lasting_.resize(sizeof(wire::FileHeader));
  if (!read_whole(fd, 0, tail.lasting_.data(), tail.lasting_.size()) ||
      wire::ChunkReader(tail.lasting_.data(), tail.lasting_.size()).state() != wire::FileState::kReadable)
    return Error{path + ": no recording that can be read"};
  tail.at_ = sizeof(wire::FileHeader);
  return tail;
}

RecordingTail::RecordingTail(RecordingTail&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), kept_ns_(other.kept_ns_), at_(other.at_), lasting_(std::move(other.lasting_)),
      recent_(std::move(other.recent_)), recent_bytes_(other.recent_bytes_), ended_(other.ended_) {}

RecordingTail::~RecordingTail() {
  if (fd_ >= 0) ::close(fd_);
}

// False: there is no whole chunk yet, or never.
bool RecordingTail::take_chunk(int64_t file_bytes, int64_t now_ns) {
  wire::ChunkHeader header;
  if (file_bytes - at_ < static_cast<int64_t>(sizeof header) || !read_whole(fd_, at_, &header, sizeof header)) return false;
  const auto kind = static_cast<ChunkKind>(header.kind);
  const auto size = static_cast<int64_t>(sizeof header) + header.length;
  ended_ = header.magic != wire::kChunkMagic || header.length > wire::kMaxBodyBytes || kind == ChunkKind::kEnd;
  if (ended_ || file_bytes - at_ < size) return false;
  const bool lasting = is_lasting(kind);
  if (lasting || file_bytes - at_ <= kMostRecent) {
    std::string bytes(static_cast<size_t>(size), '\0');
    if (!read_whole(fd_, at_, bytes.data(), bytes.size())) return false;
    if (lasting) lasting_ += bytes;
    else recent_bytes_ += size, recent_.push_back({std::move(bytes), now_ns});
  }
  at_ += size;
  ended_ = static_cast<int64_t>(lasting_.size()) > kMostLasting;
  return true;
}

bool RecordingTail::follow(int64_t now_ns) {
  struct stat s {};
  if (ended_ || ::fstat(fd_, &s) != 0) return false;
  bool any = false;
  while (!ended_ && take_chunk(s.st_size, now_ns)) any = true;
  while (!recent_.empty() && (recent_.front().read_ns < now_ns - kept_ns_ || recent_bytes_ > kMostRecent)) {
    recent_bytes_ -= static_cast<int64_t>(recent_.front().bytes.size());
    recent_.pop_front();
  }
  return any;
}

std::string RecordingTail::bytes() const {
  std::string all = lasting_;
  all.reserve(all.size() + static_cast<size_t>(recent_bytes_));
  for (const Piece& piece : recent_) all += piece.bytes;
  return all;
}

}  // namespace profgpu
