#include "cli/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "base/utf8.h"
#include "cli/interrupt.h"

namespace profgpu {
namespace {

bool pipe_signal_ignored = false;

// 0 or errno.
int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    text.remove_prefix(static_cast<size_t>(n));
  }
  return 0;
}

Error cannot_write(const std::string& path, int error) { return {path + ": cannot be written: " + std::strerror(error)}; }

// 0 or errno.
int write_direct(const std::string& path, std::string_view text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return errno;
  const int error = write_all(fd, text);
  return ::close(fd) != 0 && error == 0 ? errno : error;
}

bool is_replaceable(const std::string& path) {
  struct stat s{};
  return ::lstat(path.c_str(), &s) != 0 || S_ISREG(s.st_mode);
}

}  // namespace

void prepare_streams() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    // The lowest free number is given out, so this is `fd` again. Reading only: writing to it must fail. Closed again for
    // a command that we run.
    if (::open("/dev/null", O_RDONLY | O_CLOEXEC) != fd) break;
  }
  pipe_signal_ignored = std::signal(SIGPIPE, SIG_IGN) == SIG_IGN;
}

bool pipe_signal_was_ignored() { return pipe_signal_ignored; }

Status write_stdout(std::string_view text) {
  const int error = write_all(STDOUT_FILENO, text);
  if (error == 0 || error == EPIPE) return ok();
  return cannot_write("standard output", error);
}

Status write_file(const std::string& path, std::string_view text) {
  int error = 0;
  if (is_replaceable(path)) {
    const std::string partial = fmt::format("{}.{}.partial", path, ::getpid());
    remove_on_interrupt(partial.c_str());
    error = write_direct(partial, text);
    if (error == 0 && std::rename(partial.c_str(), path.c_str()) != 0) error = errno;
    if (error != 0) ::unlink(partial.c_str());
    remove_on_interrupt(nullptr);
  } else {
    error = write_direct(path, text);
  }
  if (error != 0) return cannot_write(path, error);
  return ok();
}

std::string printable(std::string_view text) {
  std::string valid(text);
  replace_invalid_utf8(valid);
  std::string out;
  for (size_t i = 0; i < valid.size(); ++i) {
    const auto c = static_cast<unsigned char>(valid[i]);
    // U+0080 to U+009F, of which U+009B begins an escape sequence.
    const bool c1 = c == 0xC2 && static_cast<unsigned char>(valid[i + 1]) < 0xA0;
    if (c1) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(valid[++i]));
    } else if ((c < 0x20 && c != '\n') || c == 0x7F) {
      out += fmt::format("\\x{:02x}", c);
    } else {
      out += valid[i];
    }
  }
  return out;
}

void print_message(std::string_view text) {
  std::string line = printable(text);
  line += '\n';
  write_all(STDERR_FILENO, line);
}

void print_error(std::string_view command, const Error& error) {
  std::string text = "profgpu: ";
  if (!command.empty()) text += std::string(command) + ": ";
  text += error.message;
  if (!error.hint.empty()) text += "\n  hint: " + error.hint;
  print_message(text);
}

}  // namespace profgpu
