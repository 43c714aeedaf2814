#include "base/spool.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "base/descriptor.h"
#include "base/text_source.h"

namespace profgpu {
namespace {

constexpr size_t kBlockBytes = 1 << 20;

std::string own_path(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

Error not_kept(const std::string& path, int error) {
  return {path + ": cannot be kept: " + std::strerror(error), "set TMPDIR to a folder with more room"};
}

Result<int> spooled(const std::string& path, int from) {
  auto file = nameless_file();
  if (!file) return file.error().within(path);
  Descriptor kept(*file);
  std::vector<char> block(kBlockBytes);
  for (;;) {
    const ssize_t n = ::read(from, block.data(), block.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Error{path + ": " + std::strerror(errno)};
    if (n == 0) return kept.release();
    if (const int error = write_all(kept.get(), {block.data(), static_cast<size_t>(n)}); error != 0)
      return not_kept(path, error);
  }
}

bool is_compressed(const std::string& path) {
  unsigned char head[4] = {};
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0 || ::read(file.get(), head, sizeof head) != sizeof head) return false;
  constexpr unsigned char kGzip[] = {0x1F, 0x8B}, kZstd[] = {0x28, 0xB5, 0x2F, 0xFD};
  return std::memcmp(head, kGzip, sizeof kGzip) == 0 || std::memcmp(head, kZstd, sizeof kZstd) == 0;
}

Result<int> unpacked(const std::string& path) {
  auto source = open_text(path);
  if (!source) return source.error();
  auto file = nameless_file();
  if (!file) return file.error().within(path);
  Descriptor kept(*file);
  std::vector<char> block(kBlockBytes);
  while (const size_t n = (*source)->read(block.data(), block.size()))
    if (const int error = write_all(kept.get(), {block.data(), n}); error != 0) return not_kept(path, error);
  return kept.release();
}

}  // namespace

Result<int> nameless_file() {
  const char* folder = std::getenv("TMPDIR");
  int fd = ::open(folder && *folder ? folder : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0) fd = ::memfd_create("profgpu-input", MFD_CLOEXEC);
  if (fd < 0)
    return Error{std::string("cannot be kept: ") + std::strerror(errno), "set TMPDIR to a folder that can be written"};
  return fd;
}

bool is_pipe_path(const std::string& path) {
  if (path == "-") return true;
  struct stat info {};
  struct statfs system {};
  // Named ones stay out: whoever reads one twice means to get something new.
  return ::stat(path.c_str(), &info) == 0 && S_ISFIFO(info.st_mode) && ::statfs(path.c_str(), &system) == 0 &&
         system.f_type == PIPEFS_MAGIC;
}

Result<int> open_spooled(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::pair<dev_t, ino_t>, int> spools;
  const Descriptor pipe(path == "-" ? ::dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (!pipe || ::fstat(pipe.get(), &info) != 0) return Error{path + ": " + std::strerror(errno)};
  if (::isatty(pipe.get()))
    return Error{path + ": standard input is a terminal", "pipe a trace into it, or name a file"};
  std::string kept = own_path(pipe.get());
  if (!S_ISREG(info.st_mode)) {
    const std::lock_guard lock(mutex);
    auto at = spools.find({info.st_dev, info.st_ino});
    if (at == spools.end()) {
      auto fd = spooled(path, pipe.get());
      if (!fd) return fd.error();
      at = spools.insert({{info.st_dev, info.st_ino}, *fd}).first;
    }
    kept = own_path(at->second);
  }
  const int fd = ::open(kept.c_str(), O_RDONLY | O_CLOEXEC);   // with an offset of its own
  return fd < 0 ? Result<int>(Error{path + ": " + std::strerror(errno)}) : Result<int>(fd);
}

Result<std::string> seekable_path(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::tuple<dev_t, ino_t, int64_t, int64_t>, int> files;   // by what tells that one has changed
  const bool pipe = is_pipe_path(path);
  if (!pipe && !is_compressed(path)) return path;
  struct stat info {};
  if ((path == "-" ? ::fstat(STDIN_FILENO, &info) : ::stat(path.c_str(), &info)) != 0)
    return Error{path + ": " + std::strerror(errno)};
  const std::lock_guard lock(mutex);
  const std::tuple key(info.st_dev, info.st_ino, pipe ? 0 : int64_t{info.st_size},
                       pipe ? 0 : int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec);
  auto at = files.find(key);
  if (at == files.end()) {
    auto fd = unpacked(path);
    if (!fd) return fd.error();
    at = files.emplace(key, *fd).first;
  }
  return own_path(at->second);
}

}  // namespace profgpu
