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
#include <vector>

#include "base/descriptor.h"

namespace profgpu {
namespace {

constexpr size_t kBlockBytes = 1 << 20;

std::string own_path(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

int nameless_file() {
  const char* folder = std::getenv("TMPDIR");
  const int fd = ::open(folder && *folder ? folder : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  return fd >= 0 ? fd : ::memfd_create("profgpu-input", MFD_CLOEXEC);
}

Result<int> spooled(const std::string& path, int from) {
  Descriptor kept(nameless_file());
  if (!kept)
    return Error{path + ": cannot be kept: " + std::strerror(errno), "set TMPDIR to a folder that can be written"};
  std::vector<char> block(kBlockBytes);
  for (;;) {
    const ssize_t n = ::read(from, block.data(), block.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Error{path + ": " + std::strerror(errno)};
    if (n == 0) return kept.release();
    if (const int error = write_all(kept.get(), {block.data(), static_cast<size_t>(n)}); error != 0)
      return Error{path + ": cannot be kept: " + std::strerror(error), "set TMPDIR to a folder with more room"};
  }
}

}  // namespace

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

}  // namespace profgpu
