#include "cli/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>

#include "base/utf8.h"
#include "cli/output_file.h"

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

}  // namespace

void prepare_streams() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    // The lowest free number is given out, so this is `fd` again. Reading only: writing to it must fail. Closed again
    // for a command that we run.
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

Status refuse_overwrite(const std::vector<std::string>& inputs, const std::string& path) {
  std::error_code error;
  for (const std::string& input : inputs)
    if (!path.empty() && std::filesystem::equivalent(input, path, error) &&
        std::filesystem::is_regular_file(path, error))
      return Error{path + " is what is read", "choose another name for what is written"};
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
