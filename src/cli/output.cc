#include "cli/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <new>
#include <system_error>

#include "base/descriptor.h"
#include "base/secrets.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "view/ascii.h"

namespace profgpu {
namespace {

std::atomic<const char*> partial_file{nullptr};
std::atomic<bool> line_shown{false};

// Nothing here but calls that a signal handler may make.
void leave(int signal) {
  if (const char* path = partial_file.load()) ::unlink(path);
  if (line_shown.load()) {
    constexpr char kClear[] = "\r\033[K";
    if (::write(STDERR_FILENO, kClear, sizeof kClear - 1) < 0) ::_exit(128 + signal);
  }
  ::_exit(signal == SIGINT ? static_cast<int>(ExitCode::kInterrupted) : 128 + signal);
}

}  // namespace

void install_interrupt_handler() {
  struct sigaction action{};
  action.sa_handler = leave;
  // A shell starts background jobs with SIGINT ignored, which we keep.
  for (const int signal : {SIGINT, SIGTERM}) {
    struct sigaction before{};
    ::sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN) ::sigaction(signal, &action, nullptr);
  }
}

namespace {

// Nothing of ours throws: the C++ library does, where it gets no memory or no thread. Few objects can be trusted then.
[[noreturn]] void leave_for_lack() {
  std::string_view text = "profgpu: not enough memory\n  hint: `ulimit -v` shows this shell's limit\n";
  try {
    if (const auto thrown = std::current_exception()) std::rethrow_exception(thrown);
    std::abort();
  } catch (const std::bad_alloc&) {
  } catch (const std::system_error&) {
    text = "profgpu: cannot start a thread\n  hint: `ulimit -u` and `ulimit -v` show this shell's limits\n";
  } catch (...) {
    std::abort();
  }
  if (const char* path = partial_file.load()) ::unlink(path);
  if (line_shown.load()) write_all(STDERR_FILENO, "\r\033[K");
  write_all(STDERR_FILENO, text);
  ::_exit(static_cast<int>(ExitCode::kFailed));
}

}  // namespace

void install_lack_handler() { std::set_terminate(leave_for_lack); }

void remove_on_interrupt(const char* path) { partial_file = path; }
void clear_line_on_interrupt(bool on) { line_shown = on; }

namespace {

bool is_replaceable(const std::string& path) {
  struct stat s{};
  return ::lstat(path.c_str(), &s) != 0 || S_ISREG(s.st_mode);
}

}  // namespace

Error cannot_write(const std::string& path, int error) {
  const char* hint = "choose a location that you can write to";
  if (error == ENOSPC || error == EDQUOT) hint = "free some space, or choose another disk";
  if (error == EFBIG) hint = "raise the limit: `ulimit -f` shows it";
  if (error == ENOENT || error == ENOTDIR) hint = "create its folder first, or choose another location";
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
  // Before the name: else a machine that loses power may keep the name and not the content.
  if (error == 0 && !partial_.empty()) {
    while (::fdatasync(fd_) != 0 && error == 0)
      if (errno == EINVAL || errno == EROFS) break;   // nothing to wait for there
      else if (errno != EINTR) error = errno;
  }
  if (::close(fd_) != 0 && error == 0) error = errno;
  fd_ = -1;
  if (error == 0 && !partial_.empty() && std::rename(partial_.c_str(), path_.c_str()) != 0) error = errno;
  if (error != 0) return cannot_write(path_, error);
  partial_.clear();
  return ok();
}

namespace {

bool pipe_signal_ignored = false;

}  // namespace

void prepare_streams() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    // open() takes the lowest free number, so this is `fd` again. Read-only: writing to it must fail. Closed again for
    // a command that we run.
    if (::open("/dev/null", O_RDONLY | O_CLOEXEC) != fd) break;
  }
  pipe_signal_ignored = std::signal(SIGPIPE, SIG_IGN) == SIG_IGN;
  // Caught, not ignored: what we run inherits what is ignored.
  if (std::signal(SIGXFSZ, [](int) {}) == SIG_IGN) std::signal(SIGXFSZ, SIG_IGN);
}

bool pipe_signal_was_ignored() { return pipe_signal_ignored; }

Status write_stdout(std::string_view text) {
  const int error = write_all(STDOUT_FILENO, text);
  if (error == 0 || error == EPIPE) return ok();
  return cannot_write("standard output", error);
}

namespace {

// Only where a locale is set: a container without one shows UTF-8 all the same.
bool wants_ascii() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* const value = std::getenv(name);
    if (value == nullptr || *value == 0) continue;
    const std::string locale = lower_case(value);
    return locale.find("utf-8") == locale.npos && locale.find("utf8") == locale.npos;
  }
  return false;
}

}  // namespace

std::string for_locale(std::string_view text) { return wants_ascii() ? ascii_text(text) : std::string(text); }

Status write_text(std::string_view text) { return write_stdout(for_locale(text)); }

Status refuse_overwrite(const std::vector<std::string>& inputs, const std::string& path) {
  std::error_code error;
  for (const std::string& input : inputs)
    if (!path.empty() && std::filesystem::equivalent(input, path, error) &&
        std::filesystem::is_regular_file(path, error))
      return Error{path + " is an input file; not overwriting it", "choose another output file"};
  return ok();
}

Status write_file(const std::string& path, std::string_view text) {
  auto file = OutputFile::open(path);
  if (!file) return file.error();
  (*file)->bytes().put(text);
  return (*file)->finish();
}

void print_issue(std::string_view path, std::string_view text) {
  std::string message = "profgpu: ";
  if (!text.starts_with(path)) message.append(path).append(": ");
  print_message(message.append(text));
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
  const std::string line = for_locale(printable(text)) + '\n';
  write_all(STDERR_FILENO, line);
}

void print_note(std::string_view text) {
  if (!stderr_is_terminal()) return print_message(text);
  std::string lines = wrap(text, message_width(), "");
  lines.pop_back();
  print_message(lines);
}

void print_error(std::string_view command, const Error& error) {
  std::string text = "profgpu: ";
  if (!command.empty()) text += std::string(command) + ": ";
  text += masked_message(error.message);
  const std::string_view head = "  hint: ";
  const std::string hint = masked_message(error.hint);
  if (!hint.empty() && stderr_is_terminal()) {
    text += "\n" + wrap(hint, message_width(), head);
    text.pop_back();
  } else if (!hint.empty()) {
    text.append("\n").append(head).append(hint);
  }
  print_message(text);
}

}  // namespace profgpu
