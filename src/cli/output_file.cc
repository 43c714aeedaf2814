#include "cli/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "cli/interrupt.h"

namespace profgpu {
namespace {

bool is_replaceable(const std::string& path) {
  struct stat s{};
  return ::lstat(path.c_str(), &s) != 0 || S_ISREG(s.st_mode);
}

}  // namespace

Error cannot_write(const std::string& path, int error) {
  const char* hint = "choose a place that you may write to";
  if (error == ENOSPC || error == EDQUOT) hint = "make room, or choose a place on another disk";
  if (error == ENOENT || error == ENOTDIR) hint = "make its folder first, or choose another place";
  return {path + ": cannot be written: " + std::strerror(error), hint};
}

Result<std::unique_ptr<OutputFile>> OutputFile::open(const std::string& path, std::atomic<int64_t>* written) {
  std::unique_ptr<OutputFile> file(new OutputFile);
  file->path_ = path == "-" ? "" : path;
  if (file->path_.empty()) {
    file->fd_ = STDOUT_FILENO;
  } else {
    if (is_replaceable(path)) file->partial_ = fmt::format("{}.{}.partial", path, ::getpid());
    const std::string& target = file->partial_.empty() ? path : file->partial_;
    remove_on_interrupt(file->partial_.empty() ? nullptr : file->partial_.c_str());
    file->fd_ = ::open(target.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file->fd_ < 0) return cannot_write(path, errno);
  }
  file->bytes_ = std::make_unique<ByteWriter>(file->fd_, written);
  return file;
}

OutputFile::~OutputFile() {
  if (fd_ >= 0 && !path_.empty()) ::close(fd_);
  if (!partial_.empty()) ::unlink(partial_.c_str());
  remove_on_interrupt(nullptr);
}

Status OutputFile::finish() {
  int error = bytes_->close();
  if (path_.empty()) return error == 0 || error == EPIPE ? ok() : cannot_write("standard output", error);
  if (::close(fd_) != 0 && error == 0) error = errno;
  fd_ = -1;
  if (error == 0 && !partial_.empty() && std::rename(partial_.c_str(), path_.c_str()) != 0) error = errno;
  if (error != 0) return cannot_write(path_, error);
  partial_.clear();
  return ok();
}

}  // namespace profgpu
