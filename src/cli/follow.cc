#include "cli/follow.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "analyse/report/quantity.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "trace/import/log/log_reader.h"

namespace profgpu {
namespace {

constexpr size_t kFollowPiece = 1 << 18;
constexpr size_t kFollowPadding = 64;                   // readable bytes behind a piece, for LineScan
constexpr std::chrono::milliseconds kFollowPause{200};  // a step of a training takes longer than that
constexpr std::chrono::seconds kSettled{3};             // other ranks print their errors meanwhile

volatile std::sig_atomic_t follow_signal = 0;

// Takes SIGINT and SIGTERM while it lives; whoever ignored SIGINT for us still does.
class FollowSignals {
 public:
  FollowSignals() {
    follow_signal = 0;
    struct sigaction action {};
    action.sa_handler = [](int signal) { follow_signal = signal; };
    ::sigaction(SIGTERM, &action, &term_);
    ::sigaction(SIGINT, nullptr, &int_);
    if (int_.sa_handler != SIG_IGN) ::sigaction(SIGINT, &action, nullptr);
  }
  ~FollowSignals() { ::sigaction(SIGTERM, &term_, nullptr), ::sigaction(SIGINT, &int_, nullptr); }
  FollowSignals(const FollowSignals&) = delete;
  FollowSignals& operator=(const FollowSignals&) = delete;

 private:
  struct sigaction term_ {
  }, int_{};
};

class FollowedFile {
 public:
  explicit FollowedFile(int fd) : fd_(fd), piece_(kFollowPiece + kFollowPadding), reader_(new LogReader) {}
  ~FollowedFile() { ::close(fd_); }
  FollowedFile(const FollowedFile&) = delete;
  FollowedFile& operator=(const FollowedFile&) = delete;

  /// What was written since. Whether there was anything.
  bool read_on() {
    struct stat now {};
    if (::fstat(fd_, &now) == 0 && now.st_size < offset_) offset_ = 0, reader_ = std::make_unique<LogReader>();
    bool any = false;
    while (follow_signal == 0) {
      const ssize_t size = ::pread(fd_, piece_.data(), kFollowPiece, offset_);
      if (size <= 0) return any;
      reader_->feed({piece_.data(), static_cast<size_t>(size)});
      offset_ += size;
      any = true;
    }
    return any;
  }
  [[nodiscard]] const LogBuilder& rows() const { return reader_->rows(); }

 private:
  int fd_;
  off_t offset_ = 0;
  std::vector<char> piece_;
  std::unique_ptr<LogReader> reader_;
};

std::string newest_step_text(const LogStep& step) {
  std::string text = fmt::format("step {}", step.number);
  if (step.duration_ns) text += "  " + format_duration(static_cast<double>(*step.duration_ns));
  const LogFigures& f = step.figures;
  if (f.loss) text += fmt::format("  loss {:.4g}", *f.loss);
  if (f.samples_per_s) text += fmt::format("  {:.4g} samples/s", *f.samples_per_s);
  if (f.tokens_per_s) text += fmt::format("  {:.4g} tokens/s", *f.tokens_per_s);
  if (f.tflops) text += fmt::format("  {:.4g} TFLOP/s per GPU", *f.tflops);
  if (f.mfu_pct) text += fmt::format("  MFU {:.3g} %", *f.mfu_pct);
  return text;
}

std::string newest_text(const LogBuilder& rows) {
  const LogStep* step = rows.newest();
  std::string text = step != nullptr ? newest_step_text(*step) : "no step yet";
  if (!rows.events().empty()) text += "  · " + std::string(log_event_name(rows.events().back().kind));
  return text;
}

class FollowLine {
 public:
  explicit FollowLine(bool shown) : shown_(shown) { clear_line_on_interrupt(shown); }
  ~FollowLine() {
    if (shown_) write("\r\x1b[K");
    clear_line_on_interrupt(false);
  }
  FollowLine(const FollowLine&) = delete;
  FollowLine& operator=(const FollowLine&) = delete;

  void show(const std::string& text) {
    if (!shown_ || text == last_) return;
    last_ = text;
    const auto width = static_cast<size_t>(std::max(message_width() - 1, 1));
    write("\r\x1b[K" + text.substr(0, width));
  }

 private:
  static void write(std::string_view text) {
    if (::write(STDERR_FILENO, text.data(), text.size()) < 0) return;  // a screen that is gone shows nothing
  }
  bool shown_;
  std::string last_;
};

bool says_end(const LogBuilder& rows) {
  const int64_t newest = rows.newest() != nullptr ? rows.newest()->line : 0;
  return std::ranges::any_of(rows.events(), [&](const LogEvent& e) { return ends_run(e.kind) && e.line > newest; });
}

}  // namespace

Status follow_log(const std::string& path, bool draws) {
  struct stat status {};
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Error{path + ": " + std::strerror(errno), "check the path; a log has to be there before it is followed"};
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(fd);
    return Error{path + ": not a regular file", "--follow reads a log that a job writes to"};
  }
  const FollowSignals signals;
  FollowedFile file(fd);
  FollowLine line(draws);
  auto grew = std::chrono::steady_clock::now();
  while (follow_signal == 0) {
    if (file.read_on()) {
      grew = std::chrono::steady_clock::now();
      line.show(newest_text(file.rows()));
    } else if (says_end(file.rows()) && std::chrono::steady_clock::now() - grew > kSettled) {
      return ok();
    }
    const timespec pause{0, std::chrono::nanoseconds(kFollowPause).count()};
    ::nanosleep(&pause, nullptr);  // a signal ends it early
  }
  return ok();
}

}  // namespace profgpu
