#include "record/inject/output_file.h"

#include <signal.h>

#include "record/inject/text.h"
#include "record/wire/format.h"

namespace profgpu::inject {
namespace {

constexpr uint64_t kFileSizeSignal = uint64_t{1} << (SIGXFSZ - 1);

bool is_file_size_signal_pending() {
  uint64_t pending = 0;
  system_call(SYS_rt_sigpending, as_word(&pending), sizeof pending);
  return (pending & kFileSizeSignal) != 0;
}

// A number that open() does not give out, as far as the limit on descriptors allows; never that of a standard stream,
// which the program may have closed and still write to.
int moved_up(int fd) {
  for (const int lowest : {1000, 500, 250, 125, 3}) {
    if (lowest < fd) break;
    const int high = static_cast<int>(system_call(SYS_fcntl, fd, F_DUPFD_CLOEXEC, lowest));
    if (high < 0) continue;
    close_file(fd);
    return high;
  }
  return fd;
}

}  // namespace

SignalsHeld::SignalsHeld() : mask_(block_signals()), was_pending_(is_file_size_signal_pending()) {}

SignalsHeld::~SignalsHeld() {
  if (!was_pending_ && is_file_size_signal_pending()) {
    const timespec now{};
    system_call(SYS_rt_sigtimedwait, as_word(&kFileSizeSignal), 0, as_word(&now), sizeof kFileSizeSignal);
  }
  restore_signals(mask_);
}

int OutputFile::create(const FileName& name) {
  // A process that executes another program keeps its number: then the second file of that number is called -2.
  int fd = -EEXIST;
  for (uint32_t attempt = 1; fd == -EEXIST && attempt <= 1000; ++attempt) {
    Text<sizeof path_> path;
    path << name.folder << "/" << name.host;
    if (name.rank >= 0) path << "-rank" << name.rank;
    path << "-" << name.pid;
    if (attempt > 1) path << "-" << attempt;
    path << ".pgt";
    if (path.is_full()) return -ENAMETOOLONG;
    memcpy(path_, path.c_str(), path.length() + 1);
    fd = open_file(path_, O_WRONLY | O_APPEND | O_CREAT | O_EXCL, 0644);
  }
  if (fd < 0) return fd;
  struct stat now {};
  system_call(SYS_fstat, fd, as_word(&now));
  device_ = now.st_dev;
  inode_ = now.st_ino;
  size_ = 0;
  fd_ = moved_up(fd);
  wire::FileHeader header{};
  memcpy(header.magic, wire::kFileMagic, sizeof header.magic);
  header.version = wire::kFormatVersion;
  if (write_all(&header, sizeof header)) return 0;
  close_file(fd_);
  system_call(SYS_unlinkat, AT_FDCWD, as_word(path_), 0);
  return -ENOSPC;
}

bool OutputFile::is_ours(int fd, bool& is_deleted) const {
  struct stat now {};
  if (system_call(SYS_fstat, fd, as_word(&now)) < 0 || now.st_dev != device_ || now.st_ino != inode_) return false;
  is_deleted = now.st_nlink == 0;
  return true;
}

int OutputFile::ensure_open() {
  bool is_deleted = false;
  if (is_ours(fd_, is_deleted)) return is_deleted ? -ENOENT : 0;
  const int fd = open_file(path_, O_WRONLY | O_APPEND);
  if (fd < 0) return fd;
  if (!is_ours(fd, is_deleted)) {
    close_file(fd);
    return -ENOENT;
  }
  fd_ = moved_up(fd);
  return 0;
}

bool OutputFile::write_all(const void* data, size_t size) {
  const auto* at = static_cast<const char*>(data);
  for (size_t left = size; left > 0;) {
    const long written = write_file(fd_, at, left);
    if (written == -EINTR) continue;
    if (written <= 0) {
      // Half a chunk would be in the way of those that come after it.
      system_call(SYS_ftruncate, fd_, size_);
      return false;
    }
    at += written;
    left -= static_cast<size_t>(written);
  }
  size_ += static_cast<int64_t>(size);
  return true;
}

Written OutputFile::append(const void* data, size_t size) {
  const int state = ensure_open();
  if (state < 0) return state == -ENOENT || state == -ENOTDIR ? Written::kGone : Written::kNotNow;
  return write_all(data, size) ? Written::kAll : Written::kNotNow;
}

void close_inherited(const OutputFile& file) {
  bool is_deleted = false;
  if (file.is_ours(file.descriptor(), is_deleted)) close_file(file.descriptor());
}

wire::ControlPage* map_control_page(const char* folder, const char* host, uint32_t pid) {
  Text<4096> path;
  path << folder << "/.control";
  system_call(SYS_mkdirat, AT_FDCWD, as_word(path.c_str()), 0755);
  path << "/" << host;
  system_call(SYS_mkdirat, AT_FDCWD, as_word(path.c_str()), 0755);
  path << "/" << pid << ".control";
  if (path.is_full()) return nullptr;
  // A page of an earlier process of that number may still be mapped by somebody: it must not be cut to length 0.
  system_call(SYS_unlinkat, AT_FDCWD, as_word(path.c_str()), 0);
  const int fd = open_file(path.c_str(), O_RDWR | O_CREAT | O_EXCL, 0644);
  if (fd < 0) return nullptr;
  // Written, not only made longer: on a full disk a page without a block behind it would kill the process (SIGBUS).
  alignas(8) char page[sizeof(wire::ControlPage)] = {};
  void* mapped = nullptr;
  if (write_file(fd, page, sizeof page) == static_cast<long>(sizeof page))
    mapped = map_memory(nullptr, sizeof page, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
  close_file(fd);
  if (mapped == nullptr || is_failure(mapped)) return nullptr;
  auto* const control = static_cast<wire::ControlPage*>(mapped);
  control->version = wire::kControlVersion;
  control->pid = pid;
  set_word(control->magic, wire::kControlMagic);
  return control;
}

}  // namespace profgpu::inject
