#include "base/zip.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace profgpu {
namespace {

constexpr std::string_view kLocal = "PK\x03\x04", kEntry = "PK\x01\x02", kEnd = "PK\x05\x06";
constexpr size_t kLocalBytes = 30, kEntryBytes = 46, kEndBytes = 22;
constexpr int64_t kMaxComment = 65535, kMaxDirectory = 16 << 20;

uint32_t number(std::string_view bytes, size_t at, size_t size) {
  uint32_t x = 0;
  for (size_t i = size; i-- > 0;) x = x << 8 | static_cast<unsigned char>(bytes[at + i]);
  return x;
}

std::string read_at(int fd, int64_t offset, int64_t size) {
  std::string bytes(static_cast<size_t>(std::max<int64_t>(size, 0)), '\0');
  size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t n = ::pread(fd, bytes.data() + got, bytes.size() - got, offset + static_cast<int64_t>(got));
    if (n <= 0) break;
    got += static_cast<size_t>(n);
  }
  bytes.resize(got);
  return bytes;
}

// The list of what is in it, which is at the end.
std::optional<std::string> directory_of(int fd, int64_t file_bytes) {
  const int64_t from = std::max<int64_t>(0, file_bytes - kMaxComment - static_cast<int64_t>(kEndBytes));
  const std::string tail = read_at(fd, from, file_bytes - from);
  const size_t end = tail.rfind(kEnd);
  if (end == tail.npos || tail.size() - end < kEndBytes) return std::nullopt;
  const int64_t size = number(tail, end + 12, 4), offset = number(tail, end + 16, 4);
  if (size > kMaxDirectory || offset + size > file_bytes) return std::nullopt;
  std::string directory = read_at(fd, offset, size);
  if (static_cast<int64_t>(directory.size()) != size) return std::nullopt;
  return directory;
}

struct Found {
  ZipFile file;
  uint32_t flags = 0, method = 0;
  int64_t local = 0;  // offset of its own header
};

}  // namespace

Result<ZipFile> file_in_zip(int fd, int64_t file_bytes) {
  const Error damaged{"a damaged zip file", "unpack it, and name what was in it"};
  const auto directory = directory_of(fd, file_bytes);
  if (!directory) return damaged;
  std::optional<Found> found;
  int64_t files = 0;
  bool pickled = false;
  for (size_t at = 0; at + kEntryBytes <= directory->size() && std::string_view(*directory).substr(at, 4) == kEntry;) {
    const size_t name_bytes = number(*directory, at + 28, 2);
    const std::string_view name = std::string_view(*directory).substr(at + kEntryBytes, name_bytes);
    const bool counts = !name.ends_with('/') && !name.starts_with("__MACOSX/") && !name.ends_with(".DS_Store");
    if (counts) ++files;
    if (counts && (!found || name.ends_with("/data.pkl"))) {
      found = Found{{0, number(*directory, at + 20, 4), false}, number(*directory, at + 8, 2),
                    number(*directory, at + 10, 2), number(*directory, at + 42, 4)};
      pickled = name.ends_with("/data.pkl");
    }
    at += kEntryBytes + name_bytes + number(*directory, at + 30, 2) + number(*directory, at + 32, 2);
  }
  if (!found) return Error{"a zip file without a file in it"};
  if (files > 1 && !pickled)
    return Error{"a zip file of " + std::to_string(files) + " files", "unpack it, and name the folder"};
  constexpr uint32_t kEncrypted = 1, kStored = 0, kDeflated = 8;
  if ((found->flags & kEncrypted) != 0) return Error{"an encrypted zip file", "unpack it, and name what was in it"};
  if (found->method != kStored && found->method != kDeflated)
    return Error{"a zip file whose compression is not known", "unpack it, and name what was in it"};
  const std::string header = read_at(fd, found->local, kLocalBytes);
  if (header.size() < kLocalBytes || !header.starts_with(kLocal)) return damaged;
  ZipFile file = found->file;
  file.deflated = found->method == kDeflated;
  file.offset = found->local + static_cast<int64_t>(kLocalBytes + number(header, 26, 2) + number(header, 28, 2));
  if (file.offset + file.packed_bytes > file_bytes) return damaged;
  return file;
}

}  // namespace profgpu
